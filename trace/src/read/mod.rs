//! Reads traces, on any machine.

mod chrome;
mod label;
mod merge;
mod perfetto;
mod serial;
mod story;
mod summary;
mod teller;

use core::fmt;
use std::{collections::BTreeMap, string::String, vec::Vec};

pub use self::{
    serial::serial,
    story::{Cause, Poll, Sleep, Story, Task, Wait},
    summary::Summary,
};
use crate::{
    frame::{Frame, LONGEST, VERSION},
    kind::{AGAIN, ENDED, Kind, lengthen},
    lane::TIME,
};

/// Why bytes are no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no header in them.
    NoTrace,
    /// The trace has another version of the format.
    Version(u16),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrace => f.write_str("there is no trace in these bytes"),
            Self::Version(version) => write!(
                f,
                "the trace has version {version} of the format; this program reads {VERSION}"
            ),
        }
    }
}

impl core::error::Error for ReadError {}

/// A trace: what was recorded, in the order in which each worker did it.
///
/// A damaged file is read as far as it goes: see [`damaged`](Self::damaged).
///
/// ```
/// # #[cfg(feature = "alloc")]
/// # {
/// # use filch::{Event, WorkerId};
/// # let recorder = filch_trace::Recorder::leaked(1, 16, 4);
/// # let worker = Some(WorkerId::new(0));
/// # recorder.record(None, Event::Wake(0x1000), || 1_000);
/// # recorder.record(worker, Event::PollStart(0x1000), || 4_000);
/// # recorder.record(worker, Event::PollEnd(0x1000), || 6_000);
/// # recorder.record(worker, Event::End(0x1000), || 6_000);
/// # recorder.record(worker, Event::Park, || 7_000);
/// # let mut file = Vec::new();
/// # recorder.dump(9_000, |_| {}, "an example", &mut |bytes| file.extend_from_slice(bytes));
/// use filch_trace::read::{Class, Entry, Lane, Live, Name, ReadError, Trace, What};
/// // `file`: a worker has polled a task, and sleeps.
/// let trace = Trace::read(&file)?;
/// assert!(trace.complete && trace.notes == ["an example"]);
/// let lane: &Lane = &trace.lanes[0];
/// assert_eq!(lane.entries[0], Entry { time: 4_000, what: What::PollStart { task: 0x1000 } });
/// // Without a list of the tasks that lived, and of names.
/// let urgent = |task: &&Live| task.class == Class::Urgent;
/// assert_eq!(trace.tasks.iter().filter(urgent).count(), 0);
/// let name: Option<&Name> = trace.name(1);
/// assert!(name.is_none());
///
/// let story = trace.story();
/// assert_eq!(story.delays(), [3_000]);
/// println!("{}", trace.summary());
/// assert!(matches!(Trace::read(b"no trace"), Err(ReadError::NoTrace)));
/// # }
/// # Ok::<(), filch_trace::read::ReadError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// When it was written, in nanoseconds of its clock.
    pub now: u64,
    /// The number of workers.
    pub workers: u16,
    /// The rings: those of the workers, then that of all other contexts.
    pub lanes: Vec<Lane>,
    /// The tasks that lived when it was written, if it was told.
    pub tasks: Vec<Live>,
    /// What tasks are called.
    pub names: BTreeMap<u16, Name>,
    /// Why it was written.
    pub notes: Vec<String>,
    /// Frames that cannot be understood.
    pub damaged: usize,
    /// Whether its end is there.
    pub complete: bool,
}

/// A ring.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// None for all contexts that are no workers.
    pub worker: Option<u16>,
    /// Records since the beginning.
    pub written: u64,
    /// Records that are there.
    pub records: u64,
    /// Records that were overwritten as the trace was written.
    pub lost: u64,
    /// What is there.
    pub entries: Vec<Entry>,
}

/// What happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In nanoseconds of the trace's clock.
    pub time: u64,
    /// What.
    pub what: What,
}

