//! The async functions, each in a state in which it is ready at once, if there is one: with nothing to move, at an end, at an error.

use core::{
    future::{Future, pending, poll_fn, ready},
    net::SocketAddr,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use std::{
    fs::FileTimes, net::Shutdown, os::fd::OwnedFd, path::PathBuf, process::Stdio, time::SystemTime,
};

use filch_test_support::{
    budgets::{Setup, ignore},
    call, table,
};
use filch_tokio::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, Interest, ReadBuf, unix::AsyncFd},
    net::{
        TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixSocket,
        UnixStream, lookup_host, unix::pipe,
    },
    process::{Child, Command},
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    task::{self, JoinSet, LocalSet},
    time::{Instant, interval, sleep, sleep_until, timeout, timeout_at},
};

/// Where nothing listens.
const REFUSES: &str = "127.0.0.1:1";
const NOWHERE: &str = "/nowhere/at/all";
/// Longer than an address may be.
const TOO_LONG: &str = concat!(
    "/012345678901234567890123456789012345678901234567890123456789",
    "012345678901234567890123456789012345678901234567890123456789",
);

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
    let listener = UnixListener::bind(format!("\0filch-tokio-{}", number())).unwrap();
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    listener
}

fn unix() -> UnixStream {
    UnixStream::pair().unwrap().0
}

/// Another one for each call.
fn number() -> String {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), LAST.fetch_add(1, Relaxed))
}

/// A socket that is shut down for reads: it receives nothing, at once.
async fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(socket.local_addr().unwrap()).await.unwrap();
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Read).unwrap();
    socket
}

fn unix_datagram() -> UnixDatagram {
    let (a, b) = UnixDatagram::pair().unwrap();
    drop(b);
    a.shutdown(Shutdown::Read).unwrap();
    a
}

/// The end of a pipe that can be written to, and the other.
fn writable() -> (AsyncFd<OwnedFd>, OwnedFd) {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    (AsyncFd::new(writes).unwrap(), reads)
}

/// The end of a pipe whose writer has gone.
fn readable() -> AsyncFd<OwnedFd> {
    AsyncFd::new(rustix::pipe::pipe().unwrap().0).unwrap()
}

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("filch-tokio-{}", number()))
}

/// A file without a name.
async fn file() -> File {
    let path = path();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).await;
    let mut file = file.unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(&[7; 10_000]).await.unwrap();
    file.rewind().await.unwrap();
    file
}

/// A child that has ended.
async fn child() -> Child {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().await.unwrap();
    child
}

