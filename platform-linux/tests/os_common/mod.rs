//! What the tests of files, signals and processes share.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

#[path = "../common/mod.rs"]
mod all;

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};
use std::{env, process, thread};

pub(crate) use all::{pair, rng, run, watchdog};
pub(crate) use filch_test_support::{alone, part, play};

/// Polls once.
pub(crate) async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A directory for one test, removed when this is dropped.
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

/// Waits until the condition holds, and yields meanwhile; the watchdog limits the time.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        filch_linux::task::yield_now().await;
        thread::yield_now();
    }
}
