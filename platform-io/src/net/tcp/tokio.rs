//! tokio's traits for a connection and its halves.

use core::task::{Context, Poll};
use std::io;

use tokio::io::ReadBuf;

use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf, stream::TcpStream};
use crate::{net::transfer::receive_buf, nothing, tokio_reads, tokio_writes};

tokio_reads! {
    TcpStream, stream => stream;
    &TcpStream, stream => stream;
    ReadHalf<'_>, half => half.as_ref();
    OwnedReadHalf, half => half.as_ref();
}

tokio_writes! {
    TcpStream, stream => stream;
    &TcpStream, stream => stream;
    WriteHalf<'_>, half => half.as_ref();
    OwnedWriteHalf, half => half.as_ref();
}

impl TcpStream {
    fn poll_fill_buf(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let len = buf.remaining();
        if len == 0 {
            return nothing::poll_moved(cx);
        }
        self.io.poll_read_stream_with(cx, len, |socket| receive_buf(socket, buf)).map_ok(drop)
    }
}
