//! Child processes: their streams, their ends, and that none stays behind as a zombie.

mod os_common;

use core::pin::pin;
use std::{
    fs,
    io::ErrorKind,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::Stdio,
    sync::Arc,
};

use filch_linux::{
    process::{Child, Command},
    signal::SignalKind,
};
use os_common::{alone, once, rng, run, scratch, until};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A child that ends when its input does.
fn cat() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether there is such a process, a zombie included.
fn is_here(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

fn is_zombie(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

#[test]
fn ends_are_told_as_they_are() {
    run(2, async {
        assert!(sh("exit 0").status().await.unwrap().success());
        assert_eq!(sh("exit 42").status().await.unwrap().code(), Some(42));
        let status = sh("kill -9 $$").status().await.unwrap();
        assert_eq!((status.code(), status.signal()), (None, Some(9)));

        let mut child = cat();
        let id = child.id().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(is_here(id));
        let status = child.wait().await.unwrap();
        assert!(status.success(), "waiting closes its input");
        assert_eq!(child.wait().await.unwrap(), status);
        assert_eq!(child.try_wait().unwrap(), Some(status));
        assert_eq!(child.id(), None);
        assert!(!is_here(id));
        // Its number may be reused: nothing is sent.
        child.kill().unwrap();

        let mut child = cat();
        child.kill().unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
        // A child that has ended, and was not waited for.
        let mut child = sh("exit 3").spawn().unwrap();
        until(|| is_zombie(child.id().unwrap())).await;
        child.kill().unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
    });
}

#[test]
fn errors_are_those_of_the_system() {
    run(1, async {
        let error = Command::new("/no/such/program").spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let mut elsewhere = sh("true");
        elsewhere.current_dir("/no/such/directory");
        assert_eq!(elsewhere.output().await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn outside_a_runtime_nothing_is_started() {
    let scratch = scratch("nothing_is_started");
    let file = scratch.0.join("started");
    let refused = |command: &mut Command| {
        let error = command.spawn().unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
    };
    refused(Command::new("touch").arg(&file));
    let other = filch_std::Runtime::builder().workers(1).build().unwrap();
    other.block_on(async { refused(Command::new("touch").arg(&file)) });
    assert!(!file.exists());
}

#[test]
fn commands_say_what_the_child_gets() {
    run(1, async {
        let output = sh("echo $1 $A $B; pwd; cat")
            .args(["sh", "one"])
            .env_clear()
            .env("A", "a")
            .env("B", "b")
            .env_remove("B")
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .output()
            .await
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "one a\n/\n");
        assert!(output.status.success());
        // `output` keeps what was set before.
        let output = sh("echo out; echo err >&2").stdout(Stdio::null()).output().await.unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b""[..], &b"err\n"[..]));
        // Options that this crate has no method for.
        let mut named = sh("echo $0");
        named.as_std_mut().arg0("another name");
        assert_eq!(named.as_std().get_program(), "sh");
        assert!(named.status().await.unwrap().success());
    });
}

#[test]
fn much_output_on_both_streams() {
    run(2, async {
        // More than pipes hold, in turns: reading one stream to its end first would wait for ever.
        let script = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2; done";
        let output = sh(script).output().await.unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (2_000_000, 2_000_000));
    });
}

#[test]
fn a_child_gives_back_what_it_is_given() {
    let mut rng = rng();
    run(2, async {
        for _ in 0..20 {
            let mut child = cat();
            let data: Arc<[u8]> = (0..rng.usize(..300_000)).map(|_| rng.u8(..)).collect();
            let (stdin, given) = (child.stdin.take().unwrap(), Arc::clone(&data));
            let writing = filch_linux::spawn(async move {
                let mut rest = &given[..];
                while !rest.is_empty() {
                    let n = stdin.write(&rest[..rest.len().min(7_001)]).await.unwrap();
                    rest = &rest[n..];
                }
            });
            let output = child.wait_with_output().await.unwrap();
            writing.await.unwrap();
            assert!(output.status.success());
            assert_eq!(output.stdout, *data);
        }
    });
}

#[test]
fn many_children_at_a_time() {
    run(2, async {
        let children: Vec<_> = (0..100)
            .map(|i| {
                filch_linux::spawn(async move { sh(&format!("exit {}", i % 50)).status().await })
            })
            .collect();
        for (i, child) in children.into_iter().enumerate() {
            assert_eq!(child.await.unwrap().unwrap().code(), Some(i as i32 % 50));
        }
    });
}

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    run(2, async {
        for _ in 0..20 {
            let mut child = cat();
            let stdin = child.stdin.take();
            for _ in 0..3 {
                assert!(once(pin!(child.wait())).await.is_pending());
            }
            let waiting = filch_linux::spawn(async move { child.wait().await });
            filch_linux::task::yield_now().await;
            drop(stdin);
            assert!(waiting.await.unwrap().unwrap().success());
        }
    });
}

#[test]
fn a_dropped_child_lives_on_and_is_reaped() {
    run(2, async {
        let mut child = cat();
        let (id, stdin) = (child.id().unwrap(), child.stdin.take().unwrap());
        let stdout = child.stdout.take().unwrap();
        drop(child);
        // It is alive.
        stdin.write(b"still").await.unwrap();
        assert_eq!(stdout.read(&mut [0; 10]).await.unwrap(), 5);
        drop(stdin);
        until(|| !is_here(id)).await;
        // A child that has ended before its drop is reaped in the drop.
        let child = sh("exit 0").spawn().unwrap();
        let id = child.id().unwrap();
        until(|| is_zombie(id)).await;
        drop(child);
        assert!(!is_here(id));
    });
}

#[test]
fn a_dropped_child_is_killed_if_it_is_to_be() {
    run(2, async {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").kill_on_drop(true);
        let child = sleep.spawn().unwrap();
        let id = child.id().unwrap();
        drop(child);
        until(|| !is_here(id)).await;
        // Dropped during a wait.
        let waiting = filch_linux::spawn(async move { sleep.status().await });
        filch_linux::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        until(|| children_named("sleep").is_empty()).await;
    });
}

/// The children of this process that run this program, or are zombies of it.
fn children_named(name: &str) -> Vec<u32> {
    let (me, name) = (std::process::id().to_string(), format!("({name})"));
    let ids = fs::read_dir("/proc").unwrap();
    ids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let mut fields = stat.split_whitespace().skip(1);
            fields.next() == Some(&name) && fields.nth(1) == Some(&me)
        })
        .collect()
}

