//! What happened, as text.

mod polls;
mod tasks;
mod waits;
mod workers;

use core::fmt::{self, Write as _};
use std::{
    collections::{BTreeMap, HashMap},
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use super::{
    Story, Trace,
    label::{Nanos, Share},
};

/// Rows of a list of the longest, or the most.
const TOP: usize = 10;

/// What a trace says, as text for a terminal: the longest polls and waits, polls that are still under way, what the workers and the tasks did, and
/// tasks that nothing has woken for long.
///
/// ```
/// use filch_trace::{Lane, NameSlot, Recorder, Slot, read::Trace};
/// static LANES: [Lane; 2] = [const { Lane::new() }; 2];
/// static SLOTS: [Slot; 128] = [const { Slot::new() }; 128];
/// static NAMES: [NameSlot; 8] = [const { NameSlot::new() }; 8];
/// static RECORDER: Recorder = Recorder::new(&LANES, &SLOTS, &NAMES);
/// let worker = Some(filch::WorkerId::new(0));
/// RECORDER.record(worker, filch::Event::PollStart(16), || 1_000);
/// let mut file = Vec::new();
/// RECORDER.dump(21_000_000, |_| {}, "", &mut |bytes| file.extend_from_slice(bytes));
/// let text = Trace::read(&file)?.summary().to_string();
/// assert!(text.contains("Still under way at the end\n   20.9 ms  worker 0"), "{text}");
/// # Ok::<(), filch_trace::read::ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Summary {
    sections: Vec<Section>,
}

/// A title, and lines.
#[derive(Clone, Debug)]
struct Section {
    title: String,
    lines: Vec<String>,
}

/// What the sections are made of.
struct View<'a> {
    trace: &'a Trace,
    story: &'a Story,
    /// What the tasks of one kind are called, by the number of the kind. The first are those without a name.
    kinds: Vec<String>,
    /// The kind that a name means.
    by_name: BTreeMap<u16, usize>,
}

impl Summary {
    pub(super) fn of(trace: &Trace) -> Self {
        let story = trace.story();
        let view = View::new(trace, &story);
        let mut sections = vec![rings(&view)];
        sections.extend(polls::sections(&view));
        sections.extend(waits::sections(&view));
        sections.extend(workers::sections(&view));
        sections.extend(tasks::sections(&view));
        sections.retain(|section| !section.lines.is_empty());
        // Its title says enough.
        sections.insert(0, head(&view));
        Self { sections }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Section { title, lines }) in self.sections.iter().enumerate() {
            let space = if i == 0 { "" } else { "\n" };
            writeln!(f, "{space}{title}")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}

impl<'a> View<'a> {
    fn new(trace: &'a Trace, story: &'a Story) -> Self {
        let mut kinds = vec!["tasks without a name".to_string()];
        let (mut by_text, mut by_name) = (HashMap::new(), BTreeMap::new());
        for (number, name) in &trace.names {
            // Two names may say the same.
            let kind = *by_text.entry(name.to_string()).or_insert_with_key(|text| {
                kinds.push(text.clone());
                kinds.len() - 1
            });
            by_name.insert(*number, kind);
        }
        Self { trace, story, kinds, by_name }
    }

    /// The kind of a task.
    fn kind(&self, task: usize) -> usize {
        self.by_name.get(&self.story.tasks[task].name).copied().unwrap_or(0)
    }

    /// A task: its name, its place, its address.
    fn task(&self, task: usize) -> String {
        let task = &self.story.tasks[task];
        let label = self.trace.label(task);
        if self.trace.name(task.name).is_none() {
            return label;
        }
        format!("{label}, task {:#x}", task.address)
    }

    /// A time, since the trace begins.
    fn since_begin(&self, time: u64) -> String {
        format!("+{}", Nanos(time.saturating_sub(self.story.span.0)))
    }

    fn length(&self) -> u64 {
        self.story.span.1.saturating_sub(self.story.span.0)
    }
}

impl Section {
    fn new(title: impl Into<String>, lines: impl IntoIterator<Item = String>) -> Self {
        Self { title: title.into(), lines: lines.into_iter().collect() }
    }

    /// The first of these lines; the title says how many there are if that is more.
    fn first(title: &str, all: usize, lines: impl IntoIterator<Item = String>) -> Self {
        let more = if all > TOP { format!(" ({TOP} of {all})") } else { String::new() };
        Self::new(format!("{title}{more}"), lines.into_iter().take(TOP))
    }
}

/// What the trace as a whole is.
fn head(view: &View<'_>) -> Section {
    let trace = view.trace;
    let title = format!(
        "A trace of {}{} over {}, written at {} ns of its clock",
        trace.workers,
        if trace.workers == 1 { " worker" } else { " workers" },
        Nanos(view.length()),
        trace.now
    );
    let notes = trace.notes.iter().flat_map(|note| note.lines());
    let mut section = Section::new(title, notes.map(|line| format!("note: {line}")));
    if trace.damaged > 0 {
        section.lines.push(format!("damaged: {} parts of it cannot be understood", trace.damaged));
    }
    if !trace.complete {
        section.lines.push("incomplete: its end is missing".into());
    }
    section
}

/// What the rings have, and what they have lost.
fn rings(view: &View<'_>) -> Section {
    let line = |lane: &super::Lane| {
        let mut line = format!("{:<14}", super::label::context(lane.worker));
        let overwritten = lane.written.saturating_sub(lane.records).saturating_sub(lane.lost);
        let _ = write!(line, " {:>8} records", lane.records);
        if let Some(first) = lane.entries.first() {
            let _ = write!(line, " since {}", view.since_begin(first.time));
        }
        if overwritten > 0 {
            let _ = write!(line, "; {overwritten} older ones are overwritten");
        }
        if lane.lost > 0 {
            let _ = write!(line, "; {} lost as the trace was written", lane.lost);
        }
        line
    };
    let used = view.trace.lanes.iter().filter(|lane| lane.written > 0 || lane.records > 0);
    Section::new("Rings", used.map(line))
}

/// Percentiles of numbers, which are in ascending order.
fn percentiles(what: &str, sorted: &[u64]) -> Option<String> {
    let last = sorted.len().checked_sub(1)?;
    let at = |percent: usize| Nanos(sorted[(last as u128 * percent as u128 / 100) as usize]);
    let count = sorted.len();
    let [half, most, nearly_all, max] = [50, 90, 99, 100].map(at);
    Some(format!(
        "{what:<20} p50 {half:>8}  p90 {most:>8}  p99 {nearly_all:>8}  max {max:>8}  of {count}"
    ))
}
