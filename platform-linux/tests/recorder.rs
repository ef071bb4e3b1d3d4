//! Files of the flight recorder: on a signal, and of a program that crashes.

use core::time::Duration;
use std::{fs, io::ErrorKind, os::unix::process::ExitStatusExt, path::PathBuf, process};

use filch_linux::{TaskOptions, recorder, signal::SignalKind, time};
use filch_test_support::{part, play, until, watchdog};
use filch_trace::read::{Trace, What};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.trace", process::id()))
}

fn runtime() -> filch_linux::Runtime {
    filch_linux::Builder::new().workers(2).recorder(1024).build().unwrap()
}

#[test]
fn a_signal_saves_a_file() {
    let _watchdog = watchdog();
    let path = file("signal");
    let runtime = runtime();
    let saves = runtime.block_on(async {
        let saves = recorder::save_on(SignalKind::user_defined2(), &path).unwrap();
        filch_linux::spawn(time::sleep(Duration::from_millis(1))).await.unwrap();
        Some(saves)
    });
    for _ in 0..2 {
        // SAFETY: it is handled.
        unsafe { libc::raise(libc::SIGUSR2) };
        let read = || fs::read(&path).ok().and_then(|bytes| Trace::read(&bytes).ok());
        until(|| read().is_some_and(|trace| trace.complete));
        assert!(read().unwrap().lanes.iter().any(|lane| !lane.entries.is_empty()));
        fs::remove_file(&path).unwrap();
    }
    assert!(saves.is_some_and(|saves| !saves.is_finished()));
}

#[test]
fn a_long_poll_saves_a_file_with_itself_in_it() {
    let _watchdog = watchdog();
    let path = file("long-poll");
    let runtime = filch_linux::Builder::new()
        .workers(2)
        .recorder(1024)
        .poll_limit(Some(Duration::from_millis(2)))
        .on_long_poll(recorder::save_long_poll(&path))
        .build()
        .unwrap();
    let there = path.clone();
    let options = TaskOptions::new().name("blocks");
    let blocks = runtime.handle().spawn_with(options, async move { until(|| there.exists()) });
    runtime.block_on(blocks.unwrap()).unwrap();
    let trace = Trace::read(&fs::read(&path).unwrap()).unwrap();
    let story = trace.story();
    // The poll has not ended as the file is written.
    let blocks = story.polls.iter().find(|poll| poll.end.is_none()).expect("a poll under way");
    assert!(trace.title(&story.tasks[blocks.task]).contains("blocks"));
    fs::remove_file(&path).unwrap();
}

#[test]
fn without_a_recorder_there_is_no_file() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(1).build().unwrap();
    let error = runtime.block_on(async { recorder::save_on(SignalKind::user_defined2(), "x") });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
    let error = recorder::save_on(SignalKind::user_defined2(), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    let error = recorder::save_on_crash(*runtime.handle(), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// The part of the child: it ends in a poll.
fn crash(how: &str) {
    let path = std::env::var_os("FILCH_TRACE").unwrap();
    let runtime = runtime();
    recorder::save_on_crash(*runtime.handle(), &path).unwrap();
    let again = recorder::save_on_crash(*runtime.handle(), file("again")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let how = how.to_owned();
    let options = TaskOptions::new().name("crashes");
    let task = runtime.handle().spawn_with(options, async move {
        filch_linux::task::yield_now().await;
        match &*how {
            "abort" => process::abort(),
            // SAFETY: none: it is the fault that is wanted.
            "fault" => unsafe { core::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
            "overflow" => drop(deep(0)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a debugger would see it; here it is the trap that is wanted.
            "trap" => unsafe { core::arch::asm!("int3") },
            // SAFETY: it ends the process.
            _ => drop(unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) }),
        }
        time::sleep(Duration::from_secs(60)).await;
    });
    let _ = runtime.block_on(task.unwrap());
}

#[allow(unconditional_recursion, reason = "the stack is to overflow")]
fn deep(n: u64) -> u64 {
    core::hint::black_box([n; 64]);
    deep(n + 1) + 1
}

#[test]
fn a_crash_leaves_a_trace() {
    let _watchdog = watchdog();
    if let Some(how) = part() {
        return crash(&how);
    }
    let ends = [
        ("abort", "SIGABRT", libc::SIGABRT),
        ("fault", "SIGSEGV", libc::SIGSEGV),
        // The standard library's handler says so, and aborts.
        ("overflow", "SIGSEGV", libc::SIGABRT),
        ("kill", "SIGSEGV", libc::SIGSEGV),
        #[cfg(target_arch = "x86_64")]
        ("trap", "SIGTRAP", libc::SIGTRAP),
    ];
    for (how, note, signal) in ends {
        let path = file(how);
        // What is left of another crash is not there afterwards.
        fs::write(&path, [b'x'; 1 << 20]).unwrap();
        let mut child = play("a_crash_leaves_a_trace", how);
        let status = child.env("FILCH_TRACE", &path).output().unwrap();
        assert_eq!(status.status.signal(), Some(signal), "{how}: {status:?}");
        let trace = Trace::read(&fs::read(&path).unwrap()).unwrap();
        assert!(trace.complete && trace.damaged == 0, "{how}");
        assert_eq!(trace.notes[0], note, "{how}");
        let story = trace.story();
        let is_it = |name: u16| trace.name(name).is_some_and(|name| name.name == "crashes");
        let poll = story.polls.iter().rfind(|poll| is_it(story.tasks[poll.task].name)).unwrap();
        // The one that was killed may have been so while it slept.
        assert!(poll.end.is_none() || how == "kill", "{how}: {poll:?}");
        let lane = trace.lanes.iter().find(|lane| lane.worker == poll.worker).unwrap();
        let last = lane.entries.last().unwrap().what;
        assert!(how == "kill" || matches!(last, What::PollStart { .. }), "{how}: {last:?}");
        fs::remove_file(&path).unwrap();
    }
}
