//! Servers for clients to talk to: in tasks of the runtime, on its own sockets.

use core::convert::Infallible;
use std::{io, net::SocketAddr};

use filch_linux::{
    hyper::Timer,
    net::{TcpListener, UdpSocket},
    spawn,
};
use http_body_util::Full;
use hyper::{
    Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn,
};

/// Sends back what it gets, for one connection.
pub(crate) async fn echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move {
        let (stream, _) = listener.accept().await?;
        let (mut reader, mut writer) = stream.into_split();
        futures::io::copy(&mut reader, &mut writer).await
    })
    .detach();
    Ok(addr)
}

/// Answers each request with its path.
pub(crate) async fn http() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move {
        let path = async |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(path))))
        };
        while let Ok((stream, _)) = listener.accept().await {
            let mut http = http1::Builder::new();
            spawn(http.timer(Timer::new()).serve_connection(stream, service_fn(path))).detach();
        }
    })
    .detach();
    Ok(addr)
}

/// Takes one mail, and gives its lines back.
pub(crate) async fn smtp() -> io::Result<(SocketAddr, filch_linux::JoinHandle<io::Result<String>>)>
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let mail = spawn(async move {
        use futures::{AsyncBufReadExt, io::BufReader};
        let (stream, _) = listener.accept().await?;
        stream.write_all(b"220 here\r\n").await?;
        let mut reader = BufReader::new(&stream);
        let (mut mail, mut in_mail) = (String::new(), false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).await? == 0 {
                return Ok(mail);
            }
            let answer = match line.trim_end() {
                "." if in_mail => {
                    in_mail = false;
                    "250 taken\r\n"
                }
                _ if in_mail => {
                    mail.push_str(&line);
                    continue;
                }
                "DATA" => {
                    in_mail = true;
                    "354 go on\r\n"
                }
                "QUIT" => {
                    stream.write_all(b"221 bye\r\n").await?;
                    return Ok(mail);
                }
                _ => "250 yes\r\n",
            };
            stream.write_all(answer.as_bytes()).await?;
        }
    });
    Ok((addr, mail))
}

/// Answers each question for an address with 192.0.2.7.
pub(crate) async fn dns() -> io::Result<SocketAddr> {
    /// A header of twelve bytes comes before the question.
    const HEADER: usize = 12;
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let addr = socket.local_addr()?;
    spawn(async move {
        let mut query = [0; 512];
        loop {
            let (n, from) = socket.recv_from(&mut query).await?;
            // The name ends with a zero; its type and class follow.
            let end = query[HEADER..n].iter().position(|byte| *byte == 0).unwrap_or(0) + HEADER + 5;
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend(&query[HEADER..end]);
            answer.extend([0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
            socket.send_to(&answer, from).await?;
        }
        #[allow(unreachable_code, reason = "it gives the block its type")]
        Ok::<_, io::Error>(())
    })
    .detach();
    Ok(addr)
}