/// What happened. Tasks are named by their addresses: two that lived one after the other may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "as in `filch::Event`")]
pub enum What {
    Spawn { task: u64, name: u16 },
    Wake { task: u64 },
    PollStart { task: u64 },
    PollEnd { task: u64 },
    End { task: u64 },
    Steal { victim: u16, tasks: u64 },
    Park,
    Unpark,
    LongPoll { worker: u16, nanos: u64 },
    Class { task: u64, class: Class },
    Deadline { at: u64 },
    Late { task: u64, nanos: u64 },
    Panic { task: u64 },
}

/// A task's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "as in `filch::Class`")]
pub enum Class {
    Urgent,
    #[default]
    Normal,
    Background,
}

impl Class {
    fn of(number: u64) -> Self {
        match number {
            1 => Self::Urgent,
            2 => Self::Background,
            _ => Self::Normal,
        }
    }
}

/// A task that lived when the trace was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its address.
    pub task: u64,
    /// The number of its name, or 0.
    pub name: u16,
    /// Whether it was queued or being polled.
    pub scheduled: bool,
    /// Its class then.
    pub class: Class,
}

/// What a task is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Its name, or the type of its future.
    pub name: String,
    /// Where it was spawned: file, line, column. The file is empty if that is not known.
    pub place: (String, u32, u32),
}

impl Name {
    /// The name; of a type, the path to where it is written, without parameters and closures. Of a future that is wrapped for tokio-console, that of
    /// the future.
    ///
    /// ```
    /// let name = "app::serve<app::Http>::{{closure}}::{{closure}}".to_string();
    /// let name = filch_trace::read::Name { name, ..Default::default() };
    /// assert_eq!(name.short(), "app::serve");
    /// ```
    pub fn short(&self) -> String {
        let name = unwrapped(&self.name);
        let mut depth = 0_usize;
        let path: String = match name.starts_with('<') {
            // A method of a trait: its type is what tells most.
            true => name.into(),
            false => name
                .chars()
                .filter(|char| {
                    depth += usize::from(*char == '<');
                    let keep = depth == 0;
                    depth = depth.saturating_sub(usize::from(*char == '>'));
                    keep
                })
                .collect(),
        };
        path.trim_end_matches("::{{closure}}").into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = &self.place;
        match (self.name.is_empty(), file.is_empty()) {
            (false, true) => f.write_str(&self.short()),
            (true, _) => write!(f, "{file}:{line}:{column}"),
            (false, false) => write!(f, "{} ({file}:{line}:{column})", self.short()),
        }
    }
}

