//! What the three servers share: a listener, an orderly shutdown, and the count of connections that
//! are still open then.

use core::{
    convert::Infallible, future::Future, net::SocketAddr, num::NonZero, pin::pin, time::Duration,
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use async_channel::{Receiver, Sender};
use filch_linux::{
    inspector,
    net::{TcpListener, TcpSocket, TcpStream, lookup_host},
    recorder,
    signal::{self, Signal, SignalKind},
    time,
};
use futures_util::future::{Either, select};

use crate::{names::reason, options::HostPort};

/// How many connections the system holds until they are accepted.
const BACKLOG: u32 = 4_096;

/// A signal writes what the server did last to this file, a crash to the one beside it.
fn record(runtime: &filch_linux::Runtime, path: &Path) -> io::Result<()> {
    let mut crash = path.as_os_str().to_owned();
    crash.push(".crash");
    recorder::save_on_crash(*runtime.handle(), crash)?;
    runtime.block_on(async { recorder::save_on(SignalKind::user_defined2(), path) })?.detach();
    Ok(())
}

/// Serves a page that shows what the server does. Tells its address where the first line of the standard output is not looked for.
fn inspect(runtime: &filch_linux::Runtime, addr: SocketAddr) -> io::Result<()> {
    let page = runtime.block_on(async { inspector::serve(addr) })?;
    // The page is there even if this cannot be written.
    let _ = writeln!(io::stderr(), "inspector at http://{}/", page.local_addr());
    Ok(())
}

/// Exit statuses; 0 is success.
const FAILED: u8 = 1;
/// The workers cannot be started.
const NOT_STARTED: u8 = 2;

/// The settings of a server.
#[derive(Debug)]
pub struct Server {
    /// The name of the program, for messages.
    pub name: &'static str,
    /// The address to listen on.
    pub addr: HostPort,
    /// The number of workers; by default the number of processors.
    pub workers: Option<NonZero<usize>>,
    /// How long connections may go on after the shutdown has begun.
    pub grace: Duration,
    /// The file for what the server did last: written at its end and on `SIGUSR2`. When it crashes, one with `.crash` after the name is.
    pub trace: Option<PathBuf>,
    /// The address of a page that shows what the server does.
    pub inspect: Option<SocketAddr>,
}

/// Records of each worker, for the file and the page.
const RECORDS: usize = 1 << 14;

impl Server {
    /// Runs the server on a new runtime, until a signal ends it. Calls `serve` for each connection;
    /// its future is a task.
    pub fn run<F>(self, serve: impl Fn(TcpStream, Closing) -> F + Send + Sync + 'static) -> ExitCode
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = self.name;
        let recorded = self.trace.is_some() || self.inspect.is_some();
        let records = if recorded { RECORDS } else { 0 };
        let builder = filch_linux::Builder::new().name(self.name).recorder(records);
        let runtime = match self.workers {
            Some(workers) => builder.workers(workers.get()).build(),
            None => builder.build(),
        };
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                say(name, &format!("cannot start the workers: {error}"));
                return ExitCode::from(NOT_STARTED);
            }
        };
        let trace = self.trace.clone();
        if let Err(error) = trace.as_ref().map_or(Ok(()), |path| record(&runtime, path)) {
            say(name, &format!("cannot record: {}", reason(&error)));
            return ExitCode::from(NOT_STARTED);
        }
        if let Err(error) = self.inspect.map_or(Ok(()), |addr| inspect(&runtime, addr)) {
            say(name, &format!("cannot show what it does: {}", reason(&error)));
            return ExitCode::from(NOT_STARTED);
        }
        // On a worker, so that the connections' tasks go to its own queue.
        let served = runtime.spawn(async move { self.serve(serve).await });
        let served = runtime.block_on(served);
        let saved = match (trace, runtime.handle().snapshot()) {
            (Some(path), Some(snapshot)) => snapshot.save(path),
            _ => Ok(()),
        };
        if let Err(error) = saved {
            say(name, &format!("cannot save the trace: {}", reason(&error)));
        }
        match served {
            Ok(Ok(0)) => return ExitCode::SUCCESS,
            Ok(Ok(cut)) => say(name, &format!("time is up: {cut} connections cut off")),
            Ok(Err(error)) => say(name, &reason(&error)),
            Err(error) => say(name, &error.to_string()),
        }
        ExitCode::from(FAILED)
    }

    /// Returns how many connections were still open at the end of the grace period.
    async fn serve<F>(
        &self,
        serve: impl Fn(TcpStream, Closing) -> F + Send + Sync,
    ) -> io::Result<usize>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Before any client can know the server.
        let stop = Stop::new()?;
        let listener = listen(&self.addr).await?;
        announce(listener.local_addr()?);

        // Nothing is ever sent through these channels: they show when the last sender is dropped.
        let (closes, closing) = async_channel::bounded(1);
        let (alive, ended) = async_channel::bounded(1);
        let start = |stream| {
            let task = serve(stream, Closing(closing.clone()));
            let alive: Sender<Infallible> = alive.clone();
            filch_linux::spawn(async move {
                task.await;
                drop(alive);
            })
            .detach();
        };
        if let Err(error) = self.accept(&listener, stop, &start).await {
            say(self.name, &format!("cannot accept any more: {}", reason(&error)));
        }
        let deadline = time::now() + self.grace;
        drop(closes);
        if let Ok(result) = time::timeout_at(deadline, empty(listener, &start)).await {
            result?;
        }
        // One sender is this function's own.
        say(self.name, &format!("waiting for {} connections", alive.sender_count() - 1));
        drop(alive);
        match time::timeout_at(deadline, ended.recv()).await {
            Ok(_) => Ok(0),
            Err(_) => Ok(ended.sender_count()),
        }
    }

    /// Accepts connections and starts their tasks, until the shutdown begins.
    async fn accept(
        &self,
        listener: &TcpListener,
        stop: Stop,
        start: &(impl Fn(TcpStream) + Sync),
    ) -> io::Result<()> {
        let mut incoming = listener.incoming();
        let mut stopped = pin!(stop.asked());
        let mut shortages = 0;
        loop {
            match select(stopped.as_mut(), pin!(incoming.next())).await {
                Either::Left((stopped, _)) => return stopped,
                Either::Right((accepted, _)) => start(accepted?.0),
            }
            // The connections that had to wait are served by now.
            if incoming.shortages() > shortages {
                shortages = incoming.shortages();
                say(self.name, "ran out of file descriptors or memory, and rested");
            }
        }
    }
}

