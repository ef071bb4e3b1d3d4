//! Panics in tasks: contained, reported, and without harm to a worker.

mod common;

use core::{
    future::{Future, pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::Pin,
    task::Poll,
};
use std::panic::catch_unwind;

use common::{Drops, Flag, Tally, message, runtime, until, watchdog};
use filch_std::{JoinError, Runtime, task::yield_now};

/// Panics when it is dropped; what it holds is dropped all the same.
struct Bomb(#[expect(dead_code, reason = "it is there to be dropped")] Tally);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a drop, on purpose");
    }
}

fn text(error: JoinError) -> String {
    let payload = filch_std::task::payload(error.into_panic().expect("a panic")).expect("our own");
    message(&*payload).to_owned()
}

/// The worker works as before.
fn still_works(rt: &Runtime) {
    assert_eq!(rt.spawn(async { 1 }).join().unwrap(), 1);
    assert_eq!(rt.block_on(rt.spawn(async { 2 })).unwrap(), 2);
    assert!(rt.metrics().workers().any(|(_, w)| w.online));
}

#[test]
fn a_panic_in_a_poll_is_the_tasks_result() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    let tally = drops.tally();
    let mut handle = rt.spawn(async move {
        let _tally = tally;
        yield_now().await;
        panic!("number {}", 17);
    });
    let result: Result<(), _> = handle.join();
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: number 17");
    assert_eq!(text(error), "number 17");
    assert_eq!(drops.count(), 1);
    still_works(&rt);
}

#[test]
fn a_payload_of_any_type_comes_through() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let mut handle = rt.spawn(async { std::panic::panic_any(vec![1_u8, 2, 3]) });
    let result: Result<(), _> = handle.join();
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "the task panicked");
    let payload = filch_std::task::payload(error.into_panic().unwrap()).unwrap();
    assert_eq!(*payload.downcast::<Vec<u8>>().unwrap(), [1, 2, 3]);
    // The panic can be resumed in another thread.
    let mut handle = rt.spawn(async { std::panic::panic_any(4_u8) });
    let result: Result<(), _> = handle.join();
    let panic = result.unwrap_err().into_panic().unwrap();
    let again = catch_unwind(AssertUnwindSafe(|| filch_std::task::resume(panic))).unwrap_err();
    assert_eq!(*again.downcast::<u8>().unwrap(), 4);
}

#[test]
fn a_payload_that_panics_when_it_is_dropped_is_no_harm() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    for detach in [true, false] {
        let bomb = Bomb(drops.tally());
        let handle = rt.spawn(async move { std::panic::panic_any(bomb) });
        if detach {
            handle.detach()
        } else {
            drop(rt.block_on(handle))
        }
        until(|| rt.metrics().totals().live == 0);
    }
    assert_eq!(drops.count(), 2);
    still_works(&rt);
}

#[test]
fn a_panic_in_the_drop_of_a_finished_future_is_the_tasks_result() {
    struct Finished(#[expect(dead_code, reason = "it is there to be dropped")] Bomb);
    impl Future for Finished {
        type Output = Tally;
        fn poll(self: Pin<&mut Self>, _: &mut core::task::Context<'_>) -> Poll<Tally> {
            Poll::Ready(Drops::new().tally())
        }
    }
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    let mut handle = rt.spawn(Finished(Bomb(drops.tally())));
    assert_eq!(text(handle.join().map(drop).unwrap_err()), "in a drop, on purpose");
    assert_eq!(drops.count(), 1);
    still_works(&rt);
}

#[test]
fn a_panic_in_the_drop_of_an_output_nobody_wants_is_nobodys() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let (drops, flag) = (Drops::new(), Flag::new());
    let (bomb, wait) = (Bomb(drops.tally()), flag.wait());
    rt.spawn(async move {
        wait.await;
        bomb
    })
    .detach();
    flag.set();
    until(|| drops.count() == 1);
    until(|| rt.metrics().totals().live == 0);
    // A handle that is dropped late drops the output, and contains the panic too.
    let bomb = Bomb(drops.tally());
    let handle = rt.spawn(async move { bomb });
    until(|| handle.is_finished());
    drop(handle);
    assert_eq!(drops.count(), 2);
    still_works(&rt);
}

#[test]
fn a_panic_in_the_drop_of_a_cancelled_future_is_the_tasks_result() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    let bomb = Bomb(drops.tally());
    let mut handle = rt.spawn(async move {
        let _bomb = bomb;
        pending::<()>().await;
    });
    handle.abort();
    assert_eq!(text(handle.join().unwrap_err()), "in a drop, on purpose");
    assert_eq!(drops.count(), 1);
    still_works(&rt);
}

#[test]
fn a_shutdown_survives_the_panics_of_what_it_cancels() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let drops = Drops::new();
    for i in 0..100 {
        let bomb = Bomb(drops.tally());
        let handle = rt.spawn(async move {
            let _bomb = bomb;
            pending::<()>().await;
        });
        if i % 2 == 0 { handle.detach() } else { core::mem::forget(handle) }
    }
    drop(rt);
    assert_eq!(drops.count(), 100);
}

#[test]
fn a_panic_while_a_panicked_future_is_dropped_is_no_harm() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    let bomb = Bomb(drops.tally());
    // The future is still there after the panic, and is dropped then.
    struct Both(Bomb);
    impl Future for Both {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut core::task::Context<'_>) -> Poll<()> {
            let _ = &self.0;
            panic!("the first");
        }
    }
    assert_eq!(text(rt.spawn(Both(bomb)).join().unwrap_err()), "the first");
    assert_eq!(drops.count(), 1);
    still_works(&rt);
}

#[test]
fn panics_in_nested_waits_end_one_task_each() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let outer = rt.spawn(async {
        let mut inner = filch_std::spawn(async { panic!("the inner one") });
        let result: Result<(), _> = inner.join();
        let inner = text(result.unwrap_err());
        let nested = catch_unwind(|| filch_std::block_on(async { panic!("nested") }));
        // After all that the task is still on its worker.
        yield_now().await;
        (inner, message(&*nested.unwrap_err()).to_owned())
    });
    let (inner, nested) = rt.block_on(outer).unwrap();
    assert_eq!((inner.as_str(), nested.as_str()), ("the inner one", "nested"));
    still_works(&rt);
}

#[test]
fn a_panic_in_a_block_on_on_a_worker_is_its_tasks() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let mut handle = rt.spawn(async { filch_std::block_on(async { panic!("through") }) });
    let result: Result<(), _> = handle.join();
    assert_eq!(text(result.unwrap_err()), "through");
    still_works(&rt);
}

#[test]
fn a_joiners_waker_that_panics_is_no_harm() {
    struct Angry;
    impl std::task::Wake for Angry {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("a waker, on purpose");
        }
    }
    let _watchdog = watchdog();
    let rt = runtime(1);
    let flag = Flag::new();
    let mut handle = rt.spawn(flag.wait());
    let waker = std::sync::Arc::new(Angry).into();
    let mut cx = core::task::Context::from_waker(&waker);
    assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
    flag.set();
    until(|| handle.is_finished());
    still_works(&rt);
    assert!(rt.block_on(poll_fn(|cx| Pin::new(&mut handle).poll(cx))).is_ok());
}
