//! Code that needs tokio runs in the runtime's threads, and nothing of tokio is left when the runtime has ended.

#[path = "os_common/mod.rs"]
mod os;

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    fs,
    panic::catch_unwind,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use filch_linux::{
    LocalRuntime, Runtime, TaskOptions, runtime::WorkerId, spawn, spawn_blocking, spawn_local, time,
};
use filch_test_support::{Drops, Flag, until};
use os::{alone, watchdog};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Handle, Id},
};

const MS: Duration = Duration::from_millis(1);

fn runtime(workers: usize) -> Runtime {
    filch_linux::Builder::new().workers(workers).build().unwrap()
}

/// The tokio runtime that the calling thread is in.
fn here() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// Uses tokio's clock, sockets, tasks and blocking pool.
async fn uses_tokio() -> usize {
    tokio::time::sleep(MS).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let echo = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 5];
        peer.read_exact(&mut buffer).await.unwrap();
        peer.write_all(&buffer).await.unwrap();
    });
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut buffer = [0; 5];
    stream.read_exact(&mut buffer).await.unwrap();
    echo.await.unwrap();
    assert_eq!(&buffer, b"hello");
    tokio::task::spawn_blocking(|| 5).await.unwrap()
}

#[test]
fn code_that_needs_tokio_runs_in_every_kind_of_task() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let all = rt.block_on(async {
        let pinned = filch_linux::spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async {
            let local = spawn_local(async {
                // Its tasks stay on the thread.
                let set = tokio::task::LocalSet::new();
                let local = set.run_until(async { tokio::task::spawn_local(uses_tokio()).await });
                local.await.unwrap() + uses_tokio().await
            });
            local.unwrap().await.unwrap()
        });
        let blocking = spawn_blocking(|| {
            let once = Handle::current().block_on(uses_tokio());
            once + filch_linux::block_on(uses_tokio())
        });
        let spawned = spawn(uses_tokio());
        let here = uses_tokio().await;
        here + spawned.await.unwrap() + pinned.unwrap().await.unwrap() + blocking.await.unwrap()
    });
    assert_eq!(all, 30);
}

#[test]
fn a_thread_that_waits_deep_or_from_outside_is_in_it_too() {
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(1).nesting(0).build().unwrap();
    // The only worker sleeps in the wait: a compensation worker runs what it waits for.
    let deep = rt.block_on(spawn_in(&rt, async {
        let worker = thread::current().id();
        let (other, n) = filch_linux::block_on(spawn(async {
            let n = uses_tokio().await;
            (thread::current().id(), n)
        }))
        .unwrap();
        assert_ne!(worker, other);
        n
    }));
    assert_eq!(deep.unwrap(), 5);
    // A thread outside helps while it waits, as long as a worker sleeps: the second one, which the spawn does not wake.
    let rt = runtime(2);
    let mine = thread::current().id();
    let mut helped = false;
    while !helped {
        let mut task = rt.spawn(async { (thread::current().id(), here()) });
        let (thread, entered) = task.join().unwrap();
        assert!(entered.is_some());
        helped = thread == mine;
    }
    assert_eq!(here(), None);
}

fn spawn_in<F>(rt: &Runtime, future: F) -> filch_linux::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    rt.spawn(future)
}

#[test]
fn tasks_of_tokio_are_in_the_runtime() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let sum = rt.block_on(async {
        let task = tokio::spawn(async {
            let one = spawn(async { 1 }).await.unwrap();
            filch_linux::time::sleep(MS).await;
            let blocking = || filch_linux::block_on(async { spawn(async { 2 }).await.unwrap() });
            one + tokio::task::spawn_blocking(blocking).await.unwrap()
        });
        task.await.unwrap()
    });
    assert_eq!(sum, 3);
}

