//! The rest of a PC: descriptor tables, serial line, interval timer, exit.

use core::{arch::asm, hint::spin_loop, ptr::addr_of};

use crate::{boot, lapic};

const COM1: u16 = 0x3F8;
const IO_APIC: usize = 0xFEC0_0000;
/// QEMU's isa-debug-exit.
const EXIT: u16 = 0xF4;

fn outb(port: u16, value: u8) {
    // SAFETY: a port of one of the devices here, none of which touches memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) };
}

fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: as above.
    unsafe { asm!("in al, dx", out("al") value, in("dx") port, options(nostack)) };
    value
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Gate([u32; 4]);

/// INV-IDT: written by the first core before the others start.
static mut GATES: [Gate; 256] = [Gate([0; 4]); 256];

type Handler = unsafe extern "C" fn();

fn gate(handler: Handler) -> Gate {
    let at = handler as usize;
    // The segment of code in long mode; present, an interrupt gate.
    Gate([at as u32 & 0xFFFF | 24 << 16, at as u32 & 0xFFFF_0000 | 0x8E00, (at >> 32) as u32, 0])
}

/// Sets up the machine, once, on the first core.
pub fn set_up_machine() {
    let faults = (0..32).map(|vector| (vector, boot::on_fault_entry as Handler));
    let handlers: [(u8, Handler); 6] = [
        (1, boot::on_step_entry),
        (lapic::TIMER, boot::on_timer_entry),
        (lapic::WAKE, boot::on_wake_entry),
        (lapic::RAISE, boot::on_raise_entry),
        (lapic::SERIAL, boot::on_serial_entry),
        (lapic::SPURIOUS, boot::on_nothing_entry),
    ];
    // SAFETY: INV-IDT.
    unsafe {
        for (vector, handler) in faults.chain(handlers) {
            GATES[usize::from(vector)] = gate(handler);
        }
    }
    // Masks the old interrupt controllers.
    outb(0x21, 0xFF);
    outb(0xA1, 0xFF);
}

/// Sets up the calling core: its number, its descriptor table, its interrupt controller.
pub fn set_up_core(core: usize) {
    static NUMBERS: [usize; boot::ALL] = [0, 1, 2, 3, 4];
    #[repr(C, packed)]
    struct Pointer(u16, u64);
    let number = addr_of!(NUMBERS[core]) as u64;
    let table = Pointer(size_of::<[Gate; 256]>() as u16 - 1, &raw const GATES as u64);
    // SAFETY: GS points to the number for ever; the table is complete.
    unsafe {
        let (low, high) = (number as u32, (number >> 32) as u32);
        asm!("wrmsr", in("ecx") 0xC000_0101_u32, in("eax") low, in("edx") high, options(nostack));
        asm!("lidt [{}]", in(reg) &raw const table, options(nostack));
    }
    lapic::enable();
}

/// Starts the other cores.
pub fn start_cores() {
    let (from, end) = (addr_of!(boot::trampoline), addr_of!(boot::trampoline_end));
    let len = end as usize - from as usize;
    // SAFETY: no other code uses the memory below 1 MiB.
    unsafe { core::ptr::copy(from.cast::<u8>(), boot::TRAMPOLINE as *mut u8, len) };
    (1..boot::ALL).for_each(|core| lapic::start(core, boot::TRAMPOLINE >> 12));
}

/// Waits, with channel 2 of the interval timer, which counts at 1,193,182 Hz. At most 54 ms.
pub fn pause_millis(millis: u16) {
    let count = (u32::from(millis) * 1_193_182 / 1_000) as u16;
    outb(0x61, inb(0x61) & !2 | 1);
    outb(0x43, 0xB0);
    outb(0x42, count as u8);
    outb(0x42, (count >> 8) as u8);
    while inb(0x61) & 0x20 == 0 {
        spin_loop();
    }
}

/// From now on the serial line's received bytes interrupt core 0. With interrupts masked, on core
/// 0.
pub fn enable_serial(take: impl FnMut(u8)) {
    let redirect = |register: u32, value: u32| {
        // SAFETY: the I/O interrupt controller: the register's number, and its value.
        unsafe {
            (IO_APIC as *mut u32).write_volatile(register);
            ((IO_APIC + 0x10) as *mut u32).write_volatile(value);
        }
    };
    // Line 4, edge-triggered, to core 0.
    redirect(0x10 + 2 * 4 + 1, 0);
    redirect(0x10 + 2 * 4, lapic::SERIAL.into());
    outb(COM1 + 4, 0x0B);
    outb(COM1 + 1, 1);
    // For bytes that came before, the edge was lost, and while a byte waits there is no other edge.
    on_serial(take);
}

/// Passes on the bytes that the serial line has received.
pub fn on_serial(mut take: impl FnMut(u8)) {
    while inb(COM1 + 5) & 1 != 0 {
        take(inb(COM1));
    }
}

pub fn put(byte: u8) {
    while inb(COM1 + 5) & 0x20 == 0 {
        spin_loop();
    }
    outb(COM1, byte);
}

/// Ends QEMU, with status 33 for 0: a machine that resets itself ends with 0.
pub fn exit(status: u32) -> ! {
    outb(EXIT, if status == 0 { 16 } else { 1 });
    loop {
        spin_loop();
    }
}
