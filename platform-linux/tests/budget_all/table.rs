//! The async functions of filch-std, filch-io and filch-linux, each in a state in which it is ready at once, if there is one: with
//! nothing to move, at an end, at an error.

use core::{future::pending, time::Duration};
use std::{net::Shutdown, os::fd::AsFd};

use filch_linux::{
    Async, Handle, TaskOptions,
    fs::{self, File},
    io::Ready,
    net::{
        TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
        lookup_host,
    },
    parallel::{self, ForkOptions},
    pipe::pipe,
    process::Command,
    signal::{self, SignalKind},
    stdio,
    task::{JoinSet, TaskTracker},
    time::{self, Instant},
};
use filch_test_support::{budgets::Setup, call, table};
use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, StreamExt};

use crate::os_common::{Scratch, scratch};

/// Both ends of a connection.
async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (one, listener.accept().await.unwrap().0)
}

/// A connection whose other end is closed.
async fn ended() -> TcpStream {
    tcp().await.0
}

/// A listener that is shut down: each call of it is an error.
async fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    listener
}

fn unix_listener() -> UnixListener {
    let folder = scratch(&format!("all-{}", fastrand::u64(..)));
    let listener = UnixListener::bind(folder.0.join("socket")).unwrap();
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    listener
}

/// A socket that is its own peer, and receives nothing.
async fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(socket.local_addr().unwrap()).await.unwrap();
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Read);
    socket
}

fn datagrams() -> UnixDatagram {
    let (one, _) = UnixDatagram::pair().unwrap();
    let _ = one.shutdown(Shutdown::Both);
    one
}

fn eventfd() -> Async<std::os::fd::OwnedFd> {
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    Async::new_nonblocking(rustix::event::eventfd(1, flags).unwrap()).unwrap()
}

fn folder() -> Scratch {
    scratch(&format!("all-{}", fastrand::u64(..)))
}

/// A file, and its folder.
async fn file() -> (File, Scratch) {
    let folder = folder();
    let mut options = File::options();
    options.read(true).write(true).create(true);
    let file = options.open(folder.0.join("file")).await.unwrap();
    (file, folder)
}

fn missing() -> &'static str {
    "/nowhere/at/all"
}

fn with_zero() -> &'static str {
    "a\0b"
}

/// Names of functions, and the state in which they are called.
pub(crate) fn table() -> Vec<(&'static str, Setup)> {
    let mut table = of_std();
    table.extend(of_sockets());
    table.extend(of_files());
    table.extend(of_processes());
    table
}

fn of_std() -> Vec<(&'static str, Setup)> {
    const LONG_AGO: Instant = Instant::ZERO;
    table! {
        "sleep" => call!(time::sleep(Duration::ZERO));
        "sleep_until" => call!(time::sleep_until(LONG_AGO));
        "timeout" => call!(time::timeout(Duration::ZERO, pending::<()>()));
        "timeout_at" => call!(time::timeout_at(LONG_AGO, pending::<()>()));
        "Interval::tick" => {
            let ticks = time::interval(Duration::ZERO);
            call!(mut ticks => ticks.tick())
        };
        "ticks" => {
            let ticks = Box::pin(time::ticks(time::interval(Duration::ZERO)));
            call!(mut ticks => ticks.next())
        };
        "yield_now" => call!(filch_linux::task::yield_now());
        "consume_budget" => call!(filch_linux::task::consume_budget());
        "spawn" => call!(filch_linux::spawn(async {}));
        "spawn_blocking" => call!(filch_linux::spawn_blocking(|| ()));
        "spawn_blocking_with" => call!(async {
            let spawned = Handle::current().map(|here| here.spawn_blocking_with(TaskOptions::new(), || ()));
            match spawned {
                Ok(Ok(task)) => drop(task.await),
                _ => filch_linux::task::consume_budget().await,
            }
        });
        "JoinHandle, joined" => {
            let task = filch_linux::spawn(async {});
            call!(mut task => &mut *task)
        };
        "JoinSet::join_next" => {
            let set = JoinSet::<()>::new();
            call!(mut set => set.join_next())
        };
        "JoinSet::join_next_with_id" => {
            let set = JoinSet::<()>::new();
            call!(mut set => set.join_next_with_id())
        };
        "JoinSet::join_all" => call!(JoinSet::<()>::new().join_all());
        "JoinSet::shutdown" => {
            let set = JoinSet::<()>::new();
            call!(mut set => set.shutdown())
        };
        "TaskTracker::wait" => {
            let tracker = TaskTracker::new();
            tracker.close();
            call!(tracker => tracker.wait())
        };
        "parallel::for_each_async" => call!(parallel::for_each_async(0..0, |_| ()));
        "parallel::map_reduce_async" => call!(parallel::map_reduce_async(0..1, |_| 7, |a, _| a));
        "parallel::offload" => call!(parallel::offload(|_| ()));
        "parallel::offload_with" => call!(async {
            match parallel::offload_with(ForkOptions::new(), |_| ()) {
                Ok(run) => drop(run.await),
                Err(_) => filch_linux::task::consume_budget().await,
            }
        });
        "parallel::join_async" => call!(parallel::join_async(|| (), || ()));
        "parallel::scope_async" => call!(parallel::scope_async(|_| ()));
        #[cfg(feature = "observe")]
        "Handle::dump_tasks" => {
            let handle = filch_linux::Handle::current().unwrap();
            call!(handle => handle.dump_tasks(Duration::ZERO))
        };
    }
}

