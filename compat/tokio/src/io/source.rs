//! A file that is registered with a runtime's reactor.

use core::{
    future::poll_fn,
    mem::MaybeUninit,
    ops::Deref,
    pin::pin,
    sync::atomic::{AtomicU8, Ordering, Ordering::Relaxed},
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use filch::io::Event;
use filch_linux::{Async, io::Direction};

use super::{Interest, ReadBuf, Ready};
use crate::{
    runtime::{Handle, context, shutting_down},
    task::coop,
};

/// The current runtime, for what needs I/O.
///
/// # Panics
/// If there is none, or it has no I/O.
#[track_caller]
pub(crate) fn require_io(what: &str) -> Handle {
    let handle = context::expect();
    assert!(
        handle.inner.io,
        "A Tokio 1.x context was found, but {what} is disabled. Call `enable_io` on the runtime builder to enable {what}."
    );
    handle
}

/// The number of a file, which the owner of the registration should keep open.
///
/// INV-NUMBER: it is not negative, and is given to `epoll_ctl` and `poll` alone. These take any number: that of a file that was closed, as
/// the owner of an `AsyncFd` of a number may do, is an error there, and that of another file gives events of that.
#[derive(Clone, Copy, Debug)]
struct Number(RawFd);

impl AsFd for Number {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: INV-NUMBER.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl core::panic::UnwindSafe for Registration {}
impl core::panic::RefUnwindSafe for Registration {}

/// The registration of a file. It is dropped before the file is closed.
#[derive(Debug)]
pub(crate) struct Registration {
    source: Async<Number>,
    handle: Handle,
    /// Which ends there were when the file was asked last.
    closed: AtomicU8,
}

const CLOSED: Ready = Ready(Ready::READ_CLOSED.0 | Ready::WRITE_CLOSED.0);

/// What a wait has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    event: Event,
    /// In tokio's terms.
    pub(crate) ready: Ready,
}

impl Registration {
    /// Registers a file with the current runtime. It begins as ready, or not.
    ///
    /// # Panics
    /// If there is none, or it has no I/O.
    #[track_caller]
    pub(crate) fn new(fd: RawFd, ready: bool) -> io::Result<Self> {
        let handle = require_io("IO");
        if fd < 0 {
            return Err(rustix::io::Errno::BADF.into());
        }
        if handle.inner.is_closed() {
            return Err(shutting_down());
        }
        let source = Async::register_on(handle.filch(), Number(fd), ready)?;
        // Ordering: Relaxed; a count.
        handle.inner.sources.fetch_add(1, Ordering::Relaxed);
        Ok(Self { source, handle, closed: AtomicU8::new(0) })
    }

    /// The end of the runtime is an event too.
    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if self.handle.inner.is_closed() { Err(shutting_down()) } else { result }
    }

    /// Waits for the direction, for an attempt; one task at a time. The end of a stream or an error is an event for both directions.
    fn poll_event(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<io::Result<Event>> {
        let progress = ready!(coop::poll_proceed(cx));
        let event = ready!(self.source.poll_wait_ready(cx, direction));
        progress.made_progress();
        Poll::Ready(self.check(event))
    }

    /// As [`poll_event`](Self::poll_event), without an attempt.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Seen>> {
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        loop {
            let event = ready!(self.poll_event(cx, direction))?;
            if let Some(seen) = self.see(event, interest) {
                return Poll::Ready(Ok(seen));
            }
        }
    }

    /// Waits for any of it, for an attempt; any number of tasks.
    async fn event(&self, interest: Interest) -> io::Result<Event> {
        let mut wait = pin!(self.source.wait_ready(interest.mask().to_core()));
        let event = poll_fn(|cx| coop::poll_filch(wait.as_mut(), cx)).await;
        self.check(event)
    }

    /// As [`event`](Self::event), without an attempt.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Seen> {
        loop {
            let event = coop::spend_if_failed(self.event(interest).await).await?;
            coop::spend_part().await;
            if let Some(seen) = self.see(event, interest) {
                return Ok(seen);
            }
        }
    }

    /// What is known now of the interest.
    pub(crate) fn now(&self, interest: Interest) -> Event {
        self.source.readiness().only(interest.mask().to_core())
    }

    /// A read was short: the stream is empty. Its end or an error may have come together with the bytes; they come as no further
    /// event.
    fn drained(&self, event: Event) {
        let marks = filch::io::Ready::ERROR | filch::io::Ready::PRIORITY;
        if !self.source.readiness().ready.intersects(marks) {
            self.clear(event);
        }
    }

    /// What the event says of the interest. `None` if it says nothing: then the next wait waits for another event.
    pub(crate) fn see(&self, event: Event, interest: Interest) -> Option<Seen> {
        let mask = interest.mask();
        let ready = self.told(event) & mask;
        // The mark of an error stays, whatever has set it: no wait would end by another event.
        if ready.is_empty() && !interest.is_error() {
            self.clear(event.only(mask.to_core()));
            return None;
        }
        Some(Seen { event, ready })
    }

    /// What the event says, as tokio says it. filch has one mark for the ends of streams and for errors, with which a file is ready for
    /// reads and writes: so the file is asked.
    fn told(&self, event: Event) -> Ready {
        let ready = Ready::from_core(event.ready);
        let has_mark = self.source.readiness().ready.intersects(filch::io::Ready::ERROR);
        match has_mark.then(|| self.ask()).flatten() {
            Some(now) => {
                // Ordering: Relaxed; what is kept is an answer of the system, and leads to nothing else.
                self.closed.store((now & CLOSED).0, Relaxed);
                (ready & now) | (now & (CLOSED | Ready::ERROR))
            }
            // Ordering: as above.
            None => ready | Ready(self.closed.load(Relaxed)),
        }
    }

    /// What the file is ready for, as the system says.
    fn ask(&self) -> Option<Ready> {
        use rustix::event::{PollFd, PollFlags as P, Timespec, poll};
        let mut polled = [PollFd::new(&self.source, P::IN | P::OUT | P::PRI | P::RDHUP)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        let flags = polled[0].revents();
        let (reads, writes) = (flags.intersects(P::IN), flags.intersects(P::OUT));
        let (hup, err) = (flags.intersects(P::HUP), flags.intersects(P::ERR));
        let bits = [
            (reads || flags.intersects(P::PRI), Ready::READABLE),
            (writes, Ready::WRITABLE),
            (flags.intersects(P::PRI), Ready::PRIORITY),
            (hup || reads && flags.intersects(P::RDHUP), Ready::READ_CLOSED),
            (hup || err && writes || flags == P::ERR, Ready::WRITE_CLOSED),
            (err, Ready::ERROR),
        ];
        let set = bits.iter().filter(|(is_set, _)| *is_set);
        Some(set.fold(Ready::EMPTY, |all, (_, bit)| all | *bit))
    }

    /// These bits of what was seen are over: the next wait waits for another event. Not an end that is there still, after which none comes.
    pub(crate) fn clear_seen(&self, seen: Seen, bits: Ready) {
        let mut bits = bits.to_core();
        // Ordering: as in `told`.
        if self.closed.load(Relaxed) != 0 {
            let closed = self.ask().unwrap_or(Ready::EMPTY) & CLOSED;
            self.closed.store(closed.0, Relaxed);
            if closed.is_read_closed() {
                bits = bits - filch::io::Ready::READABLE;
            }
            if closed.is_write_closed() {
                bits = bits - filch::io::Ready::WRITABLE;
            }
        }
        self.clear(seen.event.only(bits));
    }

    pub(crate) fn clear(&self, event: Event) {
        // It fails if the runtime has ended: then the next wait does.
        let _ = self.source.clear(event);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Ordering: Relaxed; a count.
        self.handle.inner.sources.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file, and its registration.
#[derive(Debug)]
pub(crate) struct Source<T> {
    registration: Registration,
    io: T,
}

impl<T> Deref for Source<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.io
    }
}

