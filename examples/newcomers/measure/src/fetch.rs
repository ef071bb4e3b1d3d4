//! A server that answers the program.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use axum::{Router, routing::get};
use tokio::net::TcpListener;

use crate::{
    Error, Figures,
    child::{Cost, command},
};

/// What a run of the program makes.
const REQUESTS: usize = 1_000;

/// Runs of the program, one after the other.
pub(crate) async fn measure(name: &str, time: Duration) -> Result<Figures, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let app = Router::new().route("/", get("hello"));
    let serving = tokio::spawn(async { axum::serve(listener, app).await });
    let (before, begin) = (Cost::of_ended()?, Instant::now());
    let (mut requests, mut seconds, mut p99) = (0, 0.0, Vec::new());
    while begin.elapsed() < time || requests == 0 {
        let program = tokio::process::Command::from(command(name)?)
            .arg(&url)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = program.wait_with_output().await?;
        let said = String::from_utf8(output.stdout)?;
        let said = said.trim();
        if !said.starts_with("1000 answered, 0 failed, ") {
            return Err(format!("{name}: {said}").into());
        }
        let mut words = said.split(", ").skip(3);
        let each = words.next().and_then(|text| text.strip_suffix(" a second"));
        seconds += REQUESTS as f64 / each.ok_or("no rate")?.parse::<f64>()?;
        let late = words.next().and_then(|text| text.strip_prefix("p99 ")?.strip_suffix(" us"));
        p99.push(Duration::from_micros(late.ok_or("no p99")?.parse()?));
        requests += REQUESTS;
    }
    serving.abort();
    p99.sort_unstable();
    let (elapsed, p99) = (Duration::from_secs_f64(seconds), p99[p99.len() / 2]);
    Ok(Figures { requests, elapsed, p99, cost: before.until_now()? })
}
