//! Measures filch and its peers: the same programs, each in a process of its own, in turn, several times.

/// All that is written for tokio then runs on filch-tokio, unchanged.
#[cfg(feature = "filch-tokio")]
extern crate filch_tokio as tokio;

mod alloc;
mod args;
mod catalogue;
mod charts;
mod child;
mod counters;
mod files;
mod fork;
mod futex;
mod goals;
mod limits;
mod meter;
mod net;
mod peers;
mod queues;
mod readme;
mod report;
mod rounds;
mod table;
mod verdict;
mod workloads;

use std::process::ExitCode;

use crate::args::{Args, Task};

fn main() -> ExitCode {
    match args::read(std::env::args_os()) {
        Ok(Task::Help) => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Task::List) => {
            catalogue::print();
            ExitCode::SUCCESS
        }
        Ok(Task::Measure(order)) => child::measure(&order),
        Ok(Task::Serve(order)) => net::serve(&order),
        Ok(Task::Compare(args)) => match compare(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("filch-bench: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("filch-bench: {error}; see --help");
            ExitCode::from(2)
        }
    }
}

fn compare(args: &Args) -> Result<(), Box<dyn core::error::Error>> {
    let lines = match &args.from {
        Some(path) => report::from_json(&std::fs::read_to_string(path)?)?,
        None => measure(args)?,
    };
    if let Some(path) = &args.json {
        std::fs::write(path, report::to_json(&lines)?)?;
    }
    if let Some(folder) = &args.readmes {
        readme::update(folder, &lines)?;
    }
    if let Some(folder) = &args.charts {
        println!("{} charts in {}", charts::write(folder, &lines)?, folder.display());
    }
    Ok(())
}

fn measure(args: &Args) -> Result<Vec<report::Line>, Box<dyn core::error::Error>> {
    let limits = limits::Limits::ask(args.quick)?;
    println!("{limits}");
    let mut lines = limits.lines();
    for row in catalogue::rows(args) {
        let summary = rounds::row(args, &row)?;
        if summary.is_empty() {
            continue;
        }
        table::print(&row, &summary, &limits);
        verdict::print(&row, &summary);
        lines.extend(report::lines(&row, &summary, &limits));
    }
    Ok(lines)
}
