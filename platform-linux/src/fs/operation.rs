//! What can be done with a file: by a ring of the kernel, or by a thread that blocks.

use std::{
    ffi::CString,
    fs,
    io::{self, ErrorKind, Read as _},
    os::unix::fs::{FileExt, MetadataExt},
    path::PathBuf,
    sync::Arc,
};

#[cfg(feature = "io-uring")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use filch_std::{Handle, JoinHandle, TaskOptions, internal::Threads, task::consume_budget};
#[cfg(feature = "io-uring")]
use io_uring::{opcode, squeue, types::Fd};
use rustix::fs::{CWD, FileType, Mode, OFlags};

/// From so many bytes on, the kernel copies in a thread of its own: a copy of that length takes as long as to hand it over, some
/// tens of microseconds, and longer ones would hold the worker up.
pub(super) const LONG: usize = 256 * 1024;

/// A system call that may block, with all that it needs.
///
/// # Safety
/// What `entry` leads to is memory on the heap that belongs to the operation: it stays where it is when the operation moves, as
/// long as the operation lives, and nothing else uses it.
pub(super) unsafe trait Operation: Send + 'static {
    type Output: Send + 'static;

    /// Makes the call on this thread.
    fn block(self) -> Self::Output;

    /// There is no thread to make the call.
    fn fail(error: io::Error) -> Self::Output;

    /// The call for the kernel's ring; `None` where a ring cannot make it.
    #[cfg(feature = "io-uring")]
    fn entry(&mut self) -> Option<squeue::Entry>;

    /// The call is over.
    #[cfg(feature = "io-uring")]
    fn finish(self, result: io::Result<u32>) -> Self::Output;
}

/// Makes the call in the kernel's ring, if the runtime has one.
///
/// # Errors
/// The operation, where a thread has to make the call.
pub(super) async fn in_ring<O: Operation>(handle: Handle, operation: O) -> Result<O::Output, O> {
    #[cfg(feature = "io-uring")]
    return super::ring::perform(handle, operation).await;
    #[cfg(not(feature = "io-uring"))]
    {
        let _ = handle;
        Err(operation)
    }
}

/// Runs a closure on one of these threads. If this is dropped before the closure has begun, the closure never runs.
///
/// It spends a unit of budget, since it fails at once after the end of the runtime.
pub(super) async fn on_thread<T: Send + 'static>(
    handle: Handle,
    threads: Threads,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    consume_budget().await;
    let spawned = handle.spawn_on(threads, TaskOptions::new(), f);
    let mut call = Call(spawned.map_err(|refused| io::Error::other(refused.kind))?);
    (&mut call.0).await.map_err(io::Error::other)
}

/// Runs a closure that opens these files. An open of a pipe waits for another process, as reads of devices do: that is for other threads.
pub(super) async fn opening<T: Send + 'static, const N: usize>(
    handle: Handle,
    paths: [PathBuf; N],
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let or_wait = move || {
        let waits = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|metadata| waits(FileType::from_raw_mode(metadata.mode())))
        };
        if paths.iter().any(waits) { Err(f) } else { Ok(f()) }
    };
    match on_thread(handle, Threads::Pool, or_wait).await? {
        Ok(output) => Ok(output),
        Err(f) => on_thread(handle, Threads::Waiting, f).await,
    }
}

/// Whether calls for such a file may wait for other processes: a pipe, a terminal, another device or a socket.
fn waits(kind: FileType) -> bool {
    matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::Socket)
}

/// The threads for calls that use this file.
pub(super) fn threads_for(file: &fs::File) -> Threads {
    match rustix::fs::fstat(file) {
        Ok(stat) if waits(FileType::from_raw_mode(stat.st_mode)) => Threads::Waiting,
        _ => Threads::Pool,
    }
}

struct Call<T>(JoinHandle<T>);

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        // Nothing happens if it is over.
        self.0.abort();
    }
}

/// The buffer, and what became of it.
pub(super) type Moved = (io::Result<usize>, Vec<u8>);

/// Reads into `buf[from..]`, once or (if `whole`) until it is full or the file ends.
pub(super) struct Read {
    pub(super) file: Arc<fs::File>,
    pub(super) buf: Vec<u8>,
    pub(super) from: usize,
    /// `None`: at the file's position, which moves.
    pub(super) at: Option<u64>,
    pub(super) whole: bool,
}

/// Writes `buf[from..]`, once or (if `whole`) until all is written.
pub(super) struct Write {
    pub(super) file: Arc<fs::File>,
    pub(super) buf: Vec<u8>,
    pub(super) from: usize,
    pub(super) at: u64,
    pub(super) whole: bool,
}

/// Calls `step` with how much is done, until it does nothing any more or (unless `whole`) once.
fn steps(
    len: usize,
    whole: bool,
    mut step: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    loop {
        match step(done) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if !whole || done == len {
            return Ok(done);
        }
    }
}

// SAFETY: the memory of a vector, which is not changed until `finish`.
unsafe impl Operation for Read {
    type Output = Moved;