/// A child that lives as long as its input is open.
fn cat() -> Child {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

async fn nowhere_in_a_list() -> Vec<SocketAddr> {
    Vec::new()
}

pub(crate) fn table() -> Vec<(&'static str, Setup)> {
    let mut all = of_net();
    all.extend(of_files());
    all.extend(of_tasks());
    all
}

fn of_net() -> Vec<(&'static str, Setup)> {
    table! {
        "lookup_host" => call!(lookup_host("127.0.0.1:80"));
        "lookup_host, a name" => call!(lookup_host("localhost:80"));
        "lookup_host, no name" => call!(lookup_host("no address"));
        "TcpStream::connect, refused" => call!(TcpStream::connect(REFUSES));
        "TcpStream::connect, no address" => call!(TcpStream::connect(&[][..]));
        "TcpSocket::connect, refused" => call!(TcpSocket::new_v4().unwrap().connect(REFUSES.parse().unwrap()));
        "TcpSocket::connect, of another family" => call!(TcpSocket::new_v4().unwrap().connect("[::1]:1".parse().unwrap()));
        "TcpListener::bind" => call!(TcpListener::bind("127.0.0.1:0"));
        "TcpListener::bind, refused" => call!(TcpListener::bind("192.0.2.1:0"));
        "TcpListener::accept" => { let l = listener().await; call!(l => l.accept()) };
        "TcpListener::poll_accept" => { let l = listener().await; call!(l => poll_fn(|cx| l.poll_accept(cx))) };
        "TcpStream::ready" => { let s = ended().await; call!(s => s.ready(Interest::READABLE)) };
        "TcpStream::readable" => { let s = ended().await; call!(s => s.readable()) };
        "TcpStream::writable" => { let s = ended().await; call!(s => s.writable()) };
        "TcpStream::poll_read_ready" => { let s = ended().await; call!(s => poll_fn(|cx| s.poll_read_ready(cx))) };
        "TcpStream::poll_write_ready" => { let s = ended().await; call!(s => poll_fn(|cx| s.poll_write_ready(cx))) };
        "TcpStream::async_io" => { let s = ended().await; call!(s => s.async_io(Interest::WRITABLE, || Ok(()))) };
        "TcpStream::peek" => { let s = ended().await; call!(s => s.peek(&mut [0])) };
        "TcpStream::poll_peek" => { let s = ended().await; call!(s => poll_fn(|cx| s.poll_peek(cx, &mut ReadBuf::new(&mut [0])))) };
        "TcpStream::read" => { let s = ended().await; call!(mut s => s.read(&mut [0])) };
        "TcpStream::read, nothing" => { let s = tcp().await; call!(mut s => s.0.read(&mut [])) };
        "TcpStream::write" => { let s = ended().await; call!(mut s => s.write(&[0])) };
        "TcpStream::write, nothing" => { let s = tcp().await; call!(mut s => s.0.write(&[])) };
        "TcpStream::write_vectored" => { let s = ended().await; call!(mut s => s.write_vectored(&[])) };
        "TcpStream::flush" => { let s = tcp().await; call!(mut s => s.0.flush()) };
        "TcpStream::shutdown" => { let s = tcp().await; call!(mut s => s.0.shutdown()) };
        "OwnedReadHalf::read" => { let (r, _w) = ended().await.into_split(); call!(mut r => r.read(&mut [0])) };
        "OwnedReadHalf::peek" => { let (r, _w) = ended().await.into_split(); call!(mut r => r.peek(&mut [0])) };
        "OwnedReadHalf::poll_peek" => { let (r, _w) = ended().await.into_split(); call!(mut r => poll_fn(|cx| r.poll_peek(cx, &mut ReadBuf::new(&mut [0])))) };
        "OwnedReadHalf::readable" => { let (r, _w) = ended().await.into_split(); call!(r => r.readable()) };
        "OwnedReadHalf::ready" => { let (r, _w) = ended().await.into_split(); call!(r => r.ready(Interest::READABLE)) };
        "OwnedWriteHalf::flush" => { let (_r, w) = ended().await.into_split(); call!(mut w => w.flush()) };
        "OwnedWriteHalf::shutdown" => { let (_r, w) = ended().await.into_split(); call!(mut w => w.shutdown()) };
        "OwnedWriteHalf::write" => { let (_r, w) = ended().await.into_split(); call!(mut w => w.write(&[0])) };
        "OwnedWriteHalf::writable" => { let (_r, w) = ended().await.into_split(); call!(w => w.writable()) };
        "OwnedWriteHalf::ready" => { let (_r, w) = ended().await.into_split(); call!(w => w.ready(Interest::WRITABLE)) };
        "WriteHalf::shutdown" => { let s = tcp().await; call!(mut s => async { s.0.split().1.shutdown().await }) };
        "UdpSocket::bind" => call!(UdpSocket::bind("127.0.0.1:0"));
        "UdpSocket::bind, refused" => call!(UdpSocket::bind("192.0.2.1:0"));
        "UdpSocket::connect" => { let s = udp().await; call!(s => s.connect(REFUSES)) };
        "UdpSocket::connect, of another family" => { let s = udp().await; call!(s => s.connect("[::1]:1")) };
        "UdpSocket::send" => { let s = udp().await; call!(s => s.send(&[0])) };
        "UdpSocket::send_to" => { let s = udp().await; call!(s => s.send_to(&[0], REFUSES)) };
        "UdpSocket::send_to, nowhere" => { let s = udp().await; call!(s => async { s.send_to(&[0], &nowhere_in_a_list().await[..]).await }) };
        "UdpSocket::recv" => { let s = udp().await; call!(s => s.recv(&mut [0])) };
        "UdpSocket::recv_buf" => { let s = udp().await; call!(s => async { s.recv_buf(&mut Vec::with_capacity(8)).await }) };
        "UdpSocket::recv_from" => { let s = udp().await; call!(s => s.recv_from(&mut [0])) };
        "UdpSocket::recv_buf_from" => { let s = udp().await; call!(s => async { s.recv_buf_from(&mut Vec::with_capacity(8)).await }) };
        "UdpSocket::peek" => { let s = udp().await; call!(s => s.peek(&mut [0])) };
        "UdpSocket::peek_from" => { let s = udp().await; call!(s => s.peek_from(&mut [0])) };
        "UdpSocket::peek_sender" => { let s = udp().await; call!(s => s.peek_sender()) };
        "UdpSocket::poll_send" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_send(cx, &[0]))) };
        "UdpSocket::poll_send_to" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_send_to(cx, &[0], REFUSES.parse().unwrap()))) };
        "UdpSocket::poll_recv" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_recv(cx, &mut ReadBuf::new(&mut [0])))) };
        "UdpSocket::poll_recv_from" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_recv_from(cx, &mut ReadBuf::new(&mut [0])))) };
        "UdpSocket::poll_peek" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_peek(cx, &mut ReadBuf::new(&mut [0])))) };
        "UdpSocket::poll_peek_from" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_peek_from(cx, &mut ReadBuf::new(&mut [0])))) };
        "UdpSocket::poll_peek_sender" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_peek_sender(cx))) };
        "UdpSocket::poll_send_ready" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_send_ready(cx))) };
        "UdpSocket::poll_recv_ready" => { let s = udp().await; call!(s => poll_fn(|cx| s.poll_recv_ready(cx))) };
        "UdpSocket::ready" => { let s = udp().await; call!(s => s.ready(Interest::WRITABLE)) };
        "UnixStream::connect, to nothing" => call!(UnixStream::connect(NOWHERE));
        "UnixStream::connect, too long" => call!(UnixStream::connect(TOO_LONG));
        "UnixStream::connect_addr" => {
            let addr = unix_listener().local_addr().unwrap();
            call!(addr => UnixStream::connect_addr(&addr))
        };
        "UnixSocket::connect" => call!(UnixSocket::new_stream().unwrap().connect(NOWHERE));
        "UnixSocket::connect, of datagrams" => call!(UnixSocket::new_datagram().unwrap().connect(NOWHERE));
        "UnixListener::accept" => { let l = unix_listener(); call!(l => l.accept()) };
        "UnixListener::poll_accept" => { let l = unix_listener(); call!(l => poll_fn(|cx| l.poll_accept(cx))) };
        "UnixStream::ready" => { let s = unix(); call!(s => s.ready(Interest::READABLE)) };
        "UnixStream::read" => { let s = unix(); call!(mut s => s.read(&mut [0])) };
        "UnixStream::write" => { let s = unix(); call!(mut s => s.write(&[0])) };
        "UnixStream::flush" => { let s = unix(); call!(mut s => s.flush()) };
        "UnixStream::shutdown" => { let s = unix(); call!(mut s => s.shutdown()) };
        "UnixDatagram::send" => { let s = unix_datagram(); call!(s => s.send(&[0])) };
        "UnixDatagram::send_to" => { let s = unix_datagram(); call!(s => s.send_to(&[0], NOWHERE)) };
        "UnixDatagram::send_to, too long" => { let s = unix_datagram(); call!(s => s.send_to(&[0], TOO_LONG)) };
        "UnixDatagram::poll_send_to, too long" => { let s = unix_datagram(); call!(s => poll_fn(|cx| s.poll_send_to(cx, &[0], TOO_LONG))) };
        "UnixDatagram::recv" => { let s = unix_datagram(); call!(s => s.recv(&mut [0])) };
        "UnixDatagram::recv_from" => { let s = unix_datagram(); call!(s => s.recv_from(&mut [0])) };
        "UnixDatagram::recv_buf_from" => { let s = unix_datagram(); call!(s => async { s.recv_buf_from(&mut Vec::with_capacity(8)).await }) };
        "UnixDatagram::poll_recv_from" => { let s = unix_datagram(); call!(s => poll_fn(|cx| s.poll_recv_from(cx, &mut ReadBuf::new(&mut [0])))) };
        "pipe::Sender::ready" => { let s = pipe::pipe().unwrap(); call!(s => s.0.ready(Interest::WRITABLE)) };
        "pipe::Sender::writable" => { let s = pipe::pipe().unwrap(); call!(s => s.0.writable()) };
        "pipe::Sender::poll_write_ready" => { let s = pipe::pipe().unwrap(); call!(s => poll_fn(|cx| s.0.poll_write_ready(cx))) };
        "pipe::Sender::write" => { let s = pipe::pipe().unwrap().0; call!(mut s => s.write(&[0])) };
        "pipe::Sender::flush" => { let s = pipe::pipe().unwrap(); call!(mut s => s.0.flush()) };
        "pipe::Sender::shutdown" => { let s = pipe::pipe().unwrap(); call!(mut s => s.0.shutdown()) };
        "pipe::Receiver::readable" => { let r = pipe::pipe().unwrap().1; call!(r => r.readable()) };
        "pipe::Receiver::ready" => { let r = pipe::pipe().unwrap().1; call!(r => r.ready(Interest::READABLE)) };
        "pipe::Receiver::poll_read_ready" => { let r = pipe::pipe().unwrap().1; call!(r => poll_fn(|cx| r.poll_read_ready(cx))) };
        "pipe::Receiver::read" => { let r = pipe::pipe().unwrap().1; call!(mut r => r.read(&mut [0])) };
        "AsyncFd::ready" => { let f = writable(); call!(f => async { f.0.ready(Interest::WRITABLE).await.map(ignore) }) };
        "AsyncFd::ready_mut" => { let f = writable(); call!(mut f => async { f.0.ready_mut(Interest::WRITABLE).await.map(ignore) }) };
        "AsyncFd::writable" => { let f = writable(); call!(f => async { f.0.writable().await.map(ignore) }) };
        "AsyncFd::writable_mut" => { let f = writable(); call!(mut f => async { f.0.writable_mut().await.map(ignore) }) };
        "AsyncFd::readable" => { let f = readable(); call!(f => async { f.readable().await.map(ignore) }) };
        "AsyncFd::readable_mut" => { let f = readable(); call!(mut f => async { f.readable_mut().await.map(ignore) }) };
        "AsyncFd::async_io" => { let f = writable(); call!(f => f.0.async_io(Interest::WRITABLE, |_| Ok(()))) };
        "AsyncFd::async_io_mut" => { let f = writable(); call!(mut f => f.0.async_io_mut(Interest::WRITABLE, |_| Ok(()))) };
        "AsyncFd::poll_read_ready" => { let f = readable(); call!(f => poll_fn(|cx| f.poll_read_ready(cx).map(ignore))) };
        "AsyncFd::poll_read_ready_mut" => { let f = readable(); call!(mut f => poll_fn(|cx| f.poll_read_ready_mut(cx).map(ignore))) };
        "AsyncFd::poll_write_ready" => { let f = writable(); call!(f => poll_fn(|cx| f.0.poll_write_ready(cx).map(ignore))) };
        "AsyncFd::poll_write_ready_mut" => { let f = writable(); call!(mut f => poll_fn(|cx| f.0.poll_write_ready_mut(cx).map(ignore))) };
    }
}

