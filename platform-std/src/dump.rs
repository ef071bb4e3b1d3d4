//! Where each task waits: all are polled, and say so.

use core::{
    fmt, ptr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    sync::Mutex,
    time::Instant,
};

use filch::{
    TaskId,
    dump::{Sink, Step, Wait, watch},
    yield_now,
};

use crate::{context::Handle, coop::consume_budget, fork::Own, panics::lock, task_view::Task};

/// Frames that are kept of a stack; the innermost ones.
const FRAMES: usize = 128;
/// Places that are kept of a task.
const PLACES: usize = 4096;
/// How often a dump looks whether all tasks were polled.
const STEP: Duration = Duration::from_micros(500);

/// The dumps of a process.
#[derive(Default)]
struct Dumps {
    /// One is under way.
    on: AtomicBool,
    /// What the tasks that were polled have shown, by task. Of all runtimes.
    seen: Mutex<Option<HashMap<TaskId, Seen>>>,
}

static DUMPS: Own<Dumps> = Own::new();
static SINK: Sink = Sink::new(take);

/// What a task has shown.
#[derive(Default)]
struct Seen {
    /// Its polls that have begun.
    polls: usize,
    /// In the last of them.
    points: Vec<WaitPoint>,
}

fn take(task: TaskId, step: Step) {
    // Before the lock, as it takes long.
    let stack = if step == Step::Begin { Vec::new() } else { stack() };
    let mut seen = lock(&DUMPS.get().seen);
    let Some(seen) = seen.as_mut() else { return };
    let Seen { polls, points } = seen.entry(task).or_default();
    let is_full = points.len() >= PLACES;
    match (step, points.last_mut()) {
        (Step::Begin, _) => {
            *polls += 1;
            points.clear();
        }
        _ if is_full => {}
        (Step::On(wait), Some(last)) if last.on.is_none() => last.on = Some(wait),
        (Step::On(wait), _) => points.push(WaitPoint { on: Some(wait), stack }),
        _ => points.push(WaitPoint { on: None, stack }),
    }
}

/// The addresses of the frames below, the innermost first.
fn stack() -> Vec<usize> {
    let mut stack = Vec::with_capacity(32);
    let keep = |frame: &backtrace::Frame| {
        stack.push(frame.ip().addr());
        stack.len() < FRAMES
    };
    // Not by the crate's lock where there is another way: in a forked child it may be held for ever.
    #[cfg(unix)]
    // SAFETY: unwinders of Unix may be called by several threads at a time; the lock is for Windows' library.
    unsafe {
        backtrace::trace_unsynchronized(keep);
    }
    #[cfg(not(unix))]
    backtrace::trace(keep);
    stack
}

/// A task, and where it waits. From [`Handle::dump_tasks`].
///
/// It prints as some lines of text: the task's name and place, what it waits for, and for each the stack of its futures.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskDump {
    /// The task.
    pub task: Task,
    /// What it waits for. More than one for a task that waits for the first of several, or for all. None: it did not wait, or waits for
    /// what polls its parts by wakers of its own (`FuturesUnordered`), and for that was not polled. 4,096 at most.
    pub waits: Vec<WaitPoint>,
    /// Whether it was polled for the dump, and waits since. If not, it is queued or in a poll: see
    /// [`Builder::on_long_poll`](crate::Builder::on_long_poll).
    pub waiting: bool,
}

/// A place where a task waits.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitPoint {
    /// For what, if the future there is one of this project, or says so by [`waits`](filch::dump::waits).
    pub on: Option<Wait>,
    stack: Vec<usize>,
}

impl WaitPoint {
    /// The calls from the task to the future that waits, that one first: a line each, with file and line if the program has debug
    /// information.
    ///
    /// Cost: some milliseconds, the first time some 100.
    pub fn stack(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for address in &self.stack {
            backtrace::resolve(ptr::without_provenance_mut(*address), |symbol| {
                let Some(name) = symbol.name() else { return };
                lines.push(match (symbol.filename(), symbol.lineno()) {
                    (Some(file), Some(line)) => format!("{name:#} ({}:{line})", file.display()),
                    _ => format!("{name:#}"),
                });
            });
        }
        lines.truncate(lines.iter().position(|line| is_below(line)).unwrap_or(lines.len()));
        let begin = lines.iter().rposition(|line| is_above(line)).map_or(0, |last| last + 1);
        lines.split_off(begin).join("\n")
    }
}

