//! The sources that tests read.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The Rust files in a folder of the repository and below it: their paths from there, and their text.
pub(crate) fn sources(of: &str) -> Vec<(PathBuf, String)> {
    let found = files(of, "rs");
    assert!(!found.is_empty());
    found
}

/// The files with that extension.
pub(crate) fn files(of: &str, extension: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of);
    let mut found = Vec::new();
    walk(&root, extension, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    found.into_iter().map(read).collect()
}
