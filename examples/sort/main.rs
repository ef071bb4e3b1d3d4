//! Sorts the lines of files by their bytes, as `LC_ALL=C sort` would: fork-join on the workers of filch.
//!
//! ```text
//! cargo run --release --example sort -- [--workers N] [FILE]...
//! ```
//!
//! The files are read whole, by the main thread, before there is any task that it could hold up, and
//! lines are slices of them. The sort works on pairs of a line's first bytes, as a number, and its
//! slice. It is a merge sort that forks for the halves and for the merges. With no FILE it reads
//! standard input.

use core::{cmp::Ordering, num::NonZero};
use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, ErrorKind, Read, Write},
    process::ExitCode,
    time::Instant,
};

use filch_std::{Runtime, parallel::Fork};
use lexopt::{Arg, Parser, ValueExt as _};

/// With fewer lines a fork costs more than it gains.
const ALONE: usize = 2_048;

const HELP: &str = "\
Usage: sort [--workers N] [FILE]...
Print the lines of all FILEs, sorted by their bytes, as LC_ALL=C sort(1) does. With no
FILE, or for `-`, standard input.
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the output (`sort | head`): not reported.
        Err(Failure::Write(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(2),
        Err(failure) => {
            eprintln!("sort: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Why the output is missing or incomplete.
enum Failure {
    Usage(String),
    Read(OsString, io::Error),
    Start(filch_std::runtime::BuildError),
    Write(io::Error),
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Usage(what) => write!(f, "{what}\n{HELP}"),
            Self::Read(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Start(error) => write!(f, "{error}"),
            Self::Write(error) => write!(f, "write error: {error}"),
        }
    }
}

fn run() -> Result<(), Failure> {
    let (workers, paths) = arguments(env::args_os().skip(1))?;
    let mut runtime = Runtime::builder();
    if let Some(workers) = workers {
        runtime = runtime.workers(workers.get());
    }
    let runtime = runtime.build().map_err(Failure::Start)?;
    let text = read(&paths)?;
    let begin = Instant::now();
    let (sorted, count) = runtime.handle().fork(|fork| {
        let mut lines = lines_of(&text);
        sort(fork, &mut lines);
        (joined(fork, &text, &lines), lines.len())
    });
    let time = begin.elapsed();
    let jobs: usize = runtime.metrics().workers().map(|(_, worker)| worker.jobs).sum();
    let mut out = io::stdout().lock();
    out.write_all(&sorted).and_then(|()| out.flush()).map_err(Failure::Write)?;
    eprintln!("{count} lines in {:.3} s, {jobs} jobs stolen", time.as_secs_f64());
    Ok(())
}

type Arguments = (Option<NonZero<usize>>, Vec<OsString>);

fn arguments(args: impl Iterator<Item = OsString>) -> Result<Arguments, Failure> {
    let (mut workers, mut paths) = (None, Vec::new());
    let usage = |error: lexopt::Error| Failure::Usage(error.to_string());
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Arg::Long("workers") => {
                let n = parser.value().ok().and_then(|n| n.parse().ok());
                let wanted = || Failure::Usage("--workers takes a number of workers".into());
                workers = Some(n.ok_or_else(wanted)?);
            }
            Arg::Value(path) => paths.push(path),
            option => return Err(usage(option.unexpected())),
        }
    }
    if paths.is_empty() {
        paths.push("-".into());
    }
    Ok((workers, paths))
}

/// Reads all files, one after the other; each ends with a line feed, as for sort(1).
fn read(paths: &[OsString]) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    for path in paths {
        let outcome = if path == "-" {
            io::stdin().lock().read_to_end(&mut text)
        } else {
            File::open(path).and_then(|mut file| file.read_to_end(&mut text))
        };
        outcome.map_err(|error| Failure::Read(path.clone(), error))?;
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
    }
    Ok(text)
}

