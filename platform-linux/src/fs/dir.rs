//! The entries of a folder.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, FileType, Metadata},
    io,
    os::unix::fs::DirEntryExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use filch_io::nothing;
use filch_std::{Handle, internal::Threads, task::budgeted};
use futures_util::Stream;

use super::{handle, operation::on_thread};

/// Entries that a thread reads at a time.
const BATCH: usize = 64;

/// Reads the entries of a folder, without `.` and `..`, in no particular order: [`std::fs::read_dir`]. A thread reads 64 at a time,
/// the first together with the opening.
///
/// # Errors
/// Those of the operating system; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// Dropping it loses nothing.
///
/// ```
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// use filch_linux::fs::{DirEntry, ReadDir, read_dir};
/// async fn list(entry: &DirEntry) -> std::io::Result<()> {
///     let (kind, bytes) = (entry.file_type().await?, entry.metadata().await?.len());
///     println!("{:?} {:?}, inode {}: {bytes} bytes", kind, entry.file_name(), entry.ino());
///     Ok(())
/// }
/// let mut entries: ReadDir = read_dir("src").await?;
/// while let Some(entry) = entries.next_entry().await? {
///     assert!(entry.path().starts_with("src"));
///     list(&entry).await?;
/// }
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let (handle, path) = (handle()?, path.as_ref().to_owned());
    let batch =
        on_thread(handle, Threads::Pool, move || fs::read_dir(path).map(Batch::read)).await??;
    Ok(ReadDir { handle, batch, work: Mutex::new(None) })
}

/// Some entries, and the folder if there may be more.
struct Batch {
    entries: VecDeque<io::Result<DirEntry>>,
    rest: Option<fs::ReadDir>,
}

impl Batch {
    fn read(mut folder: fs::ReadDir) -> Self {
        let entries: VecDeque<_> =
            folder.by_ref().take(BATCH).map(|entry| entry.map(DirEntry::new)).collect();
        let rest = (entries.len() == BATCH).then_some(folder);
        Self { entries, rest }
    }
}

type Work = Pin<Box<dyn Future<Output = io::Result<Batch>> + Send>>;

/// The entries of a folder: [`read_dir`].
pub struct ReadDir {
    handle: Handle,
    batch: Batch,
    /// In a lock that is never taken, which makes it `Sync`.
    work: Mutex<Option<Work>>,
}

impl ReadDir {
    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// Those of the operating system, after which there may be more entries; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses no entry.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }
}

/// As [`next_entry`](ReadDir::next_entry).
impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let work = this.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        if this.batch.entries.is_empty() {
            if let Some(rest) = this.batch.rest.take() {
                *work = Some(Box::pin(on_thread(this.handle, Threads::Pool, move || {
                    Batch::read(rest)
                })));
            }
        }
        if let Some(reading) = work {
            let read = ready!(reading.as_mut().poll(cx));
            *work = None;
            match read {
                Ok(batch) => this.batch = batch,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        budgeted(cx, |_| Poll::Ready(this.batch.entries.pop_front()))
    }
}

impl core::fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReadDir").field("read", &self.batch.entries.len()).finish_non_exhaustive()
    }
}

/// An entry of a folder.
#[derive(Clone, Debug)]
pub struct DirEntry {
    entry: Arc<fs::DirEntry>,
    /// If the folder says it.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(entry: fs::DirEntry) -> Self {
        // Most file systems have it in the folder.
        let file_type = entry.file_type().ok();
        Self { entry: Arc::new(entry), file_type }
    }

    /// The folder's path, and the name.
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// The name.
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    /// The inode's number.
    pub fn ino(&self) -> u64 {
        self.entry.ino()
    }

    /// What the file is; a symbolic link is one. Known from the reading of the folder, unless it failed then.
    ///
    /// # Errors
    /// Those of the operating system; outside of a runtime of this crate, or if it has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn file_type(&self) -> io::Result<FileType> {
        match self.file_type {
            Some(file_type) => poll_fn(|cx| nothing::poll_done(cx, || Ok(file_type))).await,
            None => self.with(|entry| entry.file_type()).await,
        }
    }

    /// What the file system knows of the file, which is not followed if it is a symbolic link.
    ///
    /// # Errors
    /// Those of the operating system; outside of a runtime of this crate, or if it has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.with(|entry| entry.metadata()).await
    }

    async fn with<T: Send + 'static>(
        &self,
        f: fn(&fs::DirEntry) -> io::Result<T>,
    ) -> io::Result<T> {
        let entry = Arc::clone(&self.entry);
        on_thread(handle()?, Threads::Pool, move || f(&entry)).await?
    }
}
