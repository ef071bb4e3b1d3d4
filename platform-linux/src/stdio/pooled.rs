//! Files that block, on the threads of the blocking pool.

use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use filch_std::{Handle, JoinHandle, budgeted};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// The most bytes of one operation on a thread.
const PIECE: usize = 65_536;

/// An operation on a thread; returns the buffer, and the result.
type Work = JoinHandle<(Vec<u8>, io::Result<usize>)>;

/// Reads on threads, never more than it is asked for.
pub(super) struct Reader {
    file: Arc<OwnedFd>,
    handle: Handle,
    /// The bytes that were read; `given` of them have been returned.
    buffer: Vec<u8>,
    given: usize,
    work: Option<Work>,
}

impl Reader {
    pub(super) fn new(file: OwnedFd, handle: Handle) -> Self {
        Self { file: Arc::new(file), handle, buffer: Vec::new(), given: 0, work: None }
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
            let work = self.work.get_or_insert_with(|| {
                let (file, mut buffer) = (Arc::clone(&self.file), mem::take(&mut self.buffer));
                self.given = 0;
                self.handle.spawn_blocking(move || {
                    buffer.resize(len, 0);
                    let result = read(&file, &mut buffer);
                    buffer.truncate(*result.as_ref().unwrap_or(&0));
                    (buffer, result)
                })
            });
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
    file: Arc<OwnedFd>,
    handle: Handle,
    /// Kept for its memory.
    buffer: Vec<u8>,
    work: Option<Work>,
}

impl Writer {
    pub(super) fn new(file: OwnedFd, handle: Handle) -> Self {
        Self { file: Arc::new(file), handle, buffer: Vec::new(), work: None }
    }

    /// Starts a write. Returns an error of the previous one.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        budgeted(cx, |_| {
            let piece = &buf[..buf.len().min(PIECE)];
            let (file, mut buffer) = (Arc::clone(&self.file), mem::take(&mut self.buffer));
            buffer.clear();
            buffer.extend_from_slice(piece);
            self.work = Some(self.handle.spawn_blocking(move || {
                let result = write_all(&file, &buffer);
                (buffer, result)
            }));
            Poll::Ready(Ok(piece.len()))
        })
    }

    /// Whether something is being written.
    pub(super) fn is_busy(&self) -> bool {
        self.work.is_some()
    }

    /// Waits until nothing is being written.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(work) = &mut self.work else { return Poll::Ready(Ok(())) };
        let done = ready!(Pin::new(work).poll(cx));
        self.work = None;
        let (buffer, result) = done.map_err(io::Error::other)?;
        self.buffer = buffer;
        Poll::Ready(result.map(drop))
    }
}

fn read(file: &OwnedFd, buf: &mut [u8]) -> io::Result<usize> {
    retry(file, PollFlags::IN, || rustix::io::read(file, &mut *buf))
}

fn write_all(file: &OwnedFd, buf: &[u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match retry(file, PollFlags::OUT, || rustix::io::write(file, &buf[done..]))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(done)
}

/// Tries until it does not block, as another process may have made the file non-blocking.
fn retry<R>(
    file: &OwnedFd,
    event: PollFlags,
    mut op: impl FnMut() -> rustix::io::Result<R>,
) -> io::Result<R> {
    loop {
        match op() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut files = [PollFd::from_borrowed_fd(file.as_fd(), event)];
                rustix::io::retry_on_intr(|| poll(&mut files, None))?;
            }
            result => return Ok(result?),
        }
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
        let runtime = crate::builder().workers(1).build().unwrap();
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
        let runtime = crate::builder().workers(1).build().unwrap();
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
        let runtime = crate::builder().workers(1).build().unwrap();
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
        let elsewhere = crate::builder().workers(1).build().unwrap();
        elsewhere.block_on(async {
            let _ = poll_fn(|cx| writer.poll_write(cx, b"x")).await;
            assert!(poll_fn(|cx| writer.poll_flush(cx)).await.is_err());
        });
    }
}
