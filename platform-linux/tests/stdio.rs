//! Standard input and output: whatever the files are, they do not block, and do not change for
//! other processes.
//!
//! A child copies its input to its error output, and first prints how it waits for both.

mod os_common;

use core::ptr::{null, null_mut};
use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Stdio},
    thread,
};

use filch_linux::stdio::{stderr, stdin, stdout};
use futures::io::{AsyncReadExt, AsyncWriteExt};
use os_common::{part, play, run, scratch, watchdog};
use rustix::fs::OFlags;

/// The child's part: it is one test of this program, and does nothing unless it is asked to.
#[test]
fn child() {
    if part().as_deref() != Some("copy") {
        return;
    }
    run(1, async {
        let (mut input, mut errors) = (stdin().unwrap(), stderr().unwrap());
        errors.write_all(format!("{input:?} {errors:?}\n").as_bytes()).await.unwrap();
        let mut buf = [0; 10_000];
        loop {
            match input.read(&mut buf).await.unwrap() {
                0 => break,
                n => errors.write_all(&buf[..n]).await.unwrap(),
            }
        }
    });
}

fn copy(stdin: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Child {
    play("child", "copy").stdin(stdin).stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
}

/// A pipe that no other test's child inherits.
fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

fn is_blocking(file: impl AsFd) -> bool {
    !rustix::fs::fcntl_getfl(file).unwrap().contains(OFlags::NONBLOCK)
}

/// The first line, and the rest.
fn split(said: &[u8]) -> (&str, &[u8]) {
    let end = said.iter().position(|byte| *byte == b'\n').unwrap();
    (core::str::from_utf8(&said[..end]).unwrap(), &said[end + 1..])
}

fn data() -> Vec<u8> {
    (0..500_000_u32).map(|n| (n / 3) as u8).collect()
}

#[test]
fn pipes() {
    let _watchdog = watchdog();
    let (theirs_in, ours_in) = pipe();
    let (ours_err, theirs_err) = pipe();
    let shared: [OwnedFd; 2] = [theirs_in.try_clone().unwrap(), theirs_err.try_clone().unwrap()];
    let mut child = copy(theirs_in, theirs_err);
    let mut errors = BufReader::new(File::from(ours_err));
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "Stdin(Reopened) Stderr(Reopened)\n");
    let mut ours_in = File::from(ours_in);
    ours_in.write_all(b"x").unwrap();
    assert_eq!(errors.read(&mut [0; 8]).unwrap(), 1);
    // It waits for more, and the pipes are unchanged for the other processes that share them.
    assert!(shared.iter().all(is_blocking));
    drop(shared);
    let writing = thread::spawn(move || ours_in.write_all(&data()).unwrap());
    let mut all = Vec::new();
    errors.read_to_end(&mut all).unwrap();
    assert!(all == data());
    writing.join().unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn sockets() {
    let _watchdog = watchdog();
    // The same socket for both, as from a super-server.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let shared = theirs.try_clone().unwrap();
    let mut child = copy(OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let mut errors = BufReader::new(ours.try_clone().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "Stdin(Socket) Stderr(Socket)\n");
    assert!(is_blocking(&shared));
    drop(shared);
    let writing = thread::spawn(move || {
        ours.write_all(&data()).unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
    });
    let mut all = Vec::new();
    errors.read_to_end(&mut all).unwrap();
    assert!(all == data());
    writing.join().unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn files() {
    let _watchdog = watchdog();
    let scratch = scratch("stdio_files");
    let (input, output) = (scratch.0.join("input"), scratch.0.join("output"));
    std::fs::write(&input, data()).unwrap();
    // Both begin where the file is.
    let mut from = File::open(&input).unwrap();
    from.seek(std::io::SeekFrom::Start(100)).unwrap();
    let mut to = File::create(&output).unwrap();
    to.write_all(b"before\n").unwrap();
    let mut child = copy(from, to.try_clone().unwrap());
    assert!(child.wait().unwrap().success());
    to.write_all(b"after").unwrap();
    let all = std::fs::read(&output).unwrap();
    let all = all.strip_prefix(b"before\n").unwrap().strip_suffix(b"after").unwrap();
    let (line, rest) = split(all);
    assert_eq!(line, "Stdin(Pool) Stderr(Pool)");
    assert!(rest == &data()[100..]);
}

#[test]
fn nothing_at_all() {
    let _watchdog = watchdog();
    let child = copy(Stdio::null(), Stdio::piped());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(split(&output.stderr), ("Stdin(Pool) Stderr(Reopened)", &b""[..]));
}

/// Both sides of a new terminal: the keyboard's, and the program's.
fn terminal() -> (File, File) {
    let (mut keyboard, mut program) = (-1, -1);
    let (name, settings, size) = (null_mut(), null(), null());
    // SAFETY: two places on this stack; no name, no settings.
    let result =
        unsafe { libc::openpty(&raw mut keyboard, &raw mut program, name, settings, size) };
    assert_eq!(result, 0);
    // SAFETY: new, with no other owner.
    unsafe {
        use std::os::fd::FromRawFd as _;
        (File::from_raw_fd(keyboard), File::from_raw_fd(program))
    }
}

#[test]
fn terminals() {
    let _watchdog = watchdog();
    let (mut keyboard, program) = terminal();
    let mut child = copy(program.try_clone().unwrap(), Stdio::piped());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "Stdin(Reopened) Stderr(Reopened)\n");
    for text in ["a line\n", "another\n", "two\nat once\n"] {
        keyboard.write_all(text.as_bytes()).unwrap();
        for expected in text.split_inclusive('\n') {
            line.clear();
            errors.read_line(&mut line).unwrap();
            assert_eq!(line, expected);
        }
        assert!(is_blocking(&program), "the shell's too");
    }
    // Ctrl-D.
    keyboard.write_all(&[4]).unwrap();
    assert!(child.wait().unwrap().success());

    // The master is not opened anew: that would be another terminal.
    let mut child = copy(keyboard.try_clone().unwrap(), Stdio::piped());
    (&program).write_all(b"typed\n").unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "Stdin(Pool) Stderr(Reopened)\n");
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "a line", "the echo of what was typed first");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_traits_of_futures_and_standard_output() {
    const TEST: &str = "the_traits_of_futures_and_standard_output";
    let _watchdog = watchdog();
    if part().as_deref() == Some("traits") {
        return run(2, async {
            let (mut input, mut output) = (stdin().unwrap(), stdout().unwrap());
            let mut text = String::new();
            input.read_to_string(&mut text).await.unwrap();
            AsyncWriteExt::write_all(&mut output, text.as_bytes()).await.unwrap();
            AsyncWriteExt::close(&mut output).await.unwrap();
        });
    }
    for (input, through_file) in
        [("one\ntwo\n".repeat(50_000), false), ("three\n".repeat(50_000), true)]
    {
        let scratch = scratch("stdio_traits");
        let path = scratch.0.join("output");
        let stdout =
            if through_file { File::create(&path).unwrap().into() } else { Stdio::piped() };
        let mut child = play(TEST, "traits").stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let given = input.clone();
        let writing = thread::spawn(move || stdin.write_all(given.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.status.success());
        let said = if through_file { std::fs::read(&path).unwrap() } else { output.stdout };
        // The test program itself writes there too.
        assert!(String::from_utf8(said).unwrap().contains(&input));
    }
}

#[test]
fn outside_a_runtime_there_is_an_error() {
    for error in [stdin().unwrap_err(), stdout().unwrap_err(), stderr().unwrap_err()] {
        assert!(error.to_string().contains("runtime"), "{error}");
    }
}