#[test]
fn runtimes_in_runtimes_have_each_their_own() {
    let _watchdog = watchdog();
    let (one, other) = (runtime(1), runtime(1));
    let ids = |rt: &Runtime| rt.block_on(async { here().unwrap() });
    let (of_one, of_other) = (ids(&one), ids(&other));
    assert_ne!(of_one, of_other);
    let handle = *one.handle();
    // A worker of one helps the other, and there waits for the first again.
    one.block_on(one.spawn(async move {
        assert_eq!(here(), Some(of_one));
        other.block_on(async {
            assert_eq!(here(), Some(of_other));
            assert_eq!(spawn(async { here() }).await.unwrap(), Some(of_other));
            handle.block_on(async {
                assert_eq!(here(), Some(of_one));
                assert_eq!(spawn(async { here() }).await.unwrap(), Some(of_one));
            });
            assert_eq!(here(), Some(of_other));
        });
        assert_eq!(here(), Some(of_one));
        // And the program's own, in a task, with one of ours in it.
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(async {
            let of_own = here();
            assert!(of_own != Some(of_one) && of_own.is_some());
            assert_eq!(uses_tokio().await, 5);
            other.block_on(async { assert_eq!(uses_tokio().await, 5) });
            drop(other);
            assert_eq!(here(), of_own);
        });
        assert_eq!(here(), Some(of_one));
    }))
    .unwrap();
    assert_eq!(here(), None);
}

#[test]
fn hooks_are_called_in_the_threads_of_tokio() {
    let _watchdog = watchdog();
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = Arc::clone(counter);
        move || {
            counter.fetch_add(1, SeqCst);
        }
    };
    let builder = filch_linux::Builder::new().workers(1);
    let rt = builder.on_thread_start(count(&begun)).on_thread_stop(count(&ended)).build().unwrap();
    rt.block_on(async { tokio::task::spawn_blocking(|| ()).await.unwrap() });
    // The worker, tokio's thread and its pool's.
    until(|| begun.load(SeqCst) == 3);
    drop(rt);
    until(|| ended.load(SeqCst) == 3);
}

fn local() -> LocalRuntime {
    filch_linux::Builder::new().build_local().unwrap()
}

#[test]
fn a_runtime_of_one_thread_leaves_other_code_where_it_is() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let task = rt.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {
        let outer = here();
        let holds = spawn_local(async move {
            let inner = local();
            assert_eq!(here(), outer);
            assert_ne!(inner.block_on(async { here() }), outer);
            filch_linux::task::yield_now().await;
            drop(inner);
            assert_eq!(here(), outer);
        })
        .unwrap();
        filch_linux::task::yield_now().await;
        // Another task, while that one has a runtime.
        assert_eq!(here(), outer);
        holds.await.unwrap();
        assert_eq!(here(), outer);
    });
    rt.block_on(task.unwrap()).unwrap();
}

#[test]
fn runtimes_of_one_thread_end_in_any_order() {
    let _watchdog = watchdog();
    let (one, two) = (local(), local());
    let of_one = here();
    assert_eq!(one.block_on(async { here() }), of_one);
    two.block_on(async {
        let of_two = here();
        assert_ne!(of_two, of_one);
        drop(one);
        assert_eq!(here(), of_two);
        assert_eq!(uses_tokio().await, 5);
    });
    drop(two);
    assert_eq!(here(), None);
    let three = local();
    let handle = *three.handle();
    handle.block_on(async move { drop(three) });
    assert_eq!(here(), None);
}

/// Runtimes of one thread come and go in any order, and code of another runtime goes on in that, for filch and tokio alike.
#[test]
fn runtimes_of_one_thread_come_and_go_in_any_order() {
    let _watchdog = watchdog();
    let (one, rt) = (local(), runtime(1));
    let of_one = one.block_on(async { here() });
    assert_eq!(here(), of_one);
    let two = local();
    assert_eq!(here(), of_one, "it goes on in the first");
    let of_rt = rt.block_on(async { here() });
    let three = rt.block_on(async {
        let three = local();
        assert_eq!(here(), of_rt);
        three.block_on(async {
            assert!(![None, of_one, of_rt].contains(&here()));
            assert_eq!(uses_tokio().await, 5);
        });
        assert_eq!(here(), of_rt);
        three
    });
    assert_eq!(here(), of_one);
    rt.block_on(async {
        drop(one);
        assert_eq!(here(), of_rt);
    });
    drop(rt);
    assert_eq!(here(), None, "the thread was in one that has ended");
    for rest in [two, three] {
        assert_eq!(rest.block_on(uses_tokio()), 5);
        drop(rest);
        assert_eq!(here(), None);
    }
}

