//! Runs the example `checksum` next to the real `sha256sum` of the GNU coreutils.
#![cfg(target_os = "linux")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn sums_are_those_of_sha256sum() {
    let tree = odd_tree("sums");
    let paths = files_below(&tree, ".");
    let expected = output(sha256sum(&tree).args(&paths));
    for workers in ["1", "3"] {
        let sums = output(checksum(&tree).args(["--workers", workers]));
        assert_eq!(sums.status.code(), Some(0), "{sums:?}");
        assert_eq!(lossy(&sums.stdout), lossy(&expected.stdout));
        assert_eq!(sums.stdout, expected.stdout);
        assert!(passes_check(&tree, &sums.stdout));
    }
}

#[test]
fn paths_are_those_of_find() {
    let tree = odd_tree("paths");
    symlink("empty", tree.join("link")).unwrap();
    symlink("folder", tree.join("folder-link")).unwrap();
    let roots = ["folder//", "many", "./folder", "empty", "link", "folder-link", "empty"];
    let mut paths: Vec<OsString> = ["empty", "empty", "link"].map(OsString::from).into();
    for root in ["folder//", "many", "./folder", "folder-link"] {
        paths.extend(files_below(&tree, root));
    }
    paths.sort_unstable();
    let expected = output(sha256sum(&tree).args(paths));
    let sums = output(checksum(&tree).arg("--").args(roots));
    assert_eq!(lossy(&sums.stdout), lossy(&expected.stdout));
}

#[test]
fn errors_are_those_of_sha256sum() {
    let tree = odd_tree("errors");
    // As root neither program fails on this one; so there is also a file that every user can open
    // and none can read.
    fs::set_permissions(tree.join("empty"), Permissions::from_mode(0o000)).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    // (No name with an apostrophe that ends in an escape: sha256sum 9.1 adds a stray pair of
    // quotes to those.)
    let mut paths = ["empty", "/proc/self/mem", "dangling", "it's", "no: 'a$", "two\nlines", ""]
        .map(OsStr::new)
        .to_vec();
    paths.extend([OsStr::from_bytes(b"\xff\n"), OsStr::new("folder/big")]);
    let expected = output(sha256sum(&tree).args(&paths));
    let sums = output(checksum(&tree).args(&paths));
    assert_eq!(sums.status.code(), Some(1), "{sums:?}");
    assert_eq!(sorted_lines(&sums.stdout), sorted_lines(&expected.stdout));
    let (errors, _) = split_summary(&sums);
    let expected = lossy(&expected.stderr).replace("sha256sum: ", "checksum: ");
    assert_eq!(sorted_lines(errors.as_bytes()), sorted_lines(expected.as_bytes()));
}

#[test]
fn a_locked_folder_and_a_pipe_are_named() {
    let tree = odd_tree("locked");
    let locked = tree.join("folder/locked folder");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
    // Root can read it all the same.
    let mut expected = match fs::read_dir(&locked) {
        Ok(_) => String::new(),
        Err(_) => String::from("checksum: './folder/locked folder': Permission denied\n"),
    };
    let sums = output(checksum(&tree).args([".", "/dev/null"]));
    // The next run of the test must be able to read it.
    fs::set_permissions(&locked, Permissions::from_mode(0o700)).unwrap();
    expected.insert_str(0, "checksum: /dev/null: Not a regular file\n");
    assert_eq!(split_summary(&sums).0, expected);
    assert_eq!(sums.status.code(), Some(1), "{sums:?}");
    assert!(passes_check(&tree, &sums.stdout));
}

#[test]
fn the_summary_counts() {
    let tree = odd_tree("summary");
    let sums = output(checksum(&tree).args(["--workers=2", "folder/big", "many"]));
    let (errors, summary) = split_summary(&sums);
    assert_eq!(errors, "");
    let bytes = BIG + (0..MANY).sum::<usize>();
    let start = format!("checksum: {} files, {bytes} bytes, ", MANY + 1);
    assert!(summary.starts_with(&start), "{summary}");
    // Which of the workers took part is the system's affair: on a busy machine one alone does it.
    let fields = [" MB/s; worker ", " polls, ", " steals, ", " parks"];
    assert!(fields.iter().all(|field| summary.contains(field)), "{summary}");
}