fn of_sockets() -> Vec<(&'static str, Setup)> {
    let table = table! {
        "lookup_host" => call!(lookup_host("127.0.0.1:80"));
        "lookup_host, nothing" => call!(lookup_host(&[][..]));
        "Async::wait_ready" => {
            let io = eventfd();
            call!(io => io.wait_ready(Ready::READABLE))
        };
        "Async::readable" => {
            let io = eventfd();
            call!(io => io.readable())
        };
        "Async::writable" => {
            let io = eventfd();
            call!(io => io.writable())
        };
        "Async::read_with" => {
            let io = eventfd();
            call!(io => io.read_with(|_| Ok(())))
        };
        "Async::write_with" => {
            let io = eventfd();
            call!(io => io.write_with(|_| Ok(())))
        };
        "Async::read_stream_with" => {
            let io = eventfd();
            call!(io => io.read_stream_with(0, |_| Ok(0)))
        };
        "TcpListener::bind" => call!(TcpListener::bind("127.0.0.1:0"));
        "TcpListener::bind, no such address" => call!(TcpListener::bind("192.0.2.1:1"));
        "TcpListener::accept" => {
            let listener = listener().await;
            call!(listener => listener.accept())
        };
        "Incoming::next" => {
            let listener = listener().await;
            call!(listener => async { listener.incoming().next().await })
        };
        "TcpSocket::connect" => call!(async {
            TcpSocket::new_v4().unwrap().connect("[::1]:1".parse().unwrap()).await
        });
        "TcpStream::connect" => call!(TcpStream::connect("127.0.0.1:1"));
        "TcpStream::connect_addr" => {
            call!(TcpStream::connect_addr(([127, 0, 0, 1], 1).into()))
        };
        "TcpStream::connect_addr, no such host" => {
            call!(TcpStream::connect_addr(([255, 255, 255, 255], 1).into()))
        };
        "TcpStream::read" => {
            let io = ended().await;
            call!(io => io.read(&mut [0]))
        };
        "TcpStream::read, nothing" => {
            let io = ended().await;
            call!(io => io.read(&mut []))
        };
        "TcpStream::read_vectored, nothing" => {
            let io = ended().await;
            call!(io => io.read_vectored(&mut []))
        };
        "TcpStream::peek, nothing" => {
            let io = ended().await;
            call!(io => io.peek(&mut []))
        };
        "TcpStream::write, nothing" => {
            let io = ended().await;
            call!(io => io.write(&[]))
        };
        "TcpStream::write_vectored, nothing" => {
            let io = ended().await;
            call!(io => io.write_vectored(&[]))
        };
        "TcpStream::read_exact, nothing" => {
            let io = ended().await;
            call!(io => io.read_exact(&mut []))
        };
        "TcpStream::write_all, nothing" => {
            let io = ended().await;
            call!(io => io.write_all(&[]))
        };
        "TcpStream::readable" => {
            let io = ended().await;
            call!(io => io.readable())
        };
        "TcpStream::writable" => {
            let io = ended().await;
            call!(io => io.writable())
        };
        "TcpStream, AsyncRead::read, nothing" => {
            let io = ended().await;
            call!(mut io => AsyncReadExt::read(&mut *io, &mut []))
        };
        "TcpStream, AsyncRead::read_vectored, nothing" => {
            let io = ended().await;
            call!(mut io => AsyncReadExt::read_vectored(&mut *io, &mut []))
        };
        "TcpStream, AsyncWrite::flush" => {
            let io = ended().await;
            call!(mut io => AsyncWriteExt::flush(&mut *io))
        };
        "TcpStream, AsyncWrite::close" => {
            let io = ended().await;
            call!(mut io => AsyncWriteExt::close(&mut *io))
        };
        "net::OwnedReadHalf::read, nothing" => {
            let (half, _) = ended().await.into_split();
            call!(mut half => half.read(&mut []))
        };
        "net::OwnedReadHalf::read_vectored, nothing" => {
            let (half, _) = ended().await.into_split();
            call!(mut half => half.read_vectored(&mut []))
        };
        "net::OwnedReadHalf::peek, nothing" => {
            let (half, _) = ended().await.into_split();
            call!(mut half => half.peek(&mut []))
        };
        "net::OwnedReadHalf::read_exact, nothing" => {
            let (half, _) = ended().await.into_split();
            call!(mut half => half.read_exact(&mut []))
        };
        "net::OwnedWriteHalf::write, nothing" => {
            let (_, half) = ended().await.into_split();
            call!(mut half => half.write(&[]))
        };
        "net::OwnedWriteHalf::write_vectored, nothing" => {
            let (_, half) = ended().await.into_split();
            call!(mut half => half.write_vectored(&[]))
        };
        "net::OwnedWriteHalf::write_all, nothing" => {
            let (_, half) = ended().await.into_split();
            call!(mut half => half.write_all(&[]))
        };
        "UdpSocket::bind" => call!(UdpSocket::bind("127.0.0.1:0"));
        "UdpSocket::bind, no such address" => call!(UdpSocket::bind("192.0.2.1:1"));
        "UdpSocket::connect" => {
            let socket = udp().await;
            call!(socket => socket.connect("127.0.0.1:1"))
        };
        "UdpSocket::send" => {
            let socket = udp().await;
            call!(socket => socket.send(b"x"))
        };
        "UdpSocket::send_to" => {
            let socket = udp().await;
            call!(socket => socket.send_to(b"x", ([127, 0, 0, 1], 1).into()))
        };
        "UdpSocket::recv" => {
            let socket = udp().await;
            call!(socket => socket.recv(&mut [0]))
        };
        "UdpSocket::recv_from" => {
            let socket = udp().await;
            call!(socket => socket.recv_from(&mut [0]))
        };
        "UdpSocket::peek_from" => {
            let socket = udp().await;
            call!(socket => socket.peek_from(&mut [0]))
        };
        "UnixDatagram::send" => {
            let socket = datagrams();
            call!(socket => socket.send(b"x"))
        };
        "UnixDatagram::send_to" => {
            let socket = datagrams();
            call!(socket => socket.send_to(b"x", missing()))
        };
        "UnixDatagram::send_to, no path" => {
            let socket = datagrams();
            call!(socket => socket.send_to(b"x", with_zero()))
        };
        "UnixDatagram::send_to_addr" => {
            let socket = datagrams();
            let addr = std::os::unix::net::SocketAddr::from_pathname(missing()).unwrap();
            let both = (socket, addr);
            call!(both => both.0.send_to_addr(b"x", &both.1))
        };
        "UnixDatagram::recv" => {
            let socket = datagrams();
            call!(socket => socket.recv(&mut [0]))
        };
        "UnixDatagram::recv_from" => {
            let socket = datagrams();
            call!(socket => socket.recv_from(&mut [0]))
        };
        "UnixListener::accept" => {
            let listener = unix_listener();
            call!(listener => listener.accept())
        };
        "unix::Incoming::next" => {
            let listener = unix_listener();
            call!(listener => async { listener.incoming().next().await })
        };
        "UnixStream::connect" => call!(UnixStream::connect(missing()));
        "UnixStream::connect, no path" => call!(UnixStream::connect(with_zero()));
        "UnixStream::connect, a path that is too long" => call!(async {
            UnixStream::connect("x".repeat(1_000)).await
        });
        "UnixStream::connect_addr" => {
            let addr = std::os::unix::net::SocketAddr::from_pathname(missing()).unwrap();
            call!(addr => UnixStream::connect_addr(&addr))
        };
        "UnixStream::read, the end" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.read(&mut [0]))
        };
        "UnixStream::read, nothing" => {
            let (io, _peer) = UnixStream::pair().unwrap();
            call!(io => io.read(&mut []))
        };
        "UnixStream::read_vectored" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.read_vectored(&mut []))
        };
        "UnixStream::peek" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.peek(&mut []))
        };
        "UnixStream::write" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.write(b"x"))
        };
        "UnixStream::write_vectored" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.write_vectored(&[]))
        };
        "UnixStream::read_exact, nothing" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.read_exact(&mut []))
        };
        "UnixStream::write_all, nothing" => {
            let (io, _) = UnixStream::pair().unwrap();
            call!(io => io.write_all(&[]))
        };
    };
    let mut table: Vec<(&'static str, Setup)> = table;
    #[cfg(feature = "udp-offload")]
    table.extend(of_offload());
    #[cfg(feature = "hyper")]
    table.extend(of_servers());
    let _ = &mut table;
    table
}