#[test]
fn a_panic_leaves_the_context_as_it_was() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let ended = catch_unwind(AssertUnwindSafe(|| rt.block_on(async { panic!("on purpose") })));
    assert!(ended.is_err());
    assert_eq!(here(), None);
    rt.block_on(async {
        spawn(async { panic!("on purpose") }).await.unwrap_err();
        tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(uses_tokio().await, 5);
    });
}

/// The context that it is dropped in.
struct Tells(mpsc::Sender<(Option<Id>, bool)>);

impl Drop for Tells {
    fn drop(&mut self) {
        // A drop of the runtime that did not wait for this would be over before.
        thread::sleep(20 * MS);
        let in_runtime = filch_linux::Handle::current().is_ok();
        self.0.send((here(), in_runtime)).unwrap();
    }
}

#[test]
fn at_the_end_tasks_are_dropped_while_tokio_lives() {
    let _watchdog = watchdog();
    let (tell, told) = mpsc::channel();
    let rt = runtime(2);
    let id = rt.block_on(async { here() });
    let begun = Flag::new();
    let waits = |tells: Tells| {
        let begun = begun.clone();
        async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut timer = core::pin::pin!(tokio::time::sleep(Duration::from_secs(3_600)));
            tokio::select! {
                biased;
                () = &mut timer => {}
                _ = listener.accept() => {}
                () = async { begun.set(); core::future::pending().await } => {}
            }
            drop(tells);
        }
    };
    let mut ours = rt.spawn(waits(Tells(tell.clone())));
    begun.block();
    rt.block_on(async {
        let begun = Flag::new();
        let (set, tells) = (begun.clone(), Tells(tell.clone()));
        tokio::spawn(async move {
            set.set();
            core::future::pending::<()>().await;
            drop(tells);
        });
        begun.wait().await;
    });
    drop(rt);
    assert!(ours.join().is_err());
    // Both by the return of the drop, and in the context.
    let both = [told.try_recv().unwrap(), told.try_recv().unwrap()];
    assert_eq!(both, [(id, true), (id, true)]);
}

#[test]
fn a_shutdown_that_waits_lets_tokio_go_on() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let mut task = rt.spawn(uses_tokio());
    assert!(rt.shutdown(Duration::MAX).is_empty());
    assert_eq!(task.join().unwrap(), 5);
}

#[test]
fn a_task_of_tokio_may_drop_the_runtime() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let drops = Drops::new();
    let (ended, tally) = (Flag::new(), drops.tally());
    rt.spawn(async move {
        let _tally = tally;
        core::future::pending::<()>().await;
    })
    .detach();
    let end = ended.clone();
    let tokio = rt.block_on(async { Handle::current() });
    tokio.spawn(async move {
        drop(rt);
        end.set();
    });
    ended.block();
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_end_waits_for_no_closure_of_tokios_pool() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let (begun, go, over) = (Flag::new(), Flag::new(), Flag::new());
    let (tell, wait, end) = (begun.clone(), go.clone(), over.clone());
    let blocks = move || {
        tell.set();
        wait.block();
        end.set();
    };
    rt.block_on(async { drop(tokio::task::spawn_blocking(blocks)) });
    begun.block();
    drop(rt);
    assert!(!over.is_set());
    go.set();
    over.block();
}

