//! Signals: which listeners get them, and that other handlers and processes are not affected.
// ThreadSanitizer delays a signal until the thread makes a call that it knows to block.
#![cfg(not(filch_tsan))]

mod os_common;

use core::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use std::{
    fs,
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    sync::Arc,
    thread,
};

use filch_linux::{
    process::Command,
    signal::{SignalKind, ctrl_c, restore, signal},
};
use futures::StreamExt as _;
use os_common::{alone, once, part, play, run, until, watchdog};

fn send(kind: SignalKind) {
    // SAFETY: to this process, which listens.
    assert_eq!(unsafe { libc::kill(libc::getpid(), kind.as_raw_value()) }, 0);
}

/// Sends it to the calling thread: it has been handled when this returns.
fn raise(kind: SignalKind) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::raise(kind.as_raw_value()) }, 0);
}

#[test]
fn every_listener_hears_of_every_signal() {
    alone("every_listener_hears_of_every_signal", || {
        run(2, async {
            let kind = SignalKind::user_defined1();
            let mut listeners = [signal(kind).unwrap(), signal(kind).unwrap()];
            let mut other = signal(SignalKind::user_defined2()).unwrap();
            for _ in 0..100 {
                raise(kind);
                for listener in &mut listeners {
                    listener.recv().await.unwrap();
                    assert!(!listener.try_recv(), "told once");
                }
            }
            // As a stream, too.
            raise(kind);
            for listener in &mut listeners {
                assert!(listener.next().await.unwrap().is_ok());
            }
            // Signals coalesce.
            (0..10).for_each(|_| raise(kind));
            let mut late = signal(kind).unwrap();
            for listener in &mut listeners {
                listener.recv().await.unwrap();
                assert!(once(pin!(listener.recv())).await.is_pending());
            }
            assert!(once(pin!(late.recv())).await.is_pending(), "it came before this listener");
            assert!(once(pin!(other.recv())).await.is_pending(), "another signal");
            // A waiting listener is woken.
            let waiting = filch_linux::spawn(async move { late.recv().await.map(|()| late) });
            filch_linux::task::yield_now().await;
            send(kind);
            let mut late = waiting.await.unwrap().unwrap();
            // Dropped listeners do not disturb the others.
            drop(listeners);
            raise(kind);
            late.recv().await.unwrap();
        });
    });
}

#[test]
fn real_time_signals_and_those_that_are_refused() {
    alone("real_time_signals_and_those_that_are_refused", || {
        run(1, async {
            for refused in [0, -1, 32, 33, 65, 1_000, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV] {
                let error = signal(SignalKind::from_raw(refused)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains(&refused.to_string()));
            }
            for number in [libc::SIGRTMIN(), libc::SIGRTMAX()] {
                let mut listener = signal(SignalKind::from_raw(number)).unwrap();
                raise(SignalKind::from_raw(number));
                listener.recv().await.unwrap();
            }
        });
        let error = signal(SignalKind::hangup()).unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
    });
}

#[test]
fn a_storm_loses_no_last_signal() {
    const STORM: u32 = 10_000;
    alone("a_storm_loses_no_last_signal", || {
        run(2, async {
            let kind = SignalKind::user_defined1();
            let sent = Arc::new(AtomicU32::new(0));
            let hear = |listener: filch_linux::signal::Signal| {
                let (sent, mut listener) = (Arc::clone(&sent), listener);
                filch_linux::spawn(async move {
                    let mut heard = 0_u32;
                    // Each signal is counted before it is sent. So a listener that misses the last
                    // one waits for ever.
                    while sent.load(Ordering::SeqCst) < STORM {
                        listener.recv().await.unwrap();
                        heard += 1;
                    }
                    heard
                })
            };
            let hearing: Vec<_> = (0..8).map(|_| hear(signal(kind).unwrap())).collect();
            let stop = Arc::new(AtomicBool::new(false));
            // Meanwhile other listeners come and go.
            let going = Arc::clone(&stop);
            let fleeting = filch_linux::spawn(async move {
                let mut heard = 0;
                while !going.load(Ordering::SeqCst) {
                    let mut listener = signal(kind).unwrap();
                    heard += u32::from(once(pin!(listener.recv())).await.is_ready());
                    filch_linux::task::yield_now().await;
                }
                heard
            });
            let sender = thread::spawn(move || {
                for _ in 0..STORM {
                    sent.fetch_add(1, Ordering::SeqCst);
                    send(kind);
                }
            });
            for hearing in hearing {
                let heard = hearing.await.unwrap();
                println!("{heard} of {STORM}");
                assert!((1..=STORM).contains(&heard));
            }
            sender.join().unwrap();
            stop.store(true, Ordering::SeqCst);
            println!("fleeting: {}", fleeting.await.unwrap());
        });
    });
}

