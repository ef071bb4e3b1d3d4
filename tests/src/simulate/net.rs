//! A simulated network: byte pipes over readiness cells, with short operations, errors and resets.

use core::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::Poll,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use filch::io::{Direction, Readiness, Ready};

use super::{
    faults::Fault,
    waker::poll_slowly,
    world::{pause_for, roll, signal, world},
};

/// The capacity of a pipe, in bytes.
const ROOM: usize = 64;

/// The connection was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reset;

/// The result of one attempt.
enum Tried {
    Done(usize),
    /// It would have blocked.
    Blocked,
    /// It failed, and may be tried again at once.
    Again,
    Reset,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// One of its ends is closed.
    closed: bool,
    reset: bool,
}

/// The bytes of one direction.
struct Pipe {
    state: Mutex<State>,
    readable: Arc<Readiness>,
    writable: Arc<Readiness>,
}

impl Pipe {
    fn new() -> Arc<Self> {
        let writable = Arc::new(Readiness::new());
        writable.set(Ready::WRITABLE);
        Arc::new(Self { state: Mutex::default(), readable: Arc::default(), writable })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_read(&self, buffer: &mut [u8]) -> Tried {
        if roll(Fault::IoError) {
            return Tried::Again;
        }
        let mut state = self.lock();
        if state.reset {
            return Tried::Reset;
        }
        if state.bytes.is_empty() {
            return if state.closed { Tried::Done(0) } else { Tried::Blocked };
        }
        let was_full = state.bytes.len() == ROOM;
        let n = shorten(buffer.len().min(state.bytes.len()));
        buffer.iter_mut().zip(state.bytes.drain(..n)).for_each(|(to, from)| *to = from);
        drop(state);
        if was_full {
            signal(&self.writable, Ready::WRITABLE);
        }
        Tried::Done(n)
    }

    fn try_write(&self, bytes: &[u8]) -> Tried {
        if roll(Fault::IoError) {
            return Tried::Again;
        }
        if roll(Fault::Reset) {
            self.reset();
        }
        let mut state = self.lock();
        if state.reset || state.closed {
            return Tried::Reset;
        }
        let room = ROOM - state.bytes.len();
        if room == 0 {
            return Tried::Blocked;
        }
        let was_empty = state.bytes.is_empty();
        let n = shorten(bytes.len().min(room));
        state.bytes.extend(&bytes[..n]);
        drop(state);
        if was_empty {
            signal(&self.readable, Ready::READABLE);
        }
        Tried::Done(n)
    }

    fn close(&self) {
        self.lock().closed = true;
        signal(&self.readable, Ready::READ_CLOSED);
        signal(&self.writable, Ready::WRITE_CLOSED);
    }

    fn reset(&self) {
        self.lock().reset = true;
        signal(&self.readable, Ready::READ_CLOSED | Ready::ERROR);
        signal(&self.writable, Ready::WRITE_CLOSED | Ready::ERROR);
    }
}

/// A smaller number, but at least one if `n` is.
fn shorten(n: usize) -> usize {
    if n > 1 && roll(Fault::Short) { world(|w| w.rng.usize(1..n)) } else { n }
}

/// One end of a connection. Dropping it closes both directions.
pub(super) struct Stream {
    from: Arc<Pipe>,
    to: Arc<Pipe>,
}

impl Stream {
    /// Both ends of a new connection.
    pub(super) fn pair() -> (Self, Self) {
        let (a, b) = (Pipe::new(), Pipe::new());
        (Self { from: Arc::clone(&a), to: Arc::clone(&b) }, Self { from: b, to: a })
    }

    /// Waits for bytes; returns 0 at the end.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Reset> {
        let pipe = &self.from;
        attempt(&pipe.readable, Direction::Read, || pipe.try_read(buffer)).await
    }

    /// Writes a part of the bytes.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<usize, Reset> {
        let pipe = &self.to;
        attempt(&pipe.writable, Direction::Write, || pipe.try_write(bytes)).await
    }

    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Reset> {
        while !bytes.is_empty() {
            let n = self.write(bytes).await?;
            bytes = &bytes[n..];
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.from.close();
        self.to.close();
    }
}

/// Tries until it succeeds, and waits in between, in a random one of the two ways to wait.
async fn attempt(
    cell: &Readiness,
    direction: Direction,
    mut operation: impl FnMut() -> Tried,
) -> Result<usize, Reset> {
    let mut retries = 0;
    poll_fn(|cx| filch::budgeted(cx, |_| Poll::Ready(()))).await;
    loop {
        // An edge may come while the waker is cloned.
        let event = poll_fn(|cx| poll_slowly(cx, |cx| cell.poll_ready(cx, direction))).await;
        match operation() {
            Tried::Done(n) => return Ok(n),
            Tried::Reset => return Err(Reset),
            Tried::Blocked => {
                // An edge may come between the two.
                pause_for(20);
                cell.clear(event.only(direction.interest()));
            }
            Tried::Again => {
                retries += 1;
                if retries % 8 == 0 {
                    filch::yield_now().await;
                }
            }
        }
    }
}

/// Where servers accept their clients.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<Backlog>);

#[derive(Default)]
struct Backlog {
    streams: Mutex<VecDeque<Stream>>,
    closed: AtomicBool,
    ready: Arc<Readiness>,
}

impl Listener {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Stream>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's end.
    pub(super) fn connect(&self) -> Stream {
        let (ours, theirs) = Stream::pair();
        if self.0.closed.load(Relaxed) {
            // The server's end is dropped, and the client gets the end of the stream.
            return ours;
        }
        self.lock().push_back(theirs);
        signal(&self.0.ready, Ready::READABLE);
        ours
    }

    /// No connection is accepted any more.
    pub(super) fn close(&self) {
        self.0.closed.store(true, Relaxed);
        let left = core::mem::take(&mut *self.lock());
        drop(left);
    }

    /// A server's end.
    pub(super) async fn accept(&self) -> Stream {
        loop {
            let event = self.0.ready.ready(Direction::Read.interest()).await;
            let stream = self.lock().pop_front();
            match stream {
                Some(stream) => return stream,
                None => {
                    pause_for(20);
                    self.0.ready.clear(event);
                }
            }
        }
    }
}