#[cfg(feature = "udp-offload")]
fn of_offload() -> Vec<(&'static str, Setup)> {
    use filch_linux::net::{Transmit, UdpOffload};
    table! {
        "UdpOffload::send" => {
            let io = UdpOffload::try_from(udp().await).unwrap();
            call!(io => io.send(&Transmit::new(b"x", ([127, 0, 0, 1], 1).into())))
        };
        "UdpOffload::send, no size" => {
            let io = UdpOffload::try_from(udp().await).unwrap();
            call!(io => io.send(&Transmit::new(b"x", ([127, 0, 0, 1], 1).into()).segment_size(0)))
        };
        "UdpOffload::writable" => {
            let io = UdpOffload::try_from(udp().await).unwrap();
            call!(io => io.writable())
        };
        "UdpOffload::recv, none" => {
            let io = UdpOffload::try_from(udp().await).unwrap();
            call!(io => io.recv(&mut []))
        };
    }
}

#[cfg(feature = "hyper")]
fn of_servers() -> Vec<(&'static str, Setup)> {
    use filch_linux::hyper::{ServeOptions, serve, serve_until, serve_with};
    /// In a runtime alone: they panic outside of one, or after its end.
    async fn with<F: Future>(f: impl FnOnce(TcpListener, axum::Router) -> F) {
        if let Ok(listener) = TcpListener::bind("127.0.0.1:0").await {
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
            f(listener, axum::Router::new()).await;
        }
    }
    table! {
        "hyper::serve" => call!(with(async |listener, app| drop(serve(listener, app).await)));
        "hyper::serve_until" => call!(with(async |listener, app| {
            drop(serve_until(listener, app, core::future::ready(())).await);
        }));
        "hyper::serve_with" => call!(with(async |listener, app| {
            drop(serve_with(ServeOptions::new(), listener, app, core::future::ready(())).await);
        }));
    }
}

