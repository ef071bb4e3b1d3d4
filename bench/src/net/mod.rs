//! Servers: one process serves, another loads it and measures.
//!
//! With one worker the server has core 0 and the load core 1; with two nothing is pinned.

mod filch;
mod hello;
mod load;
mod mixed;
mod monoio;
mod raw;
mod tokio;

use core::{mem::MaybeUninit, net::SocketAddr};
use std::{
    io::{BufRead, BufReader, Write, stdin, stdout},
    net::TcpListener,
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
};

use crate::{
    args::Order,
    meter::{Figure, Usage, latencies},
    peers::{self, FILCH},
    workloads::Run,
};

/// The numbers are the counts of connections.
pub(crate) const NAMES: &[&str] =
    &["tcp_echo_1", "tcp_echo_64", "tcp_echo_512", "http_hello", mixed::NAMES[0], mixed::NAMES[1]];
const HTTP: &str = "http_hello";
const NO_HTTP: &[&str] =
    &[peers::FILCH_OFF, peers::FILCH_RECORDER, peers::TOKIO_DIAL9, peers::TOKIO_CONSOLE];

/// Peers that serve on one thread only are left out with two workers.
pub(crate) fn peers(workload: &str, workers: usize) -> Vec<&'static str> {
    if mixed::is_mixed(workload) {
        return mixed::peers();
    }
    let mut peers = vec![FILCH, "tokio"];
    if workers == 1 {
        peers.push("tokio-ct");
        if workload != HTTP {
            peers.extend(["monoio", "epoll"]);
        }
    }
    peers
}

/// Starts a server, which runs until the process ends.
fn start(order: &Order, listener: TcpListener) {
    let (http, workers) = (order.workload == HTTP, order.workers);
    if mixed::is_mixed(&order.workload) {
        return mixed::start(&order.workload, &order.peer, workers, listener);
    }
    match (order.peer.as_str(), http) {
        (FILCH, false) => filch::echo(listener, peers::filch::start(workers, 0)),
        (FILCH, true) => filch::hello(listener, peers::filch::start(workers, 0)),
        #[cfg(feature = "recorder")]
        (peers::FILCH_OFF, false) => filch::echo(listener, peers::filch::start(workers, 0)),
        #[cfg(feature = "recorder")]
        (peers::FILCH_RECORDER, false) => {
            filch::echo(listener, peers::filch::start(workers, peers::filch::RECORDS));
        }
        #[cfg(feature = "dial9")]
        (peers::TOKIO_DIAL9, false) => tokio::echo_dial9(workers, listener),
        #[cfg(feature = "console")]
        (peers::TOKIO_CONSOLE, false) => tokio::echo(tokio::console(workers), listener),
        ("tokio" | peers::FILCH_TOKIO, false) => {
            tokio::echo(tokio::multi_thread(workers), listener)
        }
        ("tokio" | peers::FILCH_TOKIO, true) => {
            tokio::hello(tokio::multi_thread(workers), listener)
        }
        ("tokio-ct" | peers::FILCH_TOKIO_CT, false) => {
            tokio::echo(tokio::current_thread(), listener)
        }
        ("tokio-ct" | peers::FILCH_TOKIO_CT, true) => {
            tokio::hello(tokio::current_thread(), listener)
        }
        ("monoio", false) => monoio::echo(listener),
        ("epoll", false) => raw::echo(listener),
        _ => {}
    }
}

/// Serves in this process until its input ends; answers each line with the process's usage so far, and with the polls of computing
/// tasks.
pub(crate) fn serve(order: &Order) -> ExitCode {
    if order.workers == 1 {
        pin_to(0);
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    println!("{}", listener.local_addr().expect("it is bound"));
    start(order, listener);
    for _line in stdin().lock().lines() {
        let usage = serde_json::to_string(&Usage::now()).expect("plain numbers");
        println!("{usage}");
        println!("{}", mixed::computed());
        stdout().flush().expect("the load generator reads");
    }
    std::process::exit(0);
}

/// A server's process.
struct Server {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn new(workload: &str, peer: &str, workers: usize) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", workload, peer, "--workers", &workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, answers })
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the server answers");
        line
    }

    fn addr(&mut self) -> SocketAddr {
        self.answer().trim().parse().expect("the server says its address")
    }

    fn usage(&mut self) -> (Usage, u64) {
        writeln!(self.child.stdin.as_mut().expect("it is piped")).expect("the server lives");
        let usage = serde_json::from_str(&self.answer()).expect("the server says what it has used");
        (usage, self.answer().trim().parse().expect("the server says what it has computed"))
    }
}

/// Closes its input, which ends the server.
impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    let connections = match workload {
        HTTP if NO_HTTP.contains(&peer) => return None,
        HTTP => 64,
        mixed if mixed::is_mixed(mixed) => mixed::CONNECTIONS,
        echo => echo.rsplit('_').next()?.parse().ok()?,
    };
    if run.workers == 1 {
        pin_to(1);
    }
    let mut server = Server::new(workload, peer, run.workers).expect("the server starts");
    let addr = server.addr();
    let exchange = if workload == HTTP { load::http(addr) } else { Ok(load::echo()) };
    let exchange = exchange.expect("the server answers");
    let mut load = load::Load::new(addr, connections, &exchange).expect("the server accepts");
    load.run(run.effort.time() / 4).expect("the server answers");
    let (before, computed) = server.usage();
    let seconds = run.effort.time() * 2;
    let mut delays = load.run(seconds).expect("the server answers");
    let requests = delays.len() as f64;
    let (after, computed_since) = server.usage();
    let used = before.until(&after, requests);
    let mut figures = vec![Figure::new("rate", "1/s", requests / seconds.as_secs_f64())];
    figures[0].allocs_per_op = used[0].allocs_per_op;
    figures[0].bytes_per_op = used[0].bytes_per_op;
    figures.extend(used.into_iter().skip(1));
    figures.extend(latencies(&mut delays));
    if mixed::is_mixed(workload) {
        let polls = (computed_since - computed) as f64 / seconds.as_secs_f64();
        figures.push(Figure::new("computed", "1/s", polls));
    }
    Some(figures)
}

/// Pins this process, with all its later threads, to one core, if the core exists.
fn pin_to(core: usize) {
    // SAFETY: the set is plain bits; the calls fill it and read it.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
