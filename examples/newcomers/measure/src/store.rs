//! Clients that put and get in turns.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use store::{Entry, Key, store_client::StoreClient};
use tonic::transport::Channel;

use crate::{Error, Figures, child::Server, p99};

const CONNECTIONS: usize = 4;
const ON_EACH: usize = 8;

pub(crate) async fn measure(name: &str, time: Duration) -> Result<Figures, Error> {
    let server = Server::start(name)?;
    let url = format!("http://{}", server.addr);
    let clients = try_join_all((0..CONNECTIONS).map(|_| StoreClient::connect(url.clone()))).await?;
    let begin = Instant::now();
    let asking = clients.iter().flat_map(|client| vec![client.clone(); ON_EACH]);
    let asking = asking.enumerate().map(|(i, client)| ask(i, client, begin + time));
    let mut times = try_join_all(asking).await?.concat();
    let elapsed = begin.elapsed();
    Ok(Figures { requests: times.len(), elapsed, p99: p99(&mut times), cost: server.end()? })
}

async fn ask(
    i: usize,
    mut client: StoreClient<Channel>,
    end: Instant,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for n in 0_u64.. {
        let (key, value) = (format!("measured {i} {}", n % 100), n.to_be_bytes().to_vec());
        let put = Instant::now();
        client.put(Entry { key: key.clone(), value: value.clone() }).await?;
        let get = Instant::now();
        let entry = client.get(Key { key }).await?.into_inner();
        times.extend([get - put, get.elapsed()]);
        if entry.value != value {
            return Err("another value was kept".into());
        }
        if Instant::now() >= end {
            break;
        }
    }
    Ok(times)
}
