//! Files: the functions of [`std::fs`], without blocking a worker.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("filch-doc-fs-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("greeting");
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
//! use filch_linux::fs;
//! fs::write(&path, "hello").await?;
//! assert_eq!(fs::read_to_string(&path).await?, "hello");
//! fs::remove_file(&path).await?;
//! # Ok::<_, std::io::Error>(()) }).unwrap();
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The other functions:
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("filch-doc-paths-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
//! use filch_linux::fs::{self, Way};
//! let (a, b, link) = (folder.join("a/b/file"), folder.join("a/other"), folder.join("link"));
//! fs::create_dir(folder.join("a")).await?;
//! fs::create_dir_all(folder.join("a/b")).await?;
//! fs::write(&a, b"bytes").await?;
//! assert_eq!(fs::copy(&a, &b).await?, 5);
//! assert_eq!(fs::read(&b).await?, b"bytes");
//! fs::rename(&b, folder.join("moved")).await?;
//! assert!(!fs::try_exists(&b).await?);
//! fs::hard_link(&a, &b).await?;
//!
//! fs::symlink(&a, &link).await?;
//! assert_eq!(fs::read_link(&link).await?, a);
//! assert_eq!(fs::canonicalize(&link).await?, fs::canonicalize(&a).await?);
//! assert!(fs::symlink_metadata(&link).await?.is_symlink());
//! let mut permissions = fs::metadata(&link).await?.permissions();
//! permissions.set_readonly(true);
//! fs::set_permissions(&a, permissions).await?;
//!
//! fs::remove_file(&a).await?;
//! fs::remove_dir(folder.join("a/b")).await?;
//! fs::remove_dir_all(folder.join("a")).await?;
//! println!("by {}", match fs::way()? { Way::Pool => "threads", Way::Ring => "the kernel", _ => "neither" });
//! # Ok::<_, std::io::Error>(()) }).unwrap();
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Epoll takes no regular files, so there are two other ways, and [`way`] tells which one is used:
//!
//! | | [`Pool`](Way::Pool) | [`Ring`](Way::Ring) |
//! |---|---|---|
//! | is | a thread of the blocking pool for each call | the kernel's io_uring |
//! | needs | nothing | the feature `io-uring`, and Linux 5.11 that allows it |
//! | [`read`], [`File::read_at`] and other reads, [`File::open`] for reading | some microseconds for the way to a thread and back | one system call, if the data are in the page cache |
//! | [`File::write_at`], [`File::sync_all`] | as reads | the kernel may use a thread of its own |
//! | writes at the position of a [`File`], anything else | as reads | on the pool |
//!
//! [`read`] leaves files from 256 KiB on to the pool. If the kernel refuses io_uring (an older one, a sandbox, a setting of the
//! system), or more than 512 operations are under way in one ring, the pool does the work, and nothing else is different, but for one
//! thing: in a ring an open of a pipe does not wait for its other end. After a shortage of descriptors or memory the ring is tried again,
//! later and later: after 16 operations of its thread at first, after 4,096 at most.
//!
//! Pipes, terminals and other devices wait for other processes, perhaps for ever. Calls for them have threads of their own, beside the
//! blocking pool and as many at most ([`Builder::blocking_threads`](crate::Builder::blocking_threads)), so that they keep none from other
//! files. For many of them use [`pipe`](crate::pipe) or [`Async`](crate::Async), which take no thread.
//!
//! All functions belong to the runtime that the calling thread is in, and fail outside of one. If the runtime ends, operations on the pool
//! that have not begun fail, those that have begun go on to their end; operations in a ring are cancelled, and the end waits for the kernel
//! to be done with their memory, for two seconds at most (then the memory is leaked). What was written at the position of a [`File`] is
//! written first: for that the end waits five seconds at most.

mod dir;
mod file;
mod operation;
mod options;
mod paths;
#[cfg(feature = "io-uring")]
pub(crate) mod ring;
mod stream;

use std::{
    io::{self, Read as _},
    path::Path,
};

use filch_std::Handle;

pub use self::{
    dir::{DirEntry, ReadDir, read_dir},
    file::File,
    options::OpenOptions,
    paths::{
        canonicalize, copy, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir,
        remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata,
        try_exists, write,
    },
};

/// What reads and writes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// The threads of the blocking pool.
    Pool,
    /// The kernel's io_uring.
    Ring,
}

/// What reads and writes files in the current runtime, for this thread.
///
/// # Errors
/// Outside of a runtime of this crate.
pub fn way() -> io::Result<Way> {
    let handle = handle()?;
    Ok(if has_ring(handle) { Way::Ring } else { Way::Pool })
}

#[cfg(feature = "io-uring")]
fn has_ring(handle: Handle) -> bool {
    handle.host::<crate::runtime::Linux>().is_some_and(|linux| linux.rings.is_open(linux))
}

#[cfg(not(feature = "io-uring"))]
fn has_ring(_: Handle) -> bool {
    false
}

/// The current runtime.
fn handle() -> io::Result<Handle> {
    Handle::current().map_err(io::Error::other)
}

/// The whole of a file: [`std::fs::read`].
///
/// # Errors
/// Those of the operating system; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// Dropping it loses nothing.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let handle = handle()?;
    if !has_ring(handle) {
        let path = path.as_ref().to_owned();
        return operation::opening(handle, [path.clone()], move || std::fs::read(path)).await?;
    }
    let file = File::open(path).await?;
    let size = file.size_hint();
    if size >= operation::LONG {
        // A ring would hand it to a thread too, of the kernel: see bench/README.md.
        let all = |mut file: &std::fs::File| {
            let mut buf = Vec::new();
            file.read_to_end(&mut buf).map(|_| buf)
        };
        return file.with(all).await;
    }
    // Some files have no size: those of `/proc`.
    let mut buf = vec![0; (size + 1).max(4096)];
    let mut len = 0;
    loop {
        let n;
        (n, buf) = file.fill(buf, len).await;
        match n? {
            0 => break,
            n => len += n,
        }
        if len == buf.len() {
            buf.resize(len.saturating_mul(2), 0);
        }
    }
    buf.truncate(len);
    Ok(buf)
}

/// The whole of a file, as text: [`std::fs::read_to_string`].
///
/// # Errors
/// [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8; those of the operating system; outside of a runtime of this crate, or if it
/// has ended.
///
/// # Cancel safety
/// Dropping it loses nothing.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8");
    String::from_utf8(read(path).await?).map_err(no_text)
}
