//! The halves of a TCP stream.

use core::{
    net::SocketAddr,
    task::{Context, Poll},
};

use super::stream::TcpStream;
use crate::io::ReadBuf;

crate::net::halves::halves!(TcpStream, SocketAddr, short: true, {
    /// Waits for bytes, and leaves them there: as the stream's.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (*self).as_ref().peek(buf).await
    }

    /// As `peek`, for use in a `poll` function.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        (*self).as_ref().poll_peek(cx, buf)
    }
});