impl<T: AsRawFd> Source<T> {
    /// Registers a file, which does not block, with the current runtime.
    ///
    /// # Panics
    /// If there is none, or it has no I/O.
    #[track_caller]
    pub(crate) fn new(io: T) -> io::Result<Self> {
        Ok(Self { registration: Registration::new(io.as_raw_fd(), false)?, io })
    }

    /// As [`new`](Self::new), of a file that may be ready: the first operation is tried at once.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub(crate) fn ready_at_first(io: T) -> io::Result<Self> {
        Ok(Self { registration: Registration::new(io.as_raw_fd(), true)?, io })
    }

    /// As [`new`](Self::new), of one end of a new pair, which is writable alone.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub(crate) fn of_pair(io: T) -> io::Result<Self> {
        let this = Self::ready_at_first(io)?;
        // The peer has written nothing yet, so that no event is lost. One for writes may come meanwhile.
        loop {
            let assumed = this.registration.now(Interest::READABLE);
            if assumed.ready.is_empty() {
                break;
            }
            this.registration.clear(assumed);
        }
        Ok(this)
    }
}

impl<T> Source<T> {
    /// The file, no longer registered.
    pub(crate) fn into_inner(self) -> T {
        let Self { registration, io } = self;
        drop(registration);
        io
    }