fn of_processes() -> Vec<(&'static str, Setup)> {
    table! {
        "signal::ctrl_c" => call!(signal::ctrl_c());
        "Signal::recv" => {
            let signal = signal::signal(SignalKind::user_defined2()).unwrap();
            call!(mut signal => signal.recv())
        };
        "Command::status" => call!(async { Command::new(missing()).status().await });
        "Command::output" => call!(async { Command::new(missing()).output().await });
        "Child::wait" => {
            let mut child = Command::new("true").spawn().unwrap();
            child.wait().await.unwrap();
            call!(mut child => child.wait())
        };
        "Child::wait_with_output" => call!(async {
            match Command::new("true").spawn() {
                Ok(child) => drop(child.wait_with_output().await),
                Err(_) => filch_linux::task::consume_budget().await,
            }
        });
        "pipe::Sender::write" => {
            let (sender, _) = pipe().unwrap();
            call!(sender => sender.write(b"x"))
        };
        "pipe::Sender::write_vectored" => {
            let (sender, _) = pipe().unwrap();
            call!(sender => sender.write_vectored(&[]))
        };
        "pipe::Sender::write_all, nothing" => {
            let (sender, _) = pipe().unwrap();
            call!(sender => sender.write_all(&[]))
        };
        "pipe::Sender, AsyncWrite::flush" => {
            let (sender, _) = pipe().unwrap();
            call!(mut sender => AsyncWriteExt::flush(&mut *sender))
        };
        "pipe::Sender, AsyncWrite::close" => {
            let (sender, _) = pipe().unwrap();
            call!(mut sender => AsyncWriteExt::close(&mut *sender))
        };
        "pipe::Receiver::read" => {
            let (_, receiver) = pipe().unwrap();
            call!(receiver => receiver.read(&mut [0]))
        };
        "pipe::Receiver::read_vectored" => {
            let (_, receiver) = pipe().unwrap();
            call!(receiver => receiver.read_vectored(&mut []))
        };
        "pipe::Receiver::read_exact, nothing" => {
            let (_, receiver) = pipe().unwrap();
            call!(receiver => receiver.read_exact(&mut []))
        };
        "pipe::Receiver::read_to_end" => {
            let (_, receiver) = pipe().unwrap();
            call!(receiver => async { receiver.read_to_end(&mut Vec::new()).await })
        };
        "stdio::Stdin::read, nothing" => {
            let stdin = stdio::stdin().unwrap();
            call!(mut stdin => stdin.read(&mut []))
        };
        "stdio::Stdout::write, nothing" => {
            let stdout = stdio::stdout().unwrap();
            call!(mut stdout => stdout.write(&[]))
        };
        "stdio::Stdout::write_all, nothing" => {
            let stdout = stdio::stdout().unwrap();
            call!(mut stdout => stdout.write_all(&[]))
        };
        "stdio::Stdout::flush" => {
            let stdout = stdio::stdout().unwrap();
            call!(mut stdout => stdout.flush())
        };
    }
}