#[test]
fn children_outlive_the_runtime_and_are_reaped_by_the_next() {
    alone("children_outlive_the_runtime_and_are_reaped_by_the_next", || {
        let runtime = || filch_linux::Builder::new().workers(1).build().unwrap();
        let first = runtime();
        let mut kept = first.block_on(async { cat() });
        let mut dropped = first.block_on(async { cat() });
        let mut late = first.block_on(async { cat() });
        let ids = [kept.id().unwrap(), dropped.id().unwrap(), late.id().unwrap()];
        // `wait` would close them, and the child might end before the wait is refused.
        let stdins = [kept.stdin.take(), dropped.stdin.take(), late.stdin.take()];
        first.block_on(async { drop(dropped) });
        drop(first);
        drop(late);
        let second = runtime();
        let error = second.block_on(kept.wait()).unwrap_err();
        assert!(error.to_string().contains("shut down"), "{error}");
        drop(stdins);
        for id in ids {
            // A child that is kept is not reaped; it can still be asked for its status.
            while !is_zombie(id) {
                std::thread::yield_now();
            }
        }
        assert!(kept.try_wait().unwrap().unwrap().success());
        assert!(second.block_on(sh("exit 0").status()).unwrap().success());
        assert_eq!(ids.map(is_here), [false; 3]);
    });
}

#[test]
fn a_lost_status_is_an_error_and_no_hang() {
    alone("a_lost_status_is_an_error_and_no_hang", || {
        // SAFETY: for this process alone; no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        run(1, async {
            let error = sh("exit 0").status().await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
            let mut child = cat();
            child.signal(SignalKind::terminate()).unwrap();
            assert!(child.wait().await.is_err());
            assert_eq!(child.id(), None);
        });
    });
}

#[test]
fn debug_says_which() {
    run(1, async {
        let child = cat();
        let text = format!("{child:?}");
        assert!(text.contains(&child.id().unwrap().to_string()), "{text}");
    });
}

#[test]
fn an_adopted_child_is_reaped_once_it_has_ended() {
    let _watchdog = filch_test_support::watchdog();
    let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    drop(child.stdin.take());
    filch_linux::process::adopt(child);
    // Each call reaps those before that have ended.
    filch_test_support::until(|| {
        let next = std::process::Command::new("true").spawn().unwrap();
        filch_linux::process::adopt(next);
        !std::path::Path::new(&format!("/proc/{id}")).exists()
    });
}

#[test]
fn a_runtime_waits_for_an_adopted_child() {
    let _watchdog = filch_test_support::watchdog();
    let runtime = filch_linux::Builder::new().workers(1).build().unwrap();
    let child = || {
        let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        (child.stdin.take(), child.id(), child)
    };
    let (stdin, id, cat) = child();
    runtime.block_on(async { filch_linux::process::adopt(cat) });
    let (other_stdin, other, cat) = child();
    filch_linux::process::adopt_on(runtime.handle(), cat);
    assert!(is_here(id) && is_here(other));
    drop((stdin, other_stdin));
    // Nothing else is spawned or adopted.
    filch_test_support::until(|| !is_here(id) && !is_here(other));
}

#[test]
fn spawns_that_are_short_of_descriptors_leave_no_zombie() {
    alone("spawns_that_are_short_of_descriptors_leave_no_zombie", || {
        use rustix::process::{Resource, WaitId, WaitIdOptions, getrlimit, setrlimit, waitid};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(64);
        setrlimit(Resource::Nofile, limit).unwrap();
        let has_children = || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            waitid(WaitId::All, options).err() != Some(rustix::io::Errno::CHILD)
        };
        let (mut spawned, mut refused) = (0, 0);
        for left in 0..20 {
            for streams in [Stdio::null, Stdio::piped] {
                run(1, async {
                    let mut files = Vec::new();
                    while let Ok(file) = fs::File::open("/dev/null") {
                        files.push(file);
                    }
                    files.truncate(files.len() - left);
                    let mut command = Command::new("true");
                    command.stdin(streams()).stdout(streams()).stderr(streams());
                    match command.spawn() {
                        Ok(_) => spawned += 1,
                        Err(_) => refused += 1,
                    }
                    drop(files);
                    until(|| !has_children()).await;
                });
            }
        }
        assert!(spawned > 0 && refused > 0, "{spawned} {refused}");
    });
}
