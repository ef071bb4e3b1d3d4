//! Child processes.
//!
//! ```
//! use filch_linux::process::Command;
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! A child's end is an event of its pidfd, which epoll watches: no signal is needed. A program may
//! handle `SIGCHLD` in any way, except to ignore it: the system then discards exit statuses. On
//! systems without pidfds (before Linux 5.3) a thread waits for each child that is waited for.
//!
//! Children start with the default action for `SIGPIPE` and for all signals that this process
//! handles. As in the standard library they inherit the signals that the spawning thread blocks;
//! this crate blocks no signal in any thread.

mod child;
mod command;
mod exit;
mod orphans;

use filch_std::Handle;

pub use self::{child::Child, command::Command};

/// Takes a child of the standard library that nothing waits for: a task of the current runtime waits for its end, so that it does not stay
/// as a zombie. Without a runtime, or if that ends first, the child is reaped by a later call of this or a later spawn.
///
/// ```
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// let child = std::process::Command::new("true").spawn()?;
/// filch_linux::process::adopt(child); // it leaves no zombie
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub fn adopt(child: std::process::Child) {
    match Handle::current() {
        Ok(here) => adopt_on(&here, child),
        Err(_) => {
            orphans::reap();
            drop(orphans::Orphan::new(child));
        }
    }
}

/// As [`adopt`], of that runtime.
///
/// ```
/// let runtime = filch_linux::Builder::new().workers(1).build()?;
/// let child = std::process::Command::new("true").spawn()?;
/// filch_linux::process::adopt_on(runtime.handle(), child);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn adopt_on(handle: &Handle, child: std::process::Child) {
    orphans::reap();
    child::Running::new(child, *handle).leave_to(handle);
}
