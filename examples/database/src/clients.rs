//! Clients that ask at fixed times, in threads of their own. An answer's time counts from when the question was due: a client that
//! is kept waiting asks its next questions late, and those wait too.

use core::time::Duration;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use crate::{Failure, table::made_order};

const CLIENTS: usize = 8;
/// Between two questions of a client.
const PACE: Duration = Duration::from_millis(5);

/// How long answers took, in milliseconds, the shortest first.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The least time that so many of all answers did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let at = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(at.clamp(1, self.0.len().max(1)) - 1).copied().unwrap_or_default()
    }
}

pub(crate) struct Clients {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Result<Vec<f64>, Failure>>>,
}

impl Clients {
    /// `made`: the file is one of those that this program makes, so that each answer is known.
    pub(crate) fn start(addr: SocketAddr, ids: Vec<u64>, made: bool) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ids = Arc::new(ids);
        let client = |i| {
            let (over, ids) = (Arc::clone(&over), Arc::clone(&ids));
            thread::spawn(move || ask(addr, &ids, made, &over, i as u64))
        };
        let threads = (0..CLIENTS).map(client).collect();
        Self { over, threads }
    }

    /// Ends them. An error if an answer was wrong.
    pub(crate) fn stop(self) -> Result<Times, Failure> {
        self.over.store(true, Relaxed);
        let mut all = Vec::new();
        for client in self.threads {
            all.extend(client.join().map_err(|_| "a client has panicked")??);
        }
        all.sort_by(f64::total_cmp);
        if all.is_empty() { Err("there was no answer".into()) } else { Ok(Times(all)) }
    }
}

fn ask(
    addr: SocketAddr,
    ids: &[u64],
    made: bool,
    over: &AtomicBool,
    seed: u64,
) -> Result<Vec<f64>, Failure> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let (mut times, mut due) = (Vec::new(), Instant::now() + PACE.mul_f64(rng.f64()));
    let mut answer = Vec::new();
    while !over.load(Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let id = ids[rng.usize(..ids.len())];
        write!(stream, "GET /orders/{id} HTTP/1.1\r\nhost: database\r\n\r\n")?;
        let body = read(&mut stream, &mut answer)?;
        times.push(due.elapsed().as_secs_f64() * 1e3);
        check(id, made, body)?;
        due += PACE;
    }
    Ok(times)
}

/// The body of the next answer.
fn read<'a>(stream: &mut TcpStream, answer: &'a mut Vec<u8>) -> Result<&'a str, Failure> {
    answer.clear();
    loop {
        let mut bytes = [0; 1_024];
        let len = stream.read(&mut bytes)?;
        if len == 0 {
            return Err("the server has ended a connection".into());
        }
        answer.extend_from_slice(&bytes[..len]);
        if answer.ends_with(b"}\n") || answer.starts_with(b"HTTP/1.1 4") {
            break;
        }
    }
    let text = core::str::from_utf8(answer)?;
    Ok(text.split_once("\r\n\r\n").ok_or("an answer without a body")?.1)
}

/// Of a file of the user's own it knows no more than the number.
fn check(id: u64, made: bool, body: &str) -> Result<(), Failure> {
    let (city, cents) = made_order(id);
    let whole = format!("{{\"id\":{id},\"city\":{city},\"cents\":{cents}}}\n");
    if if made { body == whole } else { body.starts_with(&format!("{{\"id\":{id},")) } {
        Ok(())
    } else {
        Err(format!("order {id} is answered with {body:?}").into())
    }
}
