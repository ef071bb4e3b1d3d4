//! What tasks that wait for files show in a dump.

use core::time::Duration;
use std::os::fd::AsRawFd;

use filch_linux::{
    net::{TcpListener, TcpStream},
    task::TaskId,
};
use filch_test_support::watchdog;

#[test]
fn a_wait_for_a_file_has_its_number() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_peer, _) = listener.accept().await.unwrap();
        let fds = [listener.as_raw_fd(), stream.as_raw_fd()];
        let accepts = runtime.spawn(async move { listener.accept().await.is_ok() });
        let reads = runtime.spawn(async move { stream.read(&mut [0; 8]).await.is_ok() });
        let dump = runtime.handle().dump_tasks(Duration::from_secs(60)).await.unwrap();
        let waits = |id: Option<TaskId>, fd: i32| {
            let dump = dump.iter().find(|dump| Some(dump.task.id) == id).unwrap().to_string();
            assert!(dump.contains(&format!("reading {fd}\n")), "{dump}");
            assert!(dump.contains("tests/dump.rs:"), "{dump}");
        };
        waits(accepts.id(), fds[0]);
        waits(reads.id(), fds[1]);
    });
}