#[test]
fn two_runtimes_hear_and_one_that_has_ended_says_so() {
    alone("two_runtimes_hear_and_one_that_has_ended_says_so", || {
        let runtime = || filch_linux::Builder::new().workers(1).build().unwrap();
        let (one, two) = (runtime(), runtime());
        let kind = SignalKind::hangup();
        let mut here = one.block_on(async { signal(kind) }).unwrap();
        let mut there = two.block_on(async { signal(kind) }).unwrap();
        let waiting = two.spawn(async move { there.recv().await.map(|()| there) });
        send(kind);
        one.block_on(here.recv()).unwrap();
        let mut there = two.block_on(waiting).unwrap().unwrap();
        drop(two);
        let error = one.block_on(there.recv()).unwrap_err();
        assert!(error.to_string().contains("shut down"), "{error}");
        send(kind);
        one.block_on(here.recv()).unwrap();
    });
}

static PLAIN: AtomicU32 = AtomicU32::new(0);
static WITH_INFO: AtomicU32 = AtomicU32::new(0);

extern "C" fn plain(signal: libc::c_int) {
    assert_eq!(signal, libc::SIGUSR1);
    PLAIN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn with_info(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _: *mut core::ffi::c_void,
) {
    // SAFETY: the system's pointer.
    assert_eq!(unsafe { (*info).si_signo }, signal);
    WITH_INFO.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn handlers_from_before_are_still_called() {
    alone("handlers_from_before_are_still_called", || {
        let set = |signal, handler, flags| {
            // SAFETY: handlers of the types that the flags name, which only count.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                (action.sa_sigaction, action.sa_flags) = (handler, flags);
                assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
            }
        };
        set(libc::SIGUSR1, plain as *const () as usize, 0);
        set(libc::SIGUSR2, with_info as *const () as usize, libc::SA_SIGINFO);
        run(1, async {
            let mut one = signal(SignalKind::user_defined1()).unwrap();
            let mut two = signal(SignalKind::user_defined2()).unwrap();
            for n in 1..=3 {
                raise(one.kind());
                raise(two.kind());
                one.recv().await.unwrap();
                two.recv().await.unwrap();
                assert_eq!(PLAIN.load(Ordering::SeqCst), n);
                assert_eq!(WITH_INFO.load(Ordering::SeqCst), n);
            }
            restore(one.kind()).unwrap();
            raise(one.kind());
            assert_eq!(PLAIN.load(Ordering::SeqCst), 4, "it is back, alone");
            assert!(!one.try_recv());
            let mut again = signal(one.kind()).unwrap();
            raise(one.kind());
            again.recv().await.unwrap();
            assert!(one.try_recv(), "and so are we");
            assert_eq!(PLAIN.load(Ordering::SeqCst), 5);
        });
    });
}

#[test]
fn others_that_listen_to_the_same_signal_are_not_disturbed() {
    alone("others_that_listen_to_the_same_signal_are_not_disturbed", || {
        run(1, async {
            let other = |kind: SignalKind| {
                let heard = Arc::new(AtomicBool::new(false));
                let id =
                    signal_hook::flag::register(kind.as_raw_value(), Arc::clone(&heard)).unwrap();
                (id, move || heard.swap(false, Ordering::SeqCst))
            };
            // One was here first, the other comes later.
            let (first, first_heard) = other(SignalKind::user_defined1());
            let mut one = signal(SignalKind::user_defined1()).unwrap();
            let mut two = signal(SignalKind::user_defined2()).unwrap();
            let (later, later_heard) = other(SignalKind::user_defined2());
            for _ in 0..3 {
                raise(one.kind());
                one.recv().await.unwrap();
                assert!(first_heard() && !later_heard());
                raise(two.kind());
                two.recv().await.unwrap();
                assert!(!first_heard() && later_heard());
            }
            // Before us there was the other, not the default action.
            restore(one.kind()).unwrap();
            raise(one.kind());
            assert!(first_heard() && !one.try_recv());
            // Neither the end of a listener nor the end of the other ends more than itself.
            let mut again = signal(one.kind()).unwrap();
            signal_hook::low_level::unregister(first);
            raise(again.kind());
            again.recv().await.unwrap();
            assert!(!first_heard());
            drop(two);
            raise(SignalKind::user_defined2());
            assert!(later_heard());
            signal_hook::low_level::unregister(later);
            raise(SignalKind::user_defined2());
            assert!(!later_heard());
        });
    });
}

#[test]
fn a_default_action_that_does_nothing_is_restored_as_well() {
    alone("a_default_action_that_does_nothing_is_restored_as_well", || {
        run(1, async {
            let mut size = signal(SignalKind::window_change()).unwrap();
            for _ in 0..2 {
                restore(size.kind()).unwrap();
                restore(size.kind()).unwrap();
                raise(size.kind());
                assert!(!size.try_recv());
                let _again = signal(size.kind()).unwrap();
                raise(size.kind());
                assert!(size.try_recv());
            }
        });
    });
}

#[test]
fn a_real_time_signal_that_is_restored_ends_the_process() {
    const TEST: &str = "a_real_time_signal_that_is_restored_ends_the_process";
    let _watchdog = watchdog();
    let kind = SignalKind::from_raw(libc::SIGRTMIN());
    if part().is_some() {
        return run(1, async {
            let _listener = signal(kind).unwrap();
            raise(kind);
            restore(kind).unwrap();
            raise(kind);
        });
    }
    let status = play(TEST, "restored").stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(128 + libc::SIGRTMIN()));
}

