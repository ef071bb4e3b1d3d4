//! What the tests of the servers share: the programs, and an HTTP/1 client that sees every byte.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use core::net::SocketAddr;
use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

pub(crate) use filch_test_support::watchdog;

use rustix::process::{Pid, Signal, kill_process};

/// The program of an example, which `cargo test` builds unless it is told to build less.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples").join(name);
    assert!(program.exists(), "{program:?} is missing: run `cargo build --examples` first");
    program
}

/// A server process on its own port. It is killed if a test drops it.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) addr: SocketAddr,
}

impl Server {
    pub(crate) fn start(name: &str, args: &[&str]) -> Self {
        Self::spawn(Command::new(program(name)).args(args))
    }

    /// With at most so many file descriptors.
    pub(crate) fn start_short(name: &str, descriptors: u32, args: &[&str]) -> Self {
        let script = format!("ulimit -n {descriptors}; exec \"$@\"");
        Self::spawn(Command::new("sh").args(["-c", &script, "sh"]).arg(program(name)).args(args))
    }

    fn spawn(command: &mut Command) -> Self {
        let command = command.args(["--addr", "127.0.0.1:0"]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on ").map(str::parse);
        let Some(Ok(addr)) = addr else {
            panic!("{command:?} says {line:?}: {:?}", child.wait_with_output())
        };
        Self { child: Some(child), addr }
    }

    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it ends.
    pub(crate) fn wait(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    /// Asks it to end, and checks that it ends without an error.
    pub(crate) fn end(self) {
        self.terminate();
        let output = self.wait();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Runs a program to its end.
pub(crate) fn output(name: &str, args: &[&str]) -> Output {
    Command::new(program(name)).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A connection of HTTP/1.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Full(Response),
    /// The connection ended before any byte of an answer.
    Nothing,
    /// It ended in the middle of an answer.
    Broken(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The server marks it as the last one.
    pub(crate) is_last: bool,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub(crate) fn send(&mut self, path: &str) -> io::Result<()> {
        write!(&self.stream, "{}", head(path))
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        // The server may have closed the connection; the answer then shows it.
        drop(self.send(path));
        self.answer()
    }

    /// The complete answer, or the test fails.
    pub(crate) fn expect(&mut self, path: &str) -> Response {
        match self.get(path) {
            Answer::Full(response) => response,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(crate) fn answer(&mut self) -> Answer {
        loop {
            if let Some(response) = self.parse() {
                return Answer::Full(response);
            }
            let mut chunk = [0; 4_096];
            match self.stream.read(&mut chunk) {
                Ok(n) if n > 0 => self.unread.extend(&chunk[..n]),
                _ if self.unread.is_empty() => return Answer::Nothing,
                end => {
                    let unread = String::from_utf8_lossy(&self.unread);
                    return Answer::Broken(format!("{end:?} after {unread:?}"));
                }
            }
        }
    }

    /// Whether the server has closed the connection without sending more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.unread.is_empty() && matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }

    /// Takes a response, if it is complete.
    fn parse(&mut self) -> Option<Response> {
        let end = self.unread.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = str::from_utf8(&self.unread[..end]).unwrap();
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let len: usize = field("content-length").expect("a length").parse().unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_last = field("connection").is_some_and(|value| value == "close");
        let body = self.unread.get(end..end + len)?.to_vec();
        self.unread.drain(..end + len);
        Some(Response { status, body: String::from_utf8(body).unwrap(), is_last })
    }
}

/// The head of a request.
pub(crate) fn head(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}