/// Starts the connections that wait to be accepted, and closes the listener. There is no await
/// between the last accept and the closing, so only a connection that is made within these
/// microseconds is refused.
async fn empty(listener: TcpListener, start: &(impl Fn(TcpStream) + Sync)) -> io::Result<()> {
    let listener = listener.into_std()?;
    // A limit, for a client that reconnects at once each time.
    for _ in 0..BACKLOG {
        match listener.accept() {
            Ok((stream, _)) => start(TcpStream::try_from(stream)?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptors: connections that end free theirs.
            Err(_) => time::sleep(Duration::from_millis(10)).await,
        }
    }
    Ok(())
}

fn say(name: &str, what: &str) {
    // If this fails there is no way to report it.
    let _ = writeln!(io::stderr(), "{name}: {what}");
}

/// Tells a connection that the shutdown has begun.
#[derive(Clone, Debug)]
pub struct Closing(Receiver<Infallible>);

impl Closing {
    /// Waits until it has begun.
    pub async fn begun(&self) {
        if let Ok(never) = self.0.recv().await {
            match never {}
        }
    }

    /// Whether it has begun. One load.
    pub fn has_begun(&self) -> bool {
        self.0.is_closed()
    }
}

/// The signals that ask a server to end.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal::signal(SignalKind::terminate())?,
            interrupt: signal::signal(SignalKind::interrupt())?,
        })
    }

    async fn asked(mut self) -> io::Result<()> {
        let (terminate, interrupt) = (pin!(self.terminate.recv()), pin!(self.interrupt.recv()));
        select(terminate, interrupt).await.factor_first().0?;
        // A second signal ends the program at once.
        signal::restore(SignalKind::terminate())?;
        signal::restore(SignalKind::interrupt())
    }
}

/// A listener whose connections send small writes at once: they inherit the option.
async fn listen(addr: &HostPort) -> io::Result<TcpListener> {
    let mut last = None;
    for addr in lookup_host(addr.0.as_str()).await? {
        match listen_on(addr) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    let why = last.as_ref().map_or("it has no address".into(), reason);
    Err(io::Error::other(format!("cannot listen on {}: {why}", addr.0)))
}

fn listen_on(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_nodelay(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Prints the address, for the process that started the server and waits for it.
fn announce(addr: SocketAddr) {
    // It serves even if this cannot be written.
    let _ = writeln!(io::stdout(), "listening on {addr}");
}
