//! The flight recorder of an episode: its end, as a file that `filch-trace` reads.

use std::fs;

use filch::{Event, TaskInfo, WorkerId};
use filch_trace::Recorder;

/// Records for each worker.
const RECORDS: usize = 1 << 14;

/// A recorder, and the file for what it has at the end.
pub(super) struct Recording {
    recorder: Recorder,
    file: String,
}

impl Recording {
    /// The memory stays: one episode is recorded, and perhaps a smaller one.
    pub(super) fn new(workers: usize, file: String) -> Self {
        Self { recorder: Recorder::leaked(workers, RECORDS, 64), file }
    }

    pub(super) fn event(&self, worker: Option<WorkerId>, event: Event<'_>, now: u64) {
        self.recorder.record(worker, event, || now);
    }

    /// Writes the file, with the failure as its note.
    pub(super) fn save(
        &self,
        now: u64,
        tasks: impl FnOnce(&mut dyn FnMut(TaskInfo)),
        failure: Option<&str>,
    ) {
        let mut bytes = Vec::new();
        let note = failure.unwrap_or("");
        self.recorder.dump(now, tasks, note, &mut |part| bytes.extend_from_slice(part));
        match fs::write(&self.file, bytes) {
            Ok(()) => eprintln!("trace: {}", self.file),
            Err(error) => eprintln!("{}: {error}", self.file),
        }
    }
}
