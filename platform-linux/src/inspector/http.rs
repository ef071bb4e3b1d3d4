//! A client's connection: one request, one answer.

use core::time::Duration;
use std::{io, net::Shutdown};

use filch_std::{Handle, time::timeout};

use super::{
    request::{self, LATE, NOT_ALLOWED, OK, Status},
    route::{self, Body},
};
use crate::net::TcpStream;

/// A client has so long to send the head of its request.
const REQUEST: Duration = Duration::from_secs(5);
/// A client has so long to take the answer.
const ANSWER: Duration = Duration::from_secs(30);
/// What it still sends is taken for so long.
const REST: Duration = Duration::from_secs(1);

/// Nothing of the page is kept, taken for something else, or shown within another page; and the page loads nothing from elsewhere.
const ALWAYS: &str = "Connection: close\r\n\
    Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n";

/// Serves a client. Its errors end its connection, and concern nothing else.
pub(super) async fn client(stream: TcpStream, handle: Handle) {
    let (answer, head_only) = match timeout(REQUEST, request::read(&stream)).await {
        Ok(Some(Ok(request))) => (route::answer(&request.path, &handle).await, request.head_only),
        Ok(Some(Err(status))) => (Err(status), false),
        Ok(None) => return,
        Err(_) => (Err(LATE), false),
    };
    if let Ok(Ok(())) = timeout(ANSWER, send(&stream, answer, head_only)).await {
        let _ = timeout(REST, request::drain(&stream)).await;
    }
}

async fn send(stream: &TcpStream, answer: Result<Body, Status>, head_only: bool) -> io::Result<()> {
    let (Status(code, text), body) = match answer {
        Ok(body) => (OK, body),
        Err(status) => (status, Body::text(format!("{} {}\n", status.0, status.1))),
    };
    let Body { kind, file, bytes } = body;
    let mut head = format!(
        "HTTP/1.1 {code} {text}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{ALWAYS}",
        bytes.len()
    );
    if let Some(name) = file {
        head += &format!("Content-Disposition: attachment; filename=\"{name}\"\r\n");
    }
    if code == NOT_ALLOWED.0 {
        head += "Allow: GET, HEAD\r\n";
    }
    head += "\r\n";
    stream.write_all(head.as_bytes()).await?;
    if !head_only {
        stream.write_all(&bytes).await?;
    }
    stream.shutdown(Shutdown::Write)
}