    fn block(mut self) -> Moved {
        let buf = &mut self.buf[self.from..];
        let result = steps(buf.len(), self.whole, |done| match self.at {
            Some(at) => self.file.read_at(&mut buf[done..], at.saturating_add(done as u64)),
            None => (&*self.file).read(&mut buf[done..]),
        });
        (result, self.buf)
    }

    fn fail(error: io::Error) -> Moved {
        (Err(error), Vec::new())
    }

    #[cfg(feature = "io-uring")]
    fn entry(&mut self) -> Option<squeue::Entry> {
        let buf = &mut self.buf[self.from..];
        let read = opcode::Read::new(Fd(self.file.as_raw_fd()), buf.as_mut_ptr(), count(buf.len()));
        Some(flagged(read.offset(offset(self.at)?).build(), buf.len()))
    }

    #[cfg(feature = "io-uring")]
    fn finish(self, result: io::Result<u32>) -> Moved {
        (result.map(|n| n as usize), self.buf)
    }
}

// SAFETY: as for reads.
unsafe impl Operation for Write {
    type Output = Moved;

    fn block(self) -> Moved {
        let buf = &self.buf[self.from..];
        let result = steps(buf.len(), self.whole, |done| {
            self.file.write_at(&buf[done..], self.at.saturating_add(done as u64))
        });
        (result, self.buf)
    }

    fn fail(error: io::Error) -> Moved {
        (Err(error), Vec::new())
    }

    #[cfg(feature = "io-uring")]
    fn entry(&mut self) -> Option<squeue::Entry> {
        let buf = &self.buf[self.from..];
        let write = opcode::Write::new(Fd(self.file.as_raw_fd()), buf.as_ptr(), count(buf.len()));
        Some(flagged(write.offset(offset(Some(self.at))?).build(), buf.len()))
    }

    #[cfg(feature = "io-uring")]
    fn finish(self, result: io::Result<u32>) -> Moved {
        (result.map(|n| n as usize), self.buf)
    }
}

/// The kernel moves fewer bytes than fit into an `i32` at a time.
#[cfg(feature = "io-uring")]
fn count(len: usize) -> u32 {
    len.min(0x7fff_f000) as u32
}

/// The file's own position is minus one. An offset that is negative to the kernel is an error, which a thread finds.
#[cfg(feature = "io-uring")]
fn offset(at: Option<u64>) -> Option<u64> {
    match at {
        None => Some(u64::MAX),
        Some(at) => i64::try_from(at).is_ok().then_some(at),
    }
}

#[cfg(feature = "io-uring")]
fn flagged(entry: squeue::Entry, len: usize) -> squeue::Entry {
    if len >= LONG { entry.flags(squeue::Flags::ASYNC) } else { entry }
}

/// Opens a file.
pub(super) struct Open {
    pub(super) path: CString,
    pub(super) flags: OFlags,
    pub(super) mode: u32,
}

// SAFETY: the path is on the heap, and does not change.
unsafe impl Operation for Open {
    type Output = io::Result<fs::File>;

    fn block(self) -> io::Result<fs::File> {
        let mode = Mode::from_raw_mode(self.mode);
        let open = || rustix::fs::openat(CWD, self.path.as_c_str(), self.flags, mode);
        Ok(fs::File::from(rustix::io::retry_on_intr(open)?))
    }

    fn fail(error: io::Error) -> io::Result<fs::File> {
        Err(error)
    }

    #[cfg(feature = "io-uring")]
    fn entry(&mut self) -> Option<squeue::Entry> {
        // The kernel would hand these to a thread in any case.
        if self.flags.intersects(OFlags::CREATE | OFlags::TRUNC | OFlags::TMPFILE) {
            return None;
        }
        let flags = self.flags.bits() as i32;
        let open = opcode::OpenAt::new(Fd(libc::AT_FDCWD), self.path.as_ptr());
        Some(open.flags(flags).mode(self.mode).build())
    }

    #[cfg(feature = "io-uring")]
    fn finish(self, result: io::Result<u32>) -> io::Result<fs::File> {
        // SAFETY: the kernel has opened it for this operation, which ends once.
        result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) }.into())
    }
}

/// Waits until the disk has what was written.
pub(super) struct Sync {
    pub(super) file: Arc<fs::File>,
    /// Not the times of the file.
    pub(super) data: bool,
}

// SAFETY: the call takes no memory.
unsafe impl Operation for Sync {
    type Output = io::Result<()>;

    fn block(self) -> io::Result<()> {
        if self.data { self.file.sync_data() } else { self.file.sync_all() }
    }

    fn fail(error: io::Error) -> io::Result<()> {
        Err(error)
    }

    #[cfg(feature = "io-uring")]
    fn entry(&mut self) -> Option<squeue::Entry> {
        let sync = opcode::Fsync::new(Fd(self.file.as_raw_fd()));
        let data = io_uring::types::FsyncFlags::DATASYNC;
        Some(if self.data { sync.flags(data) } else { sync }.build())
    }

    #[cfg(feature = "io-uring")]
    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}
