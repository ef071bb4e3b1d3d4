//! The opaque structs: how much room each takes in a C program.
//!
//! The sizes are part of the interface. They are a little larger than what is inside, so that a change of the executor seldom
//! changes them; a change of one of them is a new `FILCH_ABI`.

use core::ffi::c_void;

use crate::filch_status::{self, *};

/// The version of this interface. A program says in `filch_platform` which one it was compiled for.
pub const FILCH_ABI: u32 = 1;

/// Bytes of a `filch_executor`.
pub const FILCH_EXECUTOR_SIZE: usize = 1024;
/// Bytes of a `filch_pool`.
pub const FILCH_POOL_SIZE: usize = 384;
/// The alignment of `filch_executor`, `filch_worker_slot` and `filch_pool`.
pub const FILCH_LINE: usize = 128;
/// The alignment of a `filch_task_slot`.
pub const FILCH_TASK_ALIGN: usize = 16;

/// Bytes of a `filch_worker_slot`.
#[cfg(target_pointer_width = "64")]
pub const FILCH_WORKER_SIZE: usize = 6400;
/// Bytes of a `filch_worker_slot`.
#[cfg(target_pointer_width = "32")]
pub const FILCH_WORKER_SIZE: usize = 3840;
/// Bytes of a `filch_task_slot`.
#[cfg(target_pointer_width = "64")]
pub const FILCH_TASK_SIZE: usize = 112;
/// Bytes of a `filch_task_slot`.
#[cfg(target_pointer_width = "32")]
pub const FILCH_TASK_SIZE: usize = 64;
/// Bytes of a `filch_sleep`.
#[cfg(target_pointer_width = "64")]
pub const FILCH_SLEEP_SIZE: usize = 128;
/// Bytes of a `filch_sleep`.
#[cfg(target_pointer_width = "32")]
pub const FILCH_SLEEP_SIZE: usize = 96;
/// Bytes of a `filch_readiness`.
#[cfg(target_pointer_width = "64")]
pub const FILCH_READINESS_SIZE: usize = 80;
/// Bytes of a `filch_readiness`.
#[cfg(target_pointer_width = "32")]
pub const FILCH_READINESS_SIZE: usize = 48;
/// Bytes of a `filch_wait`.
#[cfg(target_pointer_width = "64")]
pub const FILCH_WAIT_SIZE: usize = 80;
/// Bytes of a `filch_wait`.
#[cfg(target_pointer_width = "32")]
pub const FILCH_WAIT_SIZE: usize = 48;

/// The most workers that an executor can have.
#[cfg(target_pointer_width = "64")]
pub const FILCH_MAX_WORKERS: u32 = 4096;
/// The most workers that an executor can have.
#[cfg(target_pointer_width = "32")]
pub const FILCH_MAX_WORKERS: u32 = 1024;

/// An executor. It stays where `filch_init` finds it, for ever: tasks and wakers refer to it.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct filch_executor {
    _opaque: [u8; FILCH_EXECUTOR_SIZE],
}

/// Room for one worker: its queues, its timers, its counters. `filch_init` takes an array of them, for ever.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct filch_worker_slot {
    _opaque: [u8; FILCH_WORKER_SIZE],
}

/// A pool of slots for tasks. It stays where `filch_pool_init` finds it, for ever.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct filch_pool {
    _opaque: [u8; FILCH_POOL_SIZE],
}

/// Room for one task. `filch_pool_init` takes an array of them, for ever. The state of a task is not in it: that is memory of the
/// program, to which the task has a pointer.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct filch_task_slot {
    _opaque: [u8; FILCH_TASK_SIZE],
}

/// The calling context as a worker, for programs with a loop of their own. It may be copied to another place, and used there in
/// place of the old one, in the same context.
#[repr(C)]
#[derive(Debug)]
pub struct filch_worker {
    _opaque: [usize; 6],
}

