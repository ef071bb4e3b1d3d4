//! A runtime's host is readable, but only a worker's own thread may sleep or deliver through it.

use filch_linux::{Host, WorkerId};

fn main() {
    let runtime = filch_linux::builder().workers(2).build().unwrap();
    let linux = runtime.host();
    linux.poll_io(WorkerId::new(0));
    linux.enter(WorkerId::new(0));
    linux.leave(WorkerId::new(0));
    linux.close();
    linux.open().unwrap();
}
