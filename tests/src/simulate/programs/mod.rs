//! The programs that a simulation runs.

mod blocks;
mod cancel;
mod channel;
mod classes;
mod echo;
mod fan;
mod forks;
mod pinned;
mod pipeline;
mod timers;

use core::{fmt, str::FromStr, time::Duration};

use fastrand::Rng;

use super::{
    env::{Env, Task},
    timer::Alarm,
    world::{pause, pause_for},
};

/// What an episode runs. Each program goes on until it is asked to end, and then ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A server and its clients, over pipes: every byte comes back, in order.
    Echo,
    /// Stages with bounded channels between them: every item arrives, in order.
    Pipeline,
    /// Trees of tasks: each parent joins its children, and the sums agree.
    Fan,
    /// Tasks that wait for each other's outputs in sync code.
    Join,
    /// Sleeps, timeouts, intervals, deadlines that change.
    Timers,
    /// Tasks that are aborted, shielded, forgotten, that panic.
    Cancel,
    /// Fork-join runs in tasks.
    Forks,
    /// Tasks pinned to workers, and local ones.
    Pinned,
    /// Tasks that spend their budgets, yield, take turns, and wait to be woken from any context.
    Greedy,
    /// Tasks of all classes.
    Classes,
    /// Tasks whose closures block their workers.
    Blocks,
    /// All of it.
    Mixed,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 12] = [
        Self::Echo,
        Self::Pipeline,
        Self::Fan,
        Self::Join,
        Self::Timers,
        Self::Cancel,
        Self::Forks,
        Self::Pinned,
        Self::Greedy,
        Self::Classes,
        Self::Blocks,
        Self::Mixed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Pipeline => "pipeline",
            Self::Fan => "fan",
            Self::Join => "join",
            Self::Timers => "timers",
            Self::Cancel => "cancel",
            Self::Forks => "forks",
            Self::Pinned => "pinned",
            Self::Greedy => "greedy",
            Self::Classes => "classes",
            Self::Blocks => "blocks",
            Self::Mixed => "mixed",
        }
    }

    /// Starts its first tasks, from a thread that is no worker.
    pub(super) fn start(self, env: Env) -> Vec<Task<()>> {
        let n = env.0.size;
        match self {
            Self::Echo => echo::start(env, n),
            Self::Pipeline => pipeline::start(env, n),
            Self::Fan => fan::start(env, n, false),
            Self::Join => fan::start(env, n, true),
            Self::Timers => timers::start(env, n),
            Self::Cancel => cancel::start(env, n),
            Self::Forks => forks::start(env, n),
            Self::Pinned => pinned::start(env, n),
            Self::Greedy => greedy(env, n),
            Self::Classes => classes::start(env, n),
            Self::Blocks => blocks::start(env, n),
            Self::Mixed => Self::ALL
                .into_iter()
                .filter(|program| *program != Self::Mixed)
                .flat_map(|program| program.start_small(env))
                .collect(),
        }
    }

    fn start_small(self, env: Env) -> Vec<Task<()>> {
        let n = (env.0.size / 6).max(2);
        match self {
            Self::Echo => echo::start(env, n),
            Self::Pipeline => pipeline::start(env, n),
            Self::Fan => fan::start(env, n, false),
            Self::Join => fan::start(env, n, true),
            Self::Timers => timers::start(env, n),
            Self::Cancel => cancel::start(env, n),
            Self::Forks => forks::start(env, n),
            Self::Pinned => pinned::start(env, n),
            Self::Classes => classes::start(env, n),
            Self::Blocks => blocks::start(env, n),
            Self::Greedy | Self::Mixed => greedy(env, n),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|program| program.name() == text);
        known.ok_or_else(|| {
            format!("no such program: {text} (have: {})", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// What a thread that is no worker does now and then: it spawns, wakes, and has its own timers.
pub(super) fn from_outside(env: Env, rng: &mut Rng, alarms: &mut Vec<Alarm>) {
    match rng.u8(..6) {
        4 => {
            alarms.truncate(30);
            alarms.insert(0, Alarm::new(env.0.timers, time(rng)));
        }
        5 => {
            let at = env.0.timers.now() + time(rng);
            alarms.iter_mut().take(1).for_each(|alarm| alarm.reset(at));
        }
        0 => {
            let n = rng.u32(..4);
            drop(env.spawn(busy(env, n)));
        }
        1 => env.ring_all(),
        _ => env.ring(rng.usize(..)),
    }
}

/// Waits for all tasks, in sync code.
pub(super) fn join_all(tasks: &mut Vec<Task<()>>) {
    for mut task in tasks.drain(..) {
        // A root task that was aborted has no output.
        let _ = task.join();
    }
}

/// A few polls, some of them long.
async fn busy(env: Env, polls: u32) {
    let mut rng = env.rng();
    for _ in 0..polls {
        work(&mut rng);
        filch::yield_now().await;
    }
}

/// Runs the program's own code: other fibers go on meanwhile.
fn work(rng: &mut Rng) {
    match rng.u8(..32) {
        // Sometimes a poll is far too long.
        0 if rng.u8(..32) == 0 => pause_for(20_000),
        0 => pause_for(300),
        1..8 => pause(),
        _ => {}
    }
}

/// Between two rounds: other tasks run, or, at the pace of some episodes, time passes.
async fn rest(env: Env, rng: &mut Rng) {
    if rng.u8(..4) < env.0.pace {
        env.nap(time(rng)).await;
    } else {
        filch::yield_now().await;
    }
}

/// A short time; sometimes none, sometimes a long one.
fn time(rng: &mut Rng) -> Duration {
    Duration::from_nanos(match rng.u8(..8) {
        0 => 0,
        7 => rng.u64(..20_000_000),
        _ => rng.u64(..200_000),
    })
}

/// The tasks that could be spawned.
fn collect(tasks: impl Iterator<Item = Option<Task<()>>>) -> Vec<Task<()>> {
    tasks.flatten().collect()
}

fn greedy(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..n).map(|i| match i % 3 {
        0 => env.spawn(spend(env)),
        1 => env.spawn(busy_until_over(env)),
        _ => env.spawn(wait_for_bells(env)),
    }))
}

/// Endless ready operations: only the budget makes it yield.
async fn spend(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let mut spending = core::pin::pin!(async {
            for _ in 0..500 {
                filch::consume_budget().await;
            }
        });
        core::future::poll_fn(|cx| spending.as_mut().poll(cx)).await;
        work(&mut rng);
        rest(env, &mut rng).await;
    }
}

async fn busy_until_over(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        work(&mut rng);
        env.ring(rng.usize(..));
        rest(env, &mut rng).await;
    }
}

async fn wait_for_bells(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        env.wait_for_bell(rng.usize(..)).await;
        work(&mut rng);
    }
}
