//! A runtime's host is readable, but only a worker's own thread may sleep or deliver through it.

use filch_linux::runtime::{Host, WorkerId};

fn main() {
    let runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let linux = runtime.host();
    linux.reactor().unwrap().deliver(WorkerId::new(0));
    linux.set_worker(Some(WorkerId::new(0)));
    linux.set_worker(None);
    linux.close();
    linux.open().unwrap();
}
