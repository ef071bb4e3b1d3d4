//! The serial line: lines out, bytes in.

use core::fmt::{self, Write};

use embassy_sync::blocking_mutex::raw::RawMutex;
use filch::{
    atomic::{AtomicU32, Ordering},
    io::{Readiness, Ready},
};

use crate::TaskLock;

/// The output of the serial line, one line at a time.
#[derive(Debug)]
pub struct Console {
    put: fn(u8),
    lock: TaskLock,
}

impl Console {
    /// A console that writes bytes with `put`, which may wait for the line.
    pub const fn new(put: fn(u8)) -> Self {
        Self { put, lock: TaskLock::new() }
    }

    /// Prints a line. From any core, not from interrupt handlers.
    pub fn line(&self, line: fmt::Arguments<'_>) {
        self.lock.lock(|| self.force(line));
    }

    /// As `line`, without waiting for other cores that print: for panics.
    pub fn force(&self, line: fmt::Arguments<'_>) {
        let mut out = Out(self.put);
        let _ = out.write_fmt(line);
        let _ = out.write_str("\n");
    }
}

struct Out(fn(u8));

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(self.0);
        Ok(())
    }
}

const ROOM: usize = 128;

/// Bytes received on the serial line: the receive interrupt stores them, one task reads them.
///
/// The handler takes the bytes from the device, which then clears its interrupt, and sets a
/// readiness cell. Bytes that find the buffer full are lost, as on any serial line without flow
/// control.
pub struct Serial {
    bytes: [AtomicU32; ROOM],
    /// How many bytes the handler has stored.
    come: AtomicU32,
    /// How many bytes the task has read.
    gone: AtomicU32,
    ready: Readiness,
}

impl Serial {
    /// An empty buffer.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self {
            bytes: [const { AtomicU32::new(0) }; ROOM],
            come: AtomicU32::new(0),
            gone: AtomicU32::new(0),
            ready: Readiness::new(),
        }
    }

    /// Stores a received byte. By one interrupt handler at a time.
    pub fn on_byte(&self, byte: u8) {
        let come = self.come.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release in `try_read`: the place is free.
        if come.wrapping_sub(self.gone.load(Ordering::Acquire)) < ROOM as u32 {
            self.bytes[come as usize % ROOM].store(byte.into(), Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `try_read`.
            self.come.store(come.wrapping_add(1), Ordering::Release);
        }
        self.ready.set(Ready::READABLE);
    }

    /// The next byte. By one task at a time; cancel safe.
    pub async fn read(&self) -> u8 {
        loop {
            let event = self.ready.ready(Ready::READABLE).await;
            if let Some(byte) = self.try_read() {
                return byte;
            }
            self.ready.clear(event);
        }
    }

    fn try_read(&self) -> Option<u8> {
        let gone = self.gone.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release in `on_byte`.
        if self.come.load(Ordering::Acquire) == gone {
            return None;
        }
        let byte = self.bytes[gone as usize % ROOM].load(Ordering::Relaxed) as u8;
        // Ordering: Release pairs with the Acquire in `on_byte`.
        self.gone.store(gone.wrapping_add(1), Ordering::Release);
        Some(byte)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serial").field("ready", &self.ready).finish_non_exhaustive()
    }
}
