//! From the PVH entry, and from the first instruction of each other core, to `core_main` in long
//! mode; also the entries of the interrupt handlers. SSE is never enabled, and no code here uses
//! it.

use core::arch::global_asm;

/// The cores that have workers.
pub const CORES: usize = 4;
/// These, and one core that is no worker.
pub const ALL: usize = CORES + 1;
/// The address where a core starts, in real mode: below 1 MiB, on a page boundary.
pub const TRAMPOLINE: usize = 0x8000;

unsafe extern "C" {
    /// The code for this address, to be copied there.
    pub static trampoline: [u8; 0];
    pub static trampoline_end: [u8; 0];
    pub fn on_wake_entry();
    pub fn on_raise_entry();
    pub fn on_timer_entry();
    pub fn on_serial_entry();
    pub fn on_step_entry();
    pub fn on_nothing_entry();
    pub fn on_fault_entry();
}

global_asm!(
    // The entry point for PVH loaders: in protected mode, without paging.
    ".section .note.pvh, \"a\", @note",
    ".long 4, 4, 18",
    ".asciz \"Xen\"",
    ".long _start",
    ".text",
    ".code32",
    ".globl _start",
    "_start:",
    "cli",
    // The first 4 GiB, identity-mapped with large pages: one table of four tables of 512.
    "movl $directories, %eax",
    "orl $3, %eax",
    "movl $4, %ecx",
    "movl $pointers, %edi",
    "2: movl %eax, (%edi)",
    "addl $0x1000, %eax",
    "addl $8, %edi",
    "loop 2b",
    "movl $0x83, %eax",
    "movl $2048, %ecx",
    "movl $directories, %edi",
    "3: movl %eax, (%edi)",
    "addl $0x200000, %eax",
    "addl $8, %edi",
    "loop 3b",
    "movl $pointers, %eax",
    "orl $3, %eax",
    "movl %eax, top",
    "lgdtl gdt_pointer",
    "ljmpl $8, $enter",
    // Every core: protected mode, flat.
    "enter:",
    "movl $16, %eax",
    "movl %eax, %ds",
    "movl %eax, %es",
    "movl %eax, %ss",
    "movl %cr4, %eax",
    "orl $0x20, %eax",
    "movl %eax, %cr4",
    "movl $top, %eax",
    "movl %eax, %cr3",
    "movl $0xC0000080, %ecx",
    "rdmsr",
    "orl $0x100, %eax",
    "wrmsr",
    "movl %cr0, %eax",
    "orl $0x80000001, %eax",
    "movl %eax, %cr0",
    "ljmpl $24, $enter64",
    ".code64",
    "enter64:",
    // The core's number is that of its local interrupt controller.
    "movl $1, %eax",
    "cpuid",
    "movl %ebx, %edi",
    "shrl $24, %edi",
    "cmpl ${all}, %edi",
    "jae 4f",
    // A stack of 64 KiB each.
    "leal 1(%edi), %eax",
    "shll $16, %eax",
    "movl $_stacks, %esp",
    "addq %rax, %rsp",
    "call {main}",
    "4: cli",
    "hlt",
    "jmp 4b",
    // The first instructions of the other cores, in real mode, at 0x8000.
    ".code16",
    ".globl trampoline",
    "trampoline:",
    "cli",
    "xorw %ax, %ax",
    "movw %ax, %ds",
    "lgdtl {at} + 6f - trampoline",
    "movl %cr0, %eax",
    "orb $1, %al",
    "movl %eax, %cr0",
    "ljmpl $8, $enter",
    "6: .short 31",
    ".long gdt",
    ".globl trampoline_end",
    "trampoline_end:",
    ".code64",
    // Saves the registers that a function may change, on the stack of the interrupted code.
    ".macro entry name, handler",
    ".globl \\name",
    "\\name: push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; push %r10; push %r11",
    "cld",
    // The return address and the flags.
    "leaq 72(%rsp), %rdi",
    "call \\handler",
    "pop %r11; pop %r10; pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax",
    "iretq",
    ".endm",
    "entry on_wake_entry, {wake}",
    "entry on_raise_entry, {raise}",
    "entry on_timer_entry, {timer}",
    "entry on_serial_entry, {serial}",
    "entry on_step_entry, {step}",
    ".globl on_nothing_entry",
    "on_nothing_entry: iretq",
    ".globl on_fault_entry",
    "on_fault_entry: pop %rdi; pop %rsi; pop %rdx",
    "andq $-16, %rsp",
    "call {fault}",
    ".data",
    ".balign 8",
    // Code and data in protected mode, code in long mode.
    "gdt: .quad 0, 0x00CF9A000000FFFF, 0x00CF92000000FFFF, 0x00AF9A000000FFFF",
    "gdt_pointer: .short 31",
    ".long gdt",
    ".bss",
    ".balign 4096",
    "top: .skip 4096",
    "pointers: .skip 4096",
    "directories: .skip 16384",
    ".text",
    at = const TRAMPOLINE,
    all = const ALL,
    main = sym crate::core_main,
    wake = sym crate::board::on_wake,
    raise = sym crate::board::on_raise,
    timer = sym crate::board::on_timer,
    serial = sym crate::board::on_serial,
    step = sym crate::board::on_step,
    fault = sym fault,
    options(att_syntax),
);

/// An exception is a bug. `a` is the error code if there is one, otherwise the address; `b` is the
/// address or the segment.
extern "C" fn fault(a: usize, b: usize, c: usize) -> ! {
    panic!("exception: {a:#x} {b:#x} {c:#x}");
}
