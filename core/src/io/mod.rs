//! Readiness: a reactor or an interrupt handler tells tasks that a source of I/O is ready.
//!
//! A source (a socket, a UART, a ring of a network card) has one [`Readiness`]. The context that learns of an event
//! calls [`set`](Readiness::set); any context may. Tasks try their operation, and wait for the next edge if it would
//! block:
//!
//! 1. wait, and get an [`Event`]: what is ready, and as of which edge;
//! 2. try the operation;
//! 3. if it would have blocked, [`clear`](Readiness::clear) the event, and begin again.
//!
//! An edge between 1 and 3 is never lost: `clear` then takes nothing back. Readiness is a hint, so the operation must
//! be one that fails rather than blocks.
//!
//! The cell works with any waker and spends no budget. Run operations over it in [`budgeted`](crate::budgeted).
//!
//! # An interrupt handler
//!
//! ```
//! use core::sync::atomic::{AtomicU32, Ordering};
//! use filch::io::{Readiness, Ready};
//!
//! /// The data register: a byte and a flag that says that there is one. Reading takes the byte.
//! struct Uart {
//!     data: AtomicU32,
//!     ready: Readiness,
//! }
//! const FULL: u32 = 1 << 8;
//!
//! static UART: Uart = Uart { data: AtomicU32::new(0), ready: Readiness::new() };
//!
//! /// The handler only says that there is something; the task reads it.
//! fn on_interrupt() {
//!     UART.ready.set(Ready::READABLE);
//! }
//!
//! async fn read_byte() -> u8 {
//!     loop {
//!         let event = UART.ready.ready(Ready::READABLE).await;
//!         let data = UART.data.swap(0, Ordering::Relaxed);
//!         if data & FULL != 0 {
//!             return data as u8;
//!         }
//!         // An interrupt since the event keeps the cell ready.
//!         UART.ready.clear(event);
//!     }
//! }
//!
//! # use core::{future::Future, pin::pin, task::{Context, Poll, Waker}};
//! # let mut cx = Context::from_waker(Waker::noop());
//! let mut reading = pin!(read_byte());
//! assert!(reading.as_mut().poll(&mut cx).is_pending());
//! UART.data.store(FULL | u32::from(b'!'), Ordering::Relaxed);
//! on_interrupt();
//! assert_eq!(reading.as_mut().poll(&mut cx), Poll::Ready(b'!'));
//! ```
//!
//! A handler masks a level-triggered interrupt, which would come again at once; the task unmasks it after `clear`.

#[cfg(all(test, filch_loom))]
mod models;
mod readiness;
mod ready;
mod wait;
mod waiters;

pub use {
    readiness::Readiness,
    ready::{Direction, Event, Ready},
    wait::WaitReady,
};
