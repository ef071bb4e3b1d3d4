//! A TCP proxy.
#![cfg(target_os = "linux")]

mod relay;

use core::time::Duration;
use std::{process::ExitCode, sync::Arc};

use filch_examples::{
    options::{self, HostPort},
    server::Server,
};

use crate::relay::Proxy;

const HELP: &str = "\
Usage: proxy --to HOST:PORT [--addr HOST:PORT] [--workers N]
             [--connect-timeout S] [--idle-timeout S] [--grace S]
Pass every TCP connection on to another server, and print `listening on ADDR`.

The end of either direction is passed on by itself; a reset, a timeout or a server
that cannot be reached resets the connection. Of each connection at most 16 KiB are
held for each direction: a side that does not read makes the other one wait.

  --to HOST:PORT       pass connections on to this server
  --addr HOST:PORT     listen there (default 127.0.0.1:8080); port 0 is any
  --workers N          run on N worker threads (default: the processors)
  --connect-timeout S  give the server S seconds to answer (default 5)
  --idle-timeout S     end a connection on which no byte has moved in either
                       direction for S seconds (default 60)
  --grace S            after SIGTERM or Ctrl-C give the open connections S seconds
                       to end (default 10); a second signal ends it at once
  --help               print this help and exit

Exit status: 0 if all connections ended by themselves, 1 if some did not or it
cannot listen, 2 if the arguments are wrong or the workers cannot be started.
";

fn main() -> ExitCode {
    let mut server = Server {
        name: "proxy",
        addr: HostPort("127.0.0.1:8080".into()),
        workers: None,
        grace: Duration::from_secs(10),
        trace: None,
        inspect: None,
    };
    let mut to = None;
    let mut connect_timeout = Duration::from_secs(5);
    let mut idle_timeout = Duration::from_secs(60);
    let options = &mut [
        ("to", &mut to as _),
        ("addr", &mut server.addr as _),
        ("workers", &mut server.workers as _),
        ("connect-timeout", &mut connect_timeout as _),
        ("idle-timeout", &mut idle_timeout as _),
        ("grace", &mut server.grace as _),
    ];
    if let Err(status) = options::read("proxy", HELP, options) {
        return status;
    }
    let Some(to) = to else {
        return options::refuse("proxy", "option --to is needed");
    };
    let proxy = Arc::new(Proxy { to, connect_timeout, idle_timeout });
    server.run(move |client, _| Arc::clone(&proxy).serve(client))
}
