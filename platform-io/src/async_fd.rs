//! `Async`: any file that the system watches.

use core::{
    fmt,
    future::poll_fn,
    mem::ManuallyDrop,
    pin::pin,
    ptr,
    task::{Context, Poll, ready},
};
use std::io;

use filch::io::{Direction, Event, Ready};
use filch_std::{Handle, task::budgeted};
use rustix::fd::AsFd;

use crate::{
    shown::shows_file,
    source::{Source, show, shown, side},
};

/// An I/O object (a socket, a pipe, a device) whose operations wait in the reactor of the runtime, not in the kernel.
///
/// It is made in a runtime ([`Handle::block_on`](crate::Handle::block_on), a task), and may be used
/// from any thread and under any executor. The runtime's workers deliver its events: when the
/// runtime has ended, operations that would block fail.
///
/// - The file descriptor that [`AsFd`] shows must be the same as long as this lives. It may be a reference to one.
/// - Operations are tried first: one that succeeds at once makes no system call but its own.
/// - An operation that a signal interrupts is tried again. Each success spends a unit of the task's
///   budget ([`consume_budget`](crate::task::consume_budget)).
/// - Register a socket after `connect` has been called on it: before that, it counts as hung up.
/// - If other code closes the file, later operations fail; an operation that already waits is not
///   woken.
/// - On Windows it takes sockets alone: `AsFd` is rustix's there, which every `AsSocket` has.
///
/// Cost: two or three system calls to make one, one to drop it besides `close`; 64 bytes in the
/// runtime.
///
/// ```
/// use std::{io::{Read, Write}, os::unix::net::UnixStream};
/// # let runtime = filch_io::Builder::new().workers(1).build().unwrap();
/// # runtime.block_on(async {
/// let (a, mut b) = UnixStream::pair()?;
/// let a = filch_io::Async::new(a)?;
/// b.write_all(b"hello")?;
/// let mut buffer = [0; 16];
/// let n = a.read_with(|mut a| a.read(&mut buffer)).await?;
/// assert_eq!(&buffer[..n], b"hello");
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// ```
///
/// All its operations:
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use core::future::poll_fn;
/// use std::{io::{Read, Write}, net::{TcpListener, TcpStream}};
/// use filch_io::Async;
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let a = TcpStream::connect(listener.local_addr()?)?;
/// a.set_nonblocking(true)?;
/// let (a, b) = (Async::new_nonblocking(a)?, Async::new(listener.accept()?.0)?);
/// let mut buffer = [0; 16];
///
/// // An operation that waits for itself, or a wait and an attempt.
/// a.write_with(|mut a| a.write(b"one")).await?;
/// let n = b.read_stream_with(16, |mut b| b.read(&mut buffer)).await?;
/// assert_eq!(&buffer[..n], b"one");
/// a.writable().await?;
/// a.try_write_with(|mut a| a.write(b"two"))?;
/// let two = loop {
///     b.readable().await?;
///     match b.try_read_with(|mut b| b.read(&mut buffer)) {
///         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
///         read => break read?,
///     }
/// };
/// assert_eq!(&buffer[..two], b"two");
///
/// // In a `poll` of one's own.
/// poll_fn(|cx| a.poll_write_with(cx, |mut a| a.write(b"three"))).await?;
/// poll_fn(|cx| b.poll_read_with(cx, |mut b| b.read(&mut buffer[..1]))).await?;
/// poll_fn(|cx| b.poll_read_stream_with(cx, 16, |mut b| b.read(&mut buffer))).await?;
/// assert_eq!(a.get_ref().peer_addr()?, listener.local_addr()?);
/// let a: TcpStream = a.into_inner()?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct Async<T: AsFd> {
    source: Source,
    io: T,
}

