//! A worker's entry runs once, on one thread.

use filch::WorkerEntry;

fn start(entry: WorkerEntry) {
    entry.run();
    entry.run();
}

fn main() {}
