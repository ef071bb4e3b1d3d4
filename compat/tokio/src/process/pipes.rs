//! The pipes to a child process.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    process::{self, Stdio},
};

use crate::{
    io::source::Source,
    net::macros::{fds, read_trait, write_trait},
};

macro_rules! pipe {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            io: Source<File>,
        }

        impl $name {
            /// A pipe of the standard library, which does not block afterwards.
            ///
            /// # Errors
            /// Those of the operating system.
            ///
            /// # Panics
            /// If there is no runtime, or it has no I/O.
            #[track_caller]
            pub fn from_std(inner: process::$name) -> io::Result<Self> {
                let file = File::from(OwnedFd::from(inner));
                rustix::io::ioctl_fionbio(&file, true)?;
                Ok(Self { io: Source::new(file)? })
            }

            /// The file, which blocks.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let file = self.io.into_inner();
                rustix::io::ioctl_fionbio(&file, false)?;
                Ok(file.into())
            }
        }

        fds!($name, io);

        impl TryFrom<$name> for Stdio {
            type Error = io::Error;

            fn try_from(pipe: $name) -> io::Result<Self> {
                pipe.into_owned_fd().map(Self::from)
            }
        }
    };
}

pipe! {
    /// The pipe to a child's standard input.
    ChildStdin
}
pipe! {
    /// The pipe from a child's standard output.
    ChildStdout
}
pipe! {
    /// The pipe from a child's standard error.
    ChildStderr
}

write_trait!(ChildStdin, |this| this.io);
read_trait!(ChildStdout, |this| this.io, short: true);
read_trait!(ChildStderr, |this| this.io, short: true);