impl<T: AsFd> Async<T> {
    /// Sets the file's `O_NONBLOCK`, and registers it with the current runtime.
    ///
    /// # Errors
    /// Outside a runtime of this crate; for files that the system does not watch, such as regular ones
    /// ([`Unsupported`](io::ErrorKind::Unsupported)); for a file descriptor that is registered
    /// already ([`AlreadyExists`](io::ErrorKind::AlreadyExists)); and other errors of the operating
    /// system.
    pub fn new(io: T) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(io.as_fd(), true)?;
        Self::new_nonblocking(io)
    }

    /// As [`new`](Self::new), for a file that is in non-blocking mode already. Otherwise operations block the worker.
    ///
    /// # Errors
    /// Outside a runtime of this crate; for files that the system does not watch; for a descriptor that is registered already; and
    /// other errors of the operating system.
    pub fn new_nonblocking(io: T) -> io::Result<Self> {
        Ok(Self { source: Source::register(io.as_fd())?, io })
    }

    /// As [`new_nonblocking`](Self::new_nonblocking), with that runtime in place of the current one, and events for writes from
    /// the beginning. The object begins as readable and writable, or, if it is not `ready`, as neither: its first events may come
    /// before this returns, and an event for one direction may be told as one for both.
    ///
    /// # Errors
    /// Those of [`new_nonblocking`](Self::new_nonblocking).
    ///
    /// ```
    /// use std::{io::{Read, Write}, os::unix::net::UnixStream};
    /// use filch_io::{Async, io::{Direction, Ready}};
    /// let runtime = filch_io::Builder::new().workers(1).build()?;
    /// let (mut peer, stream) = UnixStream::pair()?;
    /// stream.set_nonblocking(true)?;
    /// // From outside of the runtime.
    /// let stream = Async::register_on(runtime.handle(), stream, false)?;
    /// peer.write_all(b"!")?;
    /// runtime.block_on(async {
    ///     let event = stream.wait_ready(Ready::READABLE).await?;
    ///     core::future::poll_fn(|cx| stream.poll_wait_ready(cx, Direction::Read)).await?;
    ///     assert!(stream.readiness().ready.contains(Ready::READABLE));
    ///     assert_eq!(stream.get_ref().read(&mut [0; 8])?, 1);
    ///     assert!(stream.get_ref().read(&mut [0; 8]).is_err());
    ///     stream.clear(event) // the read would have blocked
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_on(handle: &Handle, io: T, ready: bool) -> io::Result<Self> {
        Ok(Self { source: Source::register_on(handle, io.as_fd(), ready)?, io })
    }

    /// What the file is ready for, as far as is known. Cost: one load.
    pub fn readiness(&self) -> Event {
        self.source.readiness().get()
    }

    /// Waits until one of these bits is set. Any number of tasks may wait. After an operation that would have blocked,
    /// [`clear`](Self::clear) the event.
    ///
    /// The end of a stream and an error come as [`Ready::ERROR`] with `READABLE` and `WRITABLE`, whichever direction they are of: the next
    /// operation tells. [`Ready::READ_CLOSED`] and `WRITE_CLOSED` never come, as an end need not be final: a FIFO may get another writer.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn wait_ready(&self, interest: Ready) -> io::Result<Event> {
        let mut wait = pin!(self.source.readiness().ready(interest));
        let event = poll_fn(|cx| budgeted(cx, |cx| wait.as_mut().poll(cx))).await;
        self.source.check().map(|()| event)
    }

    /// As [`wait_ready`](Self::wait_ready), for poll-style callers, which bring a budget of their own: it spends none. One task in
    /// each direction waits at a time, the last caller.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll_wait_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Event>> {
        let event = ready!(self.source.readiness().poll_ready(cx, direction));
        Poll::Ready(self.source.check().map(|()| event))
    }

    /// Takes the bits of an event back, because an operation that it was for would have blocked. Does nothing if there has been
    /// another event since.
    ///
    /// # Errors
    /// If the runtime has ended; those of the operating system, if the event is for writes.
    pub fn clear(&self, event: Event) -> io::Result<()> {
        self.source.clear(self.io.as_fd(), event)
    }

    /// The I/O object. Its file must not be changed for another.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the I/O object, no longer registered. It stays in non-blocking mode.
    ///
    /// # Errors
    /// None at present.
    pub fn into_inner(self) -> io::Result<T> {
        let this = ManuallyDrop::new(self);
        this.source.deregister(this.io.as_fd());
        // SAFETY: `this` is not dropped, and not used again; `source` needs no drop.
        Ok(unsafe { ptr::read(&this.io) })
    }

    /// Waits until a read may succeed: there are bytes, or the end, or an error. This is a hint: a
    /// read may still block; a new object begins as readable.
    ///
    /// Any number of tasks may wait. After `Ok`, use an operation of this type: otherwise the next
    /// wait returns at once.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn readable(&self) -> io::Result<()> {
        self.wait(Direction::Read).await
    }

    /// As [`readable`](Self::readable), for writes.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn writable(&self) -> io::Result<()> {
        self.wait(Direction::Write).await
    }

    async fn wait(&self, direction: Direction) -> io::Result<()> {
        let ready = self.source.readiness().ready(side(direction));
        let mut wait = pin!(shown(ready, self.io.as_fd(), direction));
        poll_fn(|cx| budgeted(cx, |cx| wait.as_mut().poll(cx))).await;
        self.source.check()
    }

    /// Calls `op`, which reads, until it does not block. Any number of tasks may do this at the
    /// same time.
    ///
    /// # Errors
    /// Those of `op`, but for [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted); and
    /// if the runtime has ended while it waited.
    ///
    /// # Cancel safety
    /// Dropping it loses only what `op` loses: it can be dropped only while it waits, never after a
    /// success.
    pub async fn read_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Direction::Read, op, |_| false).await
    }

    /// Calls `op`, which writes, until it does not block. Any number of tasks may do this at the
    /// same time.
    ///
    /// # Errors
    /// As [`read_with`](Self::read_with).
    ///
    /// # Cancel safety
    /// Dropping it loses only what `op` loses, and never after a success.
    pub async fn write_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Direction::Write, op, |_| false).await
    }

    /// As [`read_with`](Self::read_with), for a stream of which `op` reads at most `len` bytes (and
    /// returns how many). After fewer bytes the stream is empty, so the next read waits without an
    /// attempt.
    ///
    /// Only for streams whose reads are short only when the stream is empty: TCP, plain pipes. Not
    /// for Unix sockets (a read ends at bytes that carry files), terminals (at a line), datagrams,
    /// TLS in the kernel.
    ///
    /// # Errors
    /// Those of `op`, but for [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted); and if the runtime
    /// has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses only what `op` loses, and never after a success.
    pub async fn read_stream_with(
        &self,
        len: usize,
        op: impl FnMut(&T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.operate(Direction::Read, op, |n| (1..len).contains(n)).await
    }

    /// As [`read_with`](Self::read_with), for poll-style callers: one task waits at a time, the
    /// last caller.
    ///
    /// # Errors
    /// Those of `op`, but for [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted); and if the runtime
    /// has ended.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        op: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_operate(cx, Direction::Read, op, |_| false)
    }

    /// As [`poll_read_with`](Self::poll_read_with), for writes. A waiting writer does not replace a
    /// waiting reader.
    ///
    /// # Errors
    /// Those of `op`, but for [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted); and if the runtime
    /// has ended.
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        op: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_operate(cx, Direction::Write, op, |_| false)
    }

    /// [`read_stream_with`](Self::read_stream_with) for poll-style callers.
    ///
    /// # Errors
    /// Those of `op`, but for [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted); and if the runtime
    /// has ended.
    pub fn poll_read_stream_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        op: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_operate(cx, Direction::Read, op, |n| (1..len).contains(n))
    }

    /// Calls `op`, which reads, once (again if a signal interrupts it). From any thread; spends no budget.
    ///
    /// # Errors
    /// Those of `op`; [`WouldBlock`](io::ErrorKind::WouldBlock) makes the next [`readable`](Self::readable) wait.
    pub fn try_read_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::Read, op)
    }

    /// As [`try_read_with`](Self::try_read_with), for writes.
    ///
    /// # Errors
    /// Those of `op`; [`WouldBlock`](io::ErrorKind::WouldBlock) makes the next [`writable`](Self::writable) wait.
    pub fn try_write_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::Write, op)
    }

    #[cfg(test)]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    fn attempt<R>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        // The attempt may use up only events that were seen before it.
        let event = self.source.readiness().get();
        self.source
            .once(self.io.as_fd(), event, direction, || op(&self.io))
            .unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }

    async fn operate<R>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&T) -> io::Result<R>,
        short: impl Fn(&R) -> bool,
    ) -> io::Result<R> {
        loop {
            let ready = self.source.readiness().ready(side(direction));
            let event = shown(ready, self.io.as_fd(), direction).await;
            let mut op = || op(&self.io);
            let attempt = |cx: &mut Context<'_>| {
                self.source.attempt(cx, self.io.as_fd(), event, direction, &mut op)
            };
            if let Some(result) = poll_fn(attempt).await {
                if result.as_ref().is_ok_and(&short) {
                    self.source.drained(event);
                }
                return result;
            }
        }
    }

    #[inline]
    fn poll_operate<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut op: impl FnMut(&T) -> io::Result<R>,
        short: impl Fn(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        loop {
            let polled = self.source.readiness().poll_ready(cx, direction);
            show(&polled, cx, self.io.as_fd(), direction);
            let event = ready!(polled);
            let op = || op(&self.io);
            if let Some(result) =
                ready!(self.source.attempt(cx, self.io.as_fd(), event, direction, op))
            {
                if result.as_ref().is_ok_and(&short) {
                    self.source.drained(event);
                }
                return Poll::Ready(result);
            }
        }
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        // Before the file is closed: the number may then belong to another file.
        self.source.deregister(self.io.as_fd());
    }
}

shows_file!([T: AsFd] Async<T>, io);

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(&self.io).finish()
    }
}
