//! A hypervisor-style host: each worker owns a virtual processor, and runs it when there are no
//! tasks. Device models are tasks; they run between two exits of a guest.
//!
//! A guest computes, requests a block from its disk, halts until the disk's interrupt, and so on.
//! With the feature `kvm`, and if `/dev/kvm` opens, its processor is real; otherwise it is
//! simulated.

mod guest;
#[cfg_attr(
    not(all(feature = "kvm", target_os = "linux", target_arch = "x86_64")),
    path = "no_kvm.rs"
)]
mod kvm;

use core::{sync::atomic::Ordering, time::Duration};
use std::{process::ExitCode, sync::OnceLock, thread, time};

use filch::{
    Executor, Instant, JoinHandle, Platform, TaskPool, WorkerId, atomic::AtomicU32 as Word,
    io::Ready,
};

use guest::{BLOCKS, Guest};

const GUESTS: usize = 2;

static EXECUTOR: Executor<Host, GUESTS> =
    Executor::new(Host { guests: [const { Guest::new() }; GUESTS], origin: OnceLock::new() });
static TASKS: TaskPool<256, 8> = TaskPool::new();

/// The platform: a thread for each guest.
struct Host {
    guests: [Guest; GUESTS],
    origin: OnceLock<time::Instant>,
}

thread_local! {
    static WORKER: core::cell::Cell<Option<WorkerId>> = const { core::cell::Cell::new(None) };
}

// SAFETY:
// - Identity: the thread's own value; only `set_worker` sets it.
// - Guard: the default; a panic ends this program.
// - Sticky wake: `wake` requests the guest to exit after the word has changed; `wait` takes the
//   request back before it checks the word, and the guest checks for a request before it goes on,
//   and under the lock before it halts.
unsafe impl Platform for Host {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.get_or_init(time::Instant::now).elapsed()
    }

    fn current_worker(&self) -> Option<WorkerId> {
        WORKER.get()
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        WORKER.set(worker);
        if let Some(worker) = worker {
            self.guests[worker.index()].processor().attach();
        }
    }

    unsafe fn wait(&self, worker: WorkerId, word: &Word, expected: u32, deadline: Option<Instant>) {
        let guest = &self.guests[worker.index()];
        guest.forget_kick();
        if word.load(Ordering::Acquire) == expected && !guest.has_asked() {
            guest.enter(|| deadline.map(|end| end - self.now()));
        }
        // What it has asked for, as an interrupt handler would tell.
        guest.deliver();
    }

    fn wake(&self, worker: WorkerId, _: &Word) {
        self.guests[worker.index()].kick();
    }

    fn relax(&self, _: u32) {
        thread::yield_now();
    }
}

/// The disk of a guest: a task.
async fn disk(number: usize) {
    let guest = &EXECUTOR.platform().guests[number];
    for block in 0..BLOCKS {
        let event = guest.disk.ready(Ready::READABLE).await;
        guest.disk.clear(event);
        if block % 8 == 0 {
            // The block is not in the cache.
            EXECUTOR.sleep(Duration::from_micros(100)).await;
        }
        guest.interrupt();
        // Its worker leaves the guest, if it is in it, and enters it again with the interrupt.
        EXECUTOR.unpark_worker(WorkerId::new(number as u16));
    }
}

fn main() -> ExitCode {
    if !equip() {
        return ExitCode::FAILURE;
    }
    let threads = [0, 1].map(|n| thread::spawn(move || EXECUTOR.run(WorkerId::new(n))));
    let disks: Vec<JoinHandle<()>> =
        (0..GUESTS).filter_map(|n| EXECUTOR.spawn(&TASKS, disk(n)).ok()).collect();
    let served = disks.len() == GUESTS && disks.into_iter().all(|mut disk| disk.join().is_ok());
    if !served {
        eprintln!("a guest has no disk");
        return ExitCode::FAILURE;
    }
    // Waits until the guests have taken their last interrupt.
    while !EXECUTOR.platform().guests.iter().all(Guest::is_done) {
        thread::yield_now();
    }
    let ended = EXECUTOR.shutdown(Instant::MAX, |_| {}) == Ok(0);
    let left = threads.map(|thread| matches!(thread.join(), Ok(Ok(()))));
    for (number, guest) in EXECUTOR.platform().guests.iter().enumerate() {
        println!(
            "guest {number}: {} blocks, {} entries, {} of them ended by a wake",
            guest.blocks(),
            guest.entries.load(Ordering::Relaxed),
            guest.kicks.load(Ordering::Relaxed)
        );
    }
    let polls: usize = EXECUTOR.metrics().workers().map(|(_, worker)| worker.polls).sum();
    println!("{polls} polls of tasks between exits");
    if ended && left == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives the guests real processors, if possible. Returns whether none failed where KVM exists.
fn equip() -> bool {
    let kvm = match kvm::open() {
        Ok(kvm) => kvm,
        Err(error) => {
            println!("skip: no /dev/kvm: {error}");
            println!("{GUESTS} simulated guests, each with a worker of its own");
            return true;
        }
    };
    for guest in &EXECUTOR.platform().guests {
        match kvm::processor(&kvm) {
            Ok(processor) => guest.equip(processor),
            Err(error) => {
                eprintln!("KVM gives no processor: {error}");
                return false;
            }
        }
    }
    println!("{GUESTS} guests under KVM, each with a worker of its own");
    true
}
