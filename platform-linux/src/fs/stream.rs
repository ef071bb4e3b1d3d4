//! A file at its position, by the traits of futures-io.

use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, Seek as _, SeekFrom},
    sync::{Mutex, PoisonError},
};

use filch_io::nothing;
use filch_std::task::budgeted;
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::{file::File, operation::Moved};
use crate::write_behind::PIECE;

/// What is under way at the position of a file: one operation at a time. A write is under way in the file's `WriteBehind`.
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
    Seek(SeekFrom, Boxed<io::Result<u64>>),
}

/// What has come to its end.
enum Done {
    Read,
    Seek(SeekFrom, u64),
    Nothing,
}

impl Stream {
    fn work(&mut self) -> &mut Option<Work> {
        self.work.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes were read and not returned.
    fn unread(&self) -> usize {
        self.buffer.len() - self.given
    }

    /// Waits for the read or the seek that is under way.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Done>> {
        let Some(work) = self.work() else { return Poll::Ready(Ok(Done::Nothing)) };
        let (done, moved) = match work {
            Work::Read(read) => {
                let (result, mut buffer) = ready!(read.as_mut().poll(cx));
                buffer.truncate(*result.as_ref().unwrap_or(&0));
                (result.map(|_| Done::Read), Some(buffer))
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
}

impl File {
    /// Waits for what is under way.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Done>> {
        ready!(self.behind().poll_settled(cx))?;
        self.stream.poll_work(cx)
    }

    /// Waits for what is under way, and moves the position back over what was read and not returned.
    pub(super) fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_work(cx))?;
            if self.stream.unread() == 0 {
                return Poll::Ready(Ok(()));
            }
            self.begin_seek(SeekFrom::Current(0));
        }
    }

    /// Begins to move to the position, as it is for the caller.
    fn begin_seek(&mut self, to: SeekFrom) {
        let unread = self.stream.unread() as i64;
        let moved = match to {
            SeekFrom::Current(by) => SeekFrom::Current(by.saturating_sub(unread)),
            to => to,
        };
        let seek = Box::pin(self.with(move |mut file| file.seek(moved)));
        self.stream.buffer.clear();
        self.stream.given = 0;
        *self.stream.work() = Some(Work::Seek(to, seek));
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
            let done = ready!(self.poll_work(cx))?;
            let stream = &mut self.stream;
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
            stream.given = 0;
            let buffer = mem::take(&mut stream.buffer);
            let read = Box::pin(self.read_on(buffer, buf.len().min(PIECE)));
            *self.stream.work() = Some(Work::Read(read));
        }
    }
}

/// A write copies its bytes and begins; it is over when the next call is. A write that is dropped before it is ready has written
/// nothing; after that, the bytes are written whatever is dropped: the end of the runtime waits for them, five seconds at most. Closing
/// flushes.
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
        nothing::poll_done(cx, || self.accept(buf))
    }

    /// Waits until the operating system has what was written: for the disk, see [`sync_all`](File::sync_all).
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stream.work().is_none() && !self.behind().has_news() {
            return nothing::poll_moved(cx);
        }
        self.poll_work(cx).map_ok(drop)
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
            match ready!(self.poll_work(cx))? {
                Done::Seek(to, at) if to == pos => return Poll::Ready(Ok(at)),
                _ => self.begin_seek(pos),
            }
        }
    }
}
