//! A runtime's host can be looked at, but no thread that is no worker sleeps or delivers in a worker's place.

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
