//! 50,000 connections over the loopback, open at the same time: 100,000 sockets in one process.

mod common;

use core::net::Ipv4Addr;
use std::io;

use common::watchdog;
use filch_linux::{
    Runtime,
    net::{TcpListener, TcpStream},
    spawn,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CONNECTIONS: usize = 50_000;
/// Connections to one address and port differ in the client's port, of which there are about
/// 28,000.
const LISTENERS: usize = 4;
/// How many connections are made at the same time.
const AT_A_TIME: usize = 500;

/// Raises the limit on descriptors to the wanted number, or as far as is allowed; returns the new
/// limit.
fn raise_the_limit(wanted: u64) -> u64 {
    let old = getrlimit(Resource::Nofile);
    let raised =
        Rlimit { current: Some(wanted), maximum: Some(old.maximum.unwrap_or(wanted).max(wanted)) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        // Without the privilege, as far as the hard limit.
        let most = Rlimit { current: old.maximum, maximum: old.maximum };
        setrlimit(Resource::Nofile, most).expect("up to the hard limit anybody may");
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    println!("the limit on open files: {:?} raised to {now}", old.current);
    now
}

/// Answers each byte with the next.
async fn serve(stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte).await? > 0 {
        stream.write(&[byte[0].wrapping_add(1)]).await?;
    }
    Ok(())
}

async fn ask(stream: &TcpStream, byte: u8) -> io::Result<u8> {
    stream.write(&[byte]).await?;
    let mut answer = [0];
    match stream.read(&mut answer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer[0]),
    }
}

async fn connect_all(ports: Vec<u16>, n: usize) -> io::Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(n);
    while streams.len() < n {
        let batch = (streams.len()..n).take(AT_A_TIME).map(|i| {
            let address = (Ipv4Addr::LOCALHOST, ports[i % ports.len()]).into();
            spawn(async move { TcpStream::connect_addr(address).await })
        });
        for task in batch.collect::<Vec<_>>() {
            streams.push(task.await.map_err(io::Error::other)??);
        }
    }
    Ok(streams)
}

#[test]
fn fifty_thousand_connections_are_served_at_once() {
    let _watchdog = watchdog();
    let spare = 200;
    let limit = raise_the_limit((2 * CONNECTIONS + spare) as u64);
    let n = CONNECTIONS.min((usize::try_from(limit).unwrap_or(usize::MAX) - spare) / 2);
    println!("{n} connections");
    let runtime: Runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let sum = runtime.block_on(async move {
        let mut ports = Vec::new();
        for _ in 0..LISTENERS {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            ports.push(listener.local_addr()?.port());
            spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    spawn(serve(stream)).detach();
                }
            })
            .detach();
        }
        let streams = spawn(connect_all(ports, n)).await.map_err(io::Error::other)??;
        assert_eq!(streams.len(), n);
        // All are open. Each gets a request, some at a time.
        let mut sum = 0_u64;
        let mut asked = Vec::new();
        for (i, stream) in streams.into_iter().enumerate() {
            asked.push(spawn(async move {
                let answer = ask(&stream, i as u8).await?;
                assert_eq!(answer, (i as u8).wrapping_add(1));
                Ok::<_, io::Error>((stream, u64::from(answer)))
            }));
        }
        let mut kept = Vec::with_capacity(n);
        for task in asked {
            let (stream, answer) = task.await.map_err(io::Error::other)??;
            sum += answer;
            kept.push(stream);
        }
        // Once more, after all have had an event.
        for (i, stream) in kept.iter().enumerate().step_by(97) {
            assert_eq!(ask(stream, i as u8).await?, (i as u8).wrapping_add(1));
        }
        Ok::<_, io::Error>(sum)
    });
    let expected: u64 = (0..n).map(|i| u64::from((i as u8).wrapping_add(1))).sum();
    assert_eq!(sum.unwrap(), expected);
}
