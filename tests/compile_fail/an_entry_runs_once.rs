//! A worker's entry is run once, by one thread.

use filch::WorkerEntry;

fn start(entry: WorkerEntry) {
    entry.run();
    entry.run();
}

fn main() {}
