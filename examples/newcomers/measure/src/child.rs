//! The programs, which are beside this one.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::resource::{UsageWho, getrusage},
    sys::time::TimeVal,
};

use crate::Error;

/// A server that has printed its address; it is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: String,
}

pub(crate) fn command(name: &str) -> Result<Command, Error> {
    Ok(Command::new(std::env::current_exe()?.with_file_name(name)))
}

impl Server {
    pub(crate) fn start(name: &str) -> Result<Self, Error> {
        let mut child = command(name)?.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(said) = child.stdout.as_mut() {
            BufReader::new(said).read_line(&mut line)?;
        }
        match line.trim().strip_prefix("listening on http://") {
            Some(addr) => Ok(Self { child, addr: addr.to_owned() }),
            None => Err(format!("{name} does not start").into()),
        }
    }

    /// Ends it; returns what it took.
    pub(crate) fn end(mut self) -> Result<Cost, Error> {
        let before = Cost::of_ended()?;
        self.child.kill()?;
        self.child.wait()?;
        before.until_now()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program took from its start to its end, with all its threads.
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    /// How often a thread went to sleep.
    pub(crate) sleeps: i64,
}

impl Cost {
    /// Of all programs that have ended.
    pub(crate) fn of_ended() -> Result<Self, Error> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let micros = |time: TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
        let cpu = Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()));
        Ok(Self { cpu, sleeps: usage.voluntary_context_switches() })
    }

    /// Of those that have ended since.
    pub(crate) fn until_now(self) -> Result<Self, Error> {
        let now = Self::of_ended()?;
        Ok(Self { cpu: now.cpu - self.cpu, sleeps: now.sleeps - self.sleeps })
    }
}