/// A line of the text, and its first eight bytes as a number: most comparisons need only these.
#[derive(Clone, Copy)]
struct Line<'a> {
    head: u64,
    /// Without the line feed.
    bytes: &'a [u8],
}

impl<'a> Line<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut head = [0; 8];
        let n = bytes.len().min(8);
        head[..n].copy_from_slice(&bytes[..n]);
        Self { head: u64::from_be_bytes(head), bytes }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.bytes.cmp(other.bytes))
    }
}

fn lines_of(text: &[u8]) -> Vec<Line<'_>> {
    let lines = text.split(|byte| *byte == b'\n').map(Line::new);
    let mut lines: Vec<_> = lines.collect();
    // The text after the last line feed is not a line.
    lines.pop();
    lines
}

/// Sorts the lines. Equal lines are the same bytes, so stability does not matter.
fn sort<'a>(fork: Fork<'_>, lines: &mut [Line<'a>]) {
    let mut spare: Vec<Line<'a>> = lines.to_vec();
    sort_with(fork, lines, &mut spare);
}

/// Sorts `lines`, with a copy of them as scratch space.
fn sort_with<'a>(fork: Fork<'_>, lines: &mut [Line<'a>], spare: &mut [Line<'a>]) {
    if lines.len() <= ALONE {
        lines.sort_unstable_by(Line::order);
        return;
    }
    let middle = lines.len() / 2;
    let (left, right) = lines.split_at_mut(middle);
    let (spare_left, spare_right) = spare.split_at_mut(middle);
    // The halves are sorted into the spare, and merged back.
    fork.join(|fork| sort_with(fork, spare_left, left), |fork| sort_with(fork, spare_right, right));
    merge(fork, spare_left, spare_right, lines);
}

/// Merges two sorted parts into one.
fn merge<'a>(fork: Fork<'_>, a: &[Line<'a>], b: &[Line<'a>], into: &mut [Line<'a>]) {
    if into.len() <= ALONE {
        return merge_alone(a, b, into);
    }
    // The middle of the longer part, and its position in the other.
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let middle = long.len() / 2;
    let at = short.partition_point(|line| line.order(&long[middle]) == Ordering::Less);
    let (low, high) = into.split_at_mut(middle + at);
    fork.join(
        |fork| merge(fork, &long[..middle], &short[..at], low),
        |fork| merge(fork, &long[middle..], &short[at..], high),
    );
}

fn merge_alone<'l, 'a>(mut a: &'l [Line<'a>], mut b: &'l [Line<'a>], into: &mut [Line<'a>]) {
    for place in into {
        let from_a = match (a.first(), b.first()) {
            (Some(a), Some(b)) => a.order(b) != Ordering::Greater,
            (a, _) => a.is_some(),
        };
        let part = if from_a { &mut a } else { &mut b };
        if let Some((first, rest)) = part.split_first() {
            *place = *first;
            *part = rest;
        }
    }
}

/// Joins the lines; the result is as long as the text.
fn joined(fork: Fork<'_>, text: &[u8], lines: &[Line<'_>]) -> Vec<u8> {
    let mut out = vec![0; text.len()];
    copy(fork, lines, &mut out);
    out
}

fn copy(fork: Fork<'_>, lines: &[Line<'_>], out: &mut [u8]) {
    if lines.len() > ALONE {
        let (left, right) = lines.split_at(lines.len() / 2);
        let length = left.iter().map(|line| line.bytes.len() + 1).sum();
        let (out_left, out_right) = out.split_at_mut(length);
        fork.join(|fork| copy(fork, left, out_left), |fork| copy(fork, right, out_right));
        return;
    }
    let mut rest = out;
    for line in lines {
        let (place, after) = rest.split_at_mut(line.bytes.len() + 1);
        place[..line.bytes.len()].copy_from_slice(line.bytes);
        place[line.bytes.len()] = b'\n';
        rest = after;
    }
}
