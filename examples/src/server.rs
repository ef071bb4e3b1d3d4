//! What the three servers share: a listener, an orderly end, and who is still being served by then.

use core::{
    convert::Infallible, future::Future, net::SocketAddr, num::NonZero, pin::pin, time::Duration,
};
use std::{
    io::{self, Write},
    process::ExitCode,
};

use async_channel::{Receiver, Sender};
use filch_linux::{
    net::{TcpListener, TcpSocket, TcpStream, lookup},
    signal::{self, Signal, SignalKind},
    time,
};
use futures_util::future::{Either, select};

use crate::{names::reason, options::HostPort};

/// How many connections the system holds until they are accepted.
const BACKLOG: u32 = 4_096;

/// Exit statuses; 0 is success.
const FAILED: u8 = 1;
/// The workers cannot be started.
const NOT_STARTED: u8 = 2;

/// What every server has to know.
#[derive(Debug)]
pub struct Server {
    /// The name of the program, for messages.
    pub name: &'static str,
    /// Where it listens.
    pub addr: HostPort,
    /// How many workers it has, if not as many as processors.
    pub workers: Option<NonZero<usize>>,
    /// How long connections have to end by themselves when the server is to end.
    pub grace: Duration,
}

impl Server {
    /// Runs it on a runtime of its own, until a signal ends it; `serve` is called for each connection, and its future is a task.
    pub fn run<F>(self, serve: impl Fn(TcpStream, Closing) -> F + Send + Sync + 'static) -> ExitCode
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = self.name;
        let builder = filch_linux::builder().name(self.name);
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
        // On a worker, whose own queue takes the tasks of the connections.
        let served = runtime.spawn(async move { self.serve(serve).await });
        match runtime.block_on(served) {
            Ok(Ok(0)) => return ExitCode::SUCCESS,
            Ok(Ok(cut)) => say(name, &format!("time is up: {cut} connections cut off")),
            Ok(Err(error)) => say(name, &reason(&error)),
            Err(error) => say(name, &error.to_string()),
        }
        ExitCode::from(FAILED)
    }

    /// Gives how many connections were still open at the end of the grace.
    async fn serve<F>(
        &self,
        serve: impl Fn(TcpStream, Closing) -> F + Send + Sync,
    ) -> io::Result<usize>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Before anybody can know that the server is there.
        let stop = Stop::new()?;
        let listener = listen(&self.addr).await?;
        announce(listener.local_addr()?);

        // Nothing is ever sent through these channels: they tell when the last sender is gone.
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
        // One is our own.
        say(self.name, &format!("waiting for {} connections", alive.sender_count() - 1));
        drop(alive);
        match time::timeout_at(deadline, ended.recv()).await {
            Ok(_) => Ok(0),
            Err(_) => Ok(ended.sender_count()),
        }
    }

    /// Starts what comes, until it is to stop.
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
            // Those that had to wait for it are served by now.
            if incoming.shortages() > shortages {
                shortages = incoming.shortages();
                say(self.name, "ran out of file descriptors or memory, and rested");
            }
        }
    }
}

/// Starts what was waiting to be accepted, and closes the listener. Nothing is awaited from the last look to the closing, so that
/// only a connection that is made within these microseconds is refused after all.
async fn empty(listener: TcpListener, start: &(impl Fn(TcpStream) + Sync)) -> io::Result<()> {
    let listener = listener.into_std()?;
    // No more than there can have been, for a client that comes back at once each time.
    for _ in 0..BACKLOG {
        match listener.accept() {
            Ok((stream, _)) => start(TcpStream::try_from(stream)?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptors: the connections that end give theirs back.
            Err(_) => time::sleep(Duration::from_millis(10)).await,
        }
    }
    Ok(())
}

fn say(name: &str, what: &str) {
    // There is nobody to tell if this fails.
    let _ = writeln!(io::stderr(), "{name}: {what}");
}

/// Tells a connection that the server is about to end.
#[derive(Clone, Debug)]
pub struct Closing(Receiver<Infallible>);

impl Closing {
    /// Waits until it is.
    pub async fn begun(&self) {
        if let Ok(never) = self.0.recv().await {
            match never {}
        }
    }

    /// Whether it is. One load.
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
        // A second one ends the program at once.
        signal::restore(SignalKind::terminate())?;
        signal::restore(SignalKind::interrupt())
    }
}

/// A listener whose connections send small writes at once: they inherit that.
async fn listen(addr: &HostPort) -> io::Result<TcpListener> {
    let mut last = None;
    for addr in lookup(addr.0.as_str()).await? {
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
    socket.set_reuse_address(true)?;
    socket.set_nodelay(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// For whoever started the server, and waits for it.
fn announce(addr: SocketAddr) {
    // It serves all the same if nobody reads this.
    let _ = writeln!(io::stdout(), "listening on {addr}");
}
