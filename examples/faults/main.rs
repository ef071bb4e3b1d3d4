//! Programs with a fault each, for the flight recorder to find: see docs/observing.md.
#![cfg(target_os = "linux")]

use core::{
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};
use std::{
    env,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use filch_linux::{Builder, Runtime, TaskOptions, spawn_with, task::yield_now, time};

const HELP: &str = "\
Usage: faults blocking|lost|starved FILE
Runs a program that is at fault for less than a second, and writes what it did last to FILE.

  blocking    a task blocks its worker for 20 ms now and then
  lost        a task waits for a wake that does not come
  starved     a task waits for its turn behind a crowd
";

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let [which, file] = &args[..] else {
        print!("{HELP}");
        return ExitCode::from(2);
    };
    let run: fn(Builder) -> filch_linux::Runtime = match which.as_str() {
        "blocking" => blocking,
        "lost" => lost,
        "starved" => starved,
        _ => {
            print!("{HELP}");
            return ExitCode::from(2);
        }
    };
    let runtime = run(Builder::new().name("faults").recorder(1 << 14));
    let saved = match runtime.handle().snapshot() {
        Some(snapshot) => snapshot.save(file),
        None => Ok(()),
    };
    if let Err(error) = saved {
        eprintln!("faults: {file}: {error}");
        return ExitCode::FAILURE;
    }
    println!("filch-trace summary {file}");
    ExitCode::SUCCESS
}

fn start(builder: Builder) -> Runtime {
    builder.build().expect("threads can be started")
}

/// Serves requests for a while: short polls, one each millisecond.
async fn serve(rounds: u32) {
    for _ in 0..rounds {
        time::sleep(Duration::from_millis(1)).await;
        compute(Duration::from_micros(20));
    }
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        core::hint::spin_loop();
    }
}

/// One of the tasks makes a call that blocks.
fn blocking(builder: Builder) -> Runtime {
    let runtime = start(builder.workers(2));
    runtime.block_on(async {
        let serve = TaskOptions::new().name("serve");
        let tasks: Vec<_> = (0..20)
            .map(|_| spawn_with(serve, self::serve(200)).expect("there is memory"))
            .collect();
        let reload = TaskOptions::new().name("reload");
        let reload = spawn_with(reload, async {
            for _ in 0..3 {
                time::sleep(Duration::from_millis(50)).await;
                // As a look into a file on a slow disk would.
                thread::sleep(Duration::from_millis(20));
            }
        });
        for task in tasks.into_iter().chain(reload) {
            drop(task.await);
        }
    });
    runtime
}

/// Room for one waker.
type Slot = Arc<Mutex<Option<Waker>>>;

/// Two tasks wait for one event, and the waker of the first is overwritten by that of the second.
fn lost(builder: Builder) -> Runtime {
    async fn wait(slot: Slot) {
        let mut waits = false;
        poll_fn(move |cx| {
            if core::mem::replace(&mut waits, true) {
                return Poll::Ready(());
            }
            // The fault: there may be another one in it.
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
    let runtime = start(builder.workers(2));
    let slot = Slot::default();
    runtime.block_on(async {
        let first = TaskOptions::new().name("first listener");
        let first = spawn_with(first, wait(Arc::clone(&slot))).expect("there is memory");
        time::sleep(Duration::from_millis(20)).await;
        let second = TaskOptions::new().name("second listener");
        let second = spawn_with(second, wait(Arc::clone(&slot))).expect("there is memory");
        let serve = TaskOptions::new().name("serve");
        let serve = spawn_with(serve, self::serve(200)).expect("there is memory");
        time::sleep(Duration::from_millis(20)).await;
        let waker = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
        drop(second.await);
        drop(serve.await);
        // Its handle keeps it alive.
        core::mem::forget(first);
    });
    runtime
}

/// Tasks that compute keep the ring of the only worker full, and one that answers requests comes behind them all.
fn starved(builder: Builder) -> Runtime {
    let runtime = start(builder.workers(1));
    runtime.block_on(async {
        let bulk = TaskOptions::new().name("bulk");
        let tasks: Vec<_> = (0..300)
            .map(|_| {
                let work = async {
                    for _ in 0..5 {
                        compute(Duration::from_micros(200));
                        yield_now().await;
                    }
                };
                spawn_with(bulk, work).expect("there is memory")
            })
            .collect();
        let answer = TaskOptions::new().name("answer");
        let answer = spawn_with(answer, async {
            for _ in 0..3 {
                time::sleep(Duration::from_millis(1)).await;
            }
        });
        for task in tasks.into_iter().chain(answer) {
            drop(task.await);
        }
    });
    runtime
}
