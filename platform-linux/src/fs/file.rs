//! A file that is open.

use core::{fmt, future::Future};
use std::{
    fs::{self, Metadata, Permissions},
    io::{self, ErrorKind},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    path::Path,
    sync::Arc,
};

use filch_std::{Handle, internal::Threads, task::consume_budget};

use super::{
    handle,
    operation::{Moved, Operation, Read, Sync, Write, in_ring, on_thread, threads_for},
    options::OpenOptions,
    stream::Stream,
};
use crate::write_behind::WriteBehind;

/// A file that is open.
///
/// - [`read_at`](Self::read_at) and [`write_at`](Self::write_at) have an offset each. Any number of them may be under way.
///   The buffer travels with the operation, so that dropping it is sound; it comes back with the result, also of an error.
/// - As [`AsyncRead`](futures_io::AsyncRead), [`AsyncWrite`](futures_io::AsyncWrite) and [`AsyncSeek`](futures_io::AsyncSeek) it
///   reads and writes at its position, in pieces of 64 KiB at most. A write is done when its bytes have been copied, and a thread of
///   the blocking pool writes them: an error comes with the next such call, so flush at the end. Every other operation of this file
///   comes after what was written before it. The end of the runtime waits for what was written, five seconds at most.
///
/// It may be used from any thread and under any executor, while the runtime in which it was made lives. Dropping it closes the
/// file, after the operations that are under way; what was written is written first.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("filch-doc-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("data");
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// use filch_linux::fs;
/// fs::write(&path, "some bytes").await?;
/// let file = fs::File::open(&path).await?;
/// let (n, buffer) = file.read_at(vec![0; 16], 5).await;
/// assert_eq!(&buffer[..n?], b"bytes");
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Its operations:
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("filch-doc-files-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// # let path = folder.join("data");
/// use filch_linux::fs::File;
/// let file = File::create(&path).await?;
/// let (written, _buffer) = file.write_at(b"some".to_vec(), 0).await;
/// assert_eq!(written?, 4);
/// file.write_all_at(b" bytes, and more".to_vec(), 4).await.0?;
/// file.set_len(10).await?;
/// let mut permissions = file.metadata().await?.permissions();
/// permissions.set_readonly(true);
/// file.set_permissions(permissions).await?;
/// file.sync_data().await?; // or `sync_all`
/// # file.sync_all().await?;
/// let other = file.try_clone().await?;
/// let file: std::fs::File = file.into_std().await?;
///
/// let file = File::from_std(std::fs::File::open(&path)?)?; // as `File::open`
/// let (read, buffer) = file.read_exact_at(vec![0; 5], 5).await;
/// read?;
/// assert_eq!(buffer, b"bytes");
/// let file = File::options().read(true).open(&path).await?; // the same again
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct File {
    file: Arc<fs::File>,
    handle: Handle,
    threads: Threads,
    /// What comes after a write waits for it.
    behind: WriteBehind,
    pub(super) stream: Stream,
}

/// Whether all `len` bytes were moved; if not, that is this error.
fn all((result, buf): Moved, len: usize, short: ErrorKind) -> (io::Result<()>, Vec<u8>) {
    (result.and_then(|n| if n == len { Ok(()) } else { Err(short.into()) }), buf)
}

impl File {
    pub(super) fn new(file: fs::File, handle: Handle) -> Self {
        let (threads, behind) = (threads_for(&file), WriteBehind::default());
        Self { file: Arc::new(file), handle, threads, behind, stream: Stream::default() }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    /// If it is dropped, the file is closed.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file for writing, creates it if it does not exist, and empties it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    /// If it is dropped, the file may be created or emptied, or not; it is closed in any case.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// All options off.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file of the standard library, from now on in the current runtime.
    ///
    /// # Errors
    /// Outside of a runtime of this crate.
    pub fn from_std(file: fs::File) -> io::Result<Self> {
        Ok(Self::new(file, handle()?))
    }

    /// The file for the standard library, after what [`flush`](futures_io::AsyncWrite::poll_flush) does; its position is after what
    /// was read. If an operation that was dropped is still under way, the descriptor is another one, of the same open file.
    ///
    /// # Errors
    /// That of a write whose result is not known yet; of the operating system.
    ///
    /// # Cancel safety
    /// If it is dropped, the file is closed.
    pub async fn into_std(mut self) -> io::Result<fs::File> {
        consume_budget().await;
        core::future::poll_fn(|cx| self.poll_settle(cx)).await?;
        let file = Arc::clone(&self.file);
        drop(self);
        Arc::try_unwrap(file).or_else(|file| file.try_clone())
    }

    /// Reads at most `buf.len()` bytes, from this offset on, to the start of the buffer. Returns how many, 0 at the end of the
    /// file, and the buffer as long as it was.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended, and then the buffer may come back empty.
    ///
    /// # Cancel safety
    /// If it is dropped, the buffer is lost, and nothing else: the file is as it was.
    pub async fn read_at(&self, buf: Vec<u8>, offset: u64) -> Moved {
        self.read(buf, offset, false).await
    }

    /// Fills the buffer, from this offset of the file on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the file ends first.
    ///
    /// # Cancel safety
    /// If it is dropped, the buffer is lost, and nothing else: the file is as it was.
    pub async fn read_exact_at(&self, buf: Vec<u8>, offset: u64) -> (io::Result<()>, Vec<u8>) {
        let len = buf.len();
        all(self.read(buf, offset, true).await, len, ErrorKind::UnexpectedEof)
    }

    /// The size as far as it is known without a wait; 0 if it is not. What `read` begins with.
    pub(super) fn size_hint(&self) -> usize {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let size =
            statx(&self.file, c"", flags, StatxFlags::SIZE).map_or(0, |found| found.stx_size);
        // A file with holes may claim anything.
        usize::try_from(size).unwrap_or(0).min(1 << 30)
    }

    /// Reads once into `buf[from..]`, from there in the file.
    pub(super) async fn fill(&self, buf: Vec<u8>, from: usize) -> Moved {
        let (file, at) = (Arc::clone(&self.file), Some(from as u64));
        self.perform(Read { file, buf, from, at, whole: false }).await
    }

    /// Makes the call, wherever this runtime makes such calls, after what has been written.
    fn perform<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = O::Output> + Send + use<O> {
        let (handle, threads, behind) = (self.handle, self.threads, self.behind.clone());
        async move {
            let operation = match behind.is_idle() {
                true => match in_ring(handle, operation).await {
                    Ok(output) => return output,
                    Err(operation) => operation,
                },
                false => operation,
            };
            let call = move || {
                behind.settle();
                operation.block()
            };
            on_thread(handle, threads, call).await.unwrap_or_else(O::fail)
        }
    }

    async fn read(&self, buf: Vec<u8>, offset: u64, whole: bool) -> Moved {
        let read =
            |buf, from, at| Read { file: Arc::clone(&self.file), buf, from, at: Some(at), whole };
        self.repeat(buf, offset, whole, read).await
    }

    /// Makes the call from this offset on; again and again if the `whole` buffer is wanted, as a ring moves a part.
    async fn repeat<O: Operation<Output = Moved>>(
        &self,
        mut buf: Vec<u8>,
        offset: u64,
        whole: bool,
        call: impl Fn(Vec<u8>, usize, u64) -> O,
    ) -> Moved {
        let (mut from, len) = (0, buf.len());
        loop {
            let result;
            (result, buf) = self.perform(call(buf, from, offset.saturating_add(from as u64))).await;
            let n = match result {
                Ok(n) => n,
                Err(error) => return (Err(error), buf),
            };
            from += n;
            if !whole || from == len || n == 0 {
                return (Ok(from), buf);
            }
        }
    }

    /// Writes at most all of the buffer, from this offset on. Returns how many bytes, and the buffer. With
    /// [`append`](OpenOptions::append) the offset means nothing.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    ///
    /// # Cancel safety
    /// If it is dropped, all, a part or nothing is written, at once or a little later.
    pub async fn write_at(&self, buf: Vec<u8>, offset: u64) -> Moved {
        self.write(buf, offset, false).await
    }

    /// Writes all of the buffer, from this offset on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`WriteZero`](ErrorKind::WriteZero) if the file takes no more bytes. A part may be written.
    ///
    /// # Cancel safety
    /// As [`write_at`](Self::write_at).
    pub async fn write_all_at(&self, buf: Vec<u8>, offset: u64) -> (io::Result<()>, Vec<u8>) {
        let len = buf.len();
        all(self.write(buf, offset, true).await, len, ErrorKind::WriteZero)
    }

    async fn write(&self, buf: Vec<u8>, offset: u64, whole: bool) -> Moved {
        let write = |buf, from, at| Write { file: Arc::clone(&self.file), buf, from, at, whole };
        self.repeat(buf, offset, whole, write).await
    }

    /// Waits until the disk has all that was written, and what the file system knows of the file.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended. After an error, what was written before may be lost.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing but the result.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.perform(Sync { file: Arc::clone(&self.file), data: false }).await
    }

    /// As [`sync_all`](Self::sync_all), without what is not needed to read the data again, such as the times of the file.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended. After an error, what was written before may be lost.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing but the result.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.perform(Sync { file: Arc::clone(&self.file), data: true }).await
    }

    /// Cuts the file off, or adds zeros.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// If it is dropped, it may happen or not.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(move |file| file.set_len(len)).await
    }

    /// What the file system knows of the file.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.with(|file| file.metadata()).await
    }

    /// Sets the file's permissions.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// If it is dropped, it may happen or not.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.with(move |file| file.set_permissions(permissions)).await
    }

    /// Another descriptor of the same open file: both have one position. What this one has read and not returned yet, the other one
    /// does not see. From then on each comes after its own writes alone: flush one before you use the other.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::new(self.with(fs::File::try_clone).await?, self.handle))
    }

    /// Calls a closure with the file on a thread, after what has been written.
    pub(super) fn with<T: Send + 'static, F>(
        &self,
        f: F,
    ) -> impl Future<Output = io::Result<T>> + Send + use<T, F>
    where
        F: FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    {
        let (file, behind) = (Arc::clone(&self.file), self.behind.clone());
        let call = move || {
            behind.settle();
            f(&file)
        };
        let called = on_thread(self.handle, self.threads, call);
        async { called.await? }
    }

    /// Begins to write a piece of these bytes; returns its length. Called while nothing is being written.
    pub(super) fn accept(&self, bytes: &[u8]) -> io::Result<usize> {
        self.behind.accept(self.handle, self.threads, &self.file, bytes)
    }

    pub(super) fn behind(&self) -> &WriteBehind {
        &self.behind
    }

    /// Begins to read at most so many bytes at the position.
    pub(super) fn read_on(
        &self,
        mut buf: Vec<u8>,
        most: usize,
    ) -> impl Future<Output = Moved> + Send + use<> {
        buf.resize(most, 0);
        let file = Arc::clone(&self.file);
        self.perform(Read { file, buf, from: 0, at: None, whole: false })
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}
