//! A shortage of descriptors, in a process of its own, for Unix sockets. For TCP see
//! tests/tcp_faults.rs.

mod os_common;

use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

use filch_linux::net::{UnixListener, UnixStream};
use os_common::{alone, run};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_shortage_of_descriptors_is_waited_out() {
    alone("a_shortage_of_descriptors_is_waited_out", || {
        run(2, async {
            let name = format!("filch-test-emfile-{}", std::process::id());
            let addr = SocketAddr::from_abstract_name(&name).unwrap();
            let listener = UnixListener::bind_addr(&addr).unwrap();
            let client = UnixStream::connect_addr(&addr).await.unwrap();
            // All descriptors below the first free one are in use.
            let free = rustix::io::dup(&listener).unwrap();
            let limit = rustix::process::getrlimit(Resource::Nofile);
            let current = Some(std::os::fd::AsRawFd::as_raw_fd(&free) as u64);
            drop(free);
            setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
            let error = listener.accept().await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            let accepting = filch_linux::spawn(async move { listener.incoming().next().await });
            filch_linux::time::sleep(core::time::Duration::from_millis(30)).await;
            assert!(!accepting.is_finished());
            setrlimit(Resource::Nofile, limit).unwrap();
            let (server, _) = accepting.await.unwrap().unwrap();
            assert_eq!(client.write(b"after all").await.unwrap(), 9);
            assert_eq!(server.read(&mut [0; 16]).await.unwrap(), 9);
        });
    });
}
