//! tokio's interface over filch: a program that is written for tokio runs on filch, and its code does not change.
//!
//! # How to use it
//!
//! The program's manifest takes this crate by tokio's name. The features have tokio's names, and need not be listed: everything is
//! there.
//!
//! ```toml
//! [dependencies]
//! tokio = { package = "filch-tokio", git = "https://github.com/filch-rs/filch", features = ["full"] }
//! ```
//!
//! ```
//! # extern crate filch_tokio as tokio;
//! use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let addr = listener.local_addr()?;
//!     tokio::spawn(async move {
//!         let (mut stream, _) = listener.accept().await?;
//!         stream.write_all(b"hello").await
//!     });
//!     let mut text = String::new();
//!     TcpStream::connect(addr).await?.read_to_string(&mut text).await?;
//!     assert_eq!(text, "hello");
//!     Ok(())
//! }
//! ```
//!
//! Channels and locks ([`sync`]), the traits of [`io`] and their adapters, `select!` and `join!` are those of the crate `tokio`, so that
//! they are the same types for every crate of the program. Crates that use only these (tokio-util's codecs, tokio-stream, hyper) work
//! with this one. **Crates that call tokio's own runtime do not**: they ask for the crate `tokio`, and find no runtime there. That is
//! `tokio::spawn`, `tokio::time` and `tokio::net` in reqwest, sqlx, tonic and others. For those use `filch-linux` by their traits, or
//! a patch of their manifests.
//!
//! # What differs from tokio
//!
//! - A runtime with workers is filch's: its scheduler, its timers, one epoll that all workers share. Timers have the precision of the
//!   system's clock, not of milliseconds.
//! - A current-thread runtime runs its tasks and timers inside `block_on`, on the calling thread, as tokio's does. Its I/O has a thread
//!   of its own, which waits in epoll and wakes the tasks. So an event is seen some microseconds after the file is ready, and not in
//!   the same turn; there is one thread more.
//! - A poll begins with 127 units of budget, where tokio's begins with 128: see [`task::coop`].
//! - The blocking methods of [`sync`] (`blocking_recv`, `blocking_lock` and so on) do not notice that they are called in a task: they
//!   block the worker, or wait for ever. `Sender::send_timeout` is not there.
//! - `block_in_place`: up to 64 workers at a time are replaced while they block. Beyond that their tasks wait.
//! - `on_thread_park` and `on_thread_unpark` are called in current-thread runtimes alone. `global_queue_interval`,
//!   `max_io_events_per_tick` and, with workers, `event_interval` have no effect.
//! - A future's `Ready::is_read_closed` and `is_write_closed` say how the file is when it is asked.
//! - What tokio has under `tokio_unstable` is not there. Linux alone.
//!
//! `tokio/check.sh` runs tokio's own tests on this crate; the README says which fail, and why.

#![cfg(target_os = "linux")]

pub mod fs;
pub mod io;
#[doc(hidden)]
pub mod macros;
pub mod net;
mod park;
pub mod process;
pub mod runtime;
pub mod signal;
pub mod task;
pub mod time;
mod util;

pub use ::tokio::{join, pin, select, sync, try_join};
pub use task::spawn;
pub use tokio_macros::{main, test};
