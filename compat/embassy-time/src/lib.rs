//! A time driver for `embassy-time` over the timers of the executor [`filch`].
//!
//! With it, `embassy_time::{Timer, Ticker, with_timeout}`, and drivers of devices that are written against
//! `embedded_hal_async::delay::DelayNs`, run unchanged in filch's tasks, on any of its cores. So do they in other contexts that have a
//! waker. `embassy-sync` needs no time driver, but a lock or a critical section: docs/porting.md, section 14, has both for several cores.
//!
//! # Use
//!
//! One line, in the program:
//!
//! ```
//! # use filch::{Executor, Instant, Platform, WorkerId, atomic::AtomicU32};
//! # struct Board;
//! # // SAFETY: there is one thread.
//! # unsafe impl Platform for Board {
//! #     fn now(&self) -> Instant { Instant::from_nanos(NOW.fetch_add(1_000_000, Relaxed)) }
//! #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
//! #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
//! #     fn wake(&self, _: WorkerId, _: &AtomicU32) {}
//! # }
//! # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! # static NOW: AtomicU64 = AtomicU64::new(0);
//! # static TASKS: filch::TaskPool<256, 4> = filch::TaskPool::new();
//! static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
//! filch_embassy_time::driver!(EXECUTOR);
//!
//! async fn blink() -> u64 {
//!     let mut ticker = embassy_time::Ticker::every(embassy_time::Duration::from_millis(500));
//!     for _ in 0..3 {
//!         ticker.next().await;
//!     }
//!     embassy_time::Instant::now().as_millis()
//! }
//! # let mut handle = EXECUTOR.spawn(&TASKS, blink()).unwrap();
//! # let worker = EXECUTOR.worker(WorkerId::new(0)).unwrap();
//! # while !handle.is_finished() { worker.step(); }
//! # assert!(handle.join().unwrap() >= 1_500);
//! ```
//!
//! [`driver!`] has two forms: for an executor in a `static`, and for one that is made when the program runs.
//!
//! # A wake at a deadline
//!
//! embassy-time asks for a wake at a time, and gets no handle by which to take it back. The driver keeps such wakes in a
//! [`Driver<N>`](Driver): a table of `N` slots of 24 bytes (32 on 64-bit targets). One task of the executor, the
//! [`Keeper`], sleeps until the earliest of them, in the timer wheel of the worker that has polled it. A wake costs the
//! walk over the table, and wakes the keeper if it is the earliest; the end of a timer costs a poll of the keeper more
//! than with filch's own timers, which wake their task from the wheel.
//!
//! - **Merged**: a waker has one slot, with the earliest of its times. A task that is woken for that polls all its timers, and
//!   those that go on ask again. That is embassy's contract, in which wakes for no reason are allowed.
//! - **Full**: if there is no free slot, a wake in the table, each in its turn, gives its slot to the new one and wakes at
//!   once. Its task asks again. So no wake is lost or late, but as long as more than `N` wakers wait, their tasks poll in a
//!   loop. [`Driver::evictions`] counts. `N` should be the number of tasks that wait for time at once, the larger of the two
//!   if some of them are in combinators with wakers of their own.
//! - **Left behind**: a timer that is dropped leaves its wake in the table, and the wake keeps its waker, until its time or
//!   until it must give way. The static slot of a task that has ended is free for the next only then: prefer filch's own
//!   `timeout` for long timeouts in short tasks.
//! - **Never early**: the clock is the executor's, in whole ticks of embassy's rate (1 MHz, unless the program chooses
//!   another), from the registration on.
//!
//! # Handlers and several cores
//!
//! Nothing here is a lock, and no context waits for another. A context claims a slot by compare-and-swap, and passes by the
//! slots that others use. If the keeper passes one by, the context that uses it tells the keeper afterwards. So a timer may be
//! polled in an interrupt handler, by an executor that runs there, whatever the handler has interrupted; filch's own timers
//! must not be. In such an executor the table must not be too small, since a task that polls in a loop would keep all others
//! from running. embassy's drivers use a critical section, which stops the interrupts of one core; on several cores it needs
//! a lock that all of them share.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod driver;
mod keeper;
#[cfg(all(test, filch_weakmem))]
mod models;
mod table;
mod ticks;

pub use driver::{AlreadyRegistered, Driver};
pub use keeper::Keeper;

/// What [`driver!`] uses. Not for other code.
#[doc(hidden)]
pub mod __private {
    pub use embassy_time_driver::{Driver as TimeDriver, time_driver_impl};
    pub use filch::TaskCell;
}

/// Links a [`Driver`] to embassy-time. A program has one time driver: with a second one it does not link, and without one
/// neither (`_embassy_time_now` is defined twice, or undefined).
///
/// For an executor in a `static`, of any type that has timers. It is registered by the first call of embassy-time, in any
/// context but NMI, and the keeper is spawned then; a number is the room for wakes, which is 32 otherwise:
///
/// ```ignore
/// filch_embassy_time::driver!(EXECUTOR);
/// filch_embassy_time::driver!(EXECUTOR, 8);
/// ```
///
/// For an executor that is made when the program runs, with a name:
///
/// ```
/// filch_embassy_time::driver!(pub static TIME: 64);
///
/// let runtime = filch_std::Runtime::new()?;
/// runtime.spawn(TIME.register(runtime.handle().timers())?).detach();
/// runtime.block_on(embassy_time::Timer::after_millis(1));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[macro_export]
macro_rules! driver {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $room:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::Driver<{ $room }> = $crate::Driver::new();

        const _: () = {
            // Names that the caller's path does not begin with.
            struct FilchLink;

            impl $crate::__private::TimeDriver for FilchLink {
                fn now(&self) -> u64 {
                    $crate::__private::TimeDriver::now(&$name)
                }

                fn schedule_wake(&self, at: u64, waker: &::core::task::Waker) {
                    $crate::__private::TimeDriver::schedule_wake(&$name, at, waker);
                }
            }

            $crate::__private::time_driver_impl!(static FILCH_LINK: FilchLink = FilchLink);
        };
    };
    ($executor:path) => {
        $crate::driver!($executor, 32);
    };
    ($executor:path, $room:expr) => {
        const _: () = {
            // Names that the caller's path does not begin with.
            struct FilchLink;

            static FILCH_DRIVER: $crate::Driver<{ $room }> = $crate::Driver::new();
            static FILCH_KEEPER: $crate::__private::TaskCell<$crate::Keeper> =
                $crate::__private::TaskCell::new();

            /// If it cannot be spawned, it is dropped, and the driver is closed.
            fn filch_begin() {
                FILCH_DRIVER.begin(
                    || $executor.timers(),
                    |keeper| {
                        if let Ok(task) = $executor.spawn(&FILCH_KEEPER, keeper) {
                            task.detach();
                        }
                    },
                );
            }

            impl $crate::__private::TimeDriver for FilchLink {
                fn now(&self) -> u64 {
                    filch_begin();
                    $crate::__private::TimeDriver::now(&FILCH_DRIVER)
                }

                fn schedule_wake(&self, at: u64, waker: &::core::task::Waker) {
                    filch_begin();
                    $crate::__private::TimeDriver::schedule_wake(&FILCH_DRIVER, at, waker);
                }
            }

            $crate::__private::time_driver_impl!(static FILCH_LINK: FilchLink = FilchLink);
        };
    };
}
