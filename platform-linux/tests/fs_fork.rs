//! A forked child leaves the files of its parent's runtime alone, and reads others on its own.

mod fs_common;
mod os_common;

use core::pin::pin;

use filch_linux::fs::{self, File};
use filch_test_support::until;
use fs_common::{builder, ways};
use futures::executor::block_on;
use os_common::{once, watchdog};

/// The only test of its program: a child has only one thread.
#[test]
fn a_child_has_files_of_its_own() {
    let _watchdog = watchdog();
    for way in ways() {
        // A thread that is just starting holds a lock of the standard library, which a child would find locked for ever.
        let runtime = builder(way).build().unwrap();
        let metrics = || runtime.handle().metrics();
        until(|| metrics().workers().filter(|(_, worker)| worker.online).count() == 2);
        let file = runtime.block_on(File::open("/proc/self/exe")).unwrap();
        let mut flying = Box::pin(file.read_at(vec![0; 4 << 20], 0));
        drop(block_on(once(flying.as_mut())));
        // SAFETY: the child leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: only sets a timer: a hang ends by a signal.
            unsafe { libc::alarm(20) };
            let refused = block_on(file.read_at(vec![0; 8], 0)).0.is_err();
            drop(flying);
            let own = builder(way).build().map_or(1, |own| {
                own.block_on(async {
                    let is_way = fs::way().is_ok_and(|used| used == way);
                    let mut read = pin!(fs::read("/proc/self/comm"));
                    let text = read.as_mut().await;
                    if is_way && text.is_ok_and(|text| !text.is_empty()) { 0 } else { 2 }
                })
            });
            // SAFETY: ends the child.
            unsafe { libc::_exit(if refused { own } else { 3 }) };
        }
        // The parent's goes on.
        runtime.block_on(async {
            let (read, buf) = file.read_at(vec![0; 4], 0).await;
            assert_eq!((read.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
        });
        let mut status = 0;
        // SAFETY: waits for this process's own child, into a place on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0), "{way:?}");
    }
}