impl Trace {
    /// Reads a trace: the first one in these bytes.
    ///
    /// # Errors
    /// [`ReadError`]. Damage is none: what cannot be understood is counted.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let mut trace = None;
        let mut damaged = 0;
        let mut buffer = [0; LONGEST];
        for chunk in bytes.split(|byte| *byte == 0).filter(|chunk| !chunk.is_empty()) {
            match (postcard::from_bytes_cobs(buffered(chunk, &mut buffer)), &mut trace) {
                (
                    Ok(Frame::Header {
                        magic: [b'f', b'i', b'l', b'c', b'h'],
                        version,
                        now,
                        workers,
                    }),
                    None,
                ) => {
                    if version != VERSION {
                        return Err(ReadError::Version(version));
                    }
                    trace = Some(Self { now, workers, ..Self::default() });
                }
                // The next trace.
                (Ok(Frame::Header { .. }), Some(_)) => break,
                (Ok(Frame::End), Some(trace)) => {
                    trace.complete = true;
                    break;
                }
                (Ok(frame), Some(trace)) => trace.add(frame),
                // What comes before the trace is something else.
                (_, None) => {}
                (Err(_), Some(_)) => damaged += 1,
            }
        }
        let trace = trace.ok_or(ReadError::NoTrace)?;
        Ok(Self { damaged: trace.damaged + damaged, ..trace })
    }

    fn add(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Task { task, name, scheduled, class } => {
                let class = Class::of(class.into());
                self.tasks.push(Live { task, name, scheduled, class });
            }
            Frame::Lane { lane, written } => {
                let worker = Some(lane).filter(|lane| *lane != u16::MAX);
                self.lanes.push(Lane { worker, written, ..Lane::default() });
            }
            Frame::Record { code, subject, time, extra } => {
                self.add_record(code, subject, self.whole_time(time), extra);
            }
            Frame::Lost { records } => match self.lanes.last_mut() {
                Some(lane) => lane.lost = records,
                None => self.damaged += 1,
            },
            Frame::Name { number, name, file, line, column } => {
                let name = Name { name: printable(name), place: (printable(file), line, column) };
                self.names.insert(number, name);
            }
            Frame::Note { text } => {
                self.notes.push(text.split('\n').map(printable).collect::<Vec<_>>().join("\n"))
            }
            Frame::Header { .. } | Frame::End => {}
        }
    }

    /// The time of a record from its lowest bits: the last such time before the trace was written, or a moment after it began to be.
    fn whole_time(&self, low: u64) -> u64 {
        /// Workers go on as the trace is written.
        const LATER: u64 = 60_000_000_000;
        let end = self.now.saturating_add(LATER);
        end.saturating_sub(end.wrapping_sub(low) & ((1 << TIME) - 1))
    }

    fn add_record(&mut self, code: u8, subject: u64, time: u64, extra: u16) {
        let (Some(kind), Some(lane)) = (Kind::of(code), self.lanes.last_mut()) else {
            self.damaged += 1;
            return;
        };
        let task = subject;
        let what = match kind {
            Kind::Spawn => What::Spawn { task, name: extra },
            Kind::Wake => What::Wake { task },
            Kind::PollStart => What::PollStart { task },
            Kind::PollEnd => What::PollEnd { task },
            Kind::End => What::End { task },
            Kind::Steal => What::Steal { victim: extra, tasks: subject },
            Kind::Park => What::Park,
            Kind::Unpark => What::Unpark,
            Kind::LongPoll => What::LongPoll { worker: extra, nanos: subject },
            Kind::Class => What::Class { task, class: Class::of(extra.into()) },
            Kind::Deadline => What::Deadline { at: subject },
            Kind::Panic => What::Panic { task },
            Kind::Late => What::Late { task, nanos: lengthen(extra) },
        };
        lane.records += 1;
        lane.entries.push(Entry { time, what });
        let mut more = |what| lane.entries.push(Entry { time, what });
        if kind == Kind::PollStart && code & ENDED != 0 {
            more(What::PollEnd { task });
        }
        if code & AGAIN != 0 {
            more(What::Wake { task });
        }
    }

    /// What a task with this number is called; nothing if that is not known.
    pub fn name(&self, number: u16) -> Option<&Name> {
        self.names.get(&number)
    }

    /// What the tasks and the workers did, put together.
    pub fn story(&self) -> Story {
        teller::story(self)
    }

    /// What happened, as text: see [`Summary`].
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }
}

/// A frame, where it can be decoded in place, with its zero; an empty one if it is longer than frames are.
fn buffered<'a>(chunk: &[u8], buffer: &'a mut [u8; LONGEST]) -> &'a mut [u8] {
    let length = if chunk.len() < LONGEST { chunk.len() } else { 0 };
    buffer[..length].copy_from_slice(&chunk[..length]);
    buffer[length] = 0;
    &mut buffer[..=length]
}

/// The type of a task's future, of which `filch-std` makes another one with its feature `tracing`. A long name has lost its beginning.
fn unwrapped(name: &str) -> &str {
    let name = name.strip_prefix("filch_std::tracing::Traced<").unwrap_or(name);
    let is_whole = name.matches('>').count() <= name.matches('<').count();
    name.strip_suffix('>').filter(|_| !is_whole).unwrap_or(name)
}

/// The text without what a terminal may take for commands.
fn printable(text: &str) -> String {
    let replace = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests;
