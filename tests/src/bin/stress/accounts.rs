//! The accounts: every task, every output, exactly once.

use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use std::sync::Arc;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Yields a few times. A leaf: it waits for no other task, so sync code may wait for it.
    Yielder,
    /// Waits until its place in the slot table is fired.
    Waiter,
    /// Spawns children and waits for them in all possible ways.
    Spawner,
    /// One side of a pair that takes turns.
    Pinger,
    /// Aborts other tasks.
    Aborter,
    /// Runs a section under a shield, which must not be cut off.
    Shielded,
    /// Panics. A leaf.
    Panicking,
    /// Is not `Send`, and stays on its worker.
    Local,
    /// Waits for tasks that are older than itself.
    Joiner,
    /// Waits for a wake that has no meaning, until its last waker is dropped.
    Forgotten,
}

impl Kind {
    pub(crate) const ALL: [Self; 10] = [
        Self::Yielder,
        Self::Waiter,
        Self::Spawner,
        Self::Pinger,
        Self::Aborter,
        Self::Shielded,
        Self::Panicking,
        Self::Local,
        Self::Joiner,
        Self::Forgotten,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yielder => "yielder",
            Self::Waiter => "waiter",
            Self::Spawner => "spawner",
            Self::Pinger => "pinger",
            Self::Aborter => "aborter",
            Self::Shielded => "shielded",
            Self::Panicking => "panicking",
            Self::Local => "local",
            Self::Joiner => "joiner",
            Self::Forgotten => "forgotten",
        }
    }

    /// Whether it ends without help from other tasks.
    pub(crate) const fn is_leaf(self) -> bool {
        matches!(self, Self::Yielder | Self::Panicking)
    }
}

/// The number of some things, and a sum over their ids.
#[derive(Debug)]
struct Tally {
    count: AtomicU64,
    sum: AtomicU64,
}

type Sum = (u64, u64);

impl Tally {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    // Ordering: Relaxed throughout, so that the accounts order nothing that the executor should.
    // They are final once the runtime's threads have been joined; before that they are read until
    // they agree.
    fn add(&self, id: u64) {
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(mix(id), Relaxed);
    }

    fn get(&self) -> Sum {
        (self.count.load(Relaxed), self.sum.load(Relaxed))
    }
}

/// Spreads an id, so that two different sets of ids rarely have the same sum (splitmix64).
fn mix(id: u64) -> u64 {
    let x = id.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[derive(Debug)]
struct Account {
    created: Tally,
    dropped: Tally,
    completed: Tally,
    cancelled: Tally,
    panicked: Tally,
    refused: Tally,
    outputs_dropped: Tally,
}

static ACCOUNTS: [Account; Kind::ALL.len()] = [const {
    Account {
        created: Tally::new(),
        dropped: Tally::new(),
        completed: Tally::new(),
        cancelled: Tally::new(),
        panicked: Tally::new(),
        refused: Tally::new(),
        outputs_dropped: Tally::new(),
    }
}; Kind::ALL.len()];

static IDS: AtomicU64 = AtomicU64::new(1);
static SHIELDS_RAISED: AtomicU64 = AtomicU64::new(0);
static SHIELDS_LOWERED: AtomicU64 = AtomicU64::new(0);
/// The runtime is about to shut down: any task may be cancelled.
static CLOSING: AtomicBool = AtomicBool::new(false);
static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// A future that the spawn returned is being dropped.
    static REFUSING: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn set_seed(seed: u64) {
    SEED.store(seed, Relaxed);
}

pub(crate) fn set_closing(on: bool) {
    CLOSING.store(on, Relaxed);
}

/// Reports a violated invariant, and ends the process.
pub(crate) fn violation(what: &str) -> ! {
    eprintln!("VIOLATION (seed {}): {what}", SEED.load(Relaxed));
    std::process::exit(101);
}

/// Whether the task was asked to end.
pub(crate) type Asked = Arc<AtomicBool>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Completed,
    AboutToPanic,
}

const ALIVE: u64 = 0x616C_6976_6561_6C69;
const DEAD: u64 = 0x6465_6164_6465_6164;

/// A task's entry in the accounts, inside the task's future.
#[derive(Debug)]
pub(crate) struct Guard {
    magic: u64,
    id: u64,
    kind: Kind,
    asked: Asked,
    fate: Fate,
}

