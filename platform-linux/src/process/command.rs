//! How to start a child.

use std::{
    ffi::OsStr,
    io,
    path::Path,
    process::{self, ExitStatus, Output, Stdio},
};

use filch_std::{Handle, task::consume_budget};

use super::{child::Child, orphans};
use crate::runtime::Linux;

/// A program to start, and how: the standard library's [`process::Command`] with an end that can be awaited.
///
/// Other options are set through [`as_std_mut`](Self::as_std_mut).
///
/// ```
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// use std::{os::unix::process::CommandExt, process::Stdio};
/// use filch_linux::process::{Child, Command};
/// let mut command = Command::new("sh");
/// command.arg("-c").args(["echo $WORD; pwd; cat"]);
/// command.env_clear().env("PATH", "/bin:/usr/bin").env("WORD", "hello").env_remove("OTHER");
/// command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
/// command.kill_on_drop(true).as_std_mut().process_group(0);
/// assert_eq!(command.as_std().get_program(), "sh");
///
/// let mut child: Child = command.spawn()?;
/// assert!(child.id().is_some() && child.try_wait()?.is_none(), "cat reads");
/// if let Some(stdin) = &child.stdin {
///     stdin.write_all(b"bytes").await?;
/// }
/// let output = child.wait_with_output().await?;
/// assert_eq!(output.stdout, b"hello\n/\nbytes");
///
/// // All at once:
/// assert!(Command::new("true").status().await?.success());
/// assert_eq!(Command::new("echo").arg("hello").output().await?.stdout, b"hello\n");
/// let mut child = Command::new("sleep").arg("1000").spawn()?;
/// child.kill()?;
/// assert!(!child.wait().await?.success());
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Command {
    std: process::Command,
    /// Whether the caller has set each of the three streams.
    set: [bool; 3],
    kill_on_drop: bool,
}

impl Command {
    /// A program by its name (searched in `PATH`) or path, without arguments. As in the standard
    /// library it inherits environment, directory and streams.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        process::Command::new(program).into()
    }

    /// One more argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(arg);
        self
    }

    /// More arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.std.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(key, value);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(key);
        self
    }

    /// Removes all environment variables.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// The directory that it starts in.
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(dir);
        self
    }

    /// Its standard input. [`Stdio::piped`] makes [`Child::stdin`].
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.set[0] = true;
        self.std.stdin(stdin);
        self
    }

    /// Its standard output. [`Stdio::piped`] makes [`Child::stdout`].
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.set[1] = true;
        self.std.stdout(stdout);
        self
    }

    /// Its standard error. [`Stdio::piped`] makes [`Child::stderr`].
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.set[2] = true;
        self.std.stderr(stderr);
        self
    }

    /// Whether dropping the [`Child`] kills it (default: no).
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// The standard library's command.
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }

    /// The standard library's command: user, process group, `pre_exec` and so on.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.std
    }

    /// Converts it to the standard library's command.
    pub fn into_std(self) -> process::Command {
        self.std
    }

    /// Starts it. This blocks until the child has begun to run the program: about as long as `fork` and `exec` take, a
    /// millisecond or so.
    ///
    /// # Errors
    /// The calling thread is in no runtime of this crate (nothing is started); the program is not
    /// found, and other errors of the operating system.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let handle = Handle::current().map_err(io::Error::other)?;
        if handle.host::<Linux>().is_none() {
            return Err(io::Error::other("this thread is in a runtime without I/O"));
        }
        orphans::reap();
        Child::new(self.std.spawn()?, handle, self.kill_on_drop)
    }

    /// Starts it, and waits for its end.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and as [`Child::wait`].
    ///
    /// # Cancel safety
    /// Dropping it drops the child, which lives on unless [`kill_on_drop`](Self::kill_on_drop) was
    /// set.
    pub async fn status(&mut self) -> io::Result<ExitStatus> {
        // It may fail at once.
        consume_budget().await;
        self.spawn()?.wait().await
    }

    /// Starts it, waits for its end, and returns what it wrote. Streams that were not set become an
    /// empty input and a captured output and error; the command keeps these settings. All that it
    /// writes must fit into memory.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and as [`Child::wait_with_output`].
    ///
    /// # Cancel safety
    /// As [`status`](Self::status).
    pub async fn output(&mut self) -> io::Result<Output> {
        if !self.set[0] {
            self.stdin(Stdio::null());
        }
        if !self.set[1] {
            self.stdout(Stdio::piped());
        }
        if !self.set[2] {
            self.stderr(Stdio::piped());
        }
        consume_budget().await;
        self.spawn()?.wait_with_output().await
    }
}

impl From<process::Command> for Command {
    /// [`output`](Command::output) replaces streams that were set before.
    fn from(std: process::Command) -> Self {
        Self { std, set: [false; 3], kill_on_drop: false }
    }
}
