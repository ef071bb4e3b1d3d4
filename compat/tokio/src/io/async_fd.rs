//! `AsyncFd`: any file that epoll supports.

use core::{
    error::Error,
    fmt,
    task::{Context, Poll, ready},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use filch_linux::io::Direction;

use super::{
    Interest, Ready,
    source::{Registration, Seen},
};
use crate::task::coop;

/// A file that epoll supports, and waits for it.
pub struct AsyncFd<T: AsRawFd> {
    /// Before the file is closed.
    registration: Option<Registration>,
    inner: Option<T>,
}

/// The file was not registered. It is given back.
pub struct AsyncFdRegisterError<T> {
    inner: T,
    cause: io::Error,
}

/// The former name of [`AsyncFdRegisterError`].
pub type AsyncFdTryNewError<T> = AsyncFdRegisterError<T>;

/// The file was not ready: it has been noted, and is waited for.
#[derive(Debug)]
pub struct TryIoError(());

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl<T: AsRawFd> AsyncFd<T> {
    /// Registers a file, which does not block, with the current runtime.
    ///
    /// # Errors
    /// For files that epoll does not support.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn new(inner: T) -> io::Result<Self> {
        Self::with_interest(inner, BOTH)
    }

    /// As [`new`](Self::new). Only what `interest` has can be waited for.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Self::try_with_interest(inner, interest).map_err(Into::into)
    }

    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// As there, with the file.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::try_with_interest(inner, BOTH)
    }

    /// As [`with_interest`](Self::with_interest).
    ///
    /// # Errors
    /// As there, with the file.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        // filch reports all.
        let _ = interest;
        match Registration::new(inner.as_raw_fd(), false) {
            Ok(registration) => Ok(Self { registration: Some(registration), inner: Some(inner) }),
            Err(cause) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }

    /// As [`try_new`](Self::try_new).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// The file stays open, and the same, for as long as the result lives.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::try_new(inner)
    }

    /// As [`try_with_interest`](Self::try_with_interest).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`register`](Self::register).
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::try_with_interest(inner, interest)
    }

    /// The file.
    pub fn get_ref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("only `into_inner` takes it"),
        }
    }

    /// The file.
    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("only `into_inner` takes it"),
        }
    }

    /// The file, no longer registered.
    pub fn into_inner(mut self) -> T {
        self.registration = None;
        match self.inner.take() {
            Some(inner) => inner,
            None => unreachable!("only this takes it"),
        }
    }

    fn registration(&self) -> &Registration {
        match &self.registration {
            Some(registration) => registration,
            None => unreachable!("only `into_inner` takes it"),
        }
    }

    /// Waits for reads, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll_read_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration().poll_ready(cx, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyGuard { fd: self, seen }))
    }

    /// As [`poll_read_ready`](Self::poll_read_ready).
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration().poll_ready(cx, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard { fd: self, seen }))
    }

    /// As [`poll_read_ready`](Self::poll_read_ready), for writes.
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_ready<'a>(
        &'a self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let seen = ready!(self.registration().poll_ready(cx, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyGuard { fd: self, seen }))
    }

    /// As [`poll_write_ready`](Self::poll_write_ready).
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let seen = ready!(self.registration().poll_ready(cx, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard { fd: self, seen }))
    }

    /// Waits for any of it.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let seen = self.registration().ready(interest).await?;
        Ok(AsyncFdReadyGuard { fd: self, seen })
    }

    /// As [`ready`](Self::ready).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let seen = self.registration().ready(interest).await?;
        Ok(AsyncFdReadyMutGuard { fd: self, seen })
    }

    /// Waits for reads.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    #[allow(clippy::needless_lifetimes)]
    pub async fn readable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::READABLE).await
    }

    /// Waits for reads.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    #[allow(clippy::needless_lifetimes)]
    pub async fn readable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits for writes.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    #[allow(clippy::needless_lifetimes)]
    pub async fn writable<'a>(&'a self) -> io::Result<AsyncFdReadyGuard<'a, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// Waits for writes.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    #[allow(clippy::needless_lifetimes)]
    pub async fn writable_mut<'a>(&'a mut self) -> io::Result<AsyncFdReadyMutGuard<'a, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }

    /// Calls `f` until it does not block.
    ///
    /// # Errors
    /// Those of `f`; if the runtime has ended.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let seen = self.registration().ready(interest).await?;
            coop::consume_budget().await;
            match f(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration().clear_seen(seen, Ready::ALL);
                }
                result => return result,
            }
        }
    }

    /// As [`async_io`](Self::async_io).
    ///
    /// # Errors
    /// As there.
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut f: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let seen = self.registration().ready(interest).await?;
            coop::consume_budget().await;
            match f(self.get_mut()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration().clear_seen(seen, Ready::ALL);
                }
                result => return result,
            }
        }
    }

    /// Calls `f` once, if the file is ready as far as is known.
    ///
    /// # Errors
    /// Those of `f`; `WouldBlock` if it is not ready.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.attempt(interest, |this| f(this.get_ref()))
    }

    /// As [`try_io`](Self::try_io).
    ///
    /// # Errors
    /// As there.
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        f: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.known(interest)?;
        let result = f(self.get_mut());
        self.note(seen, &result);
        result
    }

    fn attempt<R>(
        &self,
        interest: Interest,
        f: impl FnOnce(&Self) -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.known(interest)?;
        let result = f(self);
        self.note(seen, &result);
        result
    }

    fn known(&self, interest: Interest) -> io::Result<Seen> {
        let event = self.registration().now(interest);
        let seen = (!event.ready.is_empty()).then(|| self.registration().see(event, interest));
        seen.flatten().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn note<R>(&self, seen: Seen, result: &io::Result<R>) {
        if matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.registration().clear_seen(seen, Ready::ALL);
        }
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}

