//! Connections in use call the global allocator not once; nor do new ones, when there have been as many before.
//!
//! One test in a process of its own: the count is the process's.

mod tcp_common;

use core::{
    alloc::{GlobalAlloc, Layout},
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use std::alloc::System;

use filch_linux::net::{TcpListener, TcpStream};
use futures::{AsyncReadExt, AsyncWriteExt};
use tcp_common::{listen, pair, run};

/// Counts calls while the count is on.
struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn count() {
    if ON.load(SeqCst) {
        CALLS.fetch_add(1, SeqCst);
    }
}

// SAFETY: the system's allocator, and a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `f` to warm up, then counts the allocator's calls while it runs again.
async fn steady(what: &str, mut f: impl AsyncFnMut()) {
    f().await;
    CALLS.store(0, SeqCst);
    ON.store(true, SeqCst);
    f().await;
    ON.store(false, SeqCst);
    assert_eq!(CALLS.load(SeqCst), 0, "{what}");
}

/// The other end of a connection, in a task.
async fn echo(stream: TcpStream) {
    let mut buf = [0; 64];
    loop {
        match stream.read(&mut buf).await.unwrap() {
            0 => return,
            n => assert_eq!(stream.write(&buf[..n]).await.unwrap(), n),
        }
    }
}

async fn connect(listener: &TcpListener, addr: SocketAddr) {
    let stream = TcpStream::connect_addr(addr).await.unwrap();
    let (served, _) = listener.accept().await.unwrap();
    drop((stream, served));
}

#[test]
fn nothing_is_allocated() {
    run(2, async {
        let (one, other) = pair().await;
        let other = filch_linux::spawn(echo(other));
        let mut buf = [0; 64];
        steady("reads and writes", async || {
            for _ in 0..1_000 {
                one.write(b"hello").await.unwrap();
                assert_eq!(one.read(&mut buf).await.unwrap(), 5);
            }
        })
        .await;
        let mut by_trait = &one;
        steady("the traits of futures-io", async || {
            for _ in 0..1_000 {
                AsyncWriteExt::write_all(&mut by_trait, b"hello").await.unwrap();
                AsyncReadExt::read_exact(&mut by_trait, &mut buf[..5]).await.unwrap();
            }
        })
        .await;
        drop(one);
        other.await.unwrap();

        let (listener, addr) = listen().await;
        steady("connections", async || {
            for _ in 0..50 {
                connect(&listener, addr).await;
            }
        })
        .await;
    });
}
