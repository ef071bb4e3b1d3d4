//! The HTTP server: a task for each socket, which serves one client after the other.

use core::{
    fmt::{self, Write},
    time::Duration,
};

use filch::atomic::{AtomicUsize, Ordering};
use heapless::{String, Vec};
use httparse::{EMPTY_HEADER, Request};
use smoltcp::iface::SocketHandle;

use crate::{
    EXECUTOR,
    stack::{self, SOCKETS},
    tcp::{Connection, Cut},
};

/// A request's head at most.
const HEAD: usize = 1_024;
/// Headers of a request at most.
const HEADERS: usize = 24;
/// A client may be silent for so long, or take nothing: then it loses its connection. Also the time for a whole head.
const PATIENCE: Duration = Duration::from_secs(5);
/// What `/bytes/N` consists of.
const LINE: [u8; 17] = *b"0123456789abcdef\n";
const LINES: [u8; 60 * LINE.len()] = {
    let mut lines = [0; 60 * LINE.len()];
    let mut i = 0;
    while i < lines.len() {
        lines[i] = LINE[i % LINE.len()];
        i += 1;
    }
    lines
};

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static REQUESTS: AtomicUsize = AtomicUsize::new(0);
/// Connections that a client has cut, or the kernel, because of a client's silence.
static CUTS: AtomicUsize = AtomicUsize::new(0);

/// The task of a socket.
#[filch::task(pool_size = SOCKETS)]
pub async fn connections(handle: SocketHandle) {
    let connection = Connection(handle);
    loop {
        connection.accept().await;
        match in_time(connection.established()).await {
            Ok(true) => {
                CONNECTIONS.fetch_add(1, Ordering::Relaxed);
                let orderly =
                    serve(&connection).await.is_ok() && in_time(connection.close()).await.is_ok();
                if !orderly {
                    CUTS.fetch_add(1, Ordering::Relaxed);
                    connection.abort();
                }
            }
            // The socket listens again.
            Ok(false) => {}
            Err(Cut) => connection.abort(),
        }
    }
}

async fn in_time<R>(future: impl Future<Output = R>) -> Result<R, Cut> {
    EXECUTOR.timeout(PATIENCE, future).await.map_err(|_| Cut)
}

/// Answers requests until the client has no more, or one that ends the connection.
async fn serve(connection: &Connection) -> Result<(), Cut> {
    let mut head = Vec::<u8, HEAD>::new();
    loop {
        let (answer, len, last) = match in_time(request(connection, &mut head)).await?? {
            Some(request) => request,
            None => return Ok(()),
        };
        respond(connection, answer, last).await?;
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        if last {
            return Ok(());
        }
        // What has come behind it belongs to the next.
        head.drain(..len);
    }
}

/// The next request: its answer, the length of its head, and whether it is the last. `None`: there is none.
async fn request(
    connection: &Connection,
    head: &mut Vec<u8, HEAD>,
) -> Result<Option<(Answer, usize, bool)>, Cut> {
    loop {
        if let Some(request) = parse(head) {
            return Ok(Some(request));
        }
        let len = head.len();
        if len == HEAD {
            return Ok(Some((Answer::Refuse("431 Request Header Fields Too Large"), len, true)));
        }
        let mut bytes = [0; HEAD];
        let read = connection.read(&mut bytes[len..]).await?;
        if read == 0 {
            // Between two requests is the right moment to end a connection.
            return if len == 0 { Ok(None) } else { Err(Cut) };
        }
        let _ = head.extend_from_slice(&bytes[len..len + read]);
    }
}

/// What a request is answered with.
#[derive(Clone, Copy)]
enum Answer {
    /// `/square/N`
    Square(u64),
    /// `/bytes/N`
    Bytes(u64),
    /// `/`
    Figures,
    /// A status line.
    Refuse(&'static str),
}

/// `None` if the head is not complete.
fn parse(head: &[u8]) -> Option<(Answer, usize, bool)> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = Request::new(&mut headers);
    let len = match request.parse(head) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some((Answer::Refuse("400 Bad Request"), head.len(), true)),
    };
    let header = |name: &str| {
        let mut headers = request.headers.iter();
        headers.find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    };
    // A body would be taken for the next request.
    let body = header("transfer-encoding").is_some()
        || header("content-length").is_some_and(|length| length != b"0");
    if request.method != Some("GET") || body {
        return Some((Answer::Refuse("405 Method Not Allowed"), len, true));
    }
    let close = match header("connection") {
        Some(value) => value.eq_ignore_ascii_case(b"close"),
        None => request.version == Some(0),
    };
    Some((route(request.path.unwrap_or_default()), len, close))
}

fn route(path: &str) -> Answer {
    let missing = Answer::Refuse("404 Not Found");
    let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
    if path == "/" {
        Answer::Figures
    } else if let Some(n) = path.strip_prefix("/square/") {
        number(n).map_or(missing, Answer::Square)
    } else if let Some(n) = path.strip_prefix("/bytes/") {
        number(n).map_or(missing, Answer::Bytes)
    } else {
        missing
    }
}

async fn respond(connection: &Connection, answer: Answer, last: bool) -> Result<(), Cut> {
    let mut body = String::<128>::new();
    let status = match answer {
        Answer::Refuse(status) => status,
        _ => "200 OK",
    };
    // None of them is longer than the body's room.
    let _ = match answer {
        Answer::Square(n) => writeln!(body, "{}", n * n),
        Answer::Figures => writeln!(body, "{Figures}"),
        Answer::Refuse(status) => writeln!(body, "{status}"),
        Answer::Bytes(_) => Ok(()),
    };
    let len = if let Answer::Bytes(n) = answer { n } else { body.len() as u64 };
    let close = if last { "connection: close\r\n" } else { "" };
    let mut all = String::<384>::new();
    let _ = write!(
        all,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len}\r\n{close}\r\n{body}"
    );
    in_time(connection.write(all.as_bytes())).await??;
    if let Answer::Bytes(mut left) = answer {
        while left > 0 {
            let len = left.min(LINES.len() as u64) as usize;
            in_time(connection.write(&LINES[..len])).await??;
            left -= len as u64;
        }
    }
    Ok(())
}

/// What the server has done, as a line.
pub struct Figures;

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listening = stack::with(|stack| stack.listening());
        let requests = REQUESTS.load(Ordering::Relaxed);
        let connections = CONNECTIONS.load(Ordering::Relaxed);
        let cuts = CUTS.load(Ordering::Relaxed);
        write!(
            f,
            "{requests} requests on {connections} connections, {cuts} cut, {listening} of {SOCKETS} sockets listen"
        )
    }
}
