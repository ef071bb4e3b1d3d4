//! One connection, passed on.

use core::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{io, net::Shutdown, sync::Arc};

use filch_examples::{names::reason, options::HostPort};
use filch_linux::{Instant, net::TcpStream, time};
use futures_util::future::{Either, select};

/// What is held of each direction.
const BUFFER: usize = 16 * 1024;

/// Where connections go, and how long they may be silent.
pub(crate) struct Proxy {
    pub(crate) to: HostPort,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

impl Proxy {
    /// Passes everything on, until both directions have ended or something breaks.
    pub(crate) async fn serve(self: Arc<Self>, client: TcpStream) {
        let server = match self.connect().await {
            Ok(server) => server,
            Err(error) => {
                eprintln!("proxy: {}", reason(&error));
                return reset_on_close(&client);
            }
        };
        let line = Line::new();
        let exchange = pin!(exchange(&client, &server, &line));
        match select(exchange, pin!(line.silence(self.idle_timeout))).await {
            // Both have been told the end, and closing sends what the system still holds.
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(_), _)) | Either::Right(_) => {
                reset_on_close(&client);
                reset_on_close(&server);
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let connecting = TcpStream::connect(self.to.0.as_str());
        let server = match time::timeout(self.connect_timeout, connecting).await {
            Ok(server) => server?,
            Err(_) => {
                let (to, limit) = (&self.to.0, self.connect_timeout);
                let why = format!("cannot connect to {to}: no answer within {limit:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        };
        // The clients' connections have it from the listener.
        server.set_nodelay(true)?;
        Ok(server)
    }
}

/// Which end of a direction has failed.
#[derive(Clone, Copy)]
enum Fault {
    Reading,
    Writing,
}

/// What both directions know of the connection.
struct Line {
    /// When the last byte moved, in nanoseconds of the runtime's clock.
    moved: AtomicU64,
    /// A side takes no more. What still comes from it is passed on, but not its end, which may be that of its last
    /// breath: the other side must not take a broken stream for a whole one.
    broken: AtomicBool,
}

impl Line {
    fn new() -> Self {
        let line = Self { moved: AtomicU64::new(0), broken: AtomicBool::new(false) };
        line.moved();
        line
    }

    // Ordering: all Relaxed: the connection is one task.
    fn moved(&self) {
        self.moved.store(time::now().as_nanos(), Ordering::Relaxed);
    }

    /// Waits until no byte has moved for so long.
    async fn silence(&self, limit: Duration) {
        loop {
            let end = Instant::from_nanos(self.moved.load(Ordering::Relaxed)) + limit;
            if end <= time::now() {
                return;
            }
            time::sleep_until(end).await;
        }
    }
}

/// Both directions at once, each to its end.
async fn exchange(client: &TcpStream, server: &TcpStream, line: &Line) -> Result<(), Fault> {
    let (up, down) = (pin!(pass(client, server, line)), pin!(pass(server, client, line)));
    let (first, other) = match select(up, down).await {
        Either::Left((up, down)) => (up, Either::Left(down)),
        Either::Right((down, up)) => (down, Either::Right(up)),
    };
    match first {
        Ok(()) => other.await,
        // Whoever takes no more may have said something before: an HTTP server that refuses an upload.
        Err(Fault::Writing) => {
            let _ = other.await;
            first
        }
        Err(Fault::Reading) => first,
    }
}

/// One direction. It reads no more than it can write.
async fn pass(from: &TcpStream, to: &TcpStream, line: &Line) -> Result<(), Fault> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = from.read(&mut buffer).await.map_err(|_| Fault::Reading)?;
        let mut left = &buffer[..n];
        line.moved();
        while !left.is_empty() {
            match to.write(left).await {
                Ok(n) => left = &left[n..],
                Err(_) => {
                    line.broken.store(true, Ordering::Relaxed);
                    return Err(Fault::Writing);
                }
            }
            line.moved();
        }
        if n == 0 {
            return match line.broken.load(Ordering::Relaxed) {
                true => Err(Fault::Reading),
                false => to.shutdown(Shutdown::Write).map_err(|_| Fault::Writing),
            };
        }
    }
}

/// When the connection is closed, its peer is to be told of an error, and not of an end.
fn reset_on_close(stream: &TcpStream) {
    // If it fails the connection is gone already.
    let _ = stream.set_linger(Some(Duration::ZERO));
}
