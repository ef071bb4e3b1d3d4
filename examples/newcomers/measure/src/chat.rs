//! Clients that say something as soon as they have heard what they said before.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt, future::try_join_all};
use tokio::time::timeout_at;
use tokio_tungstenite::{connect_async_with_config, tungstenite::Message};

use crate::{Error, Figures, child::Server, p99};

const CLIENTS: usize = 16;

pub(crate) async fn measure(name: &str, time: Duration) -> Result<Figures, Error> {
    let server = Server::start(name)?;
    let url = format!("ws://{}/chat", server.addr);
    let begin = Instant::now();
    let end = begin + time;
    let clients = try_join_all((0..CLIENTS).map(|i| talk(i, url.clone(), end))).await?;
    let elapsed = begin.elapsed();
    let requests = clients.iter().map(|(heard, _)| heard).sum();
    let mut times: Vec<_> = clients.into_iter().flat_map(|(_, times)| times).collect();
    Ok(Figures { requests, elapsed, p99: p99(&mut times), cost: server.end()? })
}

/// How many messages it has heard, and how long each of its own took.
async fn talk(i: usize, url: String, end: Instant) -> Result<(usize, Vec<Duration>), Error> {
    let (mut socket, _) = connect_async_with_config(url, None, true).await?;
    let (mut heard, mut times) = (0, Vec::new());
    for word in 0.. {
        let own = format!("{i}:{word}");
        let said = Instant::now();
        socket.send(Message::text(&*own)).await?;
        loop {
            let message = timeout_at(end.into(), socket.next()).await;
            let Ok(message) = message else { return Ok((heard, times)) };
            heard += 1;
            if message.ok_or("the server has left")??.to_text()? == own {
                break;
            }
        }
        times.push(said.elapsed());
    }
    Ok((heard, times))
}