/// A frame of the worker that polls the task.
fn is_below(line: &str) -> bool {
    ["filch::task::cell", "task/cell.rs"].iter().any(|part| line.contains(part))
}

/// A frame of the waker that takes the stack, or above it.
fn is_above(line: &str) -> bool {
    const PARTS: [&str; 4] = [
        "filch_std::dump::take",
        "filch_std::dump::stack",
        "filch::task::dump::",
        "core::task::wake::Waker",
    ];
    line.starts_with("backtrace::") || PARTS.iter().any(|part| line.contains(part))
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, waits, waiting } = self;
        let name = task.name.or(task.type_name).unwrap_or("a task");
        write!(f, "{name} ({:?}", task.id)?;
        if let Some(location) = task.location {
            write!(f, ", {location}")?;
        }
        writeln!(f, "){}", if *waiting { "" } else { ": queued, or in a poll" })?;
        waits.iter().try_for_each(|point| write!(f, "{point}"))
    }
}

impl fmt::Display for WaitPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.on {
            Some(on) => writeln!(f, "  {on}")?,
            None => writeln!(f, "  waiting")?,
        }
        self.stack().lines().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl fmt::Debug for WaitPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitPoint").field("on", &self.on).finish_non_exhaustive()
    }
}

/// The dump under way; its end.
struct Dump(&'static Dumps);

impl Dump {
    fn begin() -> Option<Self> {
        let dumps = DUMPS.get();
        // Ordering: Acquire pairs with the Release in `drop`: the last dump has taken its sink away.
        if dumps.on.swap(true, Ordering::Acquire) {
            return None;
        }
        *lock(&dumps.seen) = Some(HashMap::new());
        watch(Some(&SINK));
        Some(Self(dumps))
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let Self(dumps) = *self;
        if !ptr::eq(dumps, DUMPS.get()) {
            // In a forked child: the dump is the parent's, and its lock may be held.
            return;
        }
        watch(None);
        let seen = lock(&dumps.seen).take();
        drop(seen);
        // Ordering: Release pairs with the Acquire in `begin`.
        dumps.on.store(false, Ordering::Release);
    }
}

/// See [`Handle::dump_tasks`].
pub(crate) async fn dump_tasks(here: Handle, patience: Duration) -> io::Result<Vec<TaskDump>> {
    consume_budget().await;
    here.check().map_err(|_| ErrorKind::Unsupported)?;
    let under_way = Dump::begin().ok_or(ErrorKind::ResourceBusy)?;
    let seen = &under_way.0.seen;
    // By the system's clock: one that tests stop stands still while a poll is stuck.
    let begin = Instant::now();
    here.0.core.wake_tasks();
    let polls = |task: &Task| {
        lock(seen).as_ref().and_then(|seen| seen.get(&task.id)).map_or(0, |seen| seen.polls)
    };
    // One that is queued, or in a poll, as the caller and those that always yield are: the poll before that has ended.
    let was_polled = |task: &Task| polls(task) > usize::from(task.scheduled);
    while begin.elapsed() < patience && !here.0.core.live_tasks().iter().all(was_polled) {
        match here.0.clock {
            None => here.0.timers.sleep(STEP).await,
            // A timer would move it.
            Some(_) => yield_now().await,
        }
    }
    watch(None);
    let mut tasks = here.0.core.live_tasks();
    tasks.sort_by_key(|task| task.id);
    let dump = |task: Task| {
        let waiting = !task.scheduled && polls(&task) > 0;
        let shown = lock(seen).as_mut().and_then(|seen| seen.remove(&task.id));
        TaskDump { task, waits: shown.unwrap_or_default().points, waiting }
    };
    Ok(tasks.into_iter().map(dump).collect())
}
