//! A virtual processor: its registers, and the switch between the host and a guest.
//!
//! - INV-ON-HART: between `load` and `unload` only the task whose processor it is runs on the hart, as there is no await in between.
//!   Interrupt handlers access none of the registers in `control!`.
//! - INV-MASKED: from the look at the clock before an entry to the first step after the exit, interrupts are masked. One that comes in
//!   between stays pending, and ends the guest's run at once: it is the gap of section 6 of docs/porting.md. So no alarm is lost, and
//!   no handler runs while the trap vector and `sscratch` are those for a guest.
//! - INV-VMID: a VMID names the tables of one guest for ever, and these do not change once a hart has used them. So a hart that comes
//!   back to a guest may have its translations cached, and needs no fence.
//! - INV-MOVED: a guest that runs on another hart than before may have changed its own tables and its code there. Its fences were those
//!   of that hart. So the new hart makes them all before it enters.
//! - INV-INTEGERS: `sstatus.FS` and `VS` are 0 in this kernel, so that a floating-point or vector instruction is illegal in each guest
//!   as well. What a processor has is thus its integer registers and the registers in `control!`.

use core::{
    arch::{asm, global_asm},
    mem::{offset_of, replace},
};

use crate::{board, mode};

/// `hgatp`: the tables are Sv39x4.
const SV39X4: u64 = 8 << 60;
const VMID_SHIFT: u32 = 44;
/// `hstatus`: the return leads to a guest; its `wfi` is an exit.
const TO_GUEST: u64 = 1 << 7;
const WFI_EXITS: u64 = 1 << 21;
/// Exceptions that the guest handles itself: all that are not between it and the hypervisor.
const GUESTS_EXCEPTIONS: u64 = 0xB1FF;
/// The interrupts that a guest has, where it sees them as its own: software, timer, external.
const GUESTS_INTERRUPTS: u64 = 1 << 2 | 1 << 6 | 1 << 10;
/// The guest's timer interrupt in `hvip`.
const TIMER_PENDING: u64 = 1 << 6;
/// `sstatus.SPP`: the guest is in its supervisor mode, else in its user mode.
const SUPERVISOR: u64 = 1 << 8;
/// The bits of `vsstatus` that a trap sets or clears.
const SIE: u64 = 1 << 1;
const SPIE: u64 = 1 << 5;
/// `vsstatus.UXL`: the guest's user mode has 64 bits.
const USER_64: u64 = 2 << 32;
/// The cause of an illegal instruction.
const ILLEGAL: u64 = 2;

macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: a control register of this mode; reading it changes nothing.
        unsafe { asm!(concat!("csrr {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

macro_rules! write {
    ($name:literal, $value:expr) => {
        // SAFETY: a control register of guests; see INV-ON-HART.
        unsafe { asm!(concat!("csrw ", $name, ", {}"), in(reg) $value, options(nostack)) }
    };
}

/// The control registers of a processor, which the hart has one set of: all that are there twice for the guest's supervisor mode, and
/// those of the host that act for the guest's user mode.
macro_rules! control {
    ($($name:literal),*) => {
        const CONTROLS: usize = [$($name),*].len();

        fn load_controls(values: &[u64; CONTROLS]) {
            let mut next = values.iter();
            $(if let Some(value) = next.next() { write!($name, *value) })*
        }

        fn save_controls() -> [u64; CONTROLS] {
            [$(read!($name)),*]
        }
    };
}

// `vsstatus` is the first; see `Vcpu::new`.
control!(
    "vsstatus",
    "vsie",
    "vstvec",
    "vsscratch",
    "vsepc",
    "vscause",
    "vstval",
    "vsatp",
    "hvip",
    "scounteren",
    "senvcfg"
);

/// A virtual processor that does not run. It is a part of its task, which other harts steal.
#[repr(C)]
pub struct Vcpu {
    /// `x1` to `x31`; in place of `x0`, the program counter.
    registers: [u64; 32],
    /// `sstatus.SPP`.
    privilege: u64,
    cause: u64,
    value: u64,
    address: u64,
    /// The host's stack pointer and trap vector, while the guest runs.
    stack: u64,
    vector: u64,
    controls: [u64; CONTROLS],
    tables: u64,
    /// Where it was last; `NOWHERE` before.
    hart: usize,
}

const NOWHERE: usize = usize::MAX;

/// Why a guest has left the hart.
pub enum Exit {
    /// An interrupt of the host, which its handler has taken.
    Interrupt,
    /// A call of the firmware that the hypervisor is to the guest.
    Call,
    /// The guest waits for an interrupt.
    Wait,
    /// An instruction that the guest may not use: it gets an exception for it.
    Refused,
    /// An access to a guest-physical address that is not mapped, or not so.
    PageFault { cause: u64, address: u64 },
    /// An exception that no guest should cause.
    Other { cause: u64 },
}

unsafe extern "C" {
    /// Runs the guest until the next trap. Interrupts are masked, and stay so.
    fn enter(vcpu: *mut Vcpu);
}

// `sscratch` has the processor while a guest runs. The kernel uses it for nothing else.
global_asm!(
    ".globl enter",
    "enter:",
    "addi sp, sp, -16 * 8",
    "sd ra, 0(sp); sd gp, 8(sp); sd tp, 16(sp)",
    "sd s0, 24(sp); sd s1, 32(sp); sd s2, 40(sp); sd s3, 48(sp); sd s4, 56(sp); sd s5, 64(sp)",
    "sd s6, 72(sp); sd s7, 80(sp); sd s8, 88(sp); sd s9, 96(sp); sd s10, 104(sp); sd s11, 112(sp)",
    "sd sp, {stack}(a0)",
    "csrw sscratch, a0",
    "la t0, 2f",
    "csrrw t0, stvec, t0",
    "sd t0, {vector}(a0)",
    "ld t0, (a0)",
    "csrw sepc, t0",
    "li t0, {supervisor}",
    "csrc sstatus, t0",
    "ld t0, {privilege}(a0)",
    "csrs sstatus, t0",
    "li t0, {to_guest}",
    "csrs hstatus, t0",
    // A reservation of the host is none of the guest.
    ".option push",
    ".option arch, +a",
    "sc.w zero, zero, (sp)",
    ".option pop",
    ".irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ld x\\n, 8 * \\n(a0)",
    ".endr",
    "ld a0, 80(a0)",
    "sret",
    // Any trap of the guest, and any interrupt.
    ".balign 4",
    "2: csrrw a0, sscratch, a0",
    ".irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, 8 * \\n(a0)",
    ".endr",
    "csrr t0, sscratch",
    "sd t0, 80(a0)",
    "csrr t0, sepc",
    "sd t0, (a0)",
    "csrr t0, sstatus",
    "andi t0, t0, {supervisor}",
    "sd t0, {privilege}(a0)",
    "csrr t0, scause",
    "sd t0, {cause}(a0)",
    "csrr t0, stval",
    "sd t0, {value}(a0)",
    "csrr t0, htval",
    "sd t0, {address}(a0)",
    "ld t0, {vector}(a0)",
    "csrw stvec, t0",
    "ld sp, {stack}(a0)",
    "ld ra, 0(sp); ld gp, 8(sp); ld tp, 16(sp)",
    "ld s0, 24(sp); ld s1, 32(sp); ld s2, 40(sp); ld s3, 48(sp); ld s4, 56(sp); ld s5, 64(sp)",
    "ld s6, 72(sp); ld s7, 80(sp); ld s8, 88(sp); ld s9, 96(sp); ld s10, 104(sp); ld s11, 112(sp)",
    "addi sp, sp, 16 * 8",
    "ret",
    stack = const offset_of!(Vcpu, stack),
    vector = const offset_of!(Vcpu, vector),
    privilege = const offset_of!(Vcpu, privilege),
    cause = const offset_of!(Vcpu, cause),
    value = const offset_of!(Vcpu, value),
    address = const offset_of!(Vcpu, address),
    supervisor = const SUPERVISOR,
    to_guest = const TO_GUEST,
);

/// Prepares the calling hart for this many guests.
pub fn set_up(guests: usize) {
    write!("hedeleg", GUESTS_EXCEPTIONS);
    write!("hideleg", GUESTS_INTERRUPTS);
    // Guests read the time, and no other counter; they set their timer by calls, and have no extension that `henvcfg` enables.
    write!("hcounteren", 1_u64 << 1);
    write!("htimedelta", 0_u64);
    write!("henvcfg", 0_u64);
    write!("hgeie", 0_u64);
    write!("hvip", 0_u64);
    // SAFETY: as `write`.
    unsafe { asm!("csrs hstatus, {}", in(reg) WFI_EXITS, options(nostack)) };
    let most = hgatp(0, guests);
    write!("hgatp", most);
    assert!(read!("hgatp") == most, "this hart has no Sv39x4, or fewer than {guests} VMIDs");
    // What firmware may have left behind.
    fence();
}

fn hgatp(tables: usize, vmid: usize) -> u64 {
    SV39X4 | (vmid as u64) << VMID_SHIFT | tables as u64 >> 12
}

/// Later translations of the guest whose VMID is in `hgatp` see earlier writes to its tables, and later fetches its code.
fn fence() {
    // SAFETY: fences change no memory. In words: HFENCE.GVMA and HFENCE.VVMA of all addresses.
    unsafe { asm!(".4byte 0x62000073", ".4byte 0x22000073", "fence.i", options(nostack)) };
}

impl Vcpu {
    /// A processor before its first instruction: at `start` in supervisor mode, with two arguments, as firmware enters a hart.
    pub fn new(start: u64, arguments: [u64; 2], tables: usize, vmid: usize) -> Self {
        let mut registers = [0; 32];
        (registers[0], registers[10], registers[11]) = (start, arguments[0], arguments[1]);
        let mut controls = [0; CONTROLS];
        controls[0] = USER_64;
        Self {
            registers,
            privilege: SUPERVISOR,
            cause: 0,
            value: 0,
            address: 0,
            stack: 0,
            vector: 0,
            controls,
            tables: hgatp(tables, vmid),
            hart: NOWHERE,
        }
    }

    /// Puts the processor on the calling hart, until `unload`. Returns whether it was on another one before.
    pub fn load(&mut self) -> bool {
        let hart = board::hart();
        load_controls(&self.controls);
        write!("hgatp", self.tables);
        let before = replace(&mut self.hart, hart);
        if before == hart {
            // INV-VMID.
            return false;
        }
        // INV-MOVED.
        fence();
        before != NOWHERE
    }

    pub fn unload(&mut self) {
        self.controls = save_controls();
        // No interrupt of a guest ends the `wfi` of the host.
        write!("hvip", 0_u64);
    }

    /// Runs the guest, which is on this hart, to its next exit; with its timer interrupt, or without. Interrupts are masked, and an
    /// interrupt that is pending ends the run at once. They are enabled when it returns.
    pub fn run(&mut self, timer: bool) -> Exit {
        let hvip = read!("hvip") & !TIMER_PENDING;
        write!("hvip", if timer { hvip | TIMER_PENDING } else { hvip });
        // SAFETY: INV-MASKED; the guest is on this hart, and its tables map nothing but its own memory.
        unsafe { enter(self) };
        // An interrupt that has ended the run is taken here.
        board::unmask();
        self.why()
    }

    fn why(&self) -> Exit {
        /// `wfi`, as `stval` has it.
        const WFI: u64 = 0x1050_0073;
        match self.cause {
            cause if cause >> 63 != 0 => Exit::Interrupt,
            10 => Exit::Call,
            22 if self.value == WFI => Exit::Wait,
            22 => Exit::Refused,
            cause @ (20 | 21 | 23) => {
                Exit::PageFault { cause, address: self.address << 2 | self.value & 3 }
            }
            cause => Exit::Other { cause },
        }
    }

    pub fn at(&self) -> u64 {
        self.registers[0]
    }

    /// Goes on behind the instruction that has caused the exit: one of 32 bits.
    pub fn skip(&mut self) {
        self.registers[0] += 4;
    }

    /// `a0` to `a7`.
    pub fn arguments(&self) -> [u64; 8] {
        core::array::from_fn(|n| self.registers[10 + n])
    }

    /// Answers a call in `a0` and `a1`.
    pub fn answer(&mut self, error: i64, value: u64) {
        (self.registers[10], self.registers[11]) = (error as u64, value);
        self.skip();
    }

    /// Whether the guest, which is on this hart, has an interrupt pending that ends its `wfi`.
    pub fn is_interrupted(&self) -> bool {
        // In the guest's numbering, `vsie` is one bit lower.
        read!("hvip") >> 1 & read!("vsie") != 0
    }

    /// The guest, which is on this hart, takes an exception: the instruction is illegal.
    pub fn refuse(&mut self) {
        let status = read!("vsstatus");
        let previous = if status & SIE == 0 { 0 } else { SPIE };
        write!("vsstatus", status & !(SIE | SPIE | SUPERVISOR) | previous | self.privilege);
        write!("vsepc", self.at());
        write!("vscause", ILLEGAL);
        write!("vstval", self.value);
        self.registers[0] = read!("vstvec") & !3;
        self.privilege = SUPERVISOR;
    }

    /// The cause and the place of the exception whose handler the guest, which is on this hart, was about to enter.
    pub fn unhandled(&self) -> Option<(u64, u64)> {
        (self.at() == read!("vstvec") & !3).then(|| (read!("vscause"), read!("vsepc")))
    }
}

const _: () = assert!(mode::ORIGIN == 0x8020_0000, "guests are linked for supervisor mode");
