//! Files and folders, on threads that may block.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    path::{Path, PathBuf},
};

mod dir;
mod file;
mod open_options;

pub use std::fs::FileTimes;

pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::File,
    open_options::OpenOptions,
};
use crate::task::spawn_blocking;

/// Calls a closure on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match spawn_blocking(f).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("background task failed")),
    }
}

macro_rules! one_path {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of the operating system.
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$type> {
            let path = path.as_ref().to_owned();
            blocking(move || fs::$name(path)).await
        }
    )*};
}

one_path! {
    /// The absolute path, without symbolic links.
    canonicalize -> PathBuf;
    /// Makes a folder.
    create_dir -> ();
    /// Makes a folder and those above it.
    create_dir_all -> ();
    /// What is known of a file.
    metadata -> Metadata;
    /// What is known of a file, or of the symbolic link itself.
    symlink_metadata -> Metadata;
    /// All bytes of a file.
    read -> Vec<u8>;
    /// All text of a file.
    read_to_string -> String;
    /// Where a symbolic link leads.
    read_link -> PathBuf;
    /// Removes an empty folder.
    remove_dir -> ();
    /// Removes a folder and all in it.
    remove_dir_all -> ();
    /// Removes a file.
    remove_file -> ();
}

macro_rules! two_paths {
    ($($(#[$doc:meta])* $name:ident -> $type:ty = $f:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of the operating system.
        pub async fn $name(
            from: impl AsRef<Path>,
            to: impl AsRef<Path>,
        ) -> io::Result<$type> {
            let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
            blocking(move || $f(from, to)).await
        }
    )*};
}

two_paths! {
    /// Copies a file, with its permissions; returns the number of bytes.
    copy -> u64 = fs::copy;
    /// Gives a file another name as well.
    hard_link -> () = fs::hard_link;
    /// Gives a file another name.
    rename -> () = fs::rename;
    /// Makes a symbolic link `to`, which leads to `from`.
    symlink -> () = std::os::unix::fs::symlink;
}

/// Whether a file exists.
///
/// # Errors
/// If that cannot be found out.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    blocking(move || path.try_exists()).await
}

/// Sets a file's permissions.
///
/// # Errors
/// Those of the operating system.
pub async fn set_permissions(path: impl AsRef<Path>, perm: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    blocking(move || fs::set_permissions(path, perm)).await
}

/// Makes a file of these bytes, in place of one that exists.
///
/// # Errors
/// Those of the operating system.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_vec());
    blocking(move || fs::write(path, contents)).await
}
