//! A small database: it answers point queries over HTTP while it reads, sorts and sums up a large file, again and again, in the
//! same threads. With classes, queries are urgent and the rest is background work; without, all tasks are alike.
//!
//! ```text
//! cargo run --release -- [--workers N] [--seconds S] [--rows N] [--file PATH] [--classes on|off|both] [--picture PATH]
//! ```
//!
//! Clients in threads of their own ask for orders at fixed times, and check each answer. At the end the program prints how
//! long answers took, and draws both distributions.
#![cfg(target_os = "linux")]

mod clients;
mod picture;
mod server;
mod table;

use core::time::Duration;
use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

use crate::{
    clients::{Clients, Times},
    table::Store,
};

const HELP: &str = "\
Usage: database [OPTION]...
Answer point queries over HTTP while a large file is sorted and summed up.

  --workers N          worker threads (default: the processors)
  --seconds S          how long each run takes (default 10)
  --rows N             rows of the file that is made (default 1000000)
  --file PATH          a file of your own: lines of ID CITY CENTS
  --classes on|off|both  with classes, without, or one after the other (default)
  --picture PATH       where to draw the distributions (default latency.svg)
";

struct Options {
    workers: usize,
    seconds: u64,
    rows: u64,
    file: Option<PathBuf>,
    runs: Vec<bool>,
    picture: PathBuf,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What one run has shown.
struct Outcome {
    classes: bool,
    times: Times,
    /// How often the whole file was read, sorted and summed up.
    rounds: u64,
}

fn main() -> ExitCode {
    let outcome = options().and_then(|options| options.map_or(Ok(()), |options| run(&options)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("database: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `None` after the help.
fn options() -> Result<Option<Options>, Failure> {
    use lexopt::{Arg::Long, ValueExt};
    let mut options = Options {
        workers: std::thread::available_parallelism()?.get(),
        seconds: 10,
        rows: 1_000_000,
        file: None,
        runs: vec![false, true],
        picture: "latency.svg".into(),
    };
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("workers") => options.workers = args.value()?.parse()?,
            Long("seconds") => options.seconds = args.value()?.parse()?,
            Long("rows") => options.rows = args.value()?.parse()?,
            Long("file") => options.file = Some(args.value()?.into()),
            Long("picture") => options.picture = args.value()?.into(),
            Long("classes") => {
                options.runs = match args.value()?.string()?.as_str() {
                    "on" => vec![true],
                    "off" => vec![false],
                    "both" => vec![false, true],
                    other => {
                        return Err(format!("--classes is on, off or both, not {other}").into());
                    }
                }
            }
            Long("help") => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(format!("{}\n{HELP}", other.unexpected()).into()),
        }
    }
    if options.workers == 0 || options.rows == 0 || options.seconds == 0 {
        return Err("workers, rows and seconds are 1 at least".into());
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let made = options.file.is_none().then(|| table::Made::new(options.rows)).transpose()?;
    let file = match (&options.file, &made) {
        (Some(file), _) => file.clone(),
        (None, Some(made)) => made.path().to_owned(),
        (None, None) => unreachable!("there is one of them"),
    };
    let mut outcomes = Vec::new();
    for &classes in &options.runs {
        let outcome = serve(options, file.clone(), classes)?;
        print(&outcome);
        outcomes.push(outcome);
    }
    picture::draw(&options.picture, &outcomes)?;
    println!("see {}", options.picture.display());
    Ok(())
}

fn serve(options: &Options, file: PathBuf, classes: bool) -> Result<Outcome, Failure> {
    let runtime = filch_linux::Builder::new().workers(options.workers).classes(classes).build()?;
    let store = Arc::new(Store::read(&file)?);
    let addr = runtime.block_on(server::start(Arc::clone(&store)))?;
    let bulk = runtime.block_on(table::refresh(Arc::clone(&store), file))?;
    let clients = Clients::start(addr, store.ids(), options.file.is_none());
    let end = Instant::now() + Duration::from_secs(options.seconds);
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let times = clients.stop()?;
    let failed = bulk.is_finished();
    let rounds = store.rounds();
    bulk.abort();
    drop(runtime.shutdown(Duration::from_secs(10)));
    if failed {
        return Err("the work in the background has ended".into());
    }
    Ok(Outcome { classes, times, rounds })
}

fn print(outcome: &Outcome) {
    let classes = if outcome.classes { "with classes" } else { "without classes" };
    let [p50, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|q| outcome.times.quantile(q));
    println!(
        "{classes}: {} answers, p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, at most {most:.2} ms; the file was sorted {} times",
        outcome.times.len(),
        outcome.rounds,
    );
}