fn of_files() -> Vec<(&'static str, Setup)> {
    table! {
        "fs::canonicalize" => call!(fs::canonicalize(NOWHERE));
        "fs::create_dir" => call!(fs::create_dir(NOWHERE));
        "fs::create_dir_all" => call!(fs::create_dir_all("/"));
        "fs::metadata" => call!(fs::metadata("/"));
        "fs::symlink_metadata" => call!(fs::symlink_metadata("/"));
        "fs::read" => call!(fs::read(NOWHERE));
        "fs::read_to_string" => call!(fs::read_to_string(NOWHERE));
        "fs::read_link" => call!(fs::read_link(NOWHERE));
        "fs::remove_dir" => call!(fs::remove_dir(NOWHERE));
        "fs::remove_dir_all" => call!(fs::remove_dir_all(NOWHERE));
        "fs::remove_file" => call!(fs::remove_file(NOWHERE));
        "fs::copy" => call!(fs::copy(NOWHERE, NOWHERE));
        "fs::hard_link" => call!(fs::hard_link(NOWHERE, NOWHERE));
        "fs::rename" => call!(fs::rename(NOWHERE, NOWHERE));
        "fs::symlink" => call!(fs::symlink(NOWHERE, NOWHERE));
        "fs::try_exists" => call!(fs::try_exists(NOWHERE));
        "fs::set_permissions" => call!(async { fs::set_permissions(NOWHERE, std::fs::metadata("/").unwrap().permissions()).await });
        "fs::write" => call!(fs::write(NOWHERE, ""));
        "fs::read_dir" => call!(fs::read_dir(NOWHERE));
        "DirBuilder::create" => call!(async { DirBuilder::new().create(NOWHERE).await });
        "ReadDir::next_entry" => { let d = fs::read_dir("/").await.unwrap(); call!(mut d => d.next_entry()) };
        "ReadDir::poll_next_entry" => { let d = fs::read_dir("/").await.unwrap(); call!(mut d => poll_fn(|cx| d.poll_next_entry(cx))) };
        "DirEntry::metadata" => { let e = entry().await; call!(e => e.metadata()) };
        "DirEntry::file_type" => { let e = entry().await; call!(e => e.file_type()) };
        "OpenOptions::open" => call!(async { OpenOptions::new().read(true).open(NOWHERE).await });
        "File::open" => call!(File::open(NOWHERE));
        "File::create" => call!(File::create(NOWHERE));
        "File::create_new" => call!(File::create_new(NOWHERE));
        "File::read, what was read ahead" => { let mut f = file().await; f.read_exact(&mut [0; 2]).await.unwrap(); call!(mut f => f.read(&mut [0])) };
        "File::read, nothing" => { let f = file().await; call!(mut f => f.read(&mut [])) };
        "File::write" => { let f = file().await; call!(mut f => f.write(&[0])) };
        "File::write_vectored" => { let f = file().await; call!(mut f => f.write_vectored(&[])) };
        "File::flush" => { let f = file().await; call!(mut f => f.flush()) };
        "File::shutdown" => { let f = file().await; call!(mut f => f.shutdown()) };
        "File::seek" => { let f = file().await; call!(mut f => f.seek(io::SeekFrom::Start(0))) };
        "File::stream_position" => { let f = file().await; call!(mut f => poll_fn(|cx| io::AsyncSeek::poll_complete(Pin::new(&mut *f), cx))) };
        "File::sync_all" => { let f = file().await; call!(f => f.sync_all()) };
        "File::sync_data" => { let f = file().await; call!(f => f.sync_data()) };
        "File::set_len" => { let f = file().await; call!(f => f.set_len(8)) };
        "File::metadata" => { let f = file().await; call!(f => f.metadata()) };
        "File::try_clone" => { let f = file().await; call!(f => f.try_clone()) };
        "File::into_std" => { let f = file().await.into_std().await; call!(f => File::from_std(f.try_clone().unwrap()).into_std()) };
        "File::set_permissions" => { let f = file().await; call!(f => async { f.set_permissions(std::fs::metadata("/").unwrap().permissions()).await }) };
        "File::set_times" => { let f = file().await; call!(f => f.set_times(FileTimes::new())) };
        "File::set_modified" => { let f = file().await; call!(f => f.set_modified(SystemTime::now())) };
        "Stdin::read, nothing" => { let s = io::stdin(); call!(mut s => s.read(&mut [])) };
        "Stdout::write" => { let s = io::stdout(); call!(mut s => s.write(&[])) };
        "Stdout::flush" => { let s = io::stdout(); call!(mut s => s.flush()) };
        "Stderr::shutdown" => { let s = io::stderr(); call!(mut s => s.shutdown()) };
    }
}