    /// Waits for any of it.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(self.registration.ready(interest).await?.ready)
    }

    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        self.registration.poll_ready(cx, direction).map_ok(drop)
    }

    /// Calls `op` until it does not block, for one task at a time.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.registration.poll_event(cx, direction))?;
            match op(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear(event);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// As [`poll_io`](Self::poll_io), for any number of tasks.
    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let event = self.registration.event(interest).await;
            let progress = poll_fn(coop::poll_proceed).await;
            match event.map(|event| (event, op(&self.io))) {
                Ok((event, Err(error))) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear(event);
                }
                Ok((_, Err(error))) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok((_, result)) => {
                    progress.made_progress();
                    return result;
                }
                Err(error) => {
                    progress.made_progress();
                    return Err(error);
                }
            }
        }
    }

    /// Calls `op` once, if the file is ready as far as is known.
    pub(crate) fn try_io<R>(
        &self,
        interest: Interest,
        op: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let event = self.registration.now(interest);
        if event.ready.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = op(&self.io);
        if let Err(error) = &result {
            if error.kind() == io::ErrorKind::WouldBlock {
                self.registration.clear(event);
            }
        }
        result
    }

    /// Reads with `op` into the unfilled part of a buffer, which is initialized first. It wakes the task that called last.
    pub(crate) fn poll_fill<A>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        op: impl Fn(&T, &mut [u8]) -> io::Result<(usize, A)>,
    ) -> Poll<io::Result<A>> {
        let op = |io: &T| op(io, buf.initialize_unfilled());
        let (n, from) = ready!(self.poll_io(cx, Direction::Read, op))?;
        buf.advance(n);
        Poll::Ready(Ok(from))
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>
    where
        for<'a> &'a T: Write,
    {
        self.poll_io(cx, Direction::Write, |mut io| io.write(buf))
    }

    pub(crate) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>
    where
        for<'a> &'a T: Write,
    {
        self.poll_io(cx, Direction::Write, |mut io| io.write_vectored(bufs))
    }

    /// Reads from a stream. A short read empties it, and the next one waits without an attempt if `short`.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        short: bool,
    ) -> Poll<io::Result<()>>
    where
        T: AsFd,
    {
        loop {
            let event = ready!(self.registration.poll_event(cx, Direction::Read))?;
            let room = buf.remaining();
            match read(self.io.as_fd(), buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear(event);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(n) => {
                    if short && (1..room).contains(&n) {
                        self.registration.drained(event);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Reads into the room of the buffer.
pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
    // SAFETY: the system writes to the room, and says how much.
    unsafe { fill_by(buf, |room| Ok(rustix::io::read(fd, room)?.0.len())) }
}

/// Receives into the room of the buffer.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buf: &mut ReadBuf<'_>,
    flags: rustix::net::RecvFlags,
) -> io::Result<usize> {
    // SAFETY: as above.
    unsafe { fill_by(buf, |room| Ok(rustix::net::recv(fd, room, flags)?.0.0.len())) }
}

/// Has `op` read into the part of the buffer that is not filled; returns the number of bytes.
///
/// # Safety
/// `op` only has the system write to the bytes, and returns how many of the first ones that has written.
unsafe fn fill_by(
    buf: &mut ReadBuf<'_>,
    op: impl FnOnce(&mut [MaybeUninit<u8>]) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    // SAFETY: the caller's promise: nothing that is initialised is made uninitialised.
    let n = op(unsafe { buf.unfilled_mut() })?;
    // SAFETY: the caller's promise: the system has written that many bytes.
    unsafe { buf.assume_init(n) };
    buf.advance(n);
    Ok(n)
}

/// Has `op` fill a buffer of the crate `bytes`.
#[cfg(feature = "net")]
pub(crate) fn fill<B: bytes::BufMut>(
    buf: &mut B,
    op: impl FnOnce(&mut ReadBuf<'_>) -> io::Result<()>,
) -> io::Result<usize> {
    // SAFETY: a `ReadBuf` makes no byte uninitialized.
    let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let mut room = ReadBuf::uninit(room);
    op(&mut room)?;
    let n = room.filled().len();
    // SAFETY: so many bytes are filled.
    unsafe { buf.advance_mut(n) };
    Ok(n)
}
