//! Files whose operations outlive something: their future, their thread, their runtime.

mod fs_common;
mod os_common;

#[cfg(not(feature = "io-uring"))]
use core::task::Poll;
#[cfg(feature = "io-uring")]
use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Waker},
};
use core::{future::poll_fn, pin::pin};
use std::{
    fs as std_fs,
    io::Write as _,
    path::{Path, PathBuf},
    thread,
};
#[cfg(feature = "io-uring")]
use std::{os::fd::AsRawFd, sync::Arc, task::Wake};

use filch_linux::fs::{self, File, OpenOptions, Way};
use fs_common::{builder, ways};
use futures::{
    executor::block_on,
    io::{AsyncReadExt, AsyncWriteExt},
};
#[cfg(feature = "io-uring")]
use os_common::until;
use os_common::{alone, once, scratch, watchdog};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat, open},
    io::Errno,
};

/// A file whose reads wait until something is written.
fn fifo(dir: &Path) -> PathBuf {
    let path = dir.join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

/// Descriptors run out as a thread's first operation would open its ring. Later operations have one.
#[cfg(feature = "io-uring")]
#[test]
fn a_ring_is_opened_after_a_shortage() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    alone("a_ring_is_opened_after_a_shortage", || {
        let file = std_fs::File::open("/proc/self/exe").unwrap();
        builder(Way::Ring).build().unwrap().block_on(async {
            let file = File::from_std(file).unwrap();
            let reads = async || {
                let (read, buf) = file.read_at(vec![0; 4], 0).await;
                assert_eq!((read.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
            };
            // The pool has a thread, which needs descriptors of its own as it starts.
            filch_linux::spawn_blocking(|| {}).await.unwrap();
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
            for _ in 0..1_000 {
                reads().await;
            }
            assert_eq!(fs::way().unwrap(), Way::Pool);
            setrlimit(Resource::Nofile, limit).unwrap();
            let mut more = 0;
            while fs::way().unwrap() == Way::Pool {
                reads().await;
                more += 1;
                assert!(more < 10_000, "it is not tried again");
            }
            reads().await;
        });
    });
}

/// A runtime in the memory of one that had no rings, which only this crate's builder can say.
#[cfg(feature = "io-uring")]
#[test]
fn a_runtime_without_rings_leaves_the_next_its_own() {
    alone("a_runtime_without_rings_leaves_the_next_its_own", || {
        let way = |runtime: &filch_linux::Runtime| runtime.block_on(async { fs::way().unwrap() });
        let (first, identity) = (builder(Way::Pool).build().unwrap(), filch_std::Handle::identity);
        let memory = identity(first.handle());
        assert_eq!(way(&first), Way::Pool);
        drop(first);
        let plain = filch_std::Runtime::builder().workers(2).build_on().unwrap();
        assert_eq!((identity(plain.handle()), way(&plain)), (memory, Way::Ring));
    });
}

/// It is its own writer, so that opening does not wait, and reads do not end.
async fn reader(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).await.unwrap()
}

/// Waits until no descriptor of the file is left: none could read what is written.
fn until_closed(path: &Path) {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    filch_test_support::until(|| matches!(open(path, flags, Mode::empty()), Err(Errno::NXIO)));
}

/// For a thread of the pool that waits in a read.
fn write(path: &Path, bytes: &[u8]) {
    std_fs::OpenOptions::new().write(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_read_that_is_dropped_loses_nothing() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-dropped-read");
        let path = fifo(&scratch.0);
        builder(way).build().unwrap().block_on(async {
            let mut file = reader(&path).await;
            assert!(once(pin!(file.read(&mut [0; 100]))).await.is_pending());
            write(&path, b"abcdef");
            let mut buf = [0; 4];
            assert_eq!(file.read(&mut buf).await.unwrap(), 4);
            assert_eq!(&buf, b"abcd");
            assert_eq!(file.read(&mut buf).await.unwrap(), 2);
            assert_eq!(&buf[..2], b"ef");
            // A write waits for the read; what was read and not returned cannot be put back.
            assert!(once(pin!(file.read(&mut [0; 100]))).await.is_pending());
            assert!(once(pin!(file.write(b"x"))).await.is_pending());
            write(&path, b"!");
            assert_eq!(file.read(&mut buf).await.unwrap(), 1);
        });
    }
}

#[cfg(feature = "io-uring")]
#[test]
fn in_a_ring_a_read_ends_with_its_file() {
    let _watchdog = watchdog();
    let scratch = scratch("fs-cancel");
    let path = fifo(&scratch.0);
    builder(Way::Ring).build().unwrap().block_on(async {
        for _ in 0..100 {
            let mut file = reader(&path).await;
            assert!(once(pin!(file.read(&mut [0; 100]))).await.is_pending());
            drop(file);
            until_closed(&path);
        }
    });
}

#[test]
fn the_end_of_the_runtime_does_not_wait_for_ever() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-end");
        let path = fifo(&scratch.0);
        let runtime = builder(way).build().unwrap();
        // One in a task, and one outside.
        let mut file = runtime.block_on(reader(&path));
        let begun = filch_test_support::Flag::new();
        runtime
            .spawn({
                let (path, begun) = (path.clone(), begun.clone());
                async move {
                    let mut file = reader(&path).await;
                    let (mut buf, mut begun) = ([0; 9], Some(begun));
                    let mut read = pin!(file.read(&mut buf));
                    poll_fn(|cx| {
                        let polled = core::future::Future::poll(read.as_mut(), cx);
                        if let Some(begun) = begun.take() {
                            begun.set();
                        }
                        polled.map(drop)
                    })
                    .await;
                }
            })
            .detach();
        begun.block();
        let mut buf = [0; 9];
        let mut read = pin!(file.read(&mut buf));
        assert!(block_on(once(read.as_mut())).is_pending());
        drop(runtime);
        assert!(block_on(read).is_err(), "{way:?}");
        drop(file);
        if way == Way::Pool {
            // Their threads go on until there is something to read, for each.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            filch_test_support::until(|| match open(&path, flags, Mode::empty()) {
                Ok(writer) => rustix::io::write(writer, b"x").is_err(),
                Err(error) => error == Errno::NXIO,
            });
        }
        until_closed(&path);
    }
}

