//! A web server on filch: hyper and axum over its sockets, timers and tasks.
#![cfg(target_os = "linux")]

mod connection;
mod routes;
mod tracked;

use core::time::Duration;
use std::{process::ExitCode, sync::Arc};

use filch_examples::{
    options::{self, HostPort},
    server::Server,
};

use crate::connection::Http;

const HELP: &str = "\
Usage: httpd [--addr HOST:PORT] [--workers N] [--header-timeout S] [--grace S]
             [--trace FILE] [--inspect IP:PORT]
Serve HTTP/1 and HTTP/2 (with prior knowledge), and print `listening on ADDR`.

  GET /           says hello
  POST /echo      sends the request's body back
  GET /sleep/MS   answers after MS milliseconds, at most 60000
  GET /sum        adds up the numbers below 4194304, on all workers at once
  GET /metrics    the counters of the runtime, in the format of Prometheus

  --addr HOST:PORT    listen there (default 127.0.0.1:8080); port 0 is any
  --workers N         run on N worker threads (default: the processors)
  --header-timeout S  close a connection that has not sent the head of its next
                      request within S seconds (default 30)
  --grace S           after SIGTERM or Ctrl-C give the open requests S seconds
                      to end (default 10); a second signal ends it at once
  --trace FILE        write what the server did last there, at its end and on
                      SIGUSR2, and to FILE.crash when it crashes; the program
                      filch-trace reads it
  --inspect IP:PORT   show what the server does on a page there; each process
                      that reaches the address can read it
  --help              print this help and exit

Exit status: 0 if all requests were served to the end, 1 if some were not or it
cannot listen, 2 if the arguments are wrong or the workers cannot be started.
";

fn main() -> ExitCode {
    let mut server = Server {
        name: "httpd",
        addr: HostPort("127.0.0.1:8080".into()),
        workers: None,
        grace: Duration::from_secs(10),
        trace: None,
        inspect: None,
    };
    let mut header_timeout = Duration::from_secs(30);
    let options = &mut [
        ("addr", &mut server.addr as _),
        ("workers", &mut server.workers as _),
        ("grace", &mut server.grace as _),
        ("header-timeout", &mut header_timeout as _),
        ("trace", &mut server.trace as _),
        ("inspect", &mut server.inspect as _),
    ];
    if let Err(status) = options::read("httpd", HELP, options) {
        return status;
    }
    let http = Arc::new(Http { router: routes::router(), header_timeout });
    server.run(move |stream, closing| Arc::clone(&http).serve(stream, closing))
}
