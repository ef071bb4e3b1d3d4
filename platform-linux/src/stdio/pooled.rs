//! Files that block, on threads for what may wait for other processes.

use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    sync::Arc,
};

use filch_io::nothing;
use filch_std::{Handle, JoinHandle, TaskOptions, internal::Threads, task::budgeted};
use rustix::event::PollFlags;

use crate::write_behind::{PIECE, WriteBehind, retry};

/// A read on a thread; returns the buffer, and the result.
type Work = JoinHandle<(Vec<u8>, io::Result<usize>)>;

/// Reads on threads, never more than it is asked for.
pub(super) struct Reader {
    file: Arc<File>,
    handle: Handle,
    /// The bytes that were read; `given` of them have been returned.
    buffer: Vec<u8>,
    given: usize,
    work: Option<Work>,
}

impl Reader {
    pub(super) fn new(file: OwnedFd, handle: Handle) -> Self {
        let file = Arc::new(file.into());
        Self { file, handle, buffer: Vec::new(), given: 0, work: None }
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let rest = &self.buffer[self.given..];
            if !rest.is_empty() {
                let n = rest.len().min(buf.len());
                return budgeted(cx, |_| {
                    buf[..n].copy_from_slice(&rest[..n]);
                    self.given += n;
                    Poll::Ready(Ok(n))
                });
            }
            let len = buf.len().min(PIECE);
            if self.work.is_none() {
                let (file, mut buffer) = (Arc::clone(&self.file), mem::take(&mut self.buffer));
                self.given = 0;
                let read = move || {
                    buffer.resize(len, 0);
                    let result = retry(&file, PollFlags::IN, || (&*file).read(&mut buffer));
                    buffer.truncate(*result.as_ref().unwrap_or(&0));
                    (buffer, result)
                };
                match self.handle.spawn_on(Threads::Waiting, TaskOptions::new(), read) {
                    Ok(work) => self.work = Some(work),
                    Err(refused) => {
                        return nothing::poll_done(cx, || Err(io::Error::other(refused.kind)));
                    }
                }
            }
            let Some(work) = &mut self.work else { unreachable!("it has just begun") };
            let done = ready!(Pin::new(work).poll(cx));
            self.work = None;
            let (buffer, result) = done.map_err(io::Error::other)?;
            self.buffer = buffer;
            if result? == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }
}

/// Writes on threads, one write at a time.
pub(super) struct Writer {
    file: Arc<File>,
    handle: Handle,
    behind: WriteBehind,
}

impl Writer {
    pub(super) fn new(file: OwnedFd, handle: Handle) -> Self {
        Self { file: Arc::new(file.into()), handle, behind: WriteBehind::default() }
    }

    /// Starts a write. Returns an error of the previous one.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.behind.poll_settled(cx))?;
        if buf.is_empty() {
            return nothing::poll_moved(cx);
        }
        let accept = || self.behind.accept(self.handle, Threads::Waiting, &self.file, buf);
        nothing::poll_done(cx, accept)
    }

    /// Waits until nothing is being written.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.behind.has_news() {
            return nothing::poll_moved(cx);
        }
        self.behind.poll_settled(cx)
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;

    use super::*;

    /// A pipe that no other test's child inherits.
    fn pipe() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
    }

    fn once<T>(cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<bool> {
        Poll::Ready(poll(cx).is_ready())
    }

    #[test]
    fn reads_that_are_dropped_lose_nothing() {
        let runtime = crate::Builder::new().workers(1).build().unwrap();
        let handle = *runtime.handle();
        for nonblocking in [false, true] {
            let (file, writer) = pipe();
            rustix::io::ioctl_fionbio(&file, nonblocking).unwrap();
            let mut reader = Reader::new(file, handle);
            runtime.block_on(async {
                let mut buf = [0; 4];
                assert!(!poll_fn(|cx| once(cx, |cx| reader.poll_read(cx, &mut [0; 8]))).await);
                rustix::io::write(&writer, b"seven b").unwrap();
                drop(writer);
                assert_eq!(poll_fn(|cx| reader.poll_read(cx, &mut buf)).await.unwrap(), 4);
                assert_eq!(&buf, b"seve");
                assert_eq!(poll_fn(|cx| reader.poll_read(cx, &mut buf)).await.unwrap(), 3);
                assert_eq!(&buf[..3], b"n b");
                for _ in 0..2 {
                    assert_eq!(poll_fn(|cx| reader.poll_read(cx, &mut buf)).await.unwrap(), 0);
                }
            });
        }
    }

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let runtime = crate::Builder::new().workers(1).build().unwrap();
        let (file, writer) = pipe();
        let ours = file.try_clone().unwrap();
        let mut reader = Reader::new(file, *runtime.handle());
        rustix::io::write(&writer, b"for us, and for a child").unwrap();
        let n = runtime.block_on(poll_fn(|cx| reader.poll_read(cx, &mut [0; 6])));
        assert_eq!(n.unwrap(), 6);
        let mut rest = [0; 32];
        assert_eq!(rustix::io::read(&ours, &mut rest).unwrap(), 17);
        assert_eq!(&rest[..17], b", and for a child");
    }

    #[test]
    fn errors_come_with_the_next_call() {
        let runtime = crate::Builder::new().workers(1).build().unwrap();
        let (reader, file) = pipe();
        let mut writer = Writer::new(file, *runtime.handle());
        runtime.block_on(async {
            poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
            let long = vec![7; 100_000];
            assert_eq!(poll_fn(|cx| writer.poll_write(cx, &long)).await.unwrap(), PIECE);
            poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
            drop(reader);
            assert_eq!(poll_fn(|cx| writer.poll_write(cx, b"x")).await.unwrap(), 1);
            let error = poll_fn(|cx| writer.poll_flush(cx)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
        });
        drop(runtime);
        let elsewhere = crate::Builder::new().workers(1).build().unwrap();
        elsewhere.block_on(async {
            // It is refused, or fails in the next runtime, if that has the memory of the first.
            let written = poll_fn(|cx| writer.poll_write(cx, b"x")).await;
            let flushed = poll_fn(|cx| writer.poll_flush(cx)).await;
            assert!(written.is_err() != flushed.is_err(), "{written:?} {flushed:?}");
            poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
        });
    }
}