/// What a waker does: it panics, or counts.
#[cfg(feature = "io-uring")]
struct Woken(bool, AtomicUsize);

#[cfg(feature = "io-uring")]
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        assert!(!self.0, "on purpose");
        self.1.fetch_add(1, SeqCst);
    }
}

/// Both reads land at once, in the life of the runtime or at its end.
#[cfg(feature = "io-uring")]
#[test]
fn a_waker_that_panics_leaves_the_others_theirs() {
    let _watchdog = watchdog();
    for at_end in [false, true] {
        let scratches = ["fs-bomb", "fs-beside"].map(scratch);
        let paths = scratches.each_ref().map(|scratch| fifo(&scratch.0));
        let woken = [true, false].map(|panics| Arc::new(Woken(panics, AtomicUsize::new(0))));
        // It looks at the ring in `block_on` alone.
        let runtime = builder(Way::Ring).workers(1).build_local().unwrap();
        let mut files = paths.each_ref().map(|path| runtime.block_on(reader(path)));
        let mut bufs = [[0; 9]; 2];
        let mut reads: Vec<_> = files.iter_mut().zip(&mut bufs).map(|(f, b)| f.read(b)).collect();
        for (read, woken) in reads.iter_mut().zip(&woken) {
            let waker = Waker::from(Arc::clone(woken));
            assert!(Pin::new(read).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        if at_end {
            drop(runtime);
            assert_eq!(woken[1].1.load(SeqCst), 1);
            assert!(reads.into_iter().all(|read| block_on(read).is_err()));
        } else {
            paths.iter().for_each(|path| write(path, b"data"));
            runtime.block_on(until(|| woken[1].1.load(SeqCst) == 1));
            assert!(reads.into_iter().all(|read| runtime.block_on(read).unwrap() == 4));
        }
    }
}

#[test]
fn after_the_end_of_the_runtime_there_are_errors() {
    alone("after_the_end_of_the_runtime_there_are_errors", || {
        for way in ways() {
            let runtime = builder(way).build().unwrap();
            let (mut file, mut entries) = runtime.block_on(async {
                let entries = fs::read_dir("/proc").await.unwrap();
                (File::open("/proc/self/exe").await.unwrap(), entries)
            });
            drop(runtime);
            block_on(async {
                assert!(file.read_at(vec![0; 16], 0).await.0.is_err());
                assert!(file.read_at(vec![0; 1 << 20], 0).await.0.is_err());
                assert!(file.sync_all().await.is_err());
                assert!(file.metadata().await.is_err());
                assert!(file.read(&mut [0; 16]).await.is_err());
                let mut left = 0;
                let error = loop {
                    match entries.next_entry().await {
                        Ok(Some(_)) => left += 1,
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                };
                // Those that were there.
                assert!(left <= 64 && error.is_some());
            });
        }
    });
}

#[test]
fn a_thread_that_ends_takes_no_operation_with_it() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-thread");
        let path = fifo(&scratch.0);
        let runtime = builder(way).build().unwrap();
        let mut file = runtime.block_on(reader(&path));
        let mut buf = [0; 9];
        let mut read = Box::pin(file.read(&mut buf));
        thread::scope(|scope| {
            let poll = || block_on(once(read.as_mut())).is_pending();
            assert!(scope.spawn(poll).join().unwrap());
        });
        // The kernel may cancel what the thread had begun: then a thread of the pool reads.
        let mut read = pin!(read);
        runtime.block_on(async {
            assert!(once(read.as_mut()).await.is_pending());
            write(&path, b"data");
            assert_eq!(read.await.unwrap(), 4, "{way:?}");
        });
        assert_eq!(&buf[..4], b"data");
    }
}

#[test]
fn one_thread_is_enough() {
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-one");
        let runtime = builder(way).blocking_threads(1).build().unwrap();
        let tasks: Vec<_> = (0..64)
            .map(|i| {
                let (path, to) =
                    (scratch.0.join(format!("{i}")), scratch.0.join(format!("to-{i}")));
                runtime.spawn(async move {
                    fs::write(&path, vec![i; 10_000]).await?;
                    let mut file = File::options().read(true).append(true).open(&path).await?;
                    file.write_all(&[i]).await?;
                    file.flush().await?;
                    fs::rename(&path, &to).await?;
                    let bytes = fs::read(&to).await?;
                    assert!(bytes == vec![i; 10_001]);
                    fs::remove_file(&to).await
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap().unwrap();
        }
        assert_eq!(std_fs::read_dir(&scratch.0).unwrap().count(), 0);
        assert!(runtime.handle().blocking_metrics().threads <= 1);
    }
}

/// As those of epoll, it may be closed behind the runtime's back.
#[cfg(feature = "io-uring")]
#[test]
fn where_other_code_closes_the_ring_the_pool_reads() {
    alone("where_other_code_closes_the_ring_the_pool_reads", || {
        let runtime = builder(Way::Ring).workers(1).build_local().unwrap();
        runtime.block_on(async {
            let file = File::open("/proc/self/exe").await.unwrap();
            let null = std_fs::File::open("/dev/null").unwrap();
            let fds = std_fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
            let is_ring = |fd: &std_fs::DirEntry| {
                std_fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]"))
            };
            let rings: Vec<_> = fds.filter(is_ring).map(|fd| fd.file_name()).collect();
            assert_eq!(rings.len(), 1);
            let ring = rings[0].to_str().unwrap().parse().unwrap();
            // SAFETY: two numbers; the test is about what follows.
            assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), ring) }, ring);
            for _ in 0..20 {
                let (n, buf) = file.read_at(vec![0; 4], 0).await;
                assert_eq!((n.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
            }
            assert_eq!(fs::way().unwrap(), Way::Pool);
        });
    });
}

