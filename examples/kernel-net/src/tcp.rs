//! A server's TCP connection: smoltcp's sockets, for tasks.
//!
//! Each operation tries under the stack's lock. If it would have to wait, it leaves the task's waker in the socket, under
//! the same lock, so that no change of the socket comes in between.

use core::{future::poll_fn, task::Poll};

use smoltcp::{
    iface::SocketHandle,
    socket::tcp::{RecvError, Socket, State},
};

use crate::stack;

/// The port of the server.
const PORT: u16 = 80;

/// The connection has been cut, by the client or by a timeout.
#[derive(Debug)]
pub struct Cut;

/// A socket, which has one connection after the other. Its task alone uses it.
pub struct Connection(pub SocketHandle);

impl Connection {
    /// Waits for a client. It has not yet proved that it can hear us, see `established`.
    pub async fn accept(&self) {
        stack::with(|stack| {
            // Not after an orderly end, nor after an abort.
            if stack.socket(self.0).is_open() {
                return;
            }
            // The state after an orderly end lasts 10 s, for packets that are late, and clients need the socket.
            stack.socket(self.0).abort();
            if let Err(error) = stack.socket(self.0).listen(PORT) {
                panic!("port {PORT}: {error}");
            }
        });
        self.until(|state| state != State::Listen).await;
    }

    /// Waits for the end of the handshake. False if the client has ended it.
    pub async fn established(&self) -> bool {
        self.until(|state| state != State::SynReceived).await != State::Listen
    }

    /// Reads what has come, at least a byte, or the end: 0.
    pub async fn read(&self, buffer: &mut [u8]) -> Result<usize, Cut> {
        self.attempt(
            |socket| match socket.recv_slice(buffer) {
                Ok(0) => None,
                Ok(len) => Some(Ok(len)),
                Err(RecvError::Finished) => Some(Ok(0)),
                Err(RecvError::InvalidState) => Some(Err(Cut)),
            },
            Socket::register_recv_waker,
        )
        .await
    }

    /// Writes all of it into the socket's buffer, as the client makes room.
    pub async fn write(&self, mut bytes: &[u8]) -> Result<(), Cut> {
        while !bytes.is_empty() {
            let written = self.attempt(
                |socket| match socket.send_slice(bytes) {
                    Ok(0) => None,
                    Ok(len) => Some(Ok(len)),
                    Err(_) => Some(Err(Cut)),
                },
                Socket::register_send_waker,
            );
            bytes = &bytes[written.await?..];
        }
        Ok(())
    }

    /// An orderly end: waits until the client has all that was written, and has closed its direction too. What it still
    /// sends is thrown away, or its end could not come behind it.
    pub async fn close(&self) {
        stack::with(|stack| stack.socket(self.0).close());
        stack::changed();
        let throw_away = |bytes: &mut [u8]| (bytes.len(), bytes.len());
        let more = |socket: &mut Socket<'static>| match socket.recv(throw_away) {
            Ok(0) => None,
            result => Some(result.is_ok()),
        };
        while self.attempt(more, Socket::register_recv_waker).await {}
        self.until(|state| matches!(state, State::Closed | State::TimeWait)).await;
    }

    /// Ends it now.
    pub fn abort(&self) {
        stack::with(|stack| stack.abort(self.0));
        // The interface has fewer timers.
        stack::changed();
    }

    /// Waits for a state, and returns it.
    async fn until(&self, wanted: impl Fn(State) -> bool) -> State {
        poll_fn(|cx| {
            stack::with(|stack| {
                let socket = stack.socket(self.0);
                if wanted(socket.state()) {
                    return Poll::Ready(socket.state());
                }
                socket.register_recv_waker(cx.waker());
                Poll::Pending
            })
        })
        .await
    }

    /// Tries until `attempt` returns something; `register` leaves the waker for the next attempt.
    async fn attempt<R>(
        &self,
        mut attempt: impl FnMut(&mut Socket<'static>) -> Option<R>,
        register: fn(&mut Socket<'static>, &core::task::Waker),
    ) -> R {
        let result = poll_fn(|cx| {
            stack::with(|stack| {
                let socket = stack.socket(self.0);
                let result = attempt(socket);
                if result.is_none() {
                    register(socket, cx.waker());
                }
                result.map_or(Poll::Pending, Poll::Ready)
            })
        })
        .await;
        // There is something to send, or room to announce.
        stack::changed();
        result
    }
}
