//! Addresses, and names that become addresses.

use core::{
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{io, vec};

use crate::task::{JoinHandle, coop, spawn_blocking};

/// What becomes one or more addresses. Names are looked up on a thread that may block.
pub trait ToSocketAddrs: sealed::Addrs {}

pub(crate) mod sealed {
    use super::Lookup;

    /// What callers outside of the crate cannot add to.
    pub trait Addrs {
        /// Begins to find the addresses.
        fn lookup(&self) -> Lookup;
    }
}

/// The addresses, or the thread that looks for them.
#[derive(Debug)]
pub enum Lookup {
    /// They are known, or never will be.
    Known(Option<io::Result<vec::IntoIter<SocketAddr>>>),
    /// They are looked up.
    Busy(JoinHandle<io::Result<vec::IntoIter<SocketAddr>>>),
}

impl Lookup {
    fn known(addrs: Vec<SocketAddr>) -> Self {
        Self::Known(Some(Ok(addrs.into_iter())))
    }

    fn busy(find: impl FnOnce() -> io::Result<vec::IntoIter<SocketAddr>> + Send + 'static) -> Self {
        Self::Busy(spawn_blocking(find))
    }
}

impl Future for Lookup {
    type Output = io::Result<vec::IntoIter<SocketAddr>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Known(result) => {
                ready!(coop::poll_spend(cx));
                let over = || Err(io::Error::other("polled after completion"));
                Poll::Ready(result.take().unwrap_or_else(over))
            }
            Self::Busy(task) => Poll::Ready(ready!(Pin::new(task).poll(cx))?),
        }
    }
}

macro_rules! plain {
    ($($type:ty: $self:ident => $addr:expr;)*) => {$(
        impl ToSocketAddrs for $type {}

        impl sealed::Addrs for $type {
            fn lookup(&self) -> Lookup {
                let $self = self;
                Lookup::known(vec![$addr])
            }
        }
    )*};
}

plain! {
    SocketAddr: this => *this;
    SocketAddrV4: this => SocketAddr::V4(*this);
    SocketAddrV6: this => SocketAddr::V6(*this);
    (IpAddr, u16): this => SocketAddr::from(*this);
    (Ipv4Addr, u16): this => SocketAddr::from(*this);
    (Ipv6Addr, u16): this => SocketAddr::from(*this);
}

impl ToSocketAddrs for &[SocketAddr] {}

impl sealed::Addrs for &[SocketAddr] {
    fn lookup(&self) -> Lookup {
        Lookup::known(self.to_vec())
    }
}

impl ToSocketAddrs for str {}

impl sealed::Addrs for str {
    fn lookup(&self) -> Lookup {
        if let Ok(addr) = self.parse() {
            return Lookup::known(vec![addr]);
        }
        let name = self.to_owned();
        Lookup::busy(move || std::net::ToSocketAddrs::to_socket_addrs(&name))
    }
}

impl ToSocketAddrs for String {}

impl sealed::Addrs for String {
    fn lookup(&self) -> Lookup {
        self.as_str().lookup()
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl sealed::Addrs for (&str, u16) {
    fn lookup(&self) -> Lookup {
        let (host, port) = *self;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Lookup::known(vec![SocketAddr::new(ip, port)]);
        }
        let host = host.to_owned();
        Lookup::busy(move || std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port)))
    }
}

impl ToSocketAddrs for (String, u16) {}

impl sealed::Addrs for (String, u16) {
    fn lookup(&self) -> Lookup {
        (self.0.as_str(), self.1).lookup()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

impl<T: ToSocketAddrs + ?Sized> sealed::Addrs for &T {
    fn lookup(&self) -> Lookup {
        (**self).lookup()
    }
}

/// The addresses.
pub(crate) async fn addrs(addr: impl ToSocketAddrs) -> io::Result<vec::IntoIter<SocketAddr>> {
    addr.lookup().await
}

/// Calls `op` with one address after the other until it succeeds. If it never does, returns its last error.
pub(crate) async fn first<T, F: Future<Output = io::Result<T>>>(
    addr: impl ToSocketAddrs,
    mut op: impl FnMut(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = None;
    for addr in addrs(addr).await? {
        match op(addr).await {
            Ok(made) => return Ok(made),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")
    }))
}

/// Looks up the addresses of a host.
///
/// # Errors
/// If there is none, or the lookup fails.
pub async fn lookup_host<T: ToSocketAddrs>(
    host: T,
) -> io::Result<impl Iterator<Item = SocketAddr>> {
    addrs(host).await
}
