//! Operations on paths, each in one call of a thread of the pool.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    path::{Path, PathBuf},
};

use filch_std::internal::Threads;

use super::{
    handle,
    operation::{on_thread, opening},
};

/// One function for each of the standard library's that takes a path.
macro_rules! of_one_path {
    ($($(#[$doc:meta])* $name:ident -> $out:ty, $dropped:literal;)*) => {
        $(
            $(#[$doc])*
            #[doc = concat!(": [`std::fs::", stringify!($name), "`], on a thread.")]
            ///
            /// # Errors
            /// Those of the operating system; outside of a runtime of this crate, or if it has ended.
            ///
            /// # Cancel safety
            #[doc = $dropped]
            pub async fn $name(path: impl AsRef<Path>) -> io::Result<$out> {
                let path = path.as_ref().to_owned();
                on_thread(handle()?, Threads::Pool, move || fs::$name(path)).await?
            }
        )*
    };
}

of_one_path! {
    /// What the file system knows of a file
    metadata -> Metadata, "Dropping it loses nothing.";
    /// As [`metadata`]; a symbolic link is not followed
    symlink_metadata -> Metadata, "Dropping it loses nothing.";
    /// The path without symbolic links, `.` and `..`
    canonicalize -> PathBuf, "Dropping it loses nothing.";
    /// Where a symbolic link leads
    read_link -> PathBuf, "Dropping it loses nothing.";
    /// Creates a folder
    create_dir -> (), "If it is dropped, it may happen or not.";
    /// Creates a folder, and those that it is in
    create_dir_all -> (), "If it is dropped, it may happen or not.";
    /// Removes a file
    remove_file -> (), "If it is dropped, it may happen or not.";
    /// Removes an empty folder
    remove_dir -> (), "If it is dropped, it may happen or not.";
    /// Removes a folder and all that is in it
    remove_dir_all -> (), "If it is dropped, all, nothing, or a part of it happens.";
}

macro_rules! of_two_paths {
    ($($(#[$doc:meta])* $name:ident = $std:path as $link:literal, -> $out:ty, $dropped:literal;)*) => {
        $(
            $(#[$doc])*
            #[doc = concat!(": [`", $link, "`], on a thread.")]
            ///
            /// # Errors
            /// Those of the operating system; outside of a runtime of this crate, or if it has ended.
            ///
            /// # Cancel safety
            #[doc = $dropped]
            pub async fn $name(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<$out> {
                let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
                on_thread(handle()?, Threads::Pool, move || $std(from, to)).await?
            }
        )*
    };
}

of_two_paths! {
    /// Gives a file another name, and replaces the file that has it
    rename = fs::rename as "std::fs::rename", -> (), "If it is dropped, it may happen or not.";
    /// Gives a file one more name
    hard_link = fs::hard_link as "std::fs::hard_link", -> (), "If it is dropped, it may happen or not.";
    /// Creates a symbolic link, the second path, that leads to the first
    symlink = std::os::unix::fs::symlink as "std::os::unix::fs::symlink", -> (), "If it is dropped, it may happen or not.";
}

/// Sets a file's permissions: [`std::fs::set_permissions`], on a thread.
///
/// # Errors
/// Those of the operating system; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// If it is dropped, it may happen or not.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    on_thread(handle()?, Threads::Pool, move || fs::set_permissions(path, permissions)).await?
}

/// Whether there is such a file; a symbolic link is followed: [`Path::try_exists`], on a thread.
///
/// # Errors
/// Those of the operating system, where it cannot be known; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// Dropping it loses nothing.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    on_thread(handle()?, Threads::Pool, move || path.try_exists()).await?
}

/// Writes a file, which is created, or emptied first: [`std::fs::write`], on a thread. The bytes travel with the call: a `Vec` or
/// a `String` without a copy.
///
/// # Errors
/// Those of the operating system; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// If it is dropped, it goes on to its end, or does not begin.
pub async fn write(
    path: impl AsRef<Path>,
    contents: impl AsRef<[u8]> + Send + 'static,
) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    opening(handle()?, [path.clone()], move || fs::write(path, contents)).await?
}

/// Copies a file and its permissions; returns the number of bytes: [`std::fs::copy`], on a thread.
///
/// # Errors
/// Those of the operating system; outside of a runtime of this crate, or if it has ended.
///
/// # Cancel safety
/// If it is dropped, it goes on to its end, or does not begin.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    opening(handle()?, [from.clone(), to.clone()], move || fs::copy(from, to)).await?
}
