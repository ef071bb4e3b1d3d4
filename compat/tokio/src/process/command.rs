//! How a child process is started.

use core::future::Future;
use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{self, ExitStatus, Output, Stdio},
};

use super::{Child, child::spawned};
use crate::{io::source::require_io, task::coop};

/// How a child process is started.
#[derive(Debug)]
pub struct Command {
    std: process::Command,
    kill_on_drop: bool,
}

impl Command {
    /// Of that program.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Self {
        Self::from(process::Command::new(program))
    }

    /// The command of the standard library.
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }

    /// The command of the standard library.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.std
    }

    /// The command of the standard library.
    pub fn into_std(self) -> process::Command {
        self.std
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Self {
        self.std.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(args);
        self
    }

    /// Sets a variable of the environment.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, val: V) -> &mut Self {
        self.std.env(key, val);
        self
    }

    /// Sets variables of the environment.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Removes a variable of the environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Self {
        self.std.env_remove(key);
        self
    }

    /// Removes all variables of the environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// The folder that the child begins in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Self {
        self.std.current_dir(dir);
        self
    }

    /// The child's standard input.
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Self {
        self.std.stdin(cfg);
        self
    }

    /// The child's standard output.
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Self {
        self.std.stdout(cfg);
        self
    }

    /// The child's standard error.
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Self {
        self.std.stderr(cfg);
        self
    }

    /// Whether the child is killed if its handle is dropped (default: no).
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Self {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Whether the child is killed if its handle is dropped.
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// The child's user.
    pub fn uid(&mut self, id: u32) -> &mut Self {
        self.std.uid(id);
        self
    }

    /// The child's group.
    pub fn gid(&mut self, id: u32) -> &mut Self {
        self.std.gid(id);
        self
    }

    /// The first argument, which is the program otherwise.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Self {
        self.std.arg0(arg);
        self
    }

    /// Calls a closure in the child before the program begins.
    ///
    /// # Safety
    /// As [`CommandExt::pre_exec`].
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Self
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's contract.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// The child's process group; zero: one of its own.
    pub fn process_group(&mut self, pgroup: i32) -> &mut Self {
        self.std.process_group(pgroup);
        self
    }

    /// Starts the child.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        let handle = require_io("process");
        spawned(handle, self.std.spawn()?, self.kill_on_drop)
    }

    /// As [`spawn`](Self::spawn), with a closure that starts it.
    ///
    /// # Errors
    /// Those of the closure and of the operating system.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut process::Command) -> io::Result<process::Child>,
    ) -> io::Result<Child> {
        let handle = require_io("process");
        spawned(handle, with(&mut self.std)?, self.kill_on_drop)
    }

    /// Starts the child, and waits for its end.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and as [`Child::wait`].
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = coop::spend_if_failed(child).await?;
            // Ours are closed, so that the child does not wait for us.
            child.stdin.take();
            child.stdout.take();
            child.stderr.take();
            child.wait().await
        }
    }

    /// Starts the child, and waits for its end and all that it writes.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and as [`Child::wait_with_output`].
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped());
        self.std.stderr(Stdio::piped());
        let child = self.spawn();
        async { coop::spend_if_failed(child).await?.wait_with_output().await }
    }
}

impl From<process::Command> for Command {
    fn from(std: process::Command) -> Self {
        Self { std, kill_on_drop: false }
    }
}
