//! Pipes, with and without names.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};

use crate::{
    io::{Interest, Ready, source::Source},
    net::macros::{fds, poll_ready, read_trait, try_reads, try_writes, write_trait},
};

/// A new pipe.
///
/// # Errors
/// Those of the operating system.
///
/// # Panics
/// If there is no runtime, or it has no I/O.
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((Sender { io: Source::new(write.into())? }, Receiver { io: Source::new(read.into())? }))
}

/// How a pipe that has a name is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is opened for reads and writes, so that it always has another end (default: no).
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Whether files are taken that may not be pipes (default: no).
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// The end that reads.
    ///
    /// # Errors
    /// Those of the operating system; `InvalidInput` if the file is no pipe.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        Ok(Receiver { io: Source::new(self.open(path.as_ref(), true)?)? })
    }

    /// The end that writes.
    ///
    /// # Errors
    /// As `open_receiver`; if nothing has the end that reads.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        Ok(Sender { io: Source::new(self.open(path.as_ref(), false)?)? })
    }

    fn open(&self, path: &Path, reads: bool) -> io::Result<File> {
        let mut options = File::options();
        let file = options
            .read(reads || self.read_write)
            .write(!reads || self.read_write)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        if !self.unchecked {
            check_pipe(&file)?;
        }
        Ok(file)
    }
}

/// # Errors
/// If the file is no pipe.
fn check_pipe(file: &File) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::Fifo {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"))
}

/// A pipe's end from a file, which does not block afterwards.
fn take(file: File, forbidden: OFlags) -> io::Result<File> {
    check_pipe(&file)?;
    let flags = fcntl_getfl(&file)?;
    if flags & OFlags::ACCMODE == forbidden {
        let way = if forbidden == OFlags::RDONLY { "writes" } else { "reads" };
        let text = format!("this end of the pipe is not open for {way}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    take_unchecked(file)
}

fn take_unchecked(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    if !flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags | OFlags::NONBLOCK)?;
    }
    Ok(file)
}

/// The end of a pipe that writes.
#[derive(Debug)]
pub struct Sender {
    io: Source<File>,
}

/// The end of a pipe that reads.
#[derive(Debug)]
pub struct Receiver {
    io: Source<File>,
}

macro_rules! end {
    ($name:ident, $forbidden:ident) => {
        impl $name {
            /// An end from a file.
            ///
            /// # Errors
            /// `InvalidInput` if the file is no such end; those of the operating system.
            ///
            /// # Panics
            /// If there is no runtime, or it has no I/O.
            #[track_caller]
            pub fn from_file(file: File) -> io::Result<Self> {
                Ok(Self { io: Source::new(take(file, OFlags::$forbidden)?)? })
            }

            /// As [`from_file`](Self::from_file).
            ///
            /// # Errors
            /// As there.
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<Self> {
                Self::from_file(owned_fd.into())
            }

            /// As [`from_file`](Self::from_file), of any file that epoll supports.
            ///
            /// # Errors
            /// Those of the operating system.
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            pub fn from_file_unchecked(file: File) -> io::Result<Self> {
                Ok(Self { io: Source::new(take_unchecked(file)?)? })
            }

            /// As [`from_file_unchecked`](Self::from_file_unchecked).
            ///
            /// # Errors
            /// As there.
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<Self> {
                Self::from_file_unchecked(owned_fd.into())
            }

            /// Waits for any of it. A hint: the operation may still block.
            ///
            /// # Errors
            /// If the runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping it loses nothing.
            pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                self.io.ready(interest).await
            }

            /// The file, which blocks.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let file = self.io.into_inner();
                rustix::io::ioctl_fionbio(&file, false)?;
                Ok(file.into())
            }

            /// The file, which does not block.
            ///
            /// # Errors
            /// None at present.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                Ok(self.io.into_inner().into())
            }
        }

        fds!($name, io);
    };
}

end!(Sender, RDONLY);
end!(Receiver, WRONLY);

write_trait!(Sender, |this| this.io);
read_trait!(Receiver, |this| this.io, short: true);

impl Sender {
    try_writes!();
    poll_ready! {
        poll_write_ready: Write;
    }

    /// Waits for writes.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Calls `f` once, if the pipe is ready for writes as far as is known.
    ///
    /// # Errors
    /// Those of `f`; `WouldBlock` if it is not ready.
    pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.io.try_io(Interest::WRITABLE, |_| f())
    }
}

impl Receiver {
    try_reads!();
    poll_ready! {
        poll_read_ready: Read;
    }

    /// Waits for reads.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Calls `f` once, if the pipe is ready for reads as far as is known.
    ///
    /// # Errors
    /// Those of `f`; `WouldBlock` if it is not ready.
    pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.io.try_io(Interest::READABLE, |_| f())
    }
}
