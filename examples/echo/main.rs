//! A TCP server that sends everything back.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::{io, net::Shutdown, process::ExitCode};

use filch_examples::{
    options::{self, HostPort},
    server::Server,
};
use filch_linux::net::TcpStream;

const HELP: &str = "\
Usage: echo [--addr HOST:PORT] [--workers N] [--grace S]
Send every byte back, over TCP, and print `listening on ADDR`. When a client has
sent its last byte it is sent the last one back, and then the end.

  --addr HOST:PORT  listen there (default 127.0.0.1:8080); port 0 is any
  --workers N       run on N worker threads (default: the processors)
  --grace S         after SIGTERM or Ctrl-C give the open connections S seconds
                    to end (default 10); a second signal ends it at once
  --help            print this help and exit

Exit status: 0 if all connections ended by themselves, 1 if some did not or it
cannot listen, 2 if the arguments are wrong or the workers cannot be started.
";

/// The bytes held for a connection. While they cannot be sent back nothing more is read.
const BUFFER: usize = 16 * 1024;

fn main() -> ExitCode {
    let mut server = Server {
        name: "echo",
        addr: HostPort("127.0.0.1:8080".into()),
        workers: None,
        grace: Duration::from_secs(10),
        trace: None,
        inspect: None,
    };
    let options = &mut [
        ("addr", &mut server.addr as _),
        ("workers", &mut server.workers as _),
        ("grace", &mut server.grace as _),
    ];
    if let Err(status) = options::read("echo", HELP, options) {
        return status;
    }
    // Errors of a connection are ignored.
    server.run(|stream, _| async move { drop(echo(stream).await) })
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.shutdown(Shutdown::Write),
            n => stream.write_all(&buffer[..n]).await?,
        }
    }
}
