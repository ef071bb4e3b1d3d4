//! Children that no task waits for; they are reaped all the same.

use std::{
    io,
    process::{self, ExitStatus},
    sync::{Mutex, PoisonError},
};

use crate::signal::SignalKind;

/// Children that still ran when there was no runtime to wait for them.
static ORPHANS: Mutex<Vec<process::Child>> = Mutex::new(Vec::new());

/// Reaps those that have ended.
pub(super) fn reap() {
    // A poisoned lock only means that a thread panicked; the list stays valid.
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// A child that becomes an orphan if it is dropped before its end was seen.
#[derive(Debug)]
pub(super) struct Orphan {
    /// `None` only in `drop`.
    child: Option<process::Child>,
    /// Its end was seen, or its status is lost: its number may be reused.
    ended: bool,
}

impl Orphan {
    pub(super) fn new(child: process::Child) -> Self {
        Self { child: Some(child), ended: false }
    }

    /// Reaps the child if it has ended. Keeps its status.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child().try_wait();
        self.ended |= !matches!(status, Ok(None));
        status
    }

    pub(super) fn is_running(&mut self) -> bool {
        !self.ended && matches!(self.try_wait(), Ok(None))
    }

    pub(super) fn signal(&mut self, signal: SignalKind) -> io::Result<()> {
        let Some(id) = self.id() else { return Ok(()) };
        // SAFETY: a child that has not been reaped keeps its number.
        if unsafe { libc::kill(id as libc::pid_t, signal.as_raw_value()) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // Other code has reaped it.
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            error => Err(error),
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().filter(|_| !self.ended).map(process::Child::id)
    }

    fn child(&mut self) -> &mut process::Child {
        match &mut self.child {
            Some(child) => child,
            None => unreachable!("an orphan is only without its child in `drop`"),
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if self.is_running() {
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.extend(self.child.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_left_alone_is_reaped_later() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (id, stdin) = (child.id(), child.stdin.take());
        drop(Orphan::new(child));
        let is_here = || std::path::Path::new(&format!("/proc/{id}")).exists();
        reap();
        assert!(is_here(), "it runs");
        drop(stdin);
        while is_here() {
            reap();
            std::thread::yield_now();
        }
    }
}
