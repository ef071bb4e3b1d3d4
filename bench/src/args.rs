//! The command line.

use std::{ffi::OsString, path::PathBuf};

use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
Usage: filch-bench [options]
Measure filch and its peers, and say where filch stands.

  --only WORKLOAD   this workload only; may be given again
  --peer NAME       this peer only, and filch; may be given again
  --program NAME=FILE  measure this peer too, by another build of this program: filch-off,
                    filch-recorder, tokio-dial9 or tokio-console, see flight-recorder;
                    filch-tokio or filch-tokio-ct, built with the feature filch-tokio
  --workers N       with N workers only; may be given again (default: 1 and 2)
  --alloc NAME      malloc, mimalloc or both (default: both)
  --rounds N        how often each peer is measured (default: 7, quick: 3)
  --quick           a tenth of the work: figures to see that it runs
  --json FILE       write all figures there
  --from FILE       measure nothing; take the figures that --json wrote
  --readmes FOLDER  put all rows into bench/README.md there, and a few into README.md,
                    between the two marks of each
  --charts FOLDER   draw a chart of each goal's figures there
  --list            print the workloads and their peers, and exit
  --help            print this help, and exit
";

pub(crate) enum Task {
    Help,
    List,
    Compare(Args),
    /// This program's request to a measuring process.
    Measure(Order),
    /// A measuring process's request to a server process.
    Serve(Order),
}

/// What to compare.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) only: Vec<String>,
    pub(crate) peers: Vec<String>,
    /// Peers that another build of this program has, and its file.
    pub(crate) programs: Vec<(&'static str, PathBuf)>,
    pub(crate) workers: Vec<usize>,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) from: Option<PathBuf>,
    pub(crate) readmes: Option<PathBuf>,
    pub(crate) charts: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocator {
    Malloc,
    Mimalloc,
}

/// What one process has to measure.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) workload: String,
    pub(crate) peer: String,
    pub(crate) workers: usize,
    pub(crate) quick: bool,
}

pub(crate) fn read(from: impl IntoIterator<Item = OsString>) -> Result<Task, lexopt::Error> {
    use Allocator::{Malloc, Mimalloc};
    let mut parser = Parser::from_iter(from);
    let mut args = Args::default();
    let (mut rounds, mut allocators) = (None, vec![Malloc, Mimalloc]);
    let mut order = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") => return Ok(Task::Help),
            Arg::Long("list") => return Ok(Task::List),
            Arg::Long("only") => args.only.push(parser.value()?.string()?),
            Arg::Long("peer") => args.peers.push(parser.value()?.string()?),
            Arg::Long("program") => args.programs.push(program(&parser.value()?.string()?)?),
            Arg::Long("workers") => args.workers.push(parser.value()?.parse()?),
            Arg::Long("rounds") => rounds = Some(parser.value()?.parse()?),
            Arg::Long("quick") => args.quick = true,
            Arg::Long("json") => args.json = Some(parser.value()?.into()),
            Arg::Long("from") => args.from = Some(parser.value()?.into()),
            Arg::Long("readmes") => args.readmes = Some(parser.value()?.into()),
            Arg::Long("charts") => args.charts = Some(parser.value()?.into()),
            Arg::Long("alloc") => {
                allocators = match parser.value()?.string()?.as_str() {
                    "malloc" => vec![Malloc],
                    "mimalloc" => vec![Mimalloc],
                    "both" => vec![Malloc, Mimalloc],
                    other => return Err(format!("no such allocator: {other}").into()),
                }
            }
            // Followed by the names of a workload and of a peer.
            Arg::Long("measure") => order = Some((Task::Measure as Ask, names(&mut parser)?)),
            Arg::Long("serve") => order = Some((Task::Serve as Ask, names(&mut parser)?)),
            _ => return Err(arg.unexpected()),
        }
    }
    if let Some((ask, (workload, peer))) = order {
        let workers = args.workers.first().copied().unwrap_or(1);
        return Ok(ask(Order { workload, peer, workers, quick: args.quick }));
    }
    if args.workers.contains(&0) {
        return Err("a peer needs at least one worker".into());
    }
    if args.workers.is_empty() {
        args.workers = vec![1, 2];
    }
    args.allocators = allocators;
    args.rounds = rounds.unwrap_or(if args.quick { 3 } else { 7 }).max(1);
    check(&args)?;
    Ok(Task::Compare(args))
}

type Ask = fn(Order) -> Task;

/// The names of a workload and of a peer.
fn names(parser: &mut Parser) -> Result<(String, String), lexopt::Error> {
    Ok((parser.value()?.string()?, parser.value()?.string()?))
}

/// `NAME=FILE`.
fn program(text: &str) -> Result<(&'static str, PathBuf), lexopt::Error> {
    let (name, file) = text.split_once('=').ok_or("--program wants NAME=FILE")?;
    let peer = crate::peers::ELSEWHERE.iter().find(|peer| **peer == name);
    Ok((peer.ok_or_else(|| format!("no peer of another program: {name}"))?, file.into()))
}

fn check(args: &Args) -> Result<(), lexopt::Error> {
    for name in &args.only {
        if !crate::catalogue::is_workload(name) {
            return Err(format!("no such workload: {name}").into());
        }
    }
    for name in &args.peers {
        if !crate::catalogue::is_peer(name) {
            return Err(format!("no such peer: {name}").into());
        }
    }
    Ok(())
}
