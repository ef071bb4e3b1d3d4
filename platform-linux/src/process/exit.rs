//! How the end of a child is detected.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    process::ExitStatus,
};

use filch_std::{Handle, JoinHandle, TaskOptions, internal::Threads, task::consume_budget};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};

use super::orphans::Orphan;
use crate::Async;

/// The source of a child's end. It does not reap the child.
pub(super) enum Exit {
    /// Readable when the child has ended.
    Pidfd(Async<OwnedFd>),
    /// A thread waits, from the first call of `wait` on.
    Thread(Handle, Option<JoinHandle<()>>),
}

impl Exit {
    /// For a child that has not been reaped.
    pub(super) fn watch(id: u32, handle: Handle) -> Self {
        // If anything fails (an old kernel, a filter of system calls, no more descriptors), a
        // thread is used.
        match Self::pidfd(id, &handle) {
            Ok(pidfd) => Self::Pidfd(pidfd),
            Err(_) => Self::Thread(handle, None),
        }
    }

    fn pidfd(id: u32, handle: &Handle) -> io::Result<Async<OwnedFd>> {
        let pidfd = rustix::process::pidfd_open(pid(id)?, PidfdFlags::empty())?;
        // Nothing ever reads from it.
        Async::register_on(handle, pidfd, true)
    }

    /// Waits for the end of the child.
    pub(super) async fn wait(&mut self, child: &mut Orphan) -> io::Result<ExitStatus> {
        loop {
            match self {
                Self::Pidfd(pidfd) => {
                    let ended =
                        |_: &OwnedFd| child.try_wait()?.ok_or_else(|| ErrorKind::WouldBlock.into());
                    return pidfd.read_with(ended).await;
                }
                Self::Thread(handle, waiting) => {
                    consume_budget().await;
                    if let Some(status) = child.try_wait()? {
                        return Ok(status);
                    }
                    let id = child.id().ok_or(ErrorKind::NotFound)?;
                    if waiting.is_none() {
                        let wait = move || wait_blocking(id);
                        let begun = handle.spawn_on(Threads::Waiting, TaskOptions::new(), wait);
                        *waiting = Some(begun.map_err(|refused| io::Error::other(refused.kind))?);
                    }
                    if let Some(thread) = waiting {
                        let result = thread.await;
                        *waiting = None;
                        result.map_err(io::Error::other)?;
                    }
                }
            }
        }
    }
}

/// Blocks until the child has ended, and leaves it to be reaped by the owner of its handle. If that
/// happens first, in `drop`, there is no such child any more, which ends this call too.
fn wait_blocking(id: u32) {
    let Ok(pid) = pid(id) else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let wait = || rustix::process::waitid(WaitId::Pid(pid), options);
    // The error has no receiver here: a caller that asks for the status gets it too.
    let _ = rustix::io::retry_on_intr(wait);
}

fn pid(id: u32) -> io::Result<Pid> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the system gave a process id of zero"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_thread_waits_where_there_are_no_pidfds() {
        let runtime = crate::Builder::new().workers(2).build().unwrap();
        let handle = *runtime.handle();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let mut exit = Exit::Thread(handle, None);
        let mut child = Orphan::new(child);
        let status = runtime.block_on(async {
            {
                // If it is dropped while the thread waits, the next call goes on with the same
                // thread.
                let mut wait = core::pin::pin!(exit.wait(&mut child));
                let first = core::future::poll_fn(|cx| {
                    core::task::Poll::Ready(
                        core::future::Future::poll(wait.as_mut(), cx).is_ready(),
                    )
                });
                assert!(!first.await);
            }
            drop(stdin);
            exit.wait(&mut child).await
        });
        assert!(status.unwrap().success());
        assert_eq!(child.id(), None);
    }
}
