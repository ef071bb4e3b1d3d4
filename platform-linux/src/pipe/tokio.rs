//! tokio's traits for pipes.

use core::task::{Context, Poll};
use std::io;

use filch_io::{nothing, tokio::fill, tokio_reads, tokio_writes};
use tokio::io::ReadBuf;

use super::{Receiver, Sender};

tokio_reads! {
    Receiver, pipe => pipe;
    &Receiver, pipe => pipe;
}

tokio_writes! {
    Sender, pipe => pipe;
    &Sender, pipe => pipe;
}

impl Receiver {
    fn poll_fill_buf(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return nothing::poll_moved(cx);
        }
        let room = self.room(buf.remaining());
        // SAFETY: the system writes to the buffer, and says how much.
        let read = |fd: &_| unsafe { fill(buf, |room| Ok(rustix::io::read(fd, room)?.0.len())) };
        self.io.poll_read_stream_with(cx, room, read).map_ok(drop)
    }
}
