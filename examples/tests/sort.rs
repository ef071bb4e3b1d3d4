//! Runs the example `sort` next to the real `sort` of the GNU coreutils.
#![cfg(target_os = "linux")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sort").join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

/// The example, built beside this test.
fn example() -> Command {
    let mut path = env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push("sort");
    Command::new(path)
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn assert_same(files: &[&Path]) {
    let expected = output(Command::new("sort").env("LC_ALL", "C").args(files));
    assert!(expected.status.success());
    for workers in ["1", "2", "4"] {
        let sorted = output(example().args(["--workers", workers]).args(files));
        assert_eq!(sorted.status.code(), Some(0), "{}", String::from_utf8_lossy(&sorted.stderr));
        assert!(sorted.stdout == expected.stdout, "{files:?} with {workers} workers differ");
    }
}

/// Reproducible bytes that look random.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed;
    core::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

#[test]
fn a_large_file_of_random_lines_is_sorted() {
    let path = folder("large").join("lines");
    // About 40 bytes a line, of all values.
    let text: Vec<u8> =
        noise(7).map(|byte| if byte < 6 { b'\n' } else { byte }).take(4_000_000).collect();
    fs::write(&path, text).unwrap();
    assert_same(&[&path]);
}

#[test]
fn the_sources_of_this_workspace_are_sorted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["core/src/queue", "core/src/task", "core/src/scheduler", "platform-std/src"];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(files.len() > 20);
    assert_same(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>());
}

#[test]
fn odd_files_are_sorted() {
    let folder = folder("odd");
    let cases: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("one", b"\n"),
        ("unended", b"b\na"),
        ("zeros", b"a\0\na\na\0\0\n\0\n"),
        ("prefixes", b"abcdefgh\nabcdefg\nabcdefghi\nabcdefgh\0\n"),
        ("high", b"\xff\n\x80\n\x7f\n"),
        ("same", b"x\nx\nx\n"),
    ];
    for (name, text) in cases {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        assert_same(&[&path]);
    }
    assert_same(&[&folder.join("unended"), &folder.join("zeros"), &folder.join("empty")]);
}

#[test]
fn what_cannot_be_read_is_said() {
    let missing = output(example().arg("/nowhere/at/all"));
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/at/all"));
    assert!(missing.stdout.is_empty());
    let unknown = output(example().arg("--colour"));
    assert_eq!(unknown.status.code(), Some(2));
}
