// From reset to hart_main, on every hart: machine mode, no firmware (-bios none). Also the entry of the trap handler.
    .section .text.boot, "ax"
    .globl _start
_start:
    csrr a0, mhartid
    li t0, 5
    bgeu a0, t0, 2f
    // A stack of 64 KiB each. QEMU's memory is zero at reset: .bss need not be cleared, and no hart waits for another to do it.
    la sp, _stacks
    addi t0, a0, 1
    slli t0, t0, 16
    add sp, sp, t0
    la t0, trap_entry
    csrw mtvec, t0
    // Software and timer interrupts, once hart_main enables them.
    li t0, 0x88
    csrw mie, t0
    csrw mstatus, zero
    call hart_main
2:  wfi
    j 2b

    // Saves the registers that a function may change, on the stack of the interrupted code.
    .align 4
trap_entry:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrr a0, mcause
    csrr a1, mepc
    call on_trap
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    // `mret` keeps the handler's reservation, which the `sc` of the interrupted code could take for its own. A store-conditional
    // into the dead frame clears it.
    sc.w zero, zero, (sp)
    addi sp, sp, 128
    mret
