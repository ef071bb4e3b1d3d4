//! The search for files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The regular files below `paths`, as `find -H PATH... -type f` prints them, sorted bytewise.
/// What cannot be looked at goes to `report`, and the rest is done.
///
/// The list is held in memory, because nothing can be said about the first path before the last
/// one is known. It is the only part of the program that grows with the number of files.
pub fn regular_files(
    paths: Vec<OsString>,
    mut report: impl FnMut(&OsStr, &io::Error),
) -> Vec<OsString> {
    let mut files = Vec::new();
    // A stack in memory, and not one of calls, stands a tree of any depth.
    let mut folders = Vec::new();
    for path in paths {
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => folders.push(PathBuf::from(path)),
            Ok(found) if found.is_file() => files.push(path),
            // A pipe might never end, so it is refused; but not in silence, as it was asked for.
            Ok(_) => report(&path, &io::Error::other("Not a regular file")),
            Err(error) => report(&path, &error),
        }
    }
    while let Some(folder) = folders.pop() {
        let listed = list_folder(&folder, &mut files, &mut folders, &mut report);
        if let Err(error) = listed {
            report(folder.as_os_str(), &error);
        }
    }
    // Paths of type `Path` would compare by component.
    files.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
    files
}

/// Symbolic links and special files are left out.
fn list_folder(
    folder: &Path,
    files: &mut Vec<OsString>,
    folders: &mut Vec<PathBuf>,
    report: &mut impl FnMut(&OsStr, &io::Error),
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(entry.path()),
            Ok(kind) if kind.is_file() => files.push(entry.path().into_os_string()),
            Ok(_) => {}
            Err(error) => report(entry.path().as_os_str(), &error),
        }
    }
    Ok(())
}
