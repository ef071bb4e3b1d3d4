//! A page that shows the running program: its workers' polls and sleeps, its tasks, its longest polls.
//!
//! ```no_run
//! let runtime = filch_linux::Builder::new().recorder(4096).build()?;
//! runtime.block_on(async {
//!     let inspector = filch_linux::inspector::serve(([127, 0, 0, 1], 6680))?;
//!     println!("http://{}", inspector.local_addr());
//!     // ...
//!     Ok(())
//! })
//! # as std::io::Result<()>;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | path | what |
//! |---|---|
//! | `/` | the page |
//! | `/page.json` | its data: polls, sleeps and steals in columns, and the tasks |
//! | `/tasks.json` | the tasks that live |
//! | `/trace.json` | the recorder's memory for `chrome://tracing` |
//! | `/filch.perfetto-trace` | the same for <https://ui.perfetto.dev> |
//! | `/filch.trace` | the recorder's file itself |
//! | `/summary.txt` | its summary |
//!
//! It changes nothing in the program, and needs nothing from elsewhere. Its tasks are of the class
//! [`Background`](crate::task::Class::Background); files are read and written on the blocking pool. It costs nothing until a page asks. If no worker
//! is free it cannot answer: [`recorder`](crate::recorder) is for programs that hang.
//!
//! # Risks
//! Each process that reaches the address sees the names of tasks, the places in the source and the addresses in memory, and can have the
//! program write its trace again and again. On a loopback address those are the programs of all users of the machine. On
//! any other address it is the network: there is neither a password nor encryption. A tunnel of `ssh -L` brings the page of another machine
//! here.
//!
//! Pages of other sites get nothing: a request has to name the address, or the local host, as its host.

mod data;
mod http;
mod request;
mod route;

use core::{future::Future, net::SocketAddr};
use std::io;

use filch_std::{
    Handle, JoinHandle, TaskOptions,
    task::{Class, JoinSet, SpawnError},
};

use crate::net::{TcpListener, TcpSocket};

/// Connections that are served at once; others wait in the backlog.
const CLIENTS: usize = 8;
/// So many of them.
const BACKLOG: u32 = 64;

/// A page that is served: [`serve`]. Dropping it changes nothing; the page is served until the runtime ends, or [`abort`](Self::abort).
///
/// ```
/// use filch_linux::inspector::{Inspector, serve};
/// let runtime = filch_linux::Builder::new().workers(1).recorder(1024).build()?;
/// runtime.block_on(async {
///     let page: Inspector = serve(([127, 0, 0, 1], 0))?;
///     assert_ne!(page.local_addr().port(), 0);
///     page.abort();
///     assert!(page.into_task().await.is_err(), "it was aborted");
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inspector {
    addr: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

impl Inspector {
    /// The address that it listens on: with the port that the system chose, if the caller gave 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it, and closes its connections.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// The task that accepts connections. It ends only by an abort, or with the error of a listener that is broken.
    pub fn into_task(self) -> JoinHandle<io::Result<()>> {
        self.task
    }
}

/// Serves the page on this address, from tasks of the current runtime. The module says to whom the program shows itself by that; use a
/// loopback address unless the network is yours.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// // In a runtime with `Builder::recorder`.
/// let inspector = filch_linux::inspector::serve(([127, 0, 0, 1], 0))?;
/// println!("see http://{}", inspector.local_addr());
/// # Ok(()) }
/// ```
///
/// # Errors
/// `NotConnected` if the calling thread is in no runtime; `Unsupported` if that has no recorder; `AddrInUse` and other errors of the operating
/// system; the runtime has shut down.
pub fn serve(addr: impl Into<SocketAddr>) -> io::Result<Inspector> {
    let handle = crate::recorder::current_recorded()?;
    let listener = listen(addr.into())?;
    let addr = listener.local_addr()?;
    let task = spawn(&handle, "filch inspector", accept(listener, handle))?;
    Ok(Inspector { addr, task })
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Spawns something in the background, if the runtime has classes; else without a class.
fn in_background<F, T>(
    name: &'static str,
    what: F,
    spawn: impl Fn(TaskOptions, F) -> Result<JoinHandle<T>, SpawnError<F>>,
) -> Result<JoinHandle<T>, SpawnError<F>> {
    let options = TaskOptions::new().name(name);
    spawn(options.class(Class::Background), what).or_else(|refused| spawn(options, refused.future))
}

fn spawn<F>(handle: &Handle, name: &'static str, future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    in_background(name, future, |options, future| handle.spawn_with(options, future))
        .map_err(|refused| io::Error::other(refused.kind.to_string()))
}

async fn accept(listener: TcpListener, handle: Handle) -> io::Result<()> {
    let mut incoming = listener.incoming();
    // Dropped with this task, which ends those of the clients.
    let mut clients = JoinSet::new();
    loop {
        while clients.len() >= CLIENTS {
            // A client's task has no output; if it has panicked, the others go on.
            let _ = clients.join_next().await;
        }
        let (stream, _) = incoming.next().await?;
        // Refused is one that comes as the runtime ends, as this task does then.
        if let Ok(client) = spawn(&handle, "filch inspector: client", http::client(stream, handle))
        {
            clients.insert(client);
        }
    }
}