/// Descriptors, and threads of this process.
fn held() -> (usize, usize) {
    let count = |path| fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn a_thousand_runtimes_leave_no_descriptor_and_no_thread() {
    alone("a_thousand_runtimes_leave_no_descriptor_and_no_thread", || {
        let round = |n: usize| {
            let rt = filch_linux::Builder::new().workers(1 + n % 3).build().unwrap();
            if n % 16 == 0 {
                assert_eq!(rt.block_on(uses_tokio()), 5);
                assert_eq!(rt.block_on(spawn_blocking_in(&rt)).unwrap(), 5);
            }
        };
        (0..50).for_each(round);
        // Threads of the blocking pools end by themselves.
        let settled = || {
            (0..20).all(|_| {
                thread::sleep(MS);
                held().1 <= 3
            })
        };
        until(settled);
        let before = held();
        (0..1_000).for_each(round);
        until(|| held() == before);
    });
}

fn spawn_blocking_in(rt: &Runtime) -> filch_linux::JoinHandle<usize> {
    rt.handle().spawn_blocking(|| filch_linux::block_on(uses_tokio()))
}

#[test]
fn a_want_of_descriptors_is_an_error_and_leaks_none() {
    alone("a_want_of_descriptors_is_an_error_and_leaks_none", || {
        drop(runtime(1));
        let before = held();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let set = |limit| setrlimit(Resource::Nofile, limit).unwrap();
        // The least room in which a runtime can be built.
        let least = |tokio: bool| {
            let builds = |room: &usize| {
                set(Rlimit { current: Some((before.0 - 1 + room) as u64), ..limit });
                let built = filch_linux::Builder::new().workers(1).tokio(tokio).build();
                set(limit);
                if let Err(error) = &built {
                    assert!(matches!(error, filch_linux::runtime::BuildError::Host(_)), "{error}");
                }
                let is_built = built.is_ok();
                drop(built);
                until(|| held() == before);
                is_built
            };
            (0..16).find(builds).unwrap()
        };
        let (plain, with) = (least(false), least(true));
        assert!(with >= plain + 3, "{plain} and {with}");
    });
}

#[test]
fn without_it_no_thread_is_in_tokio() {
    alone("without_it_no_thread_is_in_tokio", || {
        let rt = filch_linux::Builder::new().workers(1).name("plain").tokio(false).build().unwrap();
        assert_eq!(rt.block_on(async { here() }), None);
        assert_eq!(rt.block_on(rt.spawn(async { here() })).unwrap(), None);
        assert_eq!(rt.handle().spawn_blocking(here).join().unwrap(), None);
        let names = || {
            let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
            let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
            tasks.filter_map(name).collect::<Vec<_>>()
        };
        assert!(!names().contains(&"plain-tokio\n".to_owned()), "{:?}", names());
        // Inside of one that has it, too.
        let with = filch_linux::Builder::new().workers(1).name("with").build().unwrap();
        // A thread gives itself its name.
        until(|| names().contains(&"with-tokio\n".to_owned()));
        assert!(with.block_on(async { here() }).is_some());
    });
}

#[test]
fn a_stopped_clock_does_not_stop_tokios() {
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(1).build_pausable().unwrap();
    rt.block_on(async {
        time::pause();
        let began = Instant::now();
        tokio::time::sleep(20 * MS).await;
        assert!(began.elapsed() >= 20 * MS);
        filch_linux::time::sleep(Duration::from_secs(3_600)).await;
        assert!(began.elapsed() < Duration::from_secs(60));
    });
}

#[test]
fn a_guard_that_the_program_forgets_does_no_harm() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(rt.spawn(async { core::mem::forget(Handle::current().enter()) })).unwrap();
    assert_eq!(rt.block_on(rt.spawn(uses_tokio())).unwrap(), 5);
    rt.block_on(async { core::mem::forget(Handle::current().enter()) });
    drop(rt);
    assert_eq!(runtime(1).block_on(uses_tokio()), 5);
}

/// The child is a copy of the calling thread alone.
#[test]
fn a_forked_child_has_a_tokio_of_its_own() {
    alone("a_forked_child_has_a_tokio_of_its_own", || {
        let rt = runtime(2);
        assert_eq!(rt.block_on(uses_tokio()), 5);
        // SAFETY: the child leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: only sets a timer: a hang ends by a signal.
            unsafe { libc::alarm(20) };
            // There is nothing to wait for, and nothing that hangs.
            drop(rt);
            let status = runtime(1).block_on(uses_tokio());
            // SAFETY: ends the child.
            unsafe { libc::_exit(status as i32) };
        }
        let mut status = 0;
        // SAFETY: waits for this process's own child, into a place on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 5, "{status:#x}");
        assert_eq!(rt.block_on(uses_tokio()), 5);
    });
}
