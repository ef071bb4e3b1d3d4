//! Runtimes that come and go: in unusual places, and with nothing left behind.

mod common;

use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    thread,
};

use common::{until, watchdog};
use filch_std::{Handle, JoinHandle, Runtime, TaskOptions, runtime::WorkerId, time::Timers};

/// Uses a runtime, and drops it, when its thread ends.
struct Last(Option<Runtime>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(rt) = self.0.take() {
            let four = rt.block_on(async { filch_std::spawn(async { 2 + 2 }).await });
            assert_eq!(four.unwrap(), 4);
            drop(rt);
            ENDED.fetch_add(1, SeqCst);
        }
        // And a runtime that is built here.
        let rt = Runtime::builder().workers(1).build().unwrap();
        assert_eq!(rt.spawn(async { 7 }).join().unwrap(), 7);
    }
}

static ENDED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last(None)) };
}

#[test]
fn a_runtime_is_used_and_dropped_in_the_destructor_of_a_thread_local() {
    let _watchdog = watchdog();
    for round in 1..10 {
        let ends = thread::spawn(move || {
            // Registered before, and so dropped after, what the runtime keeps for a thread; and the
            // reverse.
            if round % 2 == 0 {
                LAST.with_borrow(|_| ());
            }
            let rt = Runtime::builder().workers(2).build().unwrap();
            rt.block_on(async { filch_std::time::sleep(Duration::from_millis(1)).await });
            LAST.with_borrow_mut(|last| last.0 = Some(rt));
        });
        ends.join().unwrap();
        assert_eq!(ENDED.load(SeqCst), round);
    }
}

#[test]
fn a_long_poll_is_reported_once() {
    let _watchdog = watchdog();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let rt = Runtime::builder()
        .workers(2)
        .poll_limit(Some(Duration::from_millis(5)))
        .on_long_poll(move |poll| {
            tells.lock().unwrap().push(poll);
            // No caller receives this panic.
            std::panic::resume_unwind(Box::new("on purpose"));
        })
        .build()
        .unwrap();
    let waits = Arc::clone(&told);
    let long = rt.spawn(async move { until(|| !waits.lock().unwrap().is_empty()) });
    rt.block_on(long).unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].so_far >= Duration::from_millis(5), "{told:?}");
}

#[test]
fn hooks_are_called_in_each_thread() {
    let _watchdog = watchdog();
    let (begun, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let note = |to: &Arc<Mutex<Vec<_>>>| {
        let to = Arc::clone(to);
        move || {
            to.lock().unwrap().push(thread::current().name().unwrap().to_owned());
            // It is printed, and the thread goes on.
            panic!("a hook panics");
        }
    };
    let rt = Runtime::builder()
        .workers(2)
        .name("hooked")
        .on_thread_start(note(&begun))
        .on_thread_stop(note(&ended))
        .build()
        .unwrap();
    assert_eq!(rt.handle().spawn_blocking(|| 7).join().unwrap(), 7);
    assert_eq!(rt.spawn(async { 7 }).join().unwrap(), 7);
    drop(rt);
    let names = ["hooked-0", "hooked-1", "hooked-blocking-1"];
    let sorted = |list: &Mutex<Vec<String>>| {
        let mut list = list.lock().unwrap().clone();
        list.sort();
        list
    };
    assert_eq!(sorted(&begun), names);
    until(|| sorted(&ended) == names);
}

#[test]
fn workers_run_inside_of_the_call_around_them() {
    thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    let _watchdog = watchdog();
    let left = Arc::new(AtomicUsize::new(0));
    let leaves = Arc::clone(&left);
    let rt = Runtime::builder().workers(2).spare_slots(1).around_worker(move |_, run| {
        INSIDE.set(true);
        run();
        leaves.fetch_add(1, SeqCst);
        run();
        panic!("it is printed, and does no harm");
    });
    let rt = rt.build().unwrap();
    for worker in 0..2 {
        let task = rt
            .handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async { INSIDE.get() });
        assert!(task.unwrap().join().unwrap());
    }
    assert!(!rt.handle().spawn_blocking(|| INSIDE.get()).join().unwrap());
    drop(rt);
    assert_eq!(left.load(SeqCst), 2);

    let rt = Runtime::builder().workers(1).around_worker(|_, _| ()).build().unwrap();
    assert_eq!(rt.spawn(async { 7 }).join().unwrap(), 7);
}