#[test]
fn wrong_arguments_are_refused() {
    let here = Path::new(".");
    let huge = usize::MAX.to_string();
    for args in [
        &["--workers", "0"][..],
        &["--workers", "many"],
        &["--workers", &huge],
        &["--workers"],
        &["--wrong"],
        &["-"],
    ] {
        let refused = output(checksum(here).args(args));
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{args:?}: {refused:?}");
        assert!(refused.stderr.starts_with(b"checksum: "), "{args:?}: {refused:?}");
    }
    let help = output(checksum(here).arg("--help"));
    assert_eq!(help.status.code(), Some(0));
    assert!(help.stdout.starts_with(b"Usage: checksum "));
}

#[test]
fn a_closed_output_ends_it_quietly() {
    let tree = odd_tree("closed");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let ended = output(checksum(&tree).stdout(writer));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(lossy(&ended.stderr), "");
}

#[test]
fn a_full_output_is_reported() {
    let tree = odd_tree("full");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = output(checksum(&tree).stdout(full));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(lossy(&ended.stderr), "checksum: write error: No space left on device\n");
}

/// Several chunks of a task, the last one not full.
const BIG: usize = 1_000_003;
/// More files than the window of a few workers.
const MANY: usize = 100;

/// A new folder of this name, with files of odd names, sizes and kinds.
fn odd_tree(name: &str) -> PathBuf {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checksum-{name}"));
    match fs::remove_dir_all(&tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{tree:?}: {error}"),
        _ => {}
    }
    for folder in ["folder/below", "many", "empty folder"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    let write = |name: &[u8], content: &[u8]| {
        fs::write(tree.join(OsStr::from_bytes(name)), content).unwrap();
    };
    for name in [&b"new\nline"[..], b"carriage\rreturn", b"back\\slash", b"\xff\xfe", b"a  b", b"-"]
    {
        write(name, name);
    }
    write(b"empty", b"");
    // Both sort before the content of `folder` bytewise, but after it by component.
    write(b"folder-a", b"");
    write(b"folder.a", b"");
    write(b"folder/below/deep", b"deep");
    write(b"folder/big", &(0..BIG).map(|i| (i * i / 7) as u8).collect::<Vec<_>>());
    for size in 0..MANY {
        write(format!("many/{size}").as_bytes(), &vec![b'x'; size]);
    }
    symlink("folder", tree.join("a link to a folder")).unwrap();
    symlink("empty", tree.join("a link to a file")).unwrap();
    tree
}

/// Lists the files with `find`, and not with the program under test; sorted bytewise.
fn files_below(tree: &Path, root: &str) -> Vec<OsString> {
    let found =
        output(Command::new("find").args(["-H", root, "-type", "f", "-print0"]).current_dir(tree));
    let names = found.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| OsStr::from_bytes(name).to_owned()).collect();
    names.sort_unstable();
    names
}

/// `cargo test` builds the example next to the folder of this test, unless it is told to build less
/// (`--test checksum`).
fn checksum(folder: &Path) -> Command {
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/checksum");
    assert!(program.exists(), "{program:?} is missing: run `cargo build --examples` first");
    command(&program, folder)
}

fn sha256sum(folder: &Path) -> Command {
    command(Path::new("sha256sum"), folder)
}

/// The coreutils quote names by the locale, and translate errors.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn passes_check(tree: &Path, sums: &[u8]) -> bool {
    let mut check = sha256sum(tree);
    let mut check =
        check.args(["--check", "--quiet", "--strict"]).stdin(Stdio::piped()).spawn().unwrap();
    check.stdin.take().expect("it is piped").write_all(sums).unwrap();
    check.wait().unwrap().success()
}

/// The lines on standard error before the last one, and that one.
fn split_summary(output: &Output) -> (String, String) {
    let text = lossy(&output.stderr);
    let start = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
    (text[..start].to_owned(), text[start..].to_owned())
}

fn sorted_lines(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = lossy(text).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
