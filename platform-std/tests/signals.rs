//! Wakes from signal handlers that interrupt workers and other threads anywhere: no task is lost.
// ThreadSanitizer delays a handler until its thread next calls libc; a sleeping thread does not.
#![cfg(all(target_os = "linux", not(filch_tsan)))]

mod common;

use core::{
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    task::{Poll, Waker},
};
use std::{sync::Arc, thread};

use common::{until, watchdog};
use filch_std::{Runtime, TaskOptions, task::yield_now};

const TASKS: usize = 16;

/// Wakers that the handler wakes, each in turn. They are never freed.
static WAKERS: [AtomicPtr<Waker>; TASKS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; TASKS];
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn wake_one(_: libc::c_int) {
    // SAFETY: the errno of this thread, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let n = SIGNALS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: null, or a leaked waker.
    if let Some(waker) = unsafe { WAKERS[n % TASKS].load(Ordering::Acquire).as_ref() } {
        waker.wake_by_ref();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn install() {
    // SAFETY: a handler of the right type, an empty mask, and restarted calls.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = wake_one as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()), 0);
    }
}

/// Waits for `rounds` wakes that come only from the handler.
async fn woken(slot: usize, rounds: usize) -> usize {
    let mut seen = 0;
    poll_fn(move |cx| {
        if WAKERS[slot].load(Ordering::Relaxed).is_null() {
            let waker = Box::leak(Box::new(cx.waker().clone()));
            WAKERS[slot].store(waker, Ordering::Release);
        }
        seen += 1;
        if seen > rounds { Poll::Ready(seen) } else { Poll::Pending }
    })
    .await
}

#[test]
fn tasks_are_woken_by_a_signal_handler_wherever_it_comes() {
    const ROUNDS: usize = 500;
    let _watchdog = watchdog();
    install();
    let rt = Runtime::builder().workers(3).build().unwrap();
    let waiting: Vec<_> = (0..TASKS).map(|slot| rt.spawn(woken(slot, ROUNDS))).collect();

    // The threads that the signals go to: each worker returns its own.
    let workers: Vec<libc::pthread_t> = (0..3)
        .map(|i| {
            // SAFETY: returns the calling thread.
            let who = async { unsafe { libc::pthread_self() } };
            rt.handle()
                .spawn_with(TaskOptions::new().pinned(filch_std::runtime::WorkerId::new(i)), who)
                .unwrap()
                .join()
                .unwrap()
        })
        .collect();

    // Meanwhile the workers push, pop, steal, spawn, join and complete as fast as they can.
    let stop = Arc::new(AtomicBool::new(false));
    let churn: Vec<_> = (0..6)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(async move {
                let mut joined = 0_usize;
                while !stop.load(Ordering::Relaxed) {
                    let children: Vec<_> =
                        (0..20).map(|_| filch_std::spawn(async { yield_now().await })).collect();
                    for mut child in children {
                        if joined % 2 == 0 {
                            child.await.unwrap();
                        } else {
                            child.join().unwrap();
                        }
                        joined += 1;
                    }
                }
                joined
            })
        })
        .collect();

    let done = || waiting.iter().all(filch_std::JoinHandle::is_finished);
    let mut sent = 0_usize;
    while !done() {
        for worker in &workers {
            // SAFETY: the runtime's threads live as long as it does, and the handler is installed.
            unsafe { libc::pthread_kill(*worker, libc::SIGUSR1) };
            // A thread that is no worker, while it spawns.
            rt.spawn(async {}).detach();
            // SAFETY: as above; for this very thread.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        sent += 1;
        if sent % 64 == 0 {
            thread::yield_now();
        }
    }
    stop.store(true, Ordering::Relaxed);
    for mut task in waiting {
        assert_eq!(task.join().unwrap(), ROUNDS + 1);
    }
    let joined: usize = churn.into_iter().map(|mut task| task.join().unwrap()).sum();
    println!("{} signals, {joined} joins", SIGNALS.load(Ordering::Relaxed));
    assert!(SIGNALS.load(Ordering::Relaxed) >= ROUNDS);
    until(|| rt.metrics().totals().live == 0);
    // Late signals find wakers of tasks that are over, of a runtime that has ended.
    let handle = *rt.handle();
    drop(rt);
    for _ in 0..100 {
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    let totals = handle.metrics().totals();
    assert_eq!((totals.live, totals.injector_depth), (0, 0));
}

static OBSERVED: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());
/// How often a helper was the worker of its own spare slot, and another one.
static RIGHT: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

extern "C" fn ask_who(_: libc::c_int) {
    // SAFETY: null, or a runtime that lives until all signals have come.
    let Some(rt) = (unsafe { OBSERVED.load(Ordering::Acquire).as_ref() }) else { return };
    match rt.current_worker() {
        Some(worker) if worker.index() == 0 => WRONG.fetch_add(1, Ordering::Relaxed),
        Some(_) => RIGHT.fetch_add(1, Ordering::Relaxed),
        None => return,
    };
}

#[test]
fn a_signal_handler_never_takes_a_thread_for_another_worker() {
    let _watchdog = watchdog();
    // SAFETY: a handler of the right type, an empty mask, and restarted calls.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = ask_who as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()), 0);
    }
    let rt = Arc::new(Runtime::builder().workers(1).build().unwrap());
    OBSERVED.store(Arc::as_ptr(&rt).cast_mut(), Ordering::Release);
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, threads) = std::sync::mpsc::channel();
    // Helpers come and go, in the spare slots.
    let helpers: Vec<_> = (0..2)
        .map(|_| {
            let (rt, stop, sender) = (Arc::clone(&rt), Arc::clone(&stop), sender.clone());
            thread::spawn(move || {
                // SAFETY: returns the calling thread.
                sender.send(unsafe { libc::pthread_self() }).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let task = rt.spawn(async { 7 });
                    assert_eq!(rt.block_on(task).unwrap(), 7);
                }
            })
        })
        .collect();
    let threads: Vec<_> = (0..2).map(|_| threads.recv().unwrap()).collect();
    for round in 0..60_000 {
        // Some have reached a thread while it helped, and so was a worker; how many depends on the
        // machine.
        if round >= 20_000 && RIGHT.load(Ordering::Relaxed) >= 20 {
            break;
        }
        // SAFETY: the threads run until `stop`.
        assert_eq!(unsafe { libc::pthread_kill(threads[round % 2], libc::SIGUSR2) }, 0);
        if round % 16 == 0 {
            thread::yield_now();
        }
    }
    stop.store(true, Ordering::Relaxed);
    helpers.into_iter().for_each(|helper| helper.join().unwrap());
    OBSERVED.store(core::ptr::null_mut(), Ordering::Release);
    assert_eq!(WRONG.load(Ordering::Relaxed), 0);
}
