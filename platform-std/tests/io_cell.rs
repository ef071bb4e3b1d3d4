//! A readiness cell in a runtime. A signal handler sets it on the very threads that poll, wait and
//! clear: no edge is lost, and the handler never waits for the code that it has interrupted.
//! Foreign wakers wait on it too.
#![cfg(target_os = "linux")]

mod common;

use core::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    task::{Context, Waker},
};

use common::watchdog;
use filch::io::{Direction, Event, Readiness, Ready};
use filch_std::{Runtime, TaskOptions, task::yield_now};
use futures_util::stream::{FuturesUnordered, StreamExt};

const SIGNALS: usize = 20_000;

static CELL: Readiness = Readiness::new();
/// Data that came in, and is not yet taken.
static DATA: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: the errno of this thread, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    DATA.fetch_add(1, Relaxed);
    HANDLED.fetch_add(1, Relaxed);
    CELL.set(Ready::READABLE);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn install() {
    // SAFETY: a handler of the right type, an empty mask, and restarted calls.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()), 0);
    }
}

/// Takes the data, or clears the event. False when the test is over.
fn take(event: Event) -> bool {
    match DATA.swap(0, Relaxed) {
        0 => CELL.clear(event),
        n => drop(TAKEN.fetch_add(n, Relaxed)),
    }
    !event.ready.contains(Ready::READ_CLOSED)
}

#[test]
fn a_handler_sets_the_cell_whatever_it_interrupts() {
    let _watchdog = watchdog();
    install();
    let rt = Runtime::builder().workers(3).build().unwrap();
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

    let mut tasks: Vec<_> = (0..4)
        .map(|_| {
            rt.spawn(async {
                while take(CELL.ready(Direction::Read.interest()).await) {
                    yield_now().await;
                }
            })
        })
        .collect();
    tasks.push(rt.spawn(async {
        while take(poll_fn(|cx| CELL.poll_ready(cx, Direction::Read)).await) {
            yield_now().await;
        }
    }));
    // Waits come and go all the time, so that the handler finds the lock held.
    tasks.extend((0..3).map(|_| {
        rt.spawn(async {
            while !OVER.load(Relaxed) {
                for _ in 0..50 {
                    let mut short = pin!(CELL.ready(Ready::WRITABLE));
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(short.as_mut().poll(&mut cx).is_pending());
                }
                yield_now().await;
            }
        })
    }));

    for i in 0..SIGNALS {
        // SAFETY: the runtime's threads live as long as it does, and the handler is installed.
        unsafe { libc::pthread_kill(workers[i % workers.len()], libc::SIGUSR2) };
    }
    // Signals that were pending together merge into one; each handled signal is data. The last may
    // still be in transit, so the end is checked the same way: when the data of all handled signals
    // is taken.
    while TAKEN.load(Relaxed) == 0 || TAKEN.load(Relaxed) < HANDLED.load(Relaxed) {
        std::thread::yield_now();
    }
    OVER.store(true, Relaxed);
    CELL.set(Ready::READ_CLOSED);
    for mut task in tasks {
        task.join().unwrap();
    }
    // Pending signals vanish with their threads.
    drop(rt);
    let (handled, taken) = (HANDLED.load(Relaxed), TAKEN.load(Relaxed) + DATA.load(Relaxed));
    println!("{handled} of {SIGNALS} signals handled");
    assert_eq!(handled, taken);
}

#[test]
fn waits_are_polled_by_a_combinator_with_wakers_of_its_own() {
    const WAITS: usize = 100;
    static CELL: Readiness = Readiness::new();
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(2).build().unwrap();
    let polled = AtomicBool::new(false);
    let ready = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !polled.load(Relaxed) {
                std::thread::yield_now();
            }
            CELL.set(Ready::WRITABLE);
            CELL.set(Ready::READABLE);
        });
        rt.block_on(async {
            let mut all: FuturesUnordered<_> = (0..WAITS)
                .map(|i| CELL.ready(if i % 2 == 0 { Ready::READABLE } else { Ready::WRITABLE }))
                .collect();
            poll_fn(|cx| {
                assert!(all.poll_next_unpin(cx).is_pending());
                core::task::Poll::Ready(())
            })
            .await;
            polled.store(true, Relaxed);
            all.map(|event| event.ready).collect::<Vec<_>>().await
        })
    });
    for bit in [Ready::READABLE, Ready::WRITABLE] {
        assert_eq!(ready.iter().filter(|ready| **ready == bit).count(), WAITS / 2);
    }
}