impl Guard {
    pub(crate) fn new(kind: Kind) -> Self {
        let id = IDS.fetch_add(1, Relaxed);
        ACCOUNTS[kind as usize].created.add(id);
        Self { magic: ALIVE, id, kind, asked: Asked::default(), fate: Fate::Open }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn asked(&self) -> Asked {
        Arc::clone(&self.asked)
    }

    /// The task is done; returns its output.
    pub(crate) fn finish(mut self) -> Output {
        self.fate = Fate::Completed;
        Output { magic: ALIVE, id: self.id, kind: self.kind }
    }

    pub(crate) fn panic(mut self) -> ! {
        self.fate = Fate::AboutToPanic;
        panic!("{ON_PURPOSE}");
    }
}

/// The message of tasks that panic.
pub(crate) const ON_PURPOSE: &str = "on purpose";

impl Drop for Guard {
    fn drop(&mut self) {
        if self.magic != ALIVE {
            violation("a future was dropped twice");
        }
        self.magic = DEAD;
        let account = &ACCOUNTS[self.kind as usize];
        let fate = match self.fate {
            Fate::Completed => &account.completed,
            Fate::AboutToPanic => &account.panicked,
            Fate::Open if REFUSING.get() => &account.refused,
            Fate::Open => {
                let excused = matches!(self.kind, Kind::Forgotten | Kind::Local);
                if !(excused || self.asked.load(Relaxed) || CLOSING.load(Relaxed)) {
                    violation(&format!("{:?} {} was cancelled, unasked", self.kind, self.id));
                }
                &account.cancelled
            }
        };
        fate.add(self.id);
        account.dropped.add(self.id);
    }
}

/// A spawn was refused, and returned the future.
pub(crate) fn refuse<F>(future: F) {
    REFUSING.set(true);
    drop(future);
    REFUSING.set(false);
}

/// The output of a completed task.
#[derive(Debug)]
pub(crate) struct Output {
    magic: u64,
    id: u64,
    kind: Kind,
}

impl Output {
    pub(crate) fn is_of(&self, id: u64, kind: Kind) -> bool {
        self.magic == ALIVE && self.id == id && self.kind == kind
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.magic != ALIVE {
            violation("an output was dropped twice");
        }
        self.magic = DEAD;
        ACCOUNTS[self.kind as usize].outputs_dropped.add(self.id);
    }
}

/// A section under a shield, which must run to its end.
pub(crate) struct Stretch;

impl Stretch {
    pub(crate) fn begin() -> Self {
        SHIELDS_RAISED.fetch_add(1, Relaxed);
        Self
    }

    pub(crate) fn end(self) {
        SHIELDS_LOWERED.fetch_add(1, Relaxed);
    }
}

/// How many futures were dropped: the watchdog's measure of progress.
pub(crate) fn ended() -> u64 {
    ACCOUNTS.iter().map(|a| a.dropped.get().0).sum()
}

/// How many tasks were created, and how many of them were refused.
pub(crate) fn spawned() -> (u64, u64) {
    let sum = |f: fn(&Account) -> &Tally| ACCOUNTS.iter().map(|a| f(a).get().0).sum::<u64>();
    (sum(|a| &a.created), sum(|a| &a.refused))
}

/// The accounts that do not balance.
pub(crate) fn errors() -> Vec<String> {
    let mut errors = Vec::new();
    for (kind, a) in Kind::ALL.iter().zip(&ACCOUNTS) {
        let mut equal = |what: &str, one: Sum, other: Sum| {
            if one != other {
                errors.push(format!("{}: {what}: {one:?} and {other:?}", kind.name()));
            }
        };
        let fates = [&a.completed, &a.cancelled, &a.panicked, &a.refused].map(Tally::get);
        let fates = fates.iter().fold((0, 0_u64), |s, f| (s.0 + f.0, s.1.wrapping_add(f.1)));
        equal("created and ended", a.created.get(), fates);
        equal("created and dropped", a.created.get(), a.dropped.get());
        equal("outputs and their drops", a.completed.get(), a.outputs_dropped.get());
    }
    let (raised, lowered) = (SHIELDS_RAISED.load(Relaxed), SHIELDS_LOWERED.load(Relaxed));
    if raised != lowered {
        errors.push(format!("{raised} shields raised, {lowered} lowered"));
    }
    errors
}

/// The figures, as a table.
pub(crate) fn print() {
    println!(
        "{:<10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "kind", "spawned", "completed", "cancelled", "panicked", "refused", "futures", "outputs"
    );
    let mut totals = [0; 7];
    for (kind, a) in Kind::ALL.iter().zip(&ACCOUNTS) {
        let row = [
            &a.created,
            &a.completed,
            &a.cancelled,
            &a.panicked,
            &a.refused,
            &a.dropped,
            &a.outputs_dropped,
        ]
        .map(|t| t.get().0);
        print_row(kind.name(), row);
        totals.iter_mut().zip(row).for_each(|(t, n)| *t += n);
    }
    print_row("all", totals);
    println!("shields raised and lowered: {}", SHIELDS_RAISED.load(Relaxed));
}

fn print_row(name: &str, row: [u64; 7]) {
    let [a, b, c, d, e, f, g] = row;
    println!("{name:<10}{a:>12}{b:>12}{c:>12}{d:>12}{e:>12}{f:>12}{g:>12}");
}
