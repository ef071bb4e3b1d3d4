//! Counts futex calls.
//!
//! The standard library, parking_lot and linux-futex make them through libc's function `syscall`.
//! This program defines a function of that name, which the linker prefers; it counts, and makes the
//! call. On processors without this function nothing is counted. pthread's own calls are not
//! counted, but no executor here sleeps with them.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use core::{arch::asm, ffi::c_long};

use crate::counters;

/// The largest number that a system call returns as an error.
const ERRORS: c_long = 4095;

/// libc's `syscall`. It is variadic there; on this processor the callee sees no difference for integers.
///
/// # Safety
/// That of the system call.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_futex {
        counters::mine(counters::Counters::futex_call);
    }
    let mut result = number;
    // SAFETY: the caller's contract; the kernel keeps all registers but these.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-ERRORS..0).contains(&result) {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = -result as i32 };
        return -1;
    }
    result
}
