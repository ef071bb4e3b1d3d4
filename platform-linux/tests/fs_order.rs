//! What a file's operations see of writes that have said that they are done, and what the end of the runtime does about them; files that
//! wait for other processes.

mod fs_common;
mod os_common;

use core::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{fs as std_fs, io::Write, os::unix::fs::PermissionsExt, path::Path, thread};

use filch_linux::fs::{self, File, Way};
use filch_test_support::Flag;
use fs_common::{both, builder, ways};
use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use os_common::{once, scratch, watchdog};
use rustix::fs::{CWD, FileType, Mode};

/// How often each operation races with the write before it.
const ROUNDS: usize = 1_000;

async fn open(path: impl AsRef<Path>) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).open(path).await.unwrap()
}

/// Writes some bytes, and does not wait for the end.
async fn written(path: &Path) -> File {
    let mut file = open(path).await;
    file.write_all(b"some bytes").await.unwrap();
    file
}

async fn metadata_knows_what_was_written(folder: &Path) {
    for _ in 0..ROUNDS {
        let file = written(&folder.join("file")).await;
        assert_eq!(file.metadata().await.unwrap().len(), 10);
    }
}

async fn a_length_is_set_after_what_was_written(folder: &Path) {
    let path = folder.join("file");
    for _ in 0..ROUNDS {
        let mut file = written(&path).await;
        file.set_len(4).await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(std_fs::read(&path).unwrap(), b"some");
    }
}

async fn a_write_at_an_offset_comes_after_what_was_written(folder: &Path) {
    let path = folder.join("file");
    for _ in 0..ROUNDS {
        let mut file = written(&path).await;
        file.write_at(b"S".to_vec(), 0).await.0.unwrap();
        file.write_all_at(b"B".to_vec(), 5).await.0.unwrap();
        file.flush().await.unwrap();
        assert_eq!(std_fs::read(&path).unwrap(), b"Some Bytes");
    }
}

async fn a_read_at_an_offset_sees_what_was_written(folder: &Path) {
    for _ in 0..ROUNDS {
        let file = written(&folder.join("file")).await;
        let (n, buf) = file.read_at(vec![0; 16], 5).await;
        assert_eq!(&buf[..n.unwrap()], b"bytes");
        let (read, buf) = file.read_exact_at(vec![0; 4], 0).await;
        read.unwrap();
        assert_eq!(buf, b"some");
    }
}

async fn a_sync_and_a_clone_come_after_what_was_written(folder: &Path) {
    let path = folder.join("file");
    for round in 0..ROUNDS / 10 {
        let file = written(&path).await;
        match round % 3 {
            0 => file.sync_all().await.unwrap(),
            1 => file.sync_data().await.unwrap(),
            _ => drop(file.try_clone().await.unwrap()),
        }
        assert_eq!(std_fs::read(&path).unwrap(), b"some bytes");
    }
}

async fn permissions_are_set_after_what_was_written(folder: &Path) {
    let path = folder.join("file");
    for _ in 0..ROUNDS / 10 {
        let file = written(&path).await;
        file.set_permissions(std_fs::Permissions::from_mode(0o600)).await.unwrap();
        assert_eq!(std_fs::read(&path).unwrap(), b"some bytes");
    }
}

async fn reads_and_seeks_come_after_what_was_written(folder: &Path) {
    for _ in 0..ROUNDS {
        let mut file = written(&folder.join("file")).await;
        assert_eq!(file.seek(std::io::SeekFrom::Current(-5)).await.unwrap(), 5);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"bytes");
        file.write_all(b"!").await.unwrap();
        assert_eq!(file.seek(std::io::SeekFrom::End(0)).await.unwrap(), 11);
        let mut file = written(&folder.join("file")).await;
        assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 0, "the position is at the end");
    }
}

async fn a_file_of_std_has_what_was_written_and_its_own_descriptor(folder: &Path) {
    use std::os::fd::AsRawFd;
    let path = folder.join("file");
    for _ in 0..ROUNDS {
        let file = written(&path).await;
        let number = file.as_raw_fd();
        let file = file.into_std().await.unwrap();
        assert_eq!(file.as_raw_fd(), number);
        assert_eq!(file.metadata().unwrap().len(), 10);
    }
}

