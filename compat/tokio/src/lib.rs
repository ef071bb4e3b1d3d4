//! tokio's interface over filch: a program that is written for tokio runs on filch, and its code does not change.
//!
//! # How to use it
//!
//! The program's manifest takes this crate by tokio's name. The features are tokio's.
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
//! Channels and locks ([`sync`]), the traits of [`io`] and their adapters, `select!`, `join!` and [`task::coop`] are those of the crate
//! `tokio`, so that they are the same types for every crate of the program.
//!
//! # Two packages
//!
//! These sources are two packages. `filch-tokio` is for the program alone. The package `tokio` in `compat/tokio/patch` of the repository is for
//! all crates of the program: one line of the manifest puts it in tokio's place, and what the next part says does not concern it.
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { git = "https://github.com/filch-rs/filch" }
//! ```
//!
//! # Crates that need tokio, beside `filch-tokio`
//!
//! reqwest, sqlx, tonic and others ask for the crate `tokio`, and call its own `spawn`, timers and sockets. They work: beside each runtime
//! of this crate there is one of that crate, and a thread that is in one is in the other too. That holds in root futures, tasks, local
//! tasks, closures that block, and where a runtime is entered. `filch_linux::tokio` says what runs where. In short:
//!
//! - A future of such a crate is polled where the program awaits it: by the workers, or by the thread of a current-thread runtime.
//! - What the crate itself spawns runs on one thread of tokio's, beside all of tokio's sockets and timers. The code of the program that is
//!   called there, such as the handlers of a server, is in this crate's runtime: it may spawn what is heavy by [`spawn`].
//! - It costs each runtime a thread, which sleeps unless a crate uses it, and three file descriptors.
//! - A stopped clock ([`time::pause`]) does not stop tokio's timers, and does not wait for its sockets.
//! - Without the feature `companion`, which is on by default, it is not there; then only this crate's own functions work.
//!
//! What does not work is a crate that takes or gives a type of tokio's runtime, as those here are other types. The compiler says so:
//!
//! - tokio-stream's `IntervalStream`, `TcpListenerStream`, `UnixListenerStream`, `SignalStream` and `ReadDirStream`. Its streams of channels
//!   and of lines, and the methods of its `StreamExt`, work; `timeout` and `throttle` with tokio's timers, which are precise to a
//!   millisecond.
//! - `axum::serve`, unless its trait `Listener` is implemented for a type around this crate's listener.
//! - tokio-util's `TaskTracker::spawn` and `JoinMap` work, with tasks on tokio's one thread. For tasks on the workers write
//!   `tokio::spawn(tracker.track_future(f))`.
//!
//! Streams of this crate have tokio's traits, so that all crates take them that are generic over those: tokio-rustls, tokio-tungstenite,
//! the codecs of tokio-util, hyper-util's `TokioIo`. A program can also have the crate itself by another name, for its types:
//! `real-tokio = { package = "tokio", version = "1", features = ["net"] }`.
//!
//! # What differs from tokio
//!
//! - A runtime with workers is filch's: its scheduler, its timers, one epoll that all workers share. Timers have the precision of the
//!   system's clock, not of milliseconds.
//! - A current-thread runtime runs its tasks and timers inside `block_on`, on the calling thread, as tokio's does. Its I/O has a thread
//!   of its own, which waits in epoll and wakes the tasks. So an event is seen some microseconds after the file is ready, and not in
//!   the same turn; there is one thread more.
//! - A poll of a task begins with 127 units of budget, where tokio's begins with 128: see [`task::coop`].
//! - Whatever is ready at once spends budget, also connects, binds, flushes and joins of nothing, which are free in tokio; a wait for
//!   readiness spends a 64th of a unit.
//! - `block_in_place` where a task cannot move to another thread, inside `block_on` in a task: up to 8 workers at a time are replaced.
//!   Elsewhere any number of tasks may block.
//! - `on_thread_park` and `on_thread_unpark` are called in current-thread runtimes alone. `global_queue_interval`,
//!   `max_io_events_per_tick` and, with workers, `event_interval` have no effect.
//! - A future's `Ready::is_read_closed` and `is_write_closed` say how the file is when it is asked.
//! - `io::unix::AsyncFd` of a mere number is not `AsFd`: nothing says how long the number's file is open.
//! - What tokio has under `tokio_unstable` is not there. Linux alone.
//!
//! `compat/tokio/check.sh` runs tokio's own tests on this crate; the README says which fail, and why.

#![cfg(target_os = "linux")]
// A module that is off as such may be there for another one, and then not all of it is used.
#![cfg_attr(
    not(all(feature = "full", feature = "test-util")),
    allow(dead_code, unreachable_pub, unused_imports, unused_macros)
)]

#[cfg(feature = "fs")]
pub mod fs;
pub mod io;
#[doc(hidden)]
pub mod macros;
pub mod net;
#[cfg(feature = "_runtime")]
mod park;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "rt")]
pub mod runtime;
#[cfg(all(feature = "_runtime", not(feature = "rt")))]
mod runtime;
#[cfg(feature = "signal")]
pub mod signal;
#[cfg(feature = "sync")]
pub mod sync;
#[cfg(feature = "rt")]
pub mod task;
#[cfg(all(feature = "_runtime", not(feature = "rt")))]
mod task;
#[cfg(feature = "time")]
pub mod time;
#[cfg(all(feature = "_runtime", not(feature = "time")))]
mod time;
#[cfg(feature = "_runtime")]
mod util;

pub use real::pin;
#[cfg(feature = "macros")]
pub use real::{join, select, try_join};
#[cfg(feature = "rt")]
pub use task::spawn;
#[cfg(all(feature = "macros", feature = "rt-multi-thread"))]
pub use tokio_macros::{main, test};
#[cfg(all(feature = "macros", not(feature = "rt")))]
pub use tokio_macros::{main_fail as main, test_fail as test};
#[cfg(all(feature = "macros", feature = "rt", not(feature = "rt-multi-thread")))]
pub use tokio_macros::{main_rt as main, test_rt as test};