/// As the file's own. A mere number lends no file, as any number can be had, and its file be closed at any time:
///
/// ```compile_fail,E0599
/// use std::os::fd::AsFd;
/// fn lend(number: &filch_tokio::io::unix::AsyncFd<std::os::fd::RawFd>) {
///     number.as_fd();
/// }
/// ```
impl<T: AsRawFd + AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: fmt::Debug + AsRawFd> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("inner", &self.inner).finish()
    }
}

impl<T: AsRawFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        self.registration = None;
    }
}

/// A wait has ended. From [`AsyncFd::ready`] and so on.
#[must_use = "You must explicitly choose whether to clear the readiness state by calling a method on ReadyGuard"]
pub struct AsyncFdReadyGuard<'a, T: AsRawFd> {
    fd: &'a AsyncFd<T>,
    seen: Seen,
}

/// A wait has ended. From [`AsyncFd::ready_mut`] and so on.
#[must_use = "You must explicitly choose whether to clear the readiness state by calling a method on ReadyGuard"]
pub struct AsyncFdReadyMutGuard<'a, T: AsRawFd> {
    fd: &'a mut AsyncFd<T>,
    seen: Seen,
}

macro_rules! guard {
    ($name:ident) => {
        impl<'a, T: AsRawFd> $name<'a, T> {
            /// The file would have blocked: the next wait waits for another event, unless the stream has ended.
            pub fn clear_ready(&mut self) {
                self.clear_ready_matching(Ready::ALL);
            }

            /// As `clear_ready`, for these bits alone.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                self.fd.registration().clear_seen(self.seen, ready & self.seen.ready);
                self.seen.ready = self.seen.ready - ready;
            }

            /// Leaves the file ready.
            pub fn retain_ready(&mut self) {}

            /// What the file was ready for.
            pub fn ready(&self) -> Ready {
                self.seen.ready
            }
        }

        impl<T: fmt::Debug + AsRawFd> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("async_fd", &self.fd).finish()
            }
        }
    };
}

guard!(AsyncFdReadyGuard);
guard!(AsyncFdReadyMutGuard);

impl<'a, T: AsRawFd> AsyncFdReadyGuard<'a, T> {
    /// Calls `f` once. If it would have blocked, the next wait waits for another event.
    ///
    /// # Errors
    /// If it would have blocked.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.fd);
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_ready();
                Err(TryIoError(()))
            }
            result => Ok(result),
        }
    }

    /// The `AsyncFd`.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.fd
    }

    /// The file.
    pub fn get_inner(&self) -> &'a T {
        self.fd.get_ref()
    }
}

impl<T: AsRawFd> AsyncFdReadyMutGuard<'_, T> {
    /// Calls `f` once. If it would have blocked, the next wait waits for another event.
    ///
    /// # Errors
    /// If it would have blocked.
    pub fn try_io<R>(
        &mut self,
        f: impl FnOnce(&mut AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        let result = f(self.fd);
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_ready();
                Err(TryIoError(()))
            }
            result => Ok(result),
        }
    }

    /// The `AsyncFd`.
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.fd
    }

    /// The `AsyncFd`.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.fd
    }

    /// The file.
    pub fn get_inner(&self) -> &T {
        self.fd.get_ref()
    }

    /// The file.
    pub fn get_inner_mut(&mut self) -> &mut T {
        self.fd.get_mut()
    }
}

impl<T> AsyncFdRegisterError<T> {
    /// The file, and why it was not registered.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<T> fmt::Debug for AsyncFdRegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl<T> Error for AsyncFdRegisterError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdRegisterError<T>> for io::Error {
    fn from(error: AsyncFdRegisterError<T>) -> Self {
        error.cause
    }
}

impl fmt::Display for TryIoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file was not ready")
    }
}
