//! A child process.

use core::fmt;
use std::{
    io,
    process::{self, ExitStatus, Output},
};

use filch_std::Handle;
use futures_util::future::try_join;

use super::{exit::Exit, orphans};
use crate::{
    pipe::{Receiver, Sender},
    signal::SignalKind,
};

/// A child process: [`Command::spawn`](super::Command::spawn).
///
/// Dropping it closes its streams. A child that still runs then lives on, or is killed if
/// [`kill_on_drop`](super::Command::kill_on_drop) was set; in both cases a task of the runtime
/// waits for its end, so that it does not stay as a zombie. If the runtime ends first, the child is
/// reaped when the next child is started or dropped, at the latest when this process ends.
pub struct Child {
    /// Where to write its input, if that is piped. [`wait`](Self::wait) closes it.
    pub stdin: Option<Sender>,
    /// Where to read its output, if that is piped.
    pub stdout: Option<Receiver>,
    /// Where to read its errors, if they are piped.
    pub stderr: Option<Receiver>,
    /// `None` only in `drop`.
    running: Option<Running>,
    handle: Handle,
    kill_on_drop: bool,
}

/// A child to reap, and the source of its end.
pub(super) struct Running {
    pub(super) process: orphans::Orphan,
    exit: Exit,
}

impl Running {
    pub(super) fn new(process: process::Child, handle: Handle) -> Self {
        let exit = Exit::watch(process.id(), handle);
        Self { process: orphans::Orphan::new(process), exit }
    }

    /// Has a task of the runtime wait for the child, unless it has ended. If the runtime has ended, or ends before the child does, the
    /// child becomes an orphan.
    pub(super) fn leave_to(mut self, handle: &Handle) {
        if self.process.is_running() {
            let wait = async move { drop(self.wait().await) };
            drop(handle.offer(wait).map(filch_std::JoinHandle::detach));
        }
    }

    /// Waits for the child's end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.exit.wait(&mut self.process).await
    }
}

impl Child {
    pub(super) fn new(
        mut process: process::Child,
        handle: Handle,
        kill_on_drop: bool,
    ) -> io::Result<Self> {
        let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let running = Some(Running::new(process, handle));
        // From here on an error drops the child before the caller has got it, so it is killed.
        let mut child =
            Self { stdin: None, stdout: None, stderr: None, running, handle, kill_on_drop: true };
        child.stdin = streams.0.map(Sender::try_from).transpose()?;
        child.stdout = streams.1.map(Receiver::try_from).transpose()?;
        child.stderr = streams.2.map(Receiver::try_from).transpose()?;
        child.kill_on_drop = kill_on_drop;
        Ok(child)
    }

    /// Closes its input, and waits for its end. Later calls return the same status at once.
    ///
    /// # Errors
    /// If its status is lost: the process ignores `SIGCHLD`, or other code has waited for the
    /// child. If the runtime has ended.
    ///
    /// # Cancel safety
    /// It can be called again; only the input stays closed.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.running().wait().await
    }

    /// Returns its status if it has ended. Does not wait.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.running().process.try_wait()
    }

    /// Closes its input, reads its output and its error stream to their ends, if they are piped,
    /// and waits for its end. All of it must fit into memory.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and as reads from pipes.
    ///
    /// # Cancel safety
    /// Dropping it drops the child and its output.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = try_join(read(self.stdout.take()), read(self.stderr.take())).await?;
        let status = self.wait().await?;
        Ok(Output { status, stdout, stderr })
    }

    /// Kills it (`SIGKILL`). It may not have ended when this returns: [`wait`](Self::wait) for it.
    /// Does nothing if it has ended already.
    ///
    /// # Errors
    /// Errors of the operating system: a child that has changed its user cannot be killed.
    pub fn kill(&mut self) -> io::Result<()> {
        self.signal(SignalKind::from_raw(libc::SIGKILL))
    }

    /// Sends it a signal. Does nothing if it has ended already.
    ///
    /// ```
    /// use filch_linux::{process::Command, signal::SignalKind};
    /// use std::os::unix::process::ExitStatusExt;
    /// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
    /// let mut child = Command::new("sleep").arg("1000").spawn()?;
    /// child.signal(SignalKind::terminate())?;
    /// assert_eq!(child.wait().await?.signal(), Some(15));
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn signal(&mut self, signal: SignalKind) -> io::Result<()> {
        self.running().process.signal(signal)
    }

    /// Its process id, until its end has been seen: after that the number may be reused.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().and_then(|running| running.process.id())
    }

    fn running(&mut self) -> &mut Running {
        match &mut self.running {
            Some(running) => running,
            None => unreachable!("a child is only without its process in `drop`"),
        }
    }
}

async fn read(pipe: Option<Receiver>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(pipe) = pipe {
        pipe.read_to_end(&mut all).await?;
    }
    Ok(all)
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        if self.kill_on_drop {
            // If that is refused the child lives on.
            let _ = running.process.signal(SignalKind::from_raw(libc::SIGKILL));
        }
        running.leave_to(&self.handle);
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .field("kill_on_drop", &self.kill_on_drop)
            .finish_non_exhaustive()
    }
}
