//! The tests of filch-linux that are of sockets, run on the host `Polling` of filch-io, from one source: its `Cargo.toml` names them,
//! and in them filch-io has the name of filch-linux.
//!
//! ```sh
//! cargo test -p filch-io-shared
//! ```