#[test]
fn the_second_ctrl_c_ends_the_program_if_it_is_to() {
    const TEST: &str = "the_second_ctrl_c_ends_the_program_if_it_is_to";
    let _watchdog = watchdog();
    let say = |what: &str| {
        println!("\n{what}");
        std::io::stdout().flush().unwrap();
    };
    if part().is_some() {
        // A shell's script starts what runs in the background with this signal ignored.
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        return run(1, async {
            restore(SignalKind::interrupt()).unwrap();
            let mut waiting = pin!(ctrl_c());
            assert!(once(waiting.as_mut()).await.is_pending());
            say("ready");
            waiting.await.unwrap();
            restore(SignalKind::interrupt()).unwrap();
            say("once");
            core::future::pending::<()>().await;
        });
    }
    let mut child = play(TEST, "interrupted").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["ready", "once"] {
        assert!(lines.by_ref().any(|line| line.unwrap() == word), "{word}");
        // SAFETY: this process's own child, not yet waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    }
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
}

/// A mask of signals in a file of /proc.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
}

#[test]
fn children_and_threads_have_nothing_blocked() {
    alone("children_and_threads_have_nothing_blocked", || {
        run(2, async {
            let mut heard = signal(SignalKind::terminate()).unwrap();
            let mut hangup = signal(SignalKind::hangup()).unwrap();
            // (A new thread blocks all signals for a moment.)
            until(|| {
                fs::read_dir("/proc/self/task").unwrap().all(|task| {
                    let status = fs::read_to_string(task.unwrap().path().join("status"));
                    status.is_ok_and(|status| mask(&status, "SigBlk") == 0)
                })
            })
            .await;
            let output = Command::new("cat").arg("/proc/self/status").output().await.unwrap();
            let status = String::from_utf8(output.stdout).unwrap();
            assert_eq!(mask(&status, "SigBlk"), 0);
            assert_eq!(mask(&status, "SigCgt"), 0);
            let listened = (1 << (libc::SIGTERM - 1)) | (1 << (libc::SIGHUP - 1));
            assert_eq!(mask(&status, "SigIgn") & listened, 0);
            // So a child ends by the signal that this process only listens to.
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            child.signal(SignalKind::terminate()).unwrap();
            assert_eq!(child.wait().await.unwrap().signal(), Some(libc::SIGTERM));
            // Only this process gets it.
            send(SignalKind::terminate());
            heard.recv().await.unwrap();
            assert!(!hangup.try_recv());
        });
    });
}

#[test]
fn blocking_calls_go_on_after_a_signal() {
    alone("blocking_calls_go_on_after_a_signal", || {
        run(1, async {
            let mut listener = signal(SignalKind::user_defined1()).unwrap();
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            let thread = thread::spawn(move || {
                // SAFETY: returns the calling thread.
                tell.send(unsafe { libc::pthread_self() }).unwrap();
                // No retry here: the system restarts the call.
                rustix::io::read(&reader, &mut [0; 8])
            });
            let id = told.recv().unwrap();
            let blocked = || {
                fs::read_dir("/proc/self/task").unwrap().any(|task| {
                    let path = task.unwrap().path().join("wchan");
                    fs::read_to_string(path).is_ok_and(|place| place.contains("pipe_read"))
                })
            };
            // If the kernel does not report it, the signals come anyhow.
            for _ in 0..1_000 {
                if blocked() {
                    break;
                }
                thread::yield_now();
            }
            for _ in 0..100 {
                // SAFETY: the thread is not joined yet.
                assert_eq!(unsafe { libc::pthread_kill(id, libc::SIGUSR1) }, 0);
                listener.recv().await.unwrap();
            }
            rustix::io::write(&writer, b"data").unwrap();
            assert_eq!(thread.join().unwrap(), Ok(4));
        });
    });
}
