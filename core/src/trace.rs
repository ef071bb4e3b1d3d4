//! The events that the scheduler reports to the platform.

/// Something that the scheduler did, reported to [`Platform::event`](crate::Platform::event).
///
/// Tasks are named by the address of their header, which is unique among live tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event {
    /// A task was spawned.
    Spawn(usize),
    /// A worker begins to poll a task.
    PollStart(usize),
    /// A worker ends the poll.
    PollEnd(usize),
    /// A worker took this many tasks from another.
    Steal {
        /// The worker that they were taken from.
        victim: u16,
        /// How many tasks.
        tasks: u16,
    },
    /// A worker is about to sleep.
    Park,
    /// A worker woke up.
    Unpark,
    /// A worker has been inside one poll for longer than the configured limit.
    LongPoll {
        /// The stuck worker.
        worker: u16,
        /// How long it has been inside, at least, in nanoseconds.
        nanos: u64,
    },
    /// A worker begins the poll of a task later than the task's deadline.
    #[cfg(feature = "classes")]
    LateDeadline {
        /// The task.
        task: usize,
        /// How much later, in nanoseconds.
        nanos: u64,
    },
}
