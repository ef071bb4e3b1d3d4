//! The program `filch-trace`.
#![cfg(feature = "cli")]

mod scene;

use core::fmt::Write as _;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_filch-trace"))
}

fn run(args: &[&str]) -> Output {
    program().args(args).output().unwrap()
}

fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut command = program();
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.args(args).spawn().unwrap();
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An empty folder of this test.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_file_is_told_of_and_exported() {
    let _watchdog = filch_test_support::watchdog();
    let (folder, bytes) = (folder(), scene::record());
    let file = folder.join("a.trace");
    fs::write(&file, &bytes).unwrap();
    let path = file.to_str().unwrap();

    let summary = run(&["summary", path]);
    assert!(summary.status.success() && text(&summary.stdout).contains("planted"));
    assert_eq!(with_input(&["summary", "-"], &bytes).stdout, summary.stdout);
    let log: String = bytes.chunks(24).fold(String::new(), |mut log, piece| {
        log += "[    1.5] filch-trace: ";
        piece.iter().for_each(|byte| write!(log, "{byte:02x}").unwrap());
        log + "\r\n[    1.6] something else\r\n"
    });
    assert_eq!(with_input(&["--serial", "summary", "-"], log.as_bytes()).stdout, summary.stdout);

    for (what, extension) in [("chrome", "json"), ("perfetto", "perfetto-trace")] {
        let done = run(&[what, path]);
        assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
        let written = fs::read(file.with_extension(extension)).unwrap();
        assert!(written.len() > 1_000);
        assert_eq!(with_input(&[what, "-"], &bytes).stdout, written);
        let other = folder.join("other");
        assert!(run(&[what, path, "-o", other.to_str().unwrap()]).status.success());
        assert_eq!(fs::read(other).unwrap(), written);
    }
}

#[test]
fn mistakes_are_explained() {
    let _watchdog = filch_test_support::watchdog();
    let wrong: [&[&str]; 6] = [
        &[],
        &["summary"],
        &["draw", "x"],
        &["summary", "a", "b"],
        &["-x"],
        &["chrome", "a", "-o"],
    ];
    for args in wrong {
        let done = run(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        assert!(text(&done.stderr).ends_with("\nTry: filch-trace --help\n"), "{args:?}");
    }
    let missing = run(&["summary", "no such file"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("filch-trace: no such file: "));
    let empty = with_input(&["summary", "-"], b"nothing");
    assert_eq!(empty.status.code(), Some(1));
    assert_eq!(text(&empty.stderr), "filch-trace: -: there is no trace in these bytes\n");
    let help = run(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("--serial"));
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_is_no_failure() {
    let _watchdog = filch_test_support::watchdog();
    let mut command = program();
    let mut child = command.arg("--help").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
