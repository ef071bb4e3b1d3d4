//! The halves of a Unix stream.

use super::{SocketAddr, stream::UnixStream};

crate::net::halves::halves!(UnixStream, SocketAddr, short: false, {});