#[test]
fn a_watchdog_that_never_sleeps_is_refused() {
    let timeouts = Some((Duration::ZERO, Duration::from_millis(10)));
    let built = Runtime::builder().workers(1).watchdog(timeouts).build();
    assert!(
        matches!(
            built,
            Err(filch_std::runtime::BuildError::Config(
                filch_std::runtime::ConfigError::WatchdogNeverSleeps
            ))
        ),
        "{built:?}"
    );
}

#[test]
fn a_budget_of_zero_is_refused() {
    let built = Runtime::builder().workers(1).budget(0).build();
    assert!(
        matches!(
            built,
            Err(filch_std::runtime::BuildError::Config(
                filch_std::runtime::ConfigError::ZeroBudget
            ))
        ),
        "{built:?}"
    );
    let built = Runtime::builder().budget(0).build_local();
    assert!(
        matches!(
            built,
            Err(filch_std::runtime::BuildError::Config(
                filch_std::runtime::ConfigError::ZeroBudget
            ))
        ),
        "{built:?}"
    );
}

#[test]
fn a_hook_whose_drop_panics_loses_no_memory() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    let _watchdog = watchdog();
    let mut hosts = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let bomb = Bomb;
        // As many workers as in no other test of this file.
        let rt = Runtime::builder().workers(3).on_long_poll(move |_| {
            let _ = &bomb;
        });
        let rt = rt.build().unwrap();
        hosts.insert(core::ptr::from_ref(rt.host()).addr());
    }
    assert_eq!(hosts.len(), 1, "the memory is used again");
}

#[test]
fn a_name_with_a_zero_in_it_is_refused() {
    let built = Runtime::builder().workers(1).name("a\0b").build();
    assert!(matches!(built, Err(filch_std::runtime::BuildError::Thread(_))), "{built:?}");
}

#[test]
fn handles_may_be_used_behind_a_panic_that_was_caught() {
    fn check<T: core::panic::UnwindSafe + core::panic::RefUnwindSafe>() {}
    check::<Handle>();
    check::<Runtime>();
    check::<JoinHandle<RefCell<u8>>>();
    check::<filch_std::task::AbortHandle>();
    check::<Timers>();
}

/// Resident memory and descriptors, if the system reports them.
#[cfg(target_os = "linux")]
fn footprint() -> (usize, usize) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4_096, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

#[cfg(target_os = "linux")]
#[test]
fn runtimes_of_any_configuration_use_the_same_memory() {
    let _watchdog = watchdog();
    let mut rng = filch_test_support::rng();
    let mut random = move |below: u64| rng.u64(..below);
    let mut build = || {
        let ms = Duration::from_millis;
        let rt = Runtime::builder()
            .workers(1 + random(2) as usize)
            .spin_rounds(random(50) as u32)
            .lifo_cap(random(5) as u32)
            .budget(1 + random(200) as u16)
            .poll_limit((random(2) == 0).then(|| ms(1 + random(1_000))))
            .park_timeout((random(2) == 0).then(|| ms(1 + random(1_000))))
            .watchdog((random(2) == 0).then(|| (ms(1 + random(5)), ms(10))))
            .nesting(random(100) as u32)
            .stealing(random(2) == 0)
            .build()
            .unwrap();
        assert_eq!(rt.block_on(rt.spawn(async { 3 })).unwrap(), 3);
    };
    (0..50).for_each(|_| build());
    let (memory, files) = footprint();
    (0..1_000).for_each(|_| build());
    let (memory_then, files_then) = footprint();
    // Other tests run meanwhile, each with a runtime or two.
    assert!(files_then <= files + 32, "{files} descriptors, then {files_then}");
    assert!(memory_then <= memory + (64 << 20), "{memory} bytes, then {memory_then}");
}

#[test]
fn workers_have_the_names_that_a_closure_gives() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).name_fn(|_| "mine".into()).build().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    // This thread waits apart from the runtime, so that a worker runs the task.
    rt.spawn(async move { send.send(thread::current().name().map(str::to_owned)) }).detach();
    assert_eq!(receive.recv().unwrap().as_deref(), Some("mine"));
}
