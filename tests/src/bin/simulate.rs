//! Deterministic simulation of whole executors, for a number of steps, from a seed.
//!
//! ```text
//! cargo run --release -p filch-tests --bin simulate -- [--steps 10000000] [--seed S] [--workers W] [--program NAME]
//!     [--faults all|none|LIST] [--size TASKS] [--episodes N] [--episode-steps 200000] [--shrinks 200] [--trace true] [--file FILE]
//! ```
//!
//! `--file FILE` saves what the workers did last in the episode that fails, or in the last one, for `filch-trace summary FILE`.
//!
//! `--record FILE` runs the program on threads and records the order in which they call their
//! platform; `--replay FILE` runs it in that order.
//!
//! Steps are divided into episodes; each episode's seed is the last one plus one. The run ends with
//! figures, or with the first episode that fails. That episode is shrunk, and the command that
//! replays it is printed; exit status 101.

use std::{fs, process::ExitCode, time::Instant};

use filch_tests::simulate::{Counts, Faults, Options, Program, record, replay, run, shrink};

struct Args {
    steps: u64,
    size: Option<u32>,
    episodes: u64,
    shrinks: usize,
    first: Options,
    record: Option<String>,
    replay: Option<String>,
}

fn args() -> Result<Args, String> {
    let mut first = Options::new(fastrand::u64(..));
    first.steps = 200_000;
    let mut args = Args {
        steps: 10_000_000,
        size: None,
        episodes: u64::MAX,
        shrinks: 200,
        first,
        record: None,
        replay: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} wants a value"))?;
        let number =
            || value.replace('_', "").parse::<u64>().map_err(|e| format!("{name} {value}: {e}"));
        let first = &mut args.first;
        match name.as_str() {
            "--steps" => args.steps = number()?,
            "--episodes" => args.episodes = number()?,
            "--shrinks" => args.shrinks = number()? as usize,
            "--seed" => first.seed = number()?,
            "--episode-steps" => first.steps = number()?,
            "--size" => args.size = Some(number()? as u32),
            "--workers" => first.workers = Some(number()? as u16),
            "--trace" => {
                first.trace = value.parse().map_err(|e| format!("--trace {value}: {e}"))?
            }
            "--file" => first.file = Some(value),
            "--record" => args.record = Some(value),
            "--replay" => args.replay = Some(value),
            "--program" => first.program = Some(value.parse()?),
            "--faults" => first.faults = value.parse::<Faults>()?,
            other => return Err(format!("no such option: {other}")),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if let Some(file) = &args.record {
        let size = args.size.unwrap_or(args.first.size);
        return exit(write_record(&Options { size, ..args.first }, file));
    }
    if let Some(file) = &args.replay {
        return exit(follow_record(file));
    }
    simulate(&args)
}

fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(101)
        }
    }
}

fn write_record(options: &Options, file: &str) -> Result<(), String> {
    let program = options.program.unwrap_or(Program::Mixed);
    let record = record(program, options.workers.unwrap_or(2), options.seed, options.size, 200);
    println!("{} calls of the platform", record.len());
    fs::write(file, record.to_string()).map_err(|error| format!("{file}: {error}"))
}

fn follow_record(file: &str) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let record = text.parse().map_err(|error| format!("{file}: {error}"))?;
    let report = replay(&record).map_err(|failure| failure.to_string())?;
    println!("{report:#?}");
    Ok(())
}

fn simulate(args: &Args) -> ExitCode {
    let began = Instant::now();
    let (mut sum, mut episodes, mut hash) = (Counts::default(), 0, 0_u64);
    while sum.steps < args.steps && episodes < args.episodes {
        let seed = args.first.seed.wrapping_add(episodes);
        // A few tasks per worker, so that workers sleep; sometimes many, so that none does.
        let size = args.size.unwrap_or(if seed % 4 == 0 { 160 } else { 24 });
        let options = Options { seed, size, ..args.first.clone() };
        match run(&options) {
            Ok(report) => {
                sum.add(&report.counts);
                hash = hash.rotate_left(1) ^ report.hash;
                episodes += 1;
            }
            Err(failure) => {
                eprintln!(
                    "FAILED after {} steps of {episodes} episodes\nreplay: {}",
                    sum.steps,
                    command(&options)
                );
                eprintln!("{failure}");
                let smaller = shrink(&options, failure, args.shrinks);
                eprintln!(
                    "\nsmaller, after {} tries\nreplay: {}",
                    smaller.tried,
                    command(&smaller.options)
                );
                eprintln!("{}", smaller.failure);
                return ExitCode::from(101);
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{episodes} episodes from seed {} in {seconds:.1} s, trace {hash:016x}",
        args.first.seed
    );
    println!("{sum:#?}");
    ExitCode::SUCCESS
}

fn command(options: &Options) -> String {
    format!("cargo run --release -p filch-tests --bin simulate -- {options} --shrinks 0")
}
