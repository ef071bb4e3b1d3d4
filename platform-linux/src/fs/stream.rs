//! A file at its position, by the traits of futures-io.

use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    fs,
    io::{self, ErrorKind, Seek as _, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
};

use filch_io::nothing;
use filch_std::{Handle, TaskOptions, budgeted};
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::{
    file::File,
    operation::{Moved, Read, Write, on_thread, perform},
};

/// The most bytes of one operation.
const PIECE: usize = 65_536;

/// What is under way at the position of a file: one operation at a time.
///
/// INV-UNREAD: the file's position is after `buffer`, whose bytes from `given` on have not been returned.
#[derive(Default)]
pub(super) struct Stream {
    buffer: Vec<u8>,
    given: usize,
    /// In a lock that is never taken, which makes it `Sync`.
    work: Mutex<Option<Work>>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Work {
    Read(Boxed<Moved>),
    Write(Boxed<Moved>),
    Seek(SeekFrom, Boxed<io::Result<u64>>),
}

/// What has come to its end.
enum Done {
    Read,
    Write,
    Seek(SeekFrom, u64),
    Nothing,
}

impl Stream {
    fn work(&mut self) -> &mut Option<Work> {
        self.work.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the operation that is under way.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Done>> {
        let Some(work) = self.work() else { return Poll::Ready(Ok(Done::Nothing)) };
        let (done, moved) = match work {
            Work::Read(read) => {
                let (result, mut buffer) = ready!(read.as_mut().poll(cx));
                buffer.truncate(*result.as_ref().unwrap_or(&0));
                (result.map(|_| Done::Read), Some(buffer))
            }
            Work::Write(write) => {
                let (result, mut buffer) = ready!(write.as_mut().poll(cx));
                buffer.clear();
                (result.map(|_| Done::Write), Some(buffer))
            }
            Work::Seek(to, seek) => {
                let to = *to;
                (ready!(seek.as_mut().poll(cx)).map(|at| Done::Seek(to, at)), None)
            }
        };
        *self.work() = None;
        if let Some(buffer) = moved {
            (self.buffer, self.given) = (buffer, 0);
        }
        Poll::Ready(done)
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        self.given = 0;
        mem::take(&mut self.buffer)
    }
}

/// Writes all of it.
async fn write_all(
    file: Arc<fs::File>,
    handle: Handle,
    mut buf: Vec<u8>,
) -> (io::Result<usize>, Vec<u8>) {
    let (mut from, len) = (0, buf.len());
    while from < len {
        let result;
        let write = Write { file: Arc::clone(&file), buf, from, at: None, whole: true };
        (result, buf) = perform(handle, write).await;
        match result {
            Ok(0) => return (Err(ErrorKind::WriteZero.into()), buf),
            Ok(n) => from += n,
            Err(error) => return (Err(error), buf),
        }
    }
    (Ok(len), buf)
}

impl File {
    /// Waits for what is under way, and moves the position back over what was read and not returned.
    pub(super) fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_work(cx))?;
            let (stream, ..) = self.parts();
            let unread = stream.buffer.len() - stream.given;
            if unread == 0 {
                return Poll::Ready(Ok(()));
            }
            self.begin_seek(SeekFrom::Current(0));
        }
    }

    /// Begins to move to the position, as it is for the caller.
    fn begin_seek(&mut self, to: SeekFrom) {
        let (stream, file, handle) = self.parts();
        let unread = (stream.buffer.len() - stream.given) as i64;
        let moved = match to {
            SeekFrom::Current(by) => SeekFrom::Current(by.saturating_sub(unread)),
            to => to,
        };
        let file = Arc::clone(file);
        stream.buffer.clear();
        stream.given = 0;
        let seek = async move { on_thread(handle, move || (&*file).seek(moved)).await? };
        *stream.work() = Some(Work::Seek(to, Box::pin(seek)));
    }
}

/// A read that is dropped loses no byte: it goes on, and the next one returns what it has read. Not more is read than one call
/// had room for.
impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let done = ready!(self.stream.poll_work(cx))?;
            let (stream, file, handle) = self.parts();
            let rest = &stream.buffer[stream.given..];
            if !rest.is_empty() {
                let n = rest.len().min(buf.len());
                return budgeted(cx, |_| {
                    buf[..n].copy_from_slice(&rest[..n]);
                    stream.given += n;
                    Poll::Ready(Ok(n))
                });
            }
            if matches!(done, Done::Read) {
                return Poll::Ready(Ok(0));
            }
            if buf.is_empty() {
                return nothing::poll_moved(cx);
            }
            let mut buffer = stream.take_buffer();
            buffer.resize(buf.len().min(PIECE), 0);
            let file = Arc::clone(file);
            let read = Read { file, buf: buffer, from: 0, at: None, whole: false };
            *stream.work() = Some(Work::Read(Box::pin(perform(handle, read))));
        }
    }
}

/// A write copies its bytes and begins; it is over when the next call is. A write that is dropped before it is ready has written
/// nothing; after that, the bytes are written whatever is dropped, unless the runtime ends. Closing flushes.
impl AsyncWrite for File {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_settle(cx))?;
        if buf.is_empty() {
            return nothing::poll_moved(cx);
        }
        let (stream, file, handle) = self.parts();
        let n = ready!(budgeted(cx, |_| {
            let piece = &buf[..buf.len().min(PIECE)];
            let mut buffer = stream.take_buffer();
            buffer.clear();
            buffer.extend_from_slice(piece);
            let write = write_all(Arc::clone(file), handle, buffer);
            *stream.work() = Some(Work::Write(Box::pin(write)));
            Poll::Ready(piece.len())
        }));
        // It begins now. An error is that of the next call: these bytes have been taken.
        if let Some(Work::Write(write)) = stream.work() {
            if let Poll::Ready((result, mut buffer)) = write.as_mut().poll(cx) {
                buffer.clear();
                *stream.work() = None;
                match result {
                    Ok(_) => stream.buffer = buffer,
                    Err(error) => {
                        let failed = async { (Err(error), buffer) };
                        *stream.work() = Some(Work::Write(Box::pin(failed)));
                    }
                }
            }
        }
        Poll::Ready(Ok(n))
    }

    /// Waits until the operating system has what was written: for the disk, see [`sync_all`](File::sync_all).
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stream.work().is_none() {
            return nothing::poll_moved(cx);
        }
        self.stream.poll_work(cx).map_ok(drop)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// From the position as the caller knows it: what was read ahead does not count. A seek that is dropped goes on: the next call
/// waits for it, and a seek to the same position is that one.
impl AsyncSeek for File {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pos: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        loop {
            match ready!(self.stream.poll_work(cx))? {
                Done::Seek(to, at) if to == pos => return Poll::Ready(Ok(at)),
                _ => self.begin_seek(pos),
            }
        }
    }
}

/// A piece that is being written is written, by a task.
impl Drop for File {
    fn drop(&mut self) {
        let (stream, _, handle) = self.parts();
        if let Some(Work::Write(write)) = stream.work().take() {
            // If the runtime has ended, there is nothing left that could write it.
            if let Ok(task) = handle.spawn_with(TaskOptions::new(), write) {
                task.detach();
            }
        }
    }
}
