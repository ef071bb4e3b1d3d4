//! How a file is opened.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path};

use super::{File, blocking};

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions(fs::OpenOptions);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, value: $type) -> &mut Self {
            self.0.$name(value);
            self
        }
    )*};
}

impl OpenOptions {
    /// The defaults: for nothing.
    pub fn new() -> Self {
        Self(fs::OpenOptions::new())
    }

    flags! {
        /// Whether the file is read.
        read: bool;
        /// Whether the file is written.
        write: bool;
        /// Whether each write is at the end.
        append: bool;
        /// Whether the file is emptied.
        truncate: bool;
        /// Whether the file is made if there is none.
        create: bool;
        /// Whether the file is made, and must not exist.
        create_new: bool;
        /// The permissions of a file that is made.
        mode: u32;
        /// Further flags of the operating system.
        custom_flags: i32;
    }

    /// Opens the file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.0.clone(), path.as_ref().to_owned());
        blocking(move || options.open(path)).await.map(File::from_std)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<fs::OpenOptions> for OpenOptions {
    fn from(options: fs::OpenOptions) -> Self {
        Self(options)
    }
}
