//! What the tests of files, signals and processes share.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

#[path = "../common/mod.rs"]
mod all;

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};
use std::{
    env,
    process::{self, Stdio},
    thread,
};

pub(crate) use all::{rng, run, watchdog};

/// Polls once.
pub(crate) async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Names the part that a child process plays.
const PART: &str = "FILCH_TEST_PART";

/// This test program again, to play a part: the same test is to ask for it by [`part`].
pub(crate) fn play(test: &str, part: &str) -> process::Command {
    let mut program = process::Command::new(env::current_exe().unwrap());
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(PART, part);
    program
}

/// The part that this process plays, if it is a child.
pub(crate) fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Runs the body of a test in a process of its own, since it changes what belongs to a whole process.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if part().is_some() {
        let _watchdog = watchdog();
        return body();
    }
    let status = play(test, "alone").stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
}

/// A directory of its own for a test, gone when this is dropped.
pub(crate) struct Scratch(pub(crate) std::path::PathBuf);

pub(crate) fn scratch(test: &str) -> Scratch {
    let path = env::temp_dir().join(format!("filch-{}-{test}", process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Scratch(path)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until the condition holds, giving way; the watchdog is the limit.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        filch_linux::yield_now().await;
        thread::yield_now();
    }
}
