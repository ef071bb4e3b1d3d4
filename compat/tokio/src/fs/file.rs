//! An open file.

use core::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    fs::{self, FileTimes, Metadata, Permissions},
    io::{self, Seek, SeekFrom, Write},
    os::fd::{FromRawFd, OwnedFd, RawFd},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use real::sync::Mutex;

use super::{OpenOptions, blocking};
use crate::{
    io::{AsyncRead, AsyncSeek, AsyncWrite, Buffer, CHUNK, ReadBuf},
    runtime::Handle,
    task::{JoinHandle, coop},
};

/// An open file. Its operations are on threads that may block.
///
/// A write is ready when its bytes are copied: an error comes with a later operation, and `flush` waits for the end.
pub struct File {
    std: Arc<fs::File>,
    inner: Mutex<Inner>,
    most: usize,
}

struct Inner {
    state: State,
    /// The error of a write that was ready before.
    failed: Option<io::ErrorKind>,
    /// Where the last seek has led.
    position: u64,
}

enum State {
    Idle(Buffer),
    Busy(JoinHandle<(Done, Buffer)>),
    Lost,
}

/// What an operation has done.
enum Done {
    Read(io::Result<usize>),
    Write(io::Result<()>),
    Seek(io::Result<u64>),
}

fn lost() -> io::Error {
    io::Error::other("background task failed")
}

impl Inner {
    /// Waits for the operation under way, if there is one.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        let State::Busy(task) = &mut self.state else { return Poll::Ready(Ok(None)) };
        match ready!(Pin::new(task).poll(cx)) {
            Ok((done, buffer)) => {
                self.state = State::Idle(buffer);
                if let Done::Seek(Ok(position)) = &done {
                    self.position = *position;
                }
                Poll::Ready(Ok(Some(done)))
            }
            Err(error) => {
                self.state = State::Lost;
                Poll::Ready(Err(error.into()))
            }
        }
    }

    /// As `poll_done`; the error of a write is kept for a later operation.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Ok(Some(Done::Write(Err(error)))) = ready!(self.poll_done(cx)) {
            self.failed = Some(error.kind());
        }
        Poll::Ready(())
    }

    async fn idle(&mut self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }

    /// Waits until the writes have ended, and returns their error.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx));
        Poll::Ready(match self.failed.take() {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        })
    }

    /// Takes the buffer of an idle file out.
    fn take(&mut self) -> io::Result<Buffer> {
        match core::mem::replace(&mut self.state, State::Lost) {
            State::Idle(buffer) => Ok(buffer),
            other => {
                self.state = other;
                Err(lost())
            }
        }
    }

    fn begin(&mut self, op: impl FnOnce() -> (Done, Buffer) + Send + 'static) -> io::Result<()> {
        let task = Handle::current().try_spawn_blocking(op).ok_or_else(lost)?;
        self.state = State::Busy(task);
        Ok(())
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
        std: &Arc<fs::File>,
        most: usize,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut end = false;
            match ready!(self.poll_done(cx))? {
                Some(Done::Read(result)) => end = result? == 0,
                Some(Done::Write(Err(error))) => self.failed = Some(error.kind()),
                _ => {}
            }
            let State::Idle(buffer) = &mut self.state else { return Poll::Ready(Err(lost())) };
            if buffer.len() > 0 || end || out.remaining() == 0 {
                buffer.take(out);
                return Poll::Ready(Ok(()));
            }
            let mut buffer = self.take()?;
            let (std, most) = (Arc::clone(std), out.remaining().min(most));
            self.begin(move || {
                let result = buffer.read(&mut &*std, most);
                (Done::Read(result), buffer)
            })?;
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        std: &Arc<fs::File>,
        copy: impl FnOnce(&mut Buffer) -> usize,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx));
        if let Some(kind) = self.failed.take() {
            return Poll::Ready(Err(kind.into()));
        }
        let mut buffer = self.take()?;
        // What was read ahead is given back.
        let ahead = buffer.len() as i64;
        let n = copy(&mut buffer);
        let std = Arc::clone(std);
        self.begin(move || {
            let mut file = &*std;
            let sought =
                if ahead > 0 { file.seek(SeekFrom::Current(-ahead)).map(drop) } else { Ok(()) };
            let result = sought.and_then(|()| file.write_all(&buffer.bytes));
            buffer.clear();
            (Done::Write(result), buffer)
        })?;
        Poll::Ready(Ok(n))
    }
}

