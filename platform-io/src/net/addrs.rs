//! Addresses to listen on or connect to: known addresses, and names for the resolver.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{io, net::ToSocketAddrs as _};

use filch_std::{Handle, task::consume_budget};

use super::failures::Failure;

/// One or more socket addresses, or a name that resolves to some.
///
/// Like [`std::net::ToSocketAddrs`], but a name is looked up later, on the blocking pool:
/// [`to_addrs`](Self::to_addrs) never blocks. Text that is an address already (`"127.0.0.1:80"`,
/// `"[::1]:80"`) needs no look-up.
///
/// ```
/// # async fn example() -> std::io::Result<()> {
/// use filch_io::net::TcpListener;
/// TcpListener::bind("localhost:8080").await?;
/// TcpListener::bind(("127.0.0.1", 8080)).await?;
/// TcpListener::bind([([127, 0, 0, 1], 8080).into(), ([127, 0, 0, 1], 8081).into()]).await?;
/// # Ok(())
/// # }
/// ```
pub trait ToSocketAddrs {
    /// The addresses, or the name to look up.
    fn to_addrs(&self) -> Addrs;
}

/// Returns the addresses. Looks a name up on the blocking pool, with the system's resolver
/// (`getaddrinfo`).
///
/// # Errors
/// A name that does not resolve, with the name in the error's text; the calling thread is in no runtime.
///
/// # Cancel safety
/// Loses nothing. A look-up that has begun runs to its end on its thread.
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// let addrs = filch_io::net::lookup_host("127.0.0.1:80").await?;
/// assert_eq!(addrs, [([127, 0, 0, 1], 80).into()]);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub async fn lookup_host(addrs: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    addrs.to_addrs().resolve().await
}

/// Known addresses, or a name to look up: the result of [`ToSocketAddrs`].
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use filch_io::net::{Addrs, ToSocketAddrs, lookup_host};
/// /// A program of this host.
/// enum Local { Port(u16), Web }
/// impl ToSocketAddrs for Local {
///     fn to_addrs(&self) -> Addrs {
///         match self {
///             Self::Port(port) => Addrs::host("127.0.0.1", *port),
///             Self::Web => Addrs::name("127.0.0.1:80"),
///         }
///     }
/// }
/// assert_eq!(lookup_host(Local::Port(80)).await?, lookup_host(Local::Web).await?);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Addrs(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Known(Vec<SocketAddr>),
    /// `host:port`.
    Name(Box<str>),
}

impl Addrs {
    /// A name and a port, `"example.org:80"`.
    pub fn name(name: &str) -> Self {
        match name.parse() {
            Ok(addr) => Self::from_iter([addr]),
            Err(_) => Self(Kind::Name(name.into())),
        }
    }

    /// A host, by its name or its address, and a port.
    pub fn host(host: &str, port: u16) -> Self {
        match host.parse::<IpAddr>() {
            Ok(ip) => Self::from_iter([SocketAddr::new(ip, port)]),
            Err(_) => Self(Kind::Name(format!("{host}:{port}").into())),
        }
    }

    /// The addresses, at least one.
    ///
    /// It spends a unit of budget, for operations that are then ready at once.
    pub(crate) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        consume_budget().await;
        let addrs = match self.0 {
            Kind::Known(addrs) => addrs,
            Kind::Name(name) => look_up(name).await?,
        };
        if addrs.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no address was given"));
        }
        Ok(addrs)
    }
}

async fn look_up(name: Box<str>) -> io::Result<Vec<SocketAddr>> {
    let handle = Handle::current().map_err(io::Error::other)?;
    let resolving = handle.spawn_blocking(move || match name.to_socket_addrs() {
        Ok(addrs) => Ok(addrs.collect()),
        Err(error) => Err(Failure::new(format!("cannot look up {name}"), error).into()),
    });
    resolving.await.map_err(io::Error::other)?
}

impl FromIterator<SocketAddr> for Addrs {
    fn from_iter<I: IntoIterator<Item = SocketAddr>>(addrs: I) -> Self {
        Self(Kind::Known(addrs.into_iter().collect()))
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    fn to_addrs(&self) -> Addrs {
        (**self).to_addrs()
    }
}

impl ToSocketAddrs for str {
    fn to_addrs(&self) -> Addrs {
        Addrs::name(self)
    }
}

impl ToSocketAddrs for String {
    fn to_addrs(&self) -> Addrs {
        Addrs::name(self)
    }
}

impl ToSocketAddrs for (&str, u16) {
    fn to_addrs(&self) -> Addrs {
        Addrs::host(self.0, self.1)
    }
}

impl ToSocketAddrs for (String, u16) {
    fn to_addrs(&self) -> Addrs {
        Addrs::host(&self.0, self.1)
    }
}

impl ToSocketAddrs for [SocketAddr] {
    fn to_addrs(&self) -> Addrs {
        self.iter().copied().collect()
    }
}

impl<const N: usize> ToSocketAddrs for [SocketAddr; N] {
    fn to_addrs(&self) -> Addrs {
        self.as_slice().to_addrs()
    }
}

impl ToSocketAddrs for Vec<SocketAddr> {
    fn to_addrs(&self) -> Addrs {
        self.as_slice().to_addrs()
    }
}

/// Implements the trait for types that are one address.
macro_rules! one {
    ($($type:ty),+) => {$(
        impl ToSocketAddrs for $type {
            fn to_addrs(&self) -> Addrs {
                Addrs::from_iter([SocketAddr::from(*self)])
            }
        }
    )+};
}

one!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

#[cfg(test)]
mod tests {
    use super::*;

    fn known(addrs: impl ToSocketAddrs) -> Option<Vec<SocketAddr>> {
        match addrs.to_addrs().0 {
            Kind::Known(addrs) => Some(addrs),
            Kind::Name(_) => None,
        }
    }

    #[test]
    fn addresses_need_no_resolver() {
        let v4: SocketAddr = ([127, 0, 0, 1], 80).into();
        let v6: SocketAddr = (Ipv6Addr::LOCALHOST, 80).into();
        assert_eq!(known(v4), Some(vec![v4]));
        assert_eq!(known("127.0.0.1:80"), Some(vec![v4]));
        assert_eq!(known(String::from("[::1]:80")), Some(vec![v6]));
        assert_eq!(known(("::1", 80)), Some(vec![v6]));
        assert_eq!(known((Ipv4Addr::LOCALHOST, 80)), Some(vec![v4]));
        assert_eq!(known([v4, v6]), Some(vec![v4, v6]));
        assert_eq!(known(&vec![v4, v6][..]), Some(vec![v4, v6]));
    }

    #[test]
    fn names_do() {
        assert_eq!(known("localhost:80"), None);
        assert_eq!(known((String::from("localhost"), 80)), None);
        assert_eq!(known("no port"), None);
    }
}
