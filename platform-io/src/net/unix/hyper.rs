//! hyper's traits for a connection.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::io;

use hyper::rt::ReadBufCursor;

use super::stream::UnixStream;
use crate::hyper::{receive, streams};

streams!(UnixStream, &UnixStream);

impl UnixStream {
    fn poll_fill(&self, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.io.poll_read_with(cx, |socket| receive(socket, &mut buf)).map_ok(drop)
    }
}
