//! Well-known crates in tasks of the executor. Prints docs/ecosystem.md: each row is the outcome of a program run twice, in a runtime
//! without tokio and in one with it.

mod page;
mod rows;
mod servers;

use core::{error::Error, fmt::Debug, future::Future, pin::Pin, time::Duration};
use std::{env, panic, process::ExitCode};

use filch_linux::{TaskOptions, time::timeout};

/// Of one program: its crate did what it should.
type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// How a test is run: on a worker of the runtime that it is in.
type Test = fn() -> Pin<Box<dyn Future<Output = Done>>>;

/// Nothing here takes a second where it works.
const LIMIT: Duration = Duration::from_secs(20);

/// What the exit statuses mean; 0: it works.
const FAILED: u8 = 1;
const ASKS_FOR_TOKIO: u8 = 3;

/// A crate, or a part of one.
struct Row {
    name: &'static str,
    what: &'static str,
    test: Test,
    /// What a crate that does not work says.
    refuses: Option<&'static str>,
    advice: &'static str,
}

/// The words by which functions of tokio, sqlx and quinn ask for a runtime of tokio's around them.
fn asks_for_tokio(message: &str) -> bool {
    let words = ["Tokio 1.x runtime", "Tokio context", "no async runtime found"];
    words.iter().any(|words| message.contains(words))
}

fn equal<T: PartialEq + Debug>(left: T, right: T) -> Done {
    if left == right { Ok(()) } else { Err(format!("{left:?} is not {right:?}").into()) }
}

/// Runs one test, in a process of its own: the process ends with it, in whatever state the crate's threads are.
fn run(row: &Row, tokio: bool) -> ! {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        default(info);
        if asks_for_tokio(&info.to_string()) {
            std::process::exit(ASKS_FOR_TOKIO.into());
        }
    }));
    let runtime = filch_linux::Builder::new().workers(2).tokio(tokio).build().expect("a runtime");
    // Futures that are not `Send` are polled by a local task, the others by a worker too.
    let test = row.test;
    let pinned = runtime.handle().spawn_with(
        TaskOptions::new().pinned(filch_linux::runtime::WorkerId::new(0)),
        async move {
            let local = filch_linux::spawn_local(timeout(LIMIT, test()));
            local.expect("from a pinned task").await
        },
    );
    let outcome = runtime.block_on(pinned.expect("there is such a worker"));
    let status = match outcome {
        Ok(Ok(Ok(Ok(())))) => 0,
        Ok(Ok(Ok(Err(error)))) => {
            eprintln!("{error}: {error:?}");
            if asks_for_tokio(&format!("{error} {error:?}")) { ASKS_FOR_TOKIO } else { FAILED }
        }
        other => {
            eprintln!("{other:?}");
            FAILED
        }
    };
    std::process::exit(status.into())
}

fn main() -> ExitCode {
    let rows = rows::all();
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => page::print(&rows),
        ["run", name, kind @ ("plain" | "tokio")] => match rows.iter().find(|row| row.id() == name)
        {
            Some(row) => run(row, kind == "tokio"),
            None => panic!("no row of this name: {name}"),
        },
        _ => panic!("the arguments are none, or `run NAME plain` or `run NAME tokio`"),
    }
}
