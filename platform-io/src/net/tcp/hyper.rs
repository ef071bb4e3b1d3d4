//! hyper's traits for a connection.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::io;

use hyper::rt::ReadBufCursor;

use super::stream::TcpStream;
use crate::{
    hyper::{receive, streams},
    nothing,
};

streams!(TcpStream, &TcpStream);

impl TcpStream {
    fn poll_fill(&self, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let len = buf.remaining();
        if len == 0 {
            return nothing::poll_moved(cx);
        }
        self.io.poll_read_stream_with(cx, len, |socket| receive(socket, &mut buf)).map_ok(drop)
    }
}
