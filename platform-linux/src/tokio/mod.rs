//! Crates that need tokio (feature `tokio`): hyper-util, reqwest, sqlx, tonic, quinn and others call `tokio::spawn`, its timers or its
//! sockets, which panic outside of tokio ("there is no reactor running"). With this feature they run in this runtime's tasks.
//!
//! ```
//! # use core::time::Duration;
//! let runtime = filch_linux::Builder::new().workers(2).tokio(true).build()?; // `true` is the default
//! runtime.block_on(async {
//!     filch_linux::spawn(async {
//!         tokio::time::sleep(Duration::from_millis(1)).await; // tokio's timer, in a task of this runtime
//!         assert_eq!(tokio::spawn(async { 7 }).await.unwrap(), 7); // a task of tokio
//!     })
//!     .await
//! })?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! `docs/ecosystem.md` says of 54 crates whether they need this feature.
//!
//! # What runs where
//!
//! Each runtime has a tokio runtime beside it: one of the kind `current_thread`, with all of tokio's drivers. One thread, named
//! `filch-tokio` after the runtime, waits for tokio's sockets and timers and runs tokio's tasks.
//!
//! - **A future in a task of this runtime** is polled by the runtime's workers, whatever crate it comes from. tokio's thread only wakes
//!   it. So `client.get(url).send().await` in [`spawn`](crate::spawn) is spread over the workers as any task is.
//! - **`tokio::spawn`** does not spawn on the workers: all of its tasks share tokio's one thread. That thread also serves all of tokio's
//!   sockets and timers, so a task there that computes for long delays them all. Use [`spawn`](crate::spawn) in your own code. Crates that spawn
//!   often take an executor: give hyper's and hyper-util's builders `filch_linux::hyper::Executor` (feature `hyper`). Where a crate takes none
//!   (`axum::serve`, tonic's server, reqwest's connections), its I/O runs on that thread. In handlers, do what is heavy in
//!   `filch_linux::spawn(..).await`.
//! - **tokio's tasks are in this runtime**, and so is its blocking pool: [`spawn`](crate::spawn), [`sleep`](crate::time::sleep()) and this crate's
//!   sockets work there, and the hooks of [`Builder::on_thread_start`](crate::Builder::on_thread_start) are called in these threads.
//! - **`tokio::task::spawn_blocking`** uses tokio's own pool (512 threads at most).
//! - **`tokio::task::block_in_place`** calls its closure at once in a task of this runtime. On tokio's thread it panics, as always in a
//!   runtime of the kind `current_thread`.
//! - **`tokio::task::spawn_local`** works where it works elsewhere: inside of a `LocalSet`, which a local task or a `block_on` runs.
//!
//! The workers, compensation workers, helpers, the threads of the blocking pool and callers of `block_on` have tokio's handle. Other
//! threads do not: `tokio::runtime::Handle::current()` is what to give them, or [`Linux::tokio`](crate::runtime::Linux::tokio).
//!
//! # Streams
//!
//! [`TcpStream`](crate::net::TcpStream), [`UnixStream`](crate::net::UnixStream), their halves and the [pipes](crate::pipe), also those of
//! [child processes](crate::process), implement tokio's `AsyncRead` and `AsyncWrite`: owned and by reference, with vectored writes; reads go
//! straight into the memory of the `ReadBuf`. The objects of [`stdio`](crate::stdio) implement them too. They wait in this runtime's
//! reactor, not in tokio's. If tokio's and futures' extension traits are both in scope, a call such as `read_to_end` is ambiguous: import
//! one of them.
//!
//! # The end
//!
//! The runtime ends first: its tasks are dropped on its workers, while tokio still runs, so that sockets and timers in them end in order.
//! Then tokio's tasks are dropped on tokio's thread, and the drop of the runtime returns when that thread has ended. Closures in tokio's
//! blocking pool go on to their ends, and are not waited for, as those in [`spawn_blocking`](crate::spawn_blocking). A tokio task that
//! never returns from a poll makes the drop wait, as a task of this runtime does. If a task of tokio drops the runtime, tokio's thread ends
//! after that poll.
//!
//! # Limits
//!
//! - A poll of tokio's sockets and timers spends no budget of this runtime, and none of tokio's: a loop over a socket that is always ready
//!   calls [`consume_budget`](crate::task::consume_budget).
//! - Do not wait in sync code on tokio's thread ([`block_on`](crate::block_on), `join`): while it does so no socket and no timer of tokio goes on.
//!   If you call [`Handle::block_on`](crate::Handle::block_on) inside of another tokio runtime's task, put it into that runtime's
//!   `block_in_place` or `spawn_blocking`: tokio's budget for its task is not renewed inside, so a future that uses tokio could wait for ever.
//! - A stopped clock ([`time::pause`](crate::time::pause)) stops this runtime's timers, not tokio's, and does not wait for what tokio waits for.
//! - In a forked child, tokio's thread is missing as all others are: build a runtime there.
//! - A guard of a tokio handle must be dropped within the poll that took it. One that is kept is forgotten as the thread ends.
//!
//! # Cost
//!
//! tokio's context is a value of the thread, which must be there before a crate asks for it; and tokio says nothing to the outside when the
//! first socket registers. So the tokio runtime and its thread are there from the build of the runtime, used or not: a thread that sleeps,
//! three file descriptors (four with tokio's feature `signal`), about 60 us for the build and the drop. An idle one makes no wake-up. A
//! poll costs nothing more; a `block_on`, and a thread that begins to help, a lock and a reference count (10 ns). A socket's event goes
//! from tokio's thread to a worker, which this crate's own sockets save. [`Builder::tokio`](crate::Builder::tokio) turns it off for a
//! runtime.

mod io;
