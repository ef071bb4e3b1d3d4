//! The process that measures one peer once: its command line says what, and it prints its figures.

use std::process::{Command, ExitCode, Stdio};

use crate::{
    alloc,
    args::{Allocator, Args, Order},
    catalogue, limits,
    meter::{Effort, Figure},
    workloads::Run,
};

/// Seconds after which the kernel ends a measuring process that hangs.
const PATIENCE: u32 = 120;

/// Measures in this process.
pub(crate) fn measure(order: &Order) -> ExitCode {
    // SAFETY: a signal that ends this process.
    unsafe { libc::alarm(PATIENCE) };
    let run = Run { workers: order.workers, effort: Effort { quick: order.quick } };
    let figures = match order.workload.as_str() {
        limits::NAME => Some(limits::measure(run.effort)),
        workload => catalogue::run(workload, &order.peer, run),
    };
    match serde_json::to_string(&figures) {
        Ok(json) => println!("{json}"),
        Err(error) => {
            eprintln!("filch-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    // Executors that never end are left running.
    std::process::exit(0);
}

/// Has another process measure. `None` if the peer cannot run it.
pub(crate) fn ask(
    args: &Args,
    order: &Order,
    allocator: Allocator,
) -> Result<Option<Vec<Figure>>, Box<dyn core::error::Error>> {
    let program = args.programs.iter().find(|(peer, _)| *peer == order.peer);
    let mut command = Command::new(match program {
        Some((_, file)) => file.clone(),
        None => std::env::current_exe()?,
    });
    command.args(["--measure", &order.workload, &order.peer]);
    command.args(["--workers", &order.workers.to_string()]);
    if order.quick {
        command.arg("--quick");
    }
    let variable = alloc::VARIABLE.to_str()?;
    match allocator {
        Allocator::Malloc => command.env_remove(variable),
        Allocator::Mimalloc => command.env(variable, "1"),
    };
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        let Order { workload, peer, workers, .. } = order;
        return Err(
            format!("{peer} failed in {workload}, {workers} workers: {}", output.status).into()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
