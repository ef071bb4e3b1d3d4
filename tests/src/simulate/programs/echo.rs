//! A server and its clients.

use core::time::Duration;

use fastrand::Rng;

use super::{collect, time, work};
use crate::simulate::{
    env::{Env, Task},
    net::{Listener, Reset, Stream},
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    let listener = Listener::default();
    let server = env.spawn_mortal(serve(env, listener.clone()));
    let server = server.map(|server| {
        let aborter = server.aborter();
        let end = env.spawn(end_with(env, server, listener.clone()));
        // There may be no memory for the task that would end it.
        if let (None, Some(aborter)) = (&end, aborter) {
            aborter.abort();
            listener.close();
        }
        end
    });
    let clients = (0..n.div_ceil(2)).map(|_| env.spawn(client(env, listener.clone())));
    collect(server.into_iter().chain(clients))
}

async fn serve(env: Env, listener: Listener) {
    loop {
        let stream = listener.accept().await;
        // Without memory for a task the stream is dropped, and the client gets the end of the
        // stream.
        drop(env.spawn(echo(stream)));
    }
}

/// A server does not end by itself.
async fn end_with(env: Env, server: Task<()>, listener: Listener) {
    while !env.is_over() {
        env.wait_for_bell(0).await;
    }
    server.abort();
    let _ = server.await;
    listener.close();
}

async fn echo(mut stream: Stream) {
    let mut buffer = [0; 48];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

async fn client(env: Env, listener: Listener) {
    let mut rng = env.rng();
    while !env.is_over() {
        let mut stream = listener.connect();
        let limited = rng.u8(..8) == 0;
        for _ in 0..rng.u32(1..8) {
            let exchange = exchange(&mut rng, &mut stream);
            // Few have a time limit: it would hide a lost edge.
            let done = if limited {
                env.0
                    .timers
                    .timeout(Duration::from_millis(200), exchange)
                    .await
                    .is_ok_and(|r| r.is_ok())
            } else {
                exchange.await.is_ok()
            };
            // Otherwise a reset, or a server without memory, or a slow one.
            if !done {
                break;
            }
        }
        drop(stream);
        env.nap(time(&mut rng)).await;
    }
}

/// Sends some bytes, and expects them back.
async fn exchange(rng: &mut Rng, stream: &mut Stream) -> Result<(), Reset> {
    let sent: Vec<u8> = (0..rng.usize(1..64)).map(|_| rng.u8(..)).collect();
    work(rng);
    stream.write_all(&sent).await?;
    let mut back: Vec<u8> = Vec::new();
    while back.len() < sent.len() {
        let mut buffer = [0; 32];
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Err(Reset);
        }
        back.extend(&buffer[..n]);
    }
    if back != sent {
        fail("an echo is not what was sent");
    }
    Ok(())
}
