//! A file that is registered with a runtime's reactor.

use core::{
    future::poll_fn,
    ops::Deref,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use filch::io::Event;
use filch_linux::{Async, Direction};

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
/// INV-NUMBER: it is not negative, and is given to `epoll_ctl` and `poll` alone. These take any number: that of a file that was closed, as the owner of an
/// `AsyncFd` of a number may do, is an error there, and that of another file gives events of that.
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
        Ok(Self { source, handle })
    }

    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(_) if self.handle.inner.is_closed() => Err(shutting_down()),
            other => other,
        }
    }

    /// Waits for the direction; one task at a time.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Event>> {
        let progress = ready!(coop::poll_proceed(cx));
        let event = ready!(self.source.poll_wait_ready(cx, direction));
        if self.handle.inner.is_closed() {
            return Poll::Ready(Err(shutting_down()));
        }
        progress.made_progress();
        Poll::Ready(self.check(event))
    }

    /// Waits for any of it; any number of tasks.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Event> {
        let event = self.source.wait_ready(interest.mask().to_core()).await;
        if self.handle.inner.is_closed() {
            return Err(shutting_down());
        }
        self.check(event)
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

    /// What the event says, as tokio says it. filch has one mark for the ends of streams and for errors, so the file is asked.
    pub(crate) fn refined(&self, event: Event) -> Ready {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let ready = Ready::from_core(event.ready);
        let all = self.source.readiness().ready;
        if !all.intersects(filch::io::Ready::ERROR) {
            return ready;
        }
        let mut polled = [PollFd::new(&self.source, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut polled, Some(&now)).is_err() {
            return ready;
        }
        let flags = polled[0].revents();
        let mut refined = ready - Ready::ERROR;
        let ends = [
            (PollFlags::RDHUP | PollFlags::HUP, Ready::READ_CLOSED),
            (PollFlags::HUP, Ready::WRITE_CLOSED),
            (PollFlags::ERR, Ready::ERROR | Ready::WRITE_CLOSED),
        ];
        for (flag, bit) in ends {
            if flags.intersects(flag) {
                refined |= bit;
            }
        }
        refined
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
        let event = self.registration.ready(interest).await?;
        Ok(self.registration.refined(event) & interest.mask())
    }

    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        self.registration.poll_ready(cx, direction).map(|event| event.map(drop))
    }

    /// Calls `op` until it does not block, for one task at a time.
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.registration.poll_ready(cx, direction))?;
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
            let event = self.registration.ready(interest).await?;
            let progress = poll_fn(coop::poll_proceed).await;
            match op(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear(event);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    progress.made_progress();
                    return result;
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
            let event = ready!(self.registration.poll_ready(cx, Direction::Read))?;
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
    // SAFETY: nothing is made uninitialized there.
    let (filled, _) = rustix::io::read(fd, unsafe { buf.unfilled_mut() })?;
    let n = filled.len();
    // SAFETY: the read has filled so many bytes.
    unsafe { buf.assume_init(n) };
    buf.advance(n);
    Ok(n)
}

/// Receives into the room of the buffer.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buf: &mut ReadBuf<'_>,
    flags: rustix::net::RecvFlags,
) -> io::Result<usize> {
    // SAFETY: nothing is made uninitialized there.
    let ((filled, _), n) = rustix::net::recv(fd, unsafe { buf.unfilled_mut() }, flags)?;
    let filled = filled.len().min(n);
    // SAFETY: so many bytes were filled.
    unsafe { buf.assume_init(filled) };
    buf.advance(filled);
    Ok(filled)
}

/// Has `op` fill a buffer of the crate `bytes`.
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