fn of_files() -> Vec<(&'static str, Setup)> {
    table! {
        "fs::metadata" => call!(fs::metadata(missing()));
        "fs::symlink_metadata" => call!(fs::symlink_metadata(missing()));
        "fs::canonicalize" => call!(fs::canonicalize(missing()));
        "fs::read_link" => call!(fs::read_link(missing()));
        "fs::create_dir" => call!(fs::create_dir(missing()));
        "fs::create_dir_all" => call!(fs::create_dir_all("/dev/null/below"));
        "fs::remove_file" => call!(fs::remove_file(missing()));
        "fs::remove_dir" => call!(fs::remove_dir(missing()));
        "fs::remove_dir_all" => call!(fs::remove_dir_all(missing()));
        "fs::rename" => call!(fs::rename(missing(), missing()));
        "fs::copy" => call!(fs::copy(missing(), missing()));
        "fs::hard_link" => call!(fs::hard_link(missing(), missing()));
        "fs::symlink" => call!(fs::symlink(missing(), missing()));
        "fs::set_permissions" => {
            let permissions = std::fs::metadata(".").unwrap().permissions();
            call!(permissions => fs::set_permissions(missing(), (*permissions).clone()))
        };
        "fs::try_exists" => call!(fs::try_exists(missing()));
        "fs::write" => {
            let folder = folder();
            call!(folder => fs::write(folder.0.join("written"), "bytes"))
        };
        "fs::read" => call!(fs::read("/proc/self/comm"));
        "fs::read_to_string" => call!(fs::read_to_string("/proc/self/comm"));
        "fs::read_dir" => call!(fs::read_dir(missing()));
        "ReadDir::next_entry" => {
            let folder = folder();
            let entries = fs::read_dir(&folder.0).await.unwrap();
            call!(mut entries => entries.next_entry())
        };
        "DirEntry::file_type" => {
            let entry = fs::read_dir("/").await.unwrap().next_entry().await.unwrap().unwrap();
            call!(entry => entry.file_type())
        };
        "DirEntry::metadata" => {
            let entry = fs::read_dir("/").await.unwrap().next_entry().await.unwrap().unwrap();
            call!(entry => entry.metadata())
        };
        "OpenOptions::open" => call!(async { fs::OpenOptions::new().open("/").await });
        "OpenOptions::open, no path" => {
            call!(async { fs::OpenOptions::new().read(true).open(with_zero()).await })
        };
        "File::open" => call!(File::open(missing()));
        "File::create" => call!(File::create(missing()));
        "File::into_std" => call!(async {
            match File::from_std(std::fs::File::open("/").unwrap()) {
                Ok(file) => drop(file.into_std().await),
                Err(_) => filch_linux::task::consume_budget().await,
            }
        });
        "File::read_at" => {
            let file = file().await;
            call!(file => file.0.read_at(vec![0], 0))
        };
        "File::read_at, nothing" => {
            let file = file().await;
            call!(file => file.0.read_at(Vec::new(), 0))
        };
        "File::read_exact_at" => {
            let file = file().await;
            call!(file => file.0.read_exact_at(Vec::new(), 0))
        };
        "File::write_at" => {
            let file = file().await;
            call!(file => file.0.write_at(vec![7], 0))
        };
        "File::write_all_at" => {
            let file = file().await;
            call!(file => file.0.write_all_at(Vec::new(), 0))
        };
        "File::sync_all" => {
            let file = file().await;
            call!(file => file.0.sync_all())
        };
        "File::sync_data" => {
            let file = file().await;
            call!(file => file.0.sync_data())
        };
        "File::set_len" => {
            let file = file().await;
            call!(file => file.0.set_len(7))
        };
        "File::metadata" => {
            let file = file().await;
            call!(file => file.0.metadata())
        };
        "File::set_permissions" => {
            let file = file().await;
            let permissions = std::fs::File::from(file.0.as_fd().try_clone_to_owned().unwrap())
                .metadata()
                .unwrap()
                .permissions();
            let both = (file, permissions);
            call!(both => both.0.0.set_permissions(both.1.clone()))
        };
        "File::try_clone" => {
            let file = file().await;
            call!(file => file.0.try_clone())
        };
        "File, AsyncRead::read" => {
            let file = file().await;
            call!(mut file => file.0.read(&mut [0]))
        };
        "File, AsyncRead::read, nothing" => {
            let file = file().await;
            call!(mut file => file.0.read(&mut []))
        };
        "File, AsyncWrite::write" => {
            let file = file().await;
            call!(mut file => file.0.write(b"x"))
        };
        "File, AsyncWrite::write, nothing" => {
            let file = file().await;
            call!(mut file => file.0.write(&[]))
        };
        "File, AsyncWrite::flush" => {
            let file = file().await;
            call!(mut file => file.0.flush())
        };
        "File, AsyncWrite::close" => {
            let file = file().await;
            call!(mut file => file.0.close())
        };
        "File, AsyncSeek::seek" => {
            let file = file().await;
            call!(mut file => file.0.seek(std::io::SeekFrom::Start(0)))
        };
    }
}
