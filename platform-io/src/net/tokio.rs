//! tokio's traits for connections and their halves.

use core::task::{Context, Poll};
use std::io;

use tokio::io::ReadBuf;

use super::{halves, transfer::receive_buf};
use crate::{tokio_reads, tokio_writes};

macro_rules! stream {
    ($stream:ident, $halves:ident) => {
        tokio_reads! {
            super::$stream, stream => stream;
            &super::$stream, stream => stream;
            halves::$halves::ReadHalf<'_>, half => half.as_ref();
            halves::$halves::OwnedReadHalf, half => half.as_ref();
        }

        tokio_writes! {
            super::$stream, stream => stream;
            &super::$stream, stream => stream;
            halves::$halves::WriteHalf<'_>, half => half.as_ref();
            halves::$halves::OwnedWriteHalf, half => half.as_ref();
        }

        impl super::$stream {
            fn poll_fill_buf(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let len = buf.remaining();
                self.poll_fill(cx, len, |socket| receive_buf(socket, buf)).map_ok(drop)
            }
        }
    };
}

stream!(TcpStream, tcp);
#[cfg(unix)]
stream!(UnixStream, unix);
