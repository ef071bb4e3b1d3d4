//! Prints the SHA-256 of every file below some paths, as `sha256sum` would: one task per file,
//! on the workers of filch.
//!
//! ```text
//! cargo run --release --example checksum -- [--workers N] [PATH]...
//! ```
//!
//! Memory is bounded except for the sorted list of paths: a window of tasks is in flight, each with
//! a buffer of fixed size, and the sums are printed in order as they come. Reading a file blocks
//! its worker: there is nothing else for the workers to do, and no other way costs less. With
//! `filch_linux::fs` a small file takes half as much processor time again over io_uring, and three
//! times as much on the blocking pool. The tasks yield between chunks, so that a huge file does not block a
//! worker's other tasks.

extern crate alloc;

mod console;

use alloc::collections::VecDeque;
use core::num::NonZero;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::process::ExitCode;
use std::time::Instant;

use filch::JoinHandle;
use filch_examples::args::{self, Command};
use filch_examples::{names, walk};
use filch_std::{Runtime, task::JoinSet};
use sha2::{Digest, Sha256};

use crate::console::{Console, Totals};

/// How much a task reads before it yields: some tens of microseconds of hashing or more.
const CHUNK: usize = 128 * 1024;

/// How many tasks are in flight for each worker. The oldest one delays the output, and the others
/// must keep the workers busy meanwhile.
const WINDOW_PER_WORKER: usize = 32;

/// The most tasks in flight: each holds a file open, and 1,024 is a common limit for open files.
const MAX_WINDOW: usize = 512;

/// Something could not be read or written.
const FAILED: u8 = 1;
/// Nothing was done.
const NOT_STARTED: u8 = 2;

fn main() -> ExitCode {
    let mut console = Console::new();
    match args::parse(env::args_os().skip(1)) {
        Ok(Command::Help) => exit_code(console.print(args::HELP.as_bytes()), &mut console),
        Ok(Command::Sum { workers, paths }) => print_sums(workers, paths, console),
        Err(error) => {
            console.complain(&format!("{error}\nTry 'checksum --help' for more information."));
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn print_sums(
    workers: Option<NonZero<usize>>,
    paths: Vec<OsString>,
    mut console: Console,
) -> ExitCode {
    let workers = workers.map_or_else(filch_std::runtime::available_workers, NonZero::get);
    let runtime = match Runtime::builder().workers(workers).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.complain(&format!("cannot start {workers} workers: {error}"));
            return ExitCode::from(NOT_STARTED);
        }
    };
    let start = Instant::now();
    let window = workers.saturating_mul(WINDOW_PER_WORKER).min(MAX_WINDOW);
    // On a worker, so that a task that ends need not wake this thread to have its sum printed.
    let sums = runtime.block_on(runtime.spawn(sum_below(paths, window, console)));
    let (mut console, result) = match sums {
        Ok(sums) => sums,
        Err(error) => (Console::new(), Err(io::Error::other(error))),
    };
    let result = result.map(|totals| {
        console.print_summary(&totals, start.elapsed(), &runtime.metrics());
    });
    exit_code(result, &mut console)
}

/// The status with which the program ends, given how the output went.
///
/// A closed output (`checksum | head`) is not reported: the reader closed it on purpose.
fn exit_code(result: io::Result<()>, console: &mut Console) -> ExitCode {
    match result {
        Ok(()) if !console.has_complained() => return ExitCode::SUCCESS,
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            console.complain(&format!("write error: {}", names::reason(&error)));
        }
        _ => {}
    }
    ExitCode::from(FAILED)
}

/// Finds the files, hashes them on the workers and prints the sums in the order of the paths.
async fn sum_below(
    paths: Vec<OsString>,
    window: usize,
    mut console: Console,
) -> (Console, io::Result<Totals>) {
    let files = find_files(paths, &mut console).await;
    console.start_bar(files.len());
    let totals = print_in_order(files, window, &mut console).await;
    (console, totals)
}

/// The regular files below `paths`, as `find -H PATH... -type f` prints them, sorted bytewise: one
/// task per folder. Files and folders that cannot be read are reported, and the rest is done.
///
/// The list is held in memory, because the first path is not known before the last one is found. It
/// is the only part of the program that grows with the number of files.
async fn find_files(paths: Vec<OsString>, console: &mut Console) -> Vec<OsString> {
    let mut found = walk::roots(paths);
    let mut listings = JoinSet::new();
    loop {
        for folder in found.folders.drain(..) {
            listings.spawn(async { walk::list(folder) });
        }
        match listings.join_next().await {
            Some(Ok(listed)) => {
                found.files.extend(listed.files);
                found.folders.extend(listed.folders);
                found.errors.extend(listed.errors);
            }
            Some(Err(error)) => console.complain(&error.to_string()),
            None => break,
        }
    }
    found.errors.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, error) in &found.errors {
        console.complain_of(path, error);
    }
    walk::sort(&mut found.files);
    found.files
}

/// Hashes the files, a window of them at a time. Fails if the output does; tasks that are still in
/// flight are then left behind.
async fn print_in_order(
    files: Vec<OsString>,
    window: usize,
    console: &mut Console,
) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut in_flight = VecDeque::new();
    for path in files {
        let oldest = if in_flight.len() < window { None } else { in_flight.pop_front() };
        let buffer = match oldest {
            // A new task takes over the buffer of the one that leaves the window.
            Some(oldest) => print_sum(oldest, console, &mut totals).await?,
            None => new_buffer(),
        };
        let task = filch_std::spawn(hash_file(path.clone(), buffer));
        in_flight.push_back(InFlight { path, task });
    }
    for oldest in in_flight {
        print_sum(oldest, console, &mut totals).await?;
    }
    Ok(totals)
}

struct InFlight {
    path: OsString,
    task: JoinHandle<(Buffer, io::Result<Sum>)>,
}

type Buffer = Box<[u8]>;

struct Sum {
    digest: [u8; 32],
    bytes: u64,
}

fn new_buffer() -> Buffer {
    vec![0; CHUNK].into_boxed_slice()
}

/// Waits for a task, prints its sum or error and returns its buffer.
async fn print_sum(
    InFlight { path, task }: InFlight,
    console: &mut Console,
    totals: &mut Totals,
) -> io::Result<Buffer> {
    let (buffer, sum) = match task.await {
        Ok(done) => done,
        // The task has panicked, and its buffer is gone with it.
        Err(error) => (new_buffer(), Err(io::Error::other(error.to_string()))),
    };
    match sum {
        Ok(Sum { digest, bytes }) => {
            console.print(&names::sum_line(&digest, &path))?;
            totals.files += 1;
            totals.bytes += bytes;
        }
        Err(error) => console.complain_of(&path, &error),
    }
    console.advance_bar();
    Ok(buffer)
}

/// The body of a task. Returns the buffer in any case.
async fn hash_file(path: OsString, mut buffer: Buffer) -> (Buffer, io::Result<Sum>) {
    let sum = try_hash_file(&path, &mut buffer).await;
    (buffer, sum)
}

async fn try_hash_file(path: &OsStr, buffer: &mut [u8]) -> io::Result<Sum> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(Sum { digest: hasher.finalize().into(), bytes }),
            Ok(length) => {
                hasher.update(&buffer[..length]);
                bytes += length as u64;
                filch_std::task::yield_now().await;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
