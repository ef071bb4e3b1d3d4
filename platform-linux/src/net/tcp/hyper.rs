//! A connection as hyper's.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{io, net};

use hyper::rt::ReadBufCursor;
use rustix::net::RecvFlags;

use super::stream::TcpStream;
use crate::hyper::streams;

streams!(TcpStream, &TcpStream);

impl TcpStream {
    fn poll_fill(&self, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let len = buf.remaining();
        if len == 0 {
            return Poll::Ready(Ok(()));
        }
        self.io.poll_read_stream_with(cx, len, |socket| receive(socket, &mut buf)).map_ok(drop)
    }
}

fn receive(socket: &net::TcpStream, buf: &mut ReadBufCursor<'_>) -> io::Result<usize> {
    // SAFETY: the system writes to it, and nobody reads it.
    let room = unsafe { buf.as_mut() };
    let ((filled, _), _) = rustix::net::recv(socket, room, RecvFlags::empty())?;
    let n = filled.len();
    // SAFETY: that many bytes the system has written.
    unsafe { buf.advance(n) };
    Ok(n)
}