/// A handle to a task, by which its result is awaited. It may be copied to another place, and used there in place of the old one.
/// One context uses it at a time.
#[repr(C)]
#[derive(Debug)]
pub struct filch_task {
    _opaque: [usize; 2],
}

/// A handle that can abort a task. Any number of contexts may use it at once, but for its drop.
#[repr(C)]
#[derive(Debug)]
pub struct filch_aborter {
    _opaque: [usize; 2],
}

/// A sleep of a task. It stays in its place from `filch_sleep_init` to `filch_sleep_drop`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct filch_sleep {
    _opaque: [u8; FILCH_SLEEP_SIZE],
}

/// What a source of events is ready for, and the tasks that wait for it. It stays in its place from `filch_readiness_init` to
/// `filch_readiness_drop`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct filch_readiness {
    _opaque: [u8; FILCH_READINESS_SIZE],
}

/// The wait of one task for a `filch_readiness`. It stays in its place from `filch_wait_init` to `filch_wait_drop`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct filch_wait {
    _opaque: [u8; FILCH_WAIT_SIZE],
}

/// The structs whose size and alignment `filch_size` and `filch_align` tell.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum filch_object {
    /// `filch_executor`.
    FILCH_EXECUTOR = 0,
    /// `filch_worker_slot`.
    FILCH_WORKER_SLOT = 1,
    /// `filch_pool`.
    FILCH_POOL = 2,
    /// `filch_task_slot`.
    FILCH_TASK_SLOT = 3,
    /// `filch_sleep`.
    FILCH_SLEEP = 4,
    /// `filch_readiness`.
    FILCH_READINESS = 5,
    /// `filch_wait`.
    FILCH_WAIT = 6,
}

fn layout_of(object: i32) -> Option<core::alloc::Layout> {
    use core::alloc::Layout;
    let is = |kind: filch_object| object == kind as i32;
    if is(filch_object::FILCH_EXECUTOR) {
        Some(Layout::new::<filch_executor>())
    } else if is(filch_object::FILCH_WORKER_SLOT) {
        Some(Layout::new::<filch_worker_slot>())
    } else if is(filch_object::FILCH_POOL) {
        Some(Layout::new::<filch_pool>())
    } else if is(filch_object::FILCH_TASK_SLOT) {
        Some(Layout::new::<filch_task_slot>())
    } else if is(filch_object::FILCH_SLEEP) {
        Some(Layout::new::<filch_sleep>())
    } else if is(filch_object::FILCH_READINESS) {
        Some(Layout::new::<filch_readiness>())
    } else if is(filch_object::FILCH_WAIT) {
        Some(Layout::new::<filch_wait>())
    } else {
        None
    }
}

/// The bytes that this library takes for an object (a `filch_object`); 0 for a number that is none. From any context.
///
/// For programs that get their memory at run time, or that are written in another language.
#[unsafe(no_mangle)]
pub extern "C" fn filch_size(object: i32) -> usize {
    layout_of(object).map_or(0, |layout| layout.size())
}

/// The alignment that this library asks of an object (a `filch_object`); 0 for a number that is none. From any context.
#[unsafe(no_mangle)]
pub extern "C" fn filch_align(object: i32) -> usize {
    layout_of(object).map_or(0, |layout| layout.align())
}

/// The `FILCH_ABI` of this library. From any context.
#[unsafe(no_mangle)]
pub extern "C" fn filch_abi() -> u32 {
    FILCH_ABI
}

/// Checks that `memory` has room for so many objects of this size and alignment.
pub(crate) fn check_memory(
    memory: *mut c_void,
    bytes: usize,
    count: usize,
    (size, align): (usize, usize),
) -> Result<(), filch_status> {
    if memory.is_null() {
        return Err(FILCH_ENULL);
    }
    if memory.addr() % align != 0 {
        return Err(FILCH_EALIGN);
    }
    match count.checked_mul(size) {
        Some(needed) if needed <= bytes => Ok(()),
        _ => Err(FILCH_ESMALL),
    }
}
