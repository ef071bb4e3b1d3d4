//! This crate's streams by tokio's traits.

#[path = "os_common/mod.rs"]
mod os;

use core::{future::poll_fn, mem::MaybeUninit, pin::Pin, task::Poll};
use std::{
    io::{self, IoSlice},
    process::Stdio,
};

use filch_linux::{
    net::{TcpListener, TcpStream, UnixStream},
    pipe::pipe,
    process::Command,
    spawn,
};
use os::run;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy, copy_bidirectional,
};

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = TcpStream::connect_addr(listener.local_addr().unwrap()).await.unwrap();
    (one, listener.accept().await.unwrap().0)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * at / 11) as u8).collect()
}

/// A megabyte goes through, by vectored writes, and the end is seen.
async fn carries(
    mut from: impl AsyncWrite + Unpin + Send + 'static,
    mut to: impl AsyncRead + Unpin,
) {
    assert!(from.is_write_vectored());
    let sent = pattern(1 << 20);
    let all = sent.clone();
    let writes = spawn(async move {
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (one, other) = rest.split_at(rest.len().min(1_000));
            let other = &other[..other.len().min(70_000)];
            let bufs = [IoSlice::new(one), IoSlice::new(&[]), IoSlice::new(other)];
            let n = from.write_vectored(&bufs).await.unwrap();
            assert!(n > 0 && n <= one.len() + other.len());
            rest = &rest[n..];
        }
        from.flush().await.unwrap();
        from.shutdown().await.unwrap();
        // A connection has ended already; a pipe ends here.
    });
    let mut got = Vec::new();
    to.read_to_end(&mut got).await.unwrap();
    writes.await.unwrap();
    assert!(got == sent);
    assert_eq!(to.read(&mut [0; 8]).await.unwrap(), 0);
}

#[test]
fn connections_carry_bytes_and_their_end() {
    run(2, async {
        let (one, other) = tcp().await;
        carries(one, other).await;
        let (one, other) = UnixStream::pair().unwrap();
        carries(one, other).await;
        let (sender, receiver) = pipe().unwrap();
        carries(sender, receiver).await;
    });
}

#[test]
fn halves_and_references_carry_bytes() {
    run(2, async {
        let (one, other) = tcp().await;
        let (reader, writer) = one.into_split();
        carries(writer, &other).await;
        let (mut other, sent) = (other, pattern(5_000));
        let (_, mut borrowed) = other.halves();
        AsyncWriteExt::write_all(&mut borrowed, &sent).await.unwrap();
        AsyncWriteExt::shutdown(&mut borrowed).await.unwrap();
        let (mut reader, mut got) = (reader, Vec::new());
        reader.read_to_end(&mut got).await.unwrap();
        assert!(got == sent);

        let (mut one, other) = UnixStream::pair().unwrap();
        let (reader, writer) = other.into_split();
        AsyncWriteExt::write_all(&mut &one, b"by reference").await.unwrap();
        let mut reader = reader;
        let mut buffer = [0; 12];
        AsyncReadExt::read_exact(&mut reader, &mut buffer).await.unwrap();
        assert_eq!(&buffer, b"by reference");
        let mut writer = writer;
        AsyncWriteExt::write_all(&mut writer, b"back").await.unwrap();
        let (mut borrowed, _) = one.halves();
        AsyncReadExt::read_exact(&mut borrowed, &mut buffer[..4]).await.unwrap();
        assert_eq!(&buffer[..4], b"back");

        let (sender, receiver) = pipe().unwrap();
        AsyncWriteExt::write_all(&mut &sender, b"pipe").await.unwrap();
        AsyncReadExt::read_exact(&mut &receiver, &mut buffer[..4]).await.unwrap();
        assert_eq!(&buffer[..4], b"pipe");
    });
}

/// What is read goes to the part that is not filled, and nothing else is touched or initialised.
#[test]
fn reads_go_behind_what_is_filled_and_initialise_nothing_else() {
    async fn check(mut stream: impl AsyncRead + Unpin) {
        let mut memory = [const { MaybeUninit::<u8>::uninit() }; 64];
        let mut buffer = ReadBuf::uninit(&mut memory);
        buffer.put_slice(b"before ");
        let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer));
        read.await.unwrap();
        assert_eq!(buffer.filled(), b"before hello");
        assert_eq!(buffer.initialized().len(), 12);
        // No room: nothing is read, not even waited for.
        let mut full = ReadBuf::new(&mut []);
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut full)));
        assert!(matches!(read.await, Poll::Ready(Ok(()))));
    }
    run(1, async {
        let (one, other) = tcp().await;
        one.write_all(b"hello").await.unwrap();
        check(other).await;
        let (one, other) = UnixStream::pair().unwrap();
        one.write(b"hello").await.unwrap();
        check(other).await;
        let (sender, receiver) = pipe().unwrap();
        sender.write(b"hello").await.unwrap();
        check(receiver).await;
    });
}

#[test]
fn a_childs_pipes_and_an_error_come_through() {
    run(1, async {
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        AsyncWriteExt::write_all(&mut input, b"to a child").await.unwrap();
        drop(input);
        let mut all = String::new();
        output.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "to a child");
        assert!(child.wait().await.unwrap().success());

        let (mut sender, receiver) = pipe().unwrap();
        drop(receiver);
        let error = AsyncWriteExt::write_all(&mut sender, b"nothing reads it").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn tokios_copies_join_our_streams_with_its_own() {
    run(2, async {
        // client -- ours -- copied by tokio -- tokio's -- echo
        let echo = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = echo.local_addr().unwrap();
        let echo = spawn(async move {
            let (mut peer, _) = echo.accept().await.unwrap();
            let (mut reader, mut writer) = peer.split();
            copy(&mut reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let (client, mut ours) = tcp().await;
        let relay = spawn(async move {
            let mut theirs = tokio::net::TcpStream::connect(addr).await.unwrap();
            copy_bidirectional(&mut ours, &mut theirs).await.unwrap()
        });
        let sent = pattern(300_000);
        let (mut reader, mut writer) = client.into_split();
        let all = sent.clone();
        let writes = spawn(async move {
            writer.write_all(&all).await.unwrap();
            drop(writer);
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        writes.await.unwrap();
        echo.await.unwrap();
        assert!(got == sent);
        assert_eq!(relay.await.unwrap(), (300_000, 300_000));
    });
}