/// The file is dropped at once.
async fn what_was_written_is_written_when_the_file_is_gone(folder: &Path) {
    let path = folder.join("file");
    for _ in 0..ROUNDS / 10 {
        drop(written(&path).await);
        os_common::until(|| std_fs::read(&path).unwrap() == b"some bytes").await;
    }
}

/// The device is always full.
async fn the_error_of_a_write_comes_with_the_next_call(_: &Path) {
    let full = || async { File::options().write(true).open("/dev/full").await.unwrap() };
    let errno = |error: std::io::Error| error.raw_os_error();
    let mut file = full().await;
    file.write_all(b"x").await.unwrap();
    assert_eq!(errno(file.flush().await.unwrap_err()), Some(libc::ENOSPC));
    file.flush().await.unwrap();
    file.write_all(b"x").await.unwrap();
    assert_eq!(errno(file.write_all(b"x").await.unwrap_err()), Some(libc::ENOSPC));
    file.write_all(b"x").await.unwrap();
    // Neither of these takes it.
    file.metadata().await.unwrap();
    drop(file.try_clone().await.unwrap());
    assert_eq!(errno(file.close().await.unwrap_err()), Some(libc::ENOSPC));
    let mut file = full().await;
    file.write_all(b"x").await.unwrap();
    assert_eq!(errno(file.into_std().await.unwrap_err()), Some(libc::ENOSPC));
}

both! {
    metadata_knows_what_was_written,
    a_length_is_set_after_what_was_written,
    a_write_at_an_offset_comes_after_what_was_written,
    a_read_at_an_offset_sees_what_was_written,
    a_sync_and_a_clone_come_after_what_was_written,
    permissions_are_set_after_what_was_written,
    reads_and_seeks_come_after_what_was_written,
    a_file_of_std_has_what_was_written_and_its_own_descriptor,
    what_was_written_is_written_when_the_file_is_gone,
    the_error_of_a_write_comes_with_the_next_call,
}

/// Also if the file lives on, and if the pool's only thread is at work for another.
#[test]
fn the_end_of_the_runtime_loses_nothing_that_was_written() {
    let _watchdog = watchdog();
    for way in ways() {
        for (keeps, is_busy) in [(false, false), (true, false), (false, true), (true, true)] {
            let scratch = scratch("fs-order-end");
            let path = scratch.0.join("file");
            for _ in 0..if is_busy { 1 } else { 100 } {
                let runtime = builder(way).blocking_threads(1).build().unwrap();
                let mut file = runtime.block_on(open(&path));
                let (go, begun) = (Flag::new(), Flag::new());
                if is_busy {
                    let (gate, begins) = (go.clone(), begun.clone());
                    let busy = move || {
                        begins.set();
                        gate.block();
                    };
                    runtime.handle().spawn_blocking(busy).detach();
                    begun.block();
                }
                runtime.block_on(file.write_all(b"some bytes")).unwrap();
                let kept = keeps.then_some(file);
                drop(runtime);
                assert_eq!(std_fs::read(&path).unwrap(), b"some bytes", "{way:?}");
                go.set();
                drop(kept);
            }
        }
    }
}

#[test]
fn the_end_of_a_runtime_of_one_thread_loses_nothing_that_was_written() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-order-local");
        let path = scratch.0.join("file");
        for _ in 0..100 {
            let runtime = builder(way).workers(1).build_local().unwrap();
            runtime.block_on(async { drop(written(&path).await) });
            drop(runtime);
            assert_eq!(std_fs::read(&path).unwrap(), b"some bytes", "{way:?}");
        }
    }
}

/// A task that is cancelled had written.
#[test]
fn a_task_that_ends_with_its_runtime_loses_nothing_that_it_has_written() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-order-task");
        let path = scratch.0.join("file");
        for _ in 0..100 {
            let runtime = builder(way).build().unwrap();
            let (begun, to) = (Flag::new(), path.clone());
            let begins = begun.clone();
            runtime
                .spawn(async move {
                    let file = written(&to).await;
                    begins.set();
                    core::future::pending::<()>().await;
                    drop(file);
                })
                .detach();
            begun.block();
            drop(runtime);
            assert_eq!(std_fs::read(&path).unwrap(), b"some bytes", "{way:?}");
        }
    }
}

