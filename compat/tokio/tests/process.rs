//! Child processes whose handle is dropped: none of them stays as a zombie.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Stdio,
    thread,
};

use filch_test_support::{alone, until, watchdog};
use filch_tokio::{
    process::{Child, ChildStdin, Command},
    runtime::{Builder, Runtime},
};
use rustix::{
    io::Errno,
    process::{Resource, WaitId, WaitIdOptions, getrlimit, setrlimit, waitid},
};

fn both() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().unwrap())
}

/// A child that ends when its input does.
fn cat(runtime: &Runtime) -> (Child, ChildStdin, u32) {
    let _entered = runtime.enter();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let (stdin, id) = (child.stdin.take().unwrap(), child.id().unwrap());
    (child, stdin, id)
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
fn a_handle_that_is_dropped_before_the_end() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (child, stdin, id) = cat(&runtime);
        runtime.block_on(async { drop(child) });
        assert!(is_here(id) && !is_zombie(id));
        drop(stdin);
        until(|| !is_here(id));
    }
}

#[test]
fn a_handle_that_is_dropped_after_the_end() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (child, stdin, id) = cat(&runtime);
        drop(stdin);
        until(|| is_zombie(id));
        drop(child);
        until(|| !is_here(id));
    }
}

#[test]
fn a_handle_that_is_dropped_and_kills() {
    let _watchdog = watchdog();
    for runtime in both() {
        let _entered = runtime.enter();
        let mut command = Command::new("sleep");
        let child = command.arg("1000").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        runtime.block_on(async { drop(child) });
        until(|| !is_here(id));
    }
}

#[test]
fn a_handle_that_is_dropped_on_another_thread() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (child, stdin, id) = cat(&runtime);
        thread::spawn(|| drop(child)).join().unwrap();
        drop(stdin);
        until(|| !is_here(id));
    }
}

#[test]
fn a_handle_that_is_dropped_in_another_runtime_after_the_end_of_its_own() {
    let _watchdog = watchdog();
    for (spawns, drops) in both().into_iter().zip(both()) {
        let (child, stdin, id) = cat(&spawns);
        let stdin = stdin.into_owned_fd().unwrap();
        drop(spawns);
        drops.block_on(async { drop(child) });
        drop(stdin);
        until(|| !is_here(id));
    }
}

#[test]
fn a_wait_that_is_dropped() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (mut child, stdin, id) = cat(&runtime);
        let waits = runtime.spawn(async move { child.wait().await });
        waits.abort();
        assert!(runtime.block_on(waits).unwrap_err().is_cancelled());
        drop(stdin);
        until(|| !is_here(id));
    }
}

/// Whether this process has a child, a zombie included.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, options).err() != Some(Errno::CHILD)
}

/// Spawns where so many descriptors are left.
fn spawn_short(runtime: &Runtime, left: usize, streams: fn() -> Stdio) -> io::Result<Child> {
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    files.truncate(files.len() - left);
    let _entered = runtime.enter();
    Command::new("true").stdin(streams()).stdout(streams()).stderr(streams()).spawn()
}

#[test]
fn spawns_that_are_short_of_descriptors() {
    alone("spawns_that_are_short_of_descriptors", || {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(64);
        setrlimit(Resource::Nofile, limit).unwrap();
        for runtime in both() {
            let mut spawned = [0, 0];
            for left in 0..20 {
                for streams in [Stdio::null, Stdio::piped] {
                    let child = spawn_short(&runtime, left, streams);
                    spawned[usize::from(child.is_ok())] += 1;
                    drop(child);
                    until(|| !has_children());
                }
            }
            assert!(spawned.iter().all(|n| *n > 0), "{spawned:?}");
        }
    });
}