/// Sets that are over at once, which stay on this thread.
fn poll_local_sets(cx: &mut core::task::Context<'_>) -> core::task::Poll<()> {
    let set = LocalSet::new();
    core::task::ready!(core::pin::pin!(set.run_until(ready(()))).poll(cx));
    core::pin::pin!(set).poll(cx)
}

async fn entry() -> fs::DirEntry {
    fs::read_dir("/").await.unwrap().next_entry().await.unwrap().unwrap()
}

fn of_tasks() -> Vec<(&'static str, Setup)> {
    table! {
        "Command::status, of nothing" => call!(async { Command::new(NOWHERE).status().await });
        "Command::output, of nothing" => call!(async { Command::new(NOWHERE).output().await });
        "Child::wait" => { let c = child().await; call!(mut c => c.wait()) };
        "Child::kill" => { let c = child().await; call!(mut c => c.kill()) };
        "Child::wait_with_output" => call!(async { Command::new("true").spawn()?.wait_with_output().await });
        "ChildStdin::write, nothing" => { let c = cat(); call!(mut c => c.stdin.as_mut().unwrap().write(&[])) };
        "ChildStdin::flush" => { let c = cat(); call!(mut c => c.stdin.as_mut().unwrap().flush()) };
        "ChildStdin::shutdown" => { let c = cat(); call!(mut c => c.stdin.as_mut().unwrap().shutdown()) };
        "ChildStdout::read, nothing" => { let c = cat(); call!(mut c => c.stdout.as_mut().unwrap().read(&mut [])) };
        "ChildStderr::read, nothing" => { let c = cat(); call!(mut c => c.stderr.as_mut().unwrap().read(&mut [])) };
        "ctrl_c" => call!(ctrl_c());
        "Signal::recv" => { let s = signal(SignalKind::user_defined2()).unwrap(); call!(mut s => s.recv()) };
        "Signal::poll_recv" => { let s = signal(SignalKind::user_defined2()).unwrap(); call!(mut s => poll_fn(|cx| s.poll_recv(cx))) };
        "JoinHandle" => call!(task::spawn(async {}));
        "spawn_blocking" => call!(task::spawn_blocking(|| {}));
        "yield_now" => call!(task::yield_now());
        "consume_budget" => call!(task::consume_budget());
        "JoinSet::join_next" => { let s = JoinSet::<()>::new(); call!(mut s => s.join_next()) };
        "JoinSet::join_next_with_id" => { let s = JoinSet::<()>::new(); call!(mut s => s.join_next_with_id()) };
        "JoinSet::poll_join_next" => { let s = JoinSet::<()>::new(); call!(mut s => poll_fn(|cx| s.poll_join_next(cx))) };
        "JoinSet::poll_join_next_with_id" => { let s = JoinSet::<()>::new(); call!(mut s => poll_fn(|cx| s.poll_join_next_with_id(cx))) };
        "JoinSet::shutdown" => { let s = JoinSet::<()>::new(); call!(mut s => s.shutdown()) };
        "JoinSet::join_all" => call!(JoinSet::<()>::new().join_all());
        "LocalSet::run_until" => call!(poll_fn(poll_local_sets));
        "sleep" => call!(sleep(Duration::ZERO));
        "sleep_until" => call!(sleep_until(Instant::now() - Duration::from_secs(1)));
        "timeout" => call!(timeout(Duration::ZERO, pending::<()>()));
        "timeout_at" => call!(timeout_at(Instant::now(), pending::<()>()));
        "Interval::tick" => { let i = interval(Duration::from_nanos(1)); call!(mut i => i.tick()) };
        "Interval::poll_tick" => { let i = interval(Duration::from_nanos(1)); call!(mut i => poll_fn(|cx| i.poll_tick(cx))) };
    }
}