/// Whatever the reason is.
#[cfg(feature = "io-uring")]
#[test]
fn where_the_kernel_refuses_io_uring_the_pool_reads() {
    alone("where_the_kernel_refuses_io_uring_the_pool_reads", || {
        forbid_io_uring();
        builder(Way::Ring).build().unwrap().block_on(async {
            assert_eq!(fs::way().unwrap(), Way::Pool);
            let text = fs::read_to_string("/proc/self/comm").await.unwrap();
            assert!(!text.is_empty());
            let file = File::open("/proc/self/exe").await.unwrap();
            let (n, buf) = file.read_at(vec![0; 4], 0).await;
            assert_eq!((n.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
        });
    });
}

/// As a container's filter of system calls does.
#[cfg(feature = "io-uring")]
fn forbid_io_uring() {
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let setup = libc::SYS_io_uring_setup as u32;
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, setup),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives as long as the calls, which copy it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
    // SAFETY: the filter refuses it before it looks at anything.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, core::ptr::null::<u8>()) };
    assert_eq!((result, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
}

#[cfg(not(feature = "io-uring"))]
#[test]
fn without_the_feature_the_pool_reads() {
    builder(Way::Pool).build().unwrap().block_on(async {
        assert_eq!(fs::way().unwrap(), Way::Pool);
        assert!(matches!(once(pin!(fs::read("/proc/self/comm"))).await, Poll::Pending));
    });
}
