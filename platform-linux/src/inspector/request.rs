//! The heads of requests, and which of them are refused.

use core::net::IpAddr;
use std::io;

use crate::net::TcpStream;

/// The longest head.
const LONGEST: usize = 8 << 10;
/// The most lines in it.
const FIELDS: usize = 64;

/// A status of HTTP, with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) u16, pub(super) &'static str);

pub(super) const OK: Status = Status(200, "OK");
pub(super) const BAD: Status = Status(400, "Bad Request");
pub(super) const FORBIDDEN: Status = Status(403, "Forbidden");
pub(super) const NOT_FOUND: Status = Status(404, "Not Found");
pub(super) const NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
pub(super) const LATE: Status = Status(408, "Request Timeout");
pub(super) const TOO_LONG: Status = Status(431, "Request Header Fields Too Large");
pub(super) const FAILED: Status = Status(500, "Internal Server Error");
pub(super) const UNAVAILABLE: Status = Status(503, "Service Unavailable");

/// A request that may be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Without what comes after a question mark.
    pub(super) path: String,
    /// Whether the client wants the head of the answer alone.
    pub(super) head_only: bool,
}

/// Reads the head of a request; none if the client has closed the connection, or it has failed.
pub(super) async fn read(stream: &TcpStream) -> Option<Result<Request, Status>> {
    let local = stream.local_addr().ok()?.ip();
    let mut head = Vec::with_capacity(1 << 10);
    let mut part = [0; 1 << 10];
    loop {
        let n = stream.read(&mut part).await.ok().filter(|n| *n > 0)?;
        head.extend_from_slice(part.get(..n)?);
        if let Some(result) = parse(&head, local) {
            return Some(result);
        }
    }
}

/// What the request is; none if its head is not there as a whole.
fn parse(bytes: &[u8], local: IpAddr) -> Option<Result<Request, Status>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let long = bytes.len() > LONGEST;
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST => {}
        Ok(httparse::Status::Partial) if !long => return None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Some(Err(TOO_LONG)),
        Err(_) => return Some(Err(BAD)),
    }
    Some(judge(&request, local))
}

fn judge(request: &httparse::Request<'_, '_>, local: IpAddr) -> Result<Request, Status> {
    let (Some(method), Some(target)) = (request.method, request.path) else { return Err(BAD) };
    let all = |name: &'static str| {
        let named = move |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
        request.headers.iter().filter(named).map(|field| core::str::from_utf8(field.value))
    };
    let mut hosts = all("host");
    let (Some(Ok(host)), None) = (hosts.next(), hosts.next()) else { return Err(BAD) };
    if !is_own(host.trim(), local) {
        return Err(FORBIDDEN);
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(NOT_ALLOWED),
    };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    // A page of another site may link here, but not have the program at work.
    let foreign = all("sec-fetch-site").any(|site| !matches!(site, Ok("same-origin" | "none")));
    if foreign && path != "/" {
        return Err(FORBIDDEN);
    }
    Ok(Request { path, head_only })
}

/// Whether the client means this address. A name that a stranger chose may lead here too, and gives the stranger's page what is read.
///
/// Any port is right: the connection may come through a tunnel.
fn is_own(host: &str, local: IpAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        // What follows the last colon is no port, but in brackets.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_some_and(|port| !digits(port) || port.parse::<u16>().is_err()) {
        return false;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let ip = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    let is = |ip: IpAddr| ip.is_loopback() || ip == local.to_canonical();
    ip.is_ok_and(|ip| is(ip.to_canonical()))
}

/// Takes what the client still sends: a connection that is closed before that is reset, and the client may lose the answer.
pub(super) async fn drain(stream: &TcpStream) -> io::Result<()> {
    let mut part = [0; 1 << 10];
    for _ in 0..64 {
        if stream.read(&mut part).await? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let local = IpAddr::from([192, 0, 2, 7]);
        for host in [
            "localhost",
            "LocalHost:80",
            "127.0.0.1:6680",
            "127.9.9.9",
            "[::1]",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "192.0.2.7:80",
        ] {
            assert!(is_own(host, local), "{host}");
        }
        for host in [
            "",
            ":80",
            "example.org",
            "localhost.example.org",
            "localhost.",
            "127.0.0.1.example.org",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:+80",
            "127.0.0.1:80:80",
            "::1",
            "[127.0.0.1]",
            "[::1",
            "[::2]",
            "192.0.2.8",
            "0.0.0.0",
            "2130706433",
            "localhost:99999",
            "user@localhost",
        ] {
            assert!(!is_own(host, local), "{host}");
        }
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        assert!(is_own("192.0.2.7", mapped));
    }

    #[test]
    fn heads() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let parse = |head: &str| parse(head.as_bytes(), local);
        let request = |path: &str, head_only| Some(Ok(Request { path: path.into(), head_only }));
        let host = "Host: localhost\r\n";
        assert_eq!(parse(&format!("GET /a?b=c HTTP/1.1\r\n{host}\r\n")), request("/a", false));
        assert_eq!(parse(&format!("HEAD / HTTP/1.0\r\n{host}\r\n")), request("/", true));
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\n{host}")), None);
        for (head, status) in [
            (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), BAD),
            ("GET / HTTP/1.1\r\n\r\n".into(), BAD),
            ("hello\r\n\r\n".into(), BAD),
            ("\0".into(), BAD),
            (format!("POST / HTTP/1.1\r\n{host}\r\n"), NOT_ALLOWED),
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".into(), FORBIDDEN),
            (
                format!("GET /tasks.json HTTP/1.1\r\n{host}Sec-Fetch-Site: cross-site\r\n\r\n"),
                FORBIDDEN,
            ),
            (format!("GET / HTTP/1.1\r\n{host}A: {}\r\n\r\n", "x".repeat(LONGEST)), TOO_LONG),
            (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "A: x\r\n".repeat(FIELDS)), TOO_LONG),
            (format!("GET /{}", "x".repeat(LONGEST)), TOO_LONG),
        ] {
            assert_eq!(parse(&head), Some(Err(status)), "{head:.80}");
        }
    }
}
