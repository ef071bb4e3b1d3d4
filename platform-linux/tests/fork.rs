//! A forked child has a reactor of its own, even if its runtime has the shape of one that its
//! parent has dropped.

mod common;

use std::os::unix::net::UnixStream;

use common::watchdog;
use filch_linux::Async;

fn echo(round: u8) -> Result<u8, i32> {
    let rt = filch_linux::Builder::new().workers(2).build().map_err(|_| 1)?;
    rt.block_on(async {
        let (a, b) = UnixStream::pair().map_err(|_| 2)?;
        let (a, b) = (Async::new(a).map_err(|_| 3)?, Async::new(b).map_err(|_| 4)?);
        let echo = filch_linux::spawn(async move {
            let mut byte = [0];
            // It waits first, so that the answer comes through epoll.
            b.read_with(|mut io| std::io::Read::read(&mut io, &mut byte)).await?;
            b.write_with(|mut io| std::io::Write::write(&mut io, &byte)).await
        });
        filch_linux::time::sleep(core::time::Duration::from_millis(2)).await;
        a.write_with(|mut io| std::io::Write::write(&mut io, &[round])).await.map_err(|_| 5)?;
        let mut byte = [0];
        a.read_with(|mut io| std::io::Read::read(&mut io, &mut byte)).await.map_err(|_| 6)?;
        echo.await.map_err(|_| 7)?.map_err(|_| 8)?;
        Ok(byte[0])
    })
}

/// The only test of its program: a child has only one thread.
#[test]
fn a_runtime_that_is_built_again_in_a_child_has_a_reactor_of_its_own() {
    let _watchdog = watchdog();
    for round in 1..=6 {
        assert_eq!(echo(1), Ok(1));
        // SAFETY: the child leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: only sets a timer: a hang ends by a signal.
            unsafe { libc::alarm(20) };
            let status = echo(17 + round).map_or_else(core::convert::identity, i32::from);
            // SAFETY: ends the child.
            unsafe { libc::_exit(status) };
        }
        // Meanwhile the parent uses its own.
        assert_eq!(echo(2), Ok(2));
        let mut status = 0;
        // SAFETY: waits for this process's own child, into a place on this stack.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child did not exit by itself: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 17 + i32::from(round), "round {round}");
        assert_eq!(echo(3), Ok(3));
    }
}
