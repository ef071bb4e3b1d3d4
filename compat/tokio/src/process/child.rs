//! A child process.

use core::fmt;
use std::{
    io,
    os::fd::OwnedFd,
    process::{self, ExitStatus, Output},
};

use futures_util::future::try_join3;
use real::io::AsyncReadExt;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::{
    io::{AsyncRead, Interest, source::Source},
    runtime::{Handle, is_rt_shutdown_err},
    task::{coop, spawn_blocking},
};

/// A child process. If it is dropped, the child goes on, unless [`Command`](super::Command) says otherwise.
#[derive(Debug)]
pub struct Child {
    state: State,
    /// The child's standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
}

enum State {
    Running(Running),
    Done(ExitStatus),
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(running) => f.debug_tuple("Running").field(&running.child).finish(),
            Self::Done(status) => f.debug_tuple("Done").field(status).finish(),
        }
    }
}

/// A child whose end was not seen.
struct Running {
    /// Only `drop` takes it.
    child: Option<process::Child>,
    /// Readable once the child has ended; `None`: the system has no such files, or has none left.
    exit: Option<Source<OwnedFd>>,
    /// The runtime that waits for the child after the drop.
    handle: Handle,
    kill_on_drop: bool,
    reaped: bool,
}

pub(crate) fn spawned(
    handle: Handle,
    mut child: process::Child,
    kill_on_drop: bool,
) -> io::Result<Child> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let exit = pidfd(&child).and_then(Source::new).ok();
    // An error from here on drops the child before the caller has it: it is killed.
    let mut running =
        Running { child: Some(child), exit, handle, kill_on_drop: true, reaped: false };
    let stdin = stdin.map(ChildStdin::from_std).transpose()?;
    let stdout = stdout.map(ChildStdout::from_std).transpose()?;
    let stderr = stderr.map(ChildStderr::from_std).transpose()?;
    running.kill_on_drop = kill_on_drop;
    Ok(Child { state: State::Running(running), stdin, stdout, stderr })
}

fn pidfd(child: &process::Child) -> io::Result<OwnedFd> {
    let pid = pid(child)?;
    // Before Linux 5.10 the flag is unknown; nothing ever reads from the file.
    let opened = pidfd_open(pid, PidfdFlags::NONBLOCK);
    Ok(opened.or_else(|_| pidfd_open(pid, PidfdFlags::empty()))?)
}

fn pid(child: &process::Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the system gave a process id of zero"))
}

impl Running {
    fn child(&mut self) -> &mut process::Child {
        match &mut self.child {
            Some(child) => child,
            None => unreachable!("only `drop` takes it"),
        }
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child().try_wait();
        self.reaped |= !matches!(status, Ok(None));
        status
    }

    /// The runtime that has spawned the child has ended: from now on that of the caller waits for it.
    fn move_here(&mut self) -> io::Result<()> {
        let exit = self.exit.take().map(Source::into_inner);
        self.exit = exit.map(Source::new).transpose()?;
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match &self.exit {
                Some(exit) => match exit.ready(Interest::READABLE).await {
                    Err(error) if is_rt_shutdown_err(&error) => self.move_here()?,
                    ended => drop(ended?),
                },
                None => {
                    let pid = pid(self.child())?;
                    spawn_blocking(move || {
                        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options)).map(drop)
                    })
                    .await??;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        if self.kill_on_drop {
            // It may have ended already.
            let _ = self.child().kill();
        }
        let Some(child) = self.child.take() else { return };
        // If its runtime has ended, the one that the thread is in waits for it.
        if self.handle.inner.is_closed() {
            if let Ok(here) = Handle::try_current() {
                self.handle = here;
            }
        }
        filch_linux::process::adopt_on(self.handle.filch(), child);
    }
}

impl Child {
    /// The child's number, until its end was seen.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Running(running) => running.child.as_ref().map(process::Child::id),
            State::Done(_) => None,
        }
    }

    /// Sends `SIGKILL`, and does not wait. Does nothing if the child's end was seen.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Running(running) => {
                running.child().kill()?;
                running.kill_on_drop = false;
                Ok(())
            }
            State::Done(_) => Ok(()),
        }
    }

    /// Sends `SIGKILL`, and waits for the end.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn kill(&mut self) -> io::Result<()> {
        coop::consume_budget().await;
        // It may have ended meanwhile.
        if let Err(error) = self.start_kill() {
            if self.try_wait()?.is_none() {
                return Err(error);
            }
        }
        self.wait().await.map(drop)
    }

    /// Closes the child's standard input, and waits for its end.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        // Its end may be known.
        coop::consume_budget().await;
        match &mut self.state {
            State::Done(status) => Ok(*status),
            State::Running(running) => {
                let status = running.wait().await?;
                self.state = State::Done(status);
                Ok(status)
            }
        }
    }

    /// The child's status, if it has ended.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.state {
            State::Done(status) => Ok(Some(*status)),
            State::Running(running) => {
                let status = running.try_wait()?;
                if let Some(status) = status {
                    self.state = State::Done(status);
                }
                Ok(status)
            }
        }
    }

    /// Waits for the child's end and all that it writes.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        let (mut out, mut err) = (self.stdout.take(), self.stderr.take());
        let (status, stdout, stderr) =
            try_join3(self.wait(), read_to_end(&mut out), read_to_end(&mut err)).await?;
        // Only now, so that the child does not see its pipes closed early.
        drop((out, err));
        Ok(Output { status, stdout, stderr })
    }
}

async fn read_to_end<A: AsyncRead + Unpin>(io: &mut Option<A>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(io) = io {
        io.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
