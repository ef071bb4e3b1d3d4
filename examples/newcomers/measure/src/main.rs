//! Measures the three programs beside their versions on tokio, in pairs: `./with-postgres cargo run --release -p measure`.

mod chat;
mod child;
mod fetch;
mod store;

use std::time::Duration;

type Error = Box<dyn std::error::Error + Send + Sync>;

const HELP: &str = "Usage: measure [--rounds N] [--seconds S] [chat] [fetch] [store]
Measure the programs beside this one; `store` needs DATABASE_URL.";

const ROWS: [&str; 4] = [
    "requests a second",
    "p99, us",
    "CPU time of a request, us",
    "a thread goes to sleep, for a request",
];

/// What a program did in one run.
struct Figures {
    /// Requests; of the chat, messages that reached a client.
    requests: usize,
    elapsed: Duration,
    p99: Duration,
    cost: child::Cost,
}

impl Figures {
    /// As the rows of the table.
    fn rows(&self) -> [f64; ROWS.len()] {
        let requests = self.requests as f64;
        [
            requests / self.elapsed.as_secs_f64(),
            self.p99.as_secs_f64() * 1e6,
            self.cost.cpu.as_secs_f64() * 1e6 / requests,
            self.cost.sleeps as f64 / requests,
        ]
    }
}

/// The client is one thread, so that one of two processors is left to the program.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (mut rounds, mut seconds, mut programs) = (5, 2.0, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &*arg {
            "--rounds" => rounds = args.next().ok_or(HELP)?.parse()?,
            "--seconds" => seconds = args.next().ok_or(HELP)?.parse()?,
            "chat" | "fetch" | "store" => programs.push(arg),
            _ => return Err(HELP.into()),
        }
    }
    if programs.is_empty() {
        programs = ["chat", "fetch", "store"].map(str::to_owned).to_vec();
    }
    println!("| program | | filch | tokio | filch / tokio, of each pair |\n|---|---|---|---|---|");
    for program in programs {
        let pairs = pairs(&program, rounds, Duration::from_secs_f64(seconds)).await?;
        for (row, what) in ROWS.iter().enumerate() {
            let of = |run: usize| median(pairs.iter().map(|pair| pair[run][row]));
            let ratio = median(pairs.iter().map(|pair| pair[0][row] / pair[1][row]));
            println!("| {program} | {what} | {:.2} | {:.2} | x {ratio:.2} |", of(0), of(1));
        }
    }
    Ok(())
}

/// Runs of both versions, one after the other; which is first alternates.
async fn pairs(
    program: &str,
    rounds: usize,
    time: Duration,
) -> Result<Vec<[[f64; ROWS.len()]; 2]>, Error> {
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let mut pair = [[0.0; ROWS.len()]; 2];
        for run in [round % 2, 1 - round % 2] {
            let name = [program.to_owned(), format!("{program}-tokio")][run].clone();
            let figures = match program {
                "chat" => chat::measure(&name, time).await?,
                "fetch" => fetch::measure(&name, time).await?,
                _ => store::measure(&name, time).await?,
            };
            pair[run] = figures.rows();
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The time that 99 of 100 are not above.
fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}
