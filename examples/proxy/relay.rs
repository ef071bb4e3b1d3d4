//! One connection, passed on.

use core::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{io, net::Shutdown, sync::Arc};

use filch_examples::{names::reason, options::HostPort};
use filch_linux::{
    net::TcpStream,
    time::{self, Instant},
};
use futures_util::future::{Either, select};

/// The bytes held for each direction.
const BUFFER: usize = 16 * 1024;

/// Where connections go, and how long they may be silent.
pub(crate) struct Proxy {
    pub(crate) to: HostPort,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

impl Proxy {
    /// Relays everything until both directions have ended or one fails.
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
            // Both sides have got the end; closing sends what the system still holds.
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
        // The clients' connections inherit it from the listener.
        server.set_nodelay(true)?;
        Ok(server)
    }
}

/// The end of a direction that has failed.
#[derive(Clone, Copy)]
enum Fault {
    Reading,
    Writing,
}

/// The state that both directions share.
struct Line {
    /// When the last byte moved, in nanoseconds of the runtime's clock.
    moved: AtomicU64,
    /// A side takes no more bytes. Bytes that still come from it are passed on, but not its end: it
    /// may have failed, and the other side must not take a broken stream for a complete one.
    broken: AtomicBool,
}

impl Line {
    fn new() -> Self {
        let line = Self { moved: AtomicU64::new(0), broken: AtomicBool::new(false) };
        line.moved();
        line
    }

    // Ordering: Relaxed throughout; the connection is one task.
    fn moved(&self) {
        self.moved.store(time::now().as_nanos(), Ordering::Relaxed);
    }

    /// Waits until no byte has moved for this time.
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

/// Runs both directions, each to its end.
async fn exchange(client: &TcpStream, server: &TcpStream, line: &Line) -> Result<(), Fault> {
    let (up, down) = (pin!(pass(client, server, line)), pin!(pass(server, client, line)));
    let (first, other) = match select(up, down).await {
        Either::Left((up, down)) => (up, Either::Left(down)),
        Either::Right((down, up)) => (down, Either::Right(up)),
    };
    match first {
        Ok(()) => other.await,
        // A side that takes no more may have sent something before: for example, an HTTP server
        // that refuses an upload.
        Err(Fault::Writing) => {
            let _ = other.await;
            first
        }
        Err(Fault::Reading) => first,
    }
}

/// Relays one direction. It reads no more than it can write.
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

/// When the connection is closed, its peer must see an error, and not an end.
fn reset_on_close(stream: &TcpStream) {
    // If it fails the connection is already gone.
    let _ = stream.set_linger(Some(Duration::ZERO));
}