/// There is no room in the pipe, and there will be none.
#[test]
fn the_end_of_the_runtime_does_not_wait_for_ever_for_what_was_written() {
    let _watchdog = watchdog();
    let scratch = scratch("fs-order-full");
    let path = fifo(&scratch.0, "pipe");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
    let mut keeps = std_fs::File::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap());
    while keeps.write(&[0; 4096]).is_ok() {}
    let runtime = builder(Way::Pool).build().unwrap();
    runtime.block_on(async {
        let mut file = File::options().write(true).open(&path).await.unwrap();
        file.write_all(b"some bytes").await.unwrap();
    });
    drop(runtime);
}

fn fifo(folder: &Path, name: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

/// Reads of pipes wait for other processes: more of them than the pool has threads do not keep it from other files.
#[test]
fn reads_of_pipes_keep_no_thread_from_other_files() {
    const PIPES: usize = 20;
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-order-pipes");
        let paths: Vec<_> = (0..PIPES).map(|i| fifo(&scratch.0, &i.to_string())).collect();
        let regular = scratch.0.join("file");
        std_fs::write(&regular, "some bytes").unwrap();
        let runtime = builder(way).blocking_threads(2).build().unwrap();
        // Most have no writer: their opens wait. Those of the first have one, and nothing to read.
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
        let keeps = rustix::fs::open(&paths[0], flags, Mode::empty()).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut waits: Vec<_> = (0..PIPES)
            .map(|i| {
                let path = paths[i].clone();
                runtime.spawn(async move {
                    match i % 4 {
                        0 => drop(fs::read(&path).await),
                        1 => drop(File::open(&path).await),
                        2 => drop(fs::copy(&path, "/dev/null").await),
                        _ => drop(fs::write(&path, "bytes").await),
                    }
                })
            })
            .chain((0..PIPES).map(|_| {
                let path = paths[0].clone();
                runtime.spawn(async move {
                    let mut file = File::open(&path).await.unwrap();
                    drop(file.read(&mut [0]).await);
                })
            }))
            .collect();
        runtime.block_on(async {
            for round in 0..50 {
                assert_eq!(fs::read(&regular).await.unwrap(), b"some bytes");
                let file = File::open(&regular).await.unwrap();
                assert_eq!(file.metadata().await.unwrap().len(), 10, "round {round}");
                filch_linux::spawn_blocking(|| ()).await.unwrap();
                filch_linux::time::sleep(Duration::from_millis(1)).await;
            }
        });
        // In a ring the kernel does not wait for the other end of a pipe.
        let waiting = waits.iter_mut().filter_map(|task| match pin!(task).poll(&mut cx) {
            Poll::Pending => Some(()),
            Poll::Ready(_) => None,
        });
        assert!(way == Way::Ring || waiting.count() == 2 * PIPES);
        drop((keeps, waits));
        drop(runtime);
        // The threads that wait in the system end with what they wait for.
        for path in &paths {
            let both = rustix::fs::open(path, flags, Mode::empty()).unwrap();
            let _ = rustix::io::write(&both, &[0; 4096]);
            thread::yield_now();
        }
    }
}

#[test]
fn an_open_of_a_pipe_waits_for_its_other_end() {
    let _watchdog = watchdog();
    let scratch = scratch("fs-order-ends");
    let path = fifo(&scratch.0, "pipe");
    let runtime = builder(Way::Pool).blocking_threads(2).build().unwrap();
    for reads_first in [true, false] {
        let (begun, reads, writes) = (Flag::new(), path.clone(), path.clone());
        let (reading, writing) = (begun.clone(), begun.clone());
        let read = async move {
            let mut read = pin!(fs::read(&reads));
            assert!(once(read.as_mut()).await.is_pending());
            reading.set();
            read.await.unwrap()
        };
        let write = async move {
            let mut options = File::options();
            let mut opened = pin!(options.write(true).open(&writes));
            assert!(once(opened.as_mut()).await.is_pending());
            writing.set();
            let mut file = opened.await.unwrap();
            file.write_all(b"some bytes").await.unwrap();
            file.close().await.unwrap();
        };
        let (read, write) = if reads_first {
            let read = runtime.spawn(read);
            begun.block();
            (read, runtime.spawn(write))
        } else {
            let write = runtime.spawn(write);
            begun.block();
            (runtime.spawn(read), write)
        };
        assert_eq!(runtime.block_on(read).unwrap(), b"some bytes");
        runtime.block_on(write).unwrap();
    }
}
