//! What each guest does, as it and the hypervisor know.

/// The guest that writes outside its memory, and where: the host's firmware.
pub const STRAY: usize = 6;
pub const STRAY_ADDRESS: u64 = 0x8000_0000;
/// The guest with an illegal instruction, and no handler for it.
pub const ILLEGAL: usize = 7;

/// How many timer interrupts a guest takes while it waits for them.
pub const fn ticks_waiting(guest: usize) -> u32 {
    10 + guest as u32
}

/// How many it then takes while it computes.
pub const fn ticks_computing(guest: usize) -> u32 {
    if guest == STRAY || guest == ILLEGAL { 0 } else { 10 + 5 * guest as u32 }
}
