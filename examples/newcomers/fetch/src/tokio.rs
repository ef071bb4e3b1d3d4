//! Makes 1,000 requests, 64 at a time, to a URL or to a server of its own.

use std::time::{Duration, Instant};

use axum::{Router, routing::get};
use futures_util::{StreamExt, stream};
use reqwest::Client;
use tokio::{net::TcpListener, spawn};

type Error = Box<dyn std::error::Error + Send + Sync>;

const REQUESTS: usize = 1_000;
const AT_A_TIME: usize = 64;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => server().await?,
    };
    let client = Client::new();
    let begin = Instant::now();
    let (mut times, mut bytes, mut errors) = (Vec::new(), 0, Vec::new());
    let start = || spawn(fetch(client.clone(), url.clone()));
    let mut answers = stream::repeat_with(start).take(REQUESTS).buffer_unordered(AT_A_TIME);
    while let Some(answer) = answers.next().await {
        match answer? {
            Ok((time, len)) => {
                times.push(time);
                bytes += len;
            }
            Err(error) => errors.push(error),
        }
    }
    let (answered, failed) = (times.len(), errors.len());
    let each = answered as f64 / begin.elapsed().as_secs_f64();
    times.sort_unstable();
    let p99 = times.get(answered * 99 / 100).map_or(0, Duration::as_micros);
    println!(
        "{answered} answered, {failed} failed, {bytes} bytes, {each:.0} a second, p99 {p99} us"
    );
    match errors.pop() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

async fn fetch(client: Client, url: String) -> reqwest::Result<(Duration, usize)> {
    let begin = Instant::now();
    let answer = client.get(url).send().await?.error_for_status()?.bytes().await?;
    Ok((begin.elapsed(), answer.len()))
}

async fn server() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let app = Router::new().route("/", get("hello"));
    spawn(async { axum::serve(listener, app).await });
    Ok(url)
}
