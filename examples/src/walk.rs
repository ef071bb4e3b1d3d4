//! The search for files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files in one place, unordered. Links and special files are left out.
#[derive(Debug, Default)]
pub struct Found {
    /// Regular files.
    pub files: Vec<OsString>,
    /// Folders, to be listed next.
    pub folders: Vec<PathBuf>,
    /// Entries that could not be read, and why.
    pub errors: Vec<(OsString, io::Error)>,
}

/// Classifies the paths on the command line. Links are followed, as with `find -H`.
pub fn roots(paths: Vec<OsString>) -> Found {
    let mut found = Found::default();
    for path in paths {
        match fs::metadata(&path) {
            Ok(kind) if kind.is_dir() => found.folders.push(PathBuf::from(path)),
            Ok(kind) if kind.is_file() => found.files.push(path),
            // A pipe might never end, so it is refused; with an error, as it was named explicitly.
            Ok(_) => found.errors.push((path, io::Error::other("Not a regular file"))),
            Err(error) => found.errors.push((path, error)),
        }
    }
    found
}

/// Lists a folder. Links are not followed.
pub fn list(folder: PathBuf) -> Found {
    let mut found = Found::default();
    if let Err(error) = list_into(&folder, &mut found) {
        found.errors.push((folder.into_os_string(), error));
    }
    found
}

fn list_into(folder: &Path, found: &mut Found) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.folders.push(entry.path()),
            Ok(kind) if kind.is_file() => found.files.push(entry.path().into_os_string()),
            Ok(_) => {}
            Err(error) => found.errors.push((entry.path().into_os_string(), error)),
        }
    }
    Ok(())
}

/// Sorts paths by their bytes. Type `Path` would compare them by component.
pub fn sort(paths: &mut [OsString]) {
    paths.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
}