impl File {
    /// Opens a file for reads.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Makes or empties a file, for writes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// Makes a file, which must not exist, for reads and writes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).await
    }

    /// The options by which files are opened.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file of the standard library.
    pub fn from_std(std: fs::File) -> Self {
        let inner = Inner { state: State::Idle(Buffer::default()), failed: None, position: 0 };
        Self { std: Arc::new(std), inner: Mutex::new(inner), most: CHUNK }
    }

    /// Calls a closure with the file once it is idle.
    async fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.inner.lock().await.idle().await;
        let std = Arc::clone(&self.std);
        blocking(move || f(&std)).await
    }

    /// Has the operating system write all to the device.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.run(fs::File::sync_all).await
    }

    /// As [`sync_all`](Self::sync_all), without what reads do not need.
    ///
    /// # Errors
    /// As there.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.run(fs::File::sync_data).await
    }

    /// Sets the length.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        let mut inner = self.inner.lock().await;
        inner.idle().await;
        let mut buffer = inner.take()?;
        let std = Arc::clone(&self.std);
        let ahead = buffer.len() as i64;
        inner.begin(move || {
            let mut file = &*std;
            let sought = match ahead {
                0 => Ok(0),
                _ => {
                    buffer.clear();
                    file.seek(SeekFrom::Current(-ahead))
                }
            };
            (Done::Seek(sought.and_then(|n| std.set_len(size).map(|()| n))), buffer)
        })?;
        match poll_fn(|cx| inner.poll_done(cx)).await? {
            Some(Done::Seek(result)) => result.map(drop),
            _ => Err(lost()),
        }
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = Arc::clone(&self.std);
        blocking(move || std.metadata()).await
    }

    /// The same open file once more, with one position for both.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn try_clone(&self) -> io::Result<Self> {
        let mut clone = self.run(fs::File::try_clone).await.map(Self::from_std)?;
        clone.most = self.most;
        Ok(clone)
    }

    /// The file of the standard library, once it is idle.
    pub async fn into_std(mut self) -> fs::File {
        coop::consume_budget().await;
        self.inner.get_mut().idle().await;
        let Self { std, inner, .. } = self;
        drop(inner);
        match Arc::try_unwrap(std) {
            Ok(std) => std,
            Err(_) => unreachable!("the file is idle"),
        }
    }

    /// The file of the standard library, if it is idle.
    ///
    /// # Errors
    /// The file itself, if it is not.
    pub fn try_into_std(mut self) -> Result<fs::File, Box<Self>> {
        if matches!(self.inner.get_mut().state, State::Busy(_)) {
            return Err(Box::new(self));
        }
        let Self { std, inner, most } = self;
        Arc::try_unwrap(std).map_err(|std| Box::new(Self { std, inner, most }))
    }

    /// Sets the permissions.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        let std = Arc::clone(&self.std);
        blocking(move || std.set_permissions(perm)).await
    }

    /// Sets when the file was read and written.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        let std = Arc::clone(&self.std);
        blocking(move || std.set_times(times)).await
    }

    /// Sets when the file was written.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// The most bytes of one operation (default: 2 MiB).
    pub fn max_buf_size(&self) -> usize {
        self.most
    }

    /// Sets the most bytes of one operation.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.most = max_buf_size;
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let inner = this.inner.get_mut();
        coop::poll_spending(cx, |cx| inner.poll_read(cx, buf, &this.std, this.most))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = this.most;
        let inner = this.inner.get_mut();
        coop::poll_spending(cx, |cx| {
            inner.poll_write(cx, &this.std, |buffer| buffer.fill(buf, most))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = this.most;
        let inner = this.inner.get_mut();
        coop::poll_spending(cx, |cx| {
            inner.poll_write(cx, &this.std, |buffer| {
                buffer.clear();
                for from in bufs {
                    let room = most - buffer.bytes.len();
                    buffer.bytes.extend_from_slice(&from[..from.len().min(room)]);
                }
                buffer.bytes.len()
            })
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.get_mut().inner.get_mut();
        coop::poll_spending(cx, |cx| inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        let inner = this.inner.get_mut();
        if matches!(inner.state, State::Busy(_)) {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        let mut buffer = inner.take()?;
        let ahead = buffer.len() as i64;
        buffer.clear();
        let position = match position {
            SeekFrom::Current(n) => SeekFrom::Current(n - ahead),
            other => other,
        };
        let std = Arc::clone(&this.std);
        inner.begin(move || (Done::Seek((&*std).seek(position)), buffer))
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let inner = self.get_mut().inner.get_mut();
        coop::poll_spending(cx, |cx| {
            loop {
                match ready!(inner.poll_done(cx))? {
                    None => return Poll::Ready(Ok(inner.position)),
                    Some(Done::Seek(result)) => return Poll::Ready(result),
                    Some(Done::Write(Err(error))) => inner.failed = Some(error.kind()),
                    Some(_) => {}
                }
            }
        })
    }
}

impl From<fs::File> for File {
    fn from(std: fs::File) -> Self {
        Self::from_std(std)
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::from_std(fd.into())
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("tokio::fs::File").field("std", &self.std).finish()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller's contract.
        Self::from_std(unsafe { fs::File::from_raw_fd(fd) })
    }
}

crate::net::macros::fds!(File, std);
