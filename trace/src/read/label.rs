//! How tasks, causes and times are called, in all outputs.

use core::fmt;
use std::{
    format,
    string::{String, ToString},
};

use super::{Cause, Story, Task, Trace};

impl Trace {
    /// What a task is called: its name and where it was spawned, or its address.
    pub fn label(&self, task: &Task) -> String {
        match self.name(task.name) {
            Some(name) => name.to_string(),
            None => format!("task {:#x}", task.address),
        }
    }

    /// What a task is called, in short: without the place if it has a name.
    pub fn title(&self, task: &Task) -> String {
        match self.name(task.name) {
            Some(name) if !name.name.is_empty() => name.short(),
            _ => self.label(task),
        }
    }

    /// Where a task was spawned; empty if that is not known.
    pub fn place(&self, task: &Task) -> String {
        match self.name(task.name) {
            Some(name) if !name.place.0.is_empty() => {
                let (file, line, column) = &name.place;
                format!("{file}:{line}:{column}")
            }
            _ => String::new(),
        }
    }

    /// What woke or spawned a task of this trace's story, as text.
    pub fn by(&self, story: &Story, cause: Cause) -> String {
        match cause {
            Cause::Task(task) => self.title(&story.tasks[task]),
            Cause::Again => "its own poll".into(),
            Cause::Worker(worker) => format!("worker {worker}, outside of polls"),
            Cause::Outside => "a context that is no worker".into(),
        }
    }
}

/// A context: a worker, or all that are none.
pub(super) fn context(worker: Option<u16>) -> String {
    worker.map_or("other contexts".into(), |worker| format!("worker {worker}"))
}

/// A time in a unit that fits, with three or four digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nanos(pub(super) u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = *self;
        let (unit, size) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let text = match nanos / size {
            _ if size == 1 => format!("{nanos} {unit}"),
            0..10 => format!("{}.{:02} {unit}", nanos / size, nanos % size / (size / 100)),
            10..100 => format!("{}.{} {unit}", nanos / size, nanos % size / (size / 10)),
            _ => format!("{} {unit}", nanos / size),
        };
        f.pad(&text)
    }
}

/// A part of a whole, in percent; none of nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(pub(super) u64, pub(super) u64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part, whole) = *self;
        let thousandths = u128::from(part) * 1000 / u128::from(whole.max(1));
        f.pad(&format!("{}.{} %", thousandths / 10, thousandths % 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (20_123_456, "20.1 ms"),
            (999_999_999, "999 ms"),
            (61_000_000_000, "61.0 s"),
            (u64::MAX, "18446744073 s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(format!("{:>8}|", Nanos(5)), "    5 ns|");
        assert_eq!(
            [Share(1, 8).to_string(), Share(u64::MAX, u64::MAX).to_string()],
            ["12.5 %", "100.0 %"]
        );
        assert_eq!(Share(0, 0).to_string(), "0.0 %");
    }
}
