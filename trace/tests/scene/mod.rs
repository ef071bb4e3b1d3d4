//! A small program, recorded: its clock is set by its tasks.

use core::{
    future::{pending, poll_fn},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    task::{Poll, Waker},
};
use std::sync::Mutex;

use filch::{
    Event, Executor, Instant, Platform, Step, TaskOptions, TaskPool, WorkerId, atomic::AtomicU32,
};
use filch_trace::{Lane, NameSlot, Recorder, Slot};

const MS: u64 = 1_000_000;

/// One worker, on one thread.
struct Machine {
    recorder: Recorder,
    clock: AtomicU64,
}

// SAFETY: there is one thread.
unsafe impl Platform for Machine {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(SeqCst))
    }
    fn current_worker(&self) -> Option<WorkerId> {
        Some(WorkerId::new(0))
    }
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    fn wake(&self, _: WorkerId, _: &AtomicU32) {}
    fn event(&self, worker: Option<WorkerId>, event: Event<'_>) {
        self.recorder.record(worker, event, || self.clock.fetch_add(1_000, SeqCst));
    }
}

static LANES: [Lane; 2] = [const { Lane::new() }; 2];
static SLOTS: [Slot; 2 * 256] = [const { Slot::new() }; 2 * 256];
static NAMES: [NameSlot; 16] = [const { NameSlot::new() }; 16];
static EXECUTOR: Executor<Machine, 1> = Executor::new(Machine {
    recorder: Recorder::new(&LANES, &SLOTS, &NAMES),
    clock: AtomicU64::new(1 << 50),
});
static TASKS: TaskPool<256, 8> = TaskPool::new();

/// What the planted task waits for.
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);
static WOKEN: AtomicBool = AtomicBool::new(false);

fn advance(nanos: u64) {
    EXECUTOR.platform().clock.fetch_add(nanos, SeqCst);
}

/// Records a program with a poll of 20 ms, of the task `planted`, which the task `messenger` woke 3 ms before; a task `lonely` that nothing
/// wakes; and a poll of the task `stuck`, during which the trace is written. Once for each program.
pub(crate) fn record() -> Vec<u8> {
    let spawn = |name, future| {
        let options = TaskOptions::new().name(name);
        let task = EXECUTOR.spawner().spawn_with(options, &TASKS, future);
        task.map_err(|error| error.kind).unwrap().detach();
    };
    spawn("planted", Box::pin(planted()) as core::pin::Pin<Box<dyn Future<Output = ()> + Send>>);
    spawn("lonely", Box::pin(pending()));
    spawn("messenger", Box::pin(messenger()));
    let worker = EXECUTOR.worker(WorkerId::new(0)).unwrap();
    while worker.step() == Step::Polled {}
    let file = std::sync::Arc::new(Mutex::new(Vec::new()));
    let written = file.clone();
    spawn("stuck", Box::pin(async move { *written.lock().unwrap() = dump() }));
    while worker.step() == Step::Polled {}
    core::mem::take(&mut *file.lock().unwrap())
}

fn dump() -> Vec<u8> {
    advance(7 * MS);
    let mut file = Vec::new();
    let machine = EXECUTOR.platform();
    machine.recorder.dump(
        machine.clock.load(SeqCst),
        |visit| EXECUTOR.tasks(visit),
        "a scene\nof two lines",
        &mut |bytes| file.extend_from_slice(bytes),
    );
    file
}

async fn planted() {
    poll_fn(|context| {
        if WOKEN.load(SeqCst) {
            return Poll::Ready(());
        }
        *WAKER.lock().unwrap() = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
    advance(20 * MS);
}

async fn messenger() {
    WOKEN.store(true, SeqCst);
    let waker = WAKER.lock().unwrap().take();
    waker.unwrap().wake();
    advance(3 * MS);
}
