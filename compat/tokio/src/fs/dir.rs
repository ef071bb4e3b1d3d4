//! Folders.

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
    os::unix::fs::{DirBuilderExt, DirEntryExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::blocking;
use crate::task::{JoinHandle, coop, spawn_blocking};

/// How many entries are read at a time.
const CHUNK: usize = 32;

/// How a folder is made.
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the folders above it are made too (default: no).
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// The permissions.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref().to_owned();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(self.recursive);
        if let Some(mode) = self.mode {
            builder.mode(mode);
        }
        blocking(move || builder.create(path)).await
    }
}

/// The entries of a folder.
///
/// # Errors
/// Those of the operating system.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let (entries, rest) = blocking(move || {
        let mut rest = fs::read_dir(path)?;
        Ok((next_chunk(&mut rest), rest))
    })
    .await?;
    Ok(ReadDir(State::Idle(entries, rest)))
}

type Entries = (VecDeque<io::Result<Entry>>, bool);

fn next_chunk(rest: &mut fs::ReadDir) -> Entries {
    let mut entries = VecDeque::with_capacity(CHUNK);
    while entries.len() < CHUNK {
        match rest.next() {
            Some(Ok(entry)) => {
                // The standard library knows it already, most of the time.
                let kind = entry.file_type().ok();
                entries.push_back(Ok((Arc::new(entry), kind)));
            }
            Some(Err(error)) => {
                entries.push_back(Err(error));
                return (entries, true);
            }
            None => return (entries, false),
        }
    }
    (entries, true)
}

type Entry = (Arc<fs::DirEntry>, Option<FileType>);

/// The entries of a folder. From [`read_dir`].
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(State);

#[derive(Debug)]
enum State {
    /// Entries, and whether there are more.
    Idle(Entries, fs::ReadDir),
    Busy(JoinHandle<(Entries, fs::ReadDir)>),
    Over,
}

impl ReadDir {
    /// The next entry.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// As [`next_entry`](Self::next_entry), for use in a `poll` function.
    ///
    /// # Errors
    /// As there.
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        coop::poll_spending(cx, |cx| self.poll_entry(cx))
    }

    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            match &mut self.0 {
                State::Over => return Poll::Ready(Ok(None)),
                State::Busy(task) => match ready!(Pin::new(task).poll(cx)) {
                    Ok((entries, rest)) => self.0 = State::Idle(entries, rest),
                    Err(error) => {
                        self.0 = State::Over;
                        return Poll::Ready(Err(error.into()));
                    }
                },
                State::Idle((entries, more), _) => {
                    if let Some(entry) = entries.pop_front() {
                        let entry = entry.map(|(std, kind)| Some(DirEntry { std, kind }));
                        return Poll::Ready(entry);
                    }
                    if !*more {
                        return Poll::Ready(Ok(None));
                    }
                    if let State::Idle(_, mut rest) = core::mem::replace(&mut self.0, State::Over) {
                        self.0 = State::Busy(spawn_blocking(move || (next_chunk(&mut rest), rest)));
                    }
                }
            }
        }
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub struct DirEntry {
    std: Arc<fs::DirEntry>,
    kind: Option<FileType>,
}

impl DirEntry {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Its name.
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// The number of its inode.
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }

    /// What is known of it.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = Arc::clone(&self.std);
        blocking(move || std.metadata()).await
    }

    /// What kind of file it is.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(kind) = self.kind {
            coop::consume_budget().await;
            return Ok(kind);
        }
        let std = Arc::clone(&self.std);
        blocking(move || std.file_type()).await
    }
}
