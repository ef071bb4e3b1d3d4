//! Traces for Perfetto.

mod proto;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, format, string::String, vec, vec::Vec};

use self::proto::{Annotation, Event, Kind, Packet, Process, Thread, Track, Value};
use super::{
    Story, Trace,
    label::{Nanos, context},
    story::{Doing, Done, Poll},
};

/// The one process, and its track.
const PROCESS: i32 = 1;
const PROCESS_TRACK: u64 = 1;

impl Trace {
    /// The trace as a file for [Perfetto](https://ui.perfetto.dev).
    ///
    /// Each worker is a thread with a track. Polls and sleeps are slices, those that are still under way last to the end; spawns, wakes, steals and
    /// reports are instants. A flow leads from a wake or a spawn to the poll. Times are those of the trace's clock.
    ///
    /// ```
    /// # let mut file = Vec::new();
    /// # filch_trace::Recorder::new(&[], &[], &[]).dump(0, |_| {}, "", &mut |bytes| file.extend_from_slice(bytes));
    /// let bytes = filch_trace::read::Trace::read(&file)?.perfetto();
    /// assert!(!bytes.is_empty());
    /// # Ok::<(), filch_trace::read::ReadError>(())
    /// ```
    pub fn perfetto(&self) -> Vec<u8> {
        let story = self.story();
        let mut export = Export { trace: self, story: &story, out: Vec::new() };
        export.tracks();
        for done in &story.log {
            export.done(done);
        }
        export.out
    }
}

/// The track of a worker; that of all other contexts comes after all of them.
fn track(worker: Option<u16>) -> u64 {
    PROCESS_TRACK + 1 + worker.map_or(1 << 16, u64::from)
}

fn note(name: &str, value: Value) -> Annotation {
    Annotation { name: Some(name.into()), value: Some(value) }
}

fn event(kind: Kind, category: &str, name: String) -> Event {
    let categories = vec![category.into()];
    Event { kind: Some(kind as i32), categories, name: Some(name), ..Event::default() }
}

struct Export<'a> {
    trace: &'a Trace,
    story: &'a Story,
    out: Vec<u8>,
}

impl Export<'_> {
    fn tracks(&mut self) {
        let name = Some("filch".into());
        let process = Some(Process { pid: Some(PROCESS), process_name: name });
        self.descriptor(Track { uuid: Some(PROCESS_TRACK), process, ..Track::default() });
        let lanes = self.trace.lanes.iter();
        let tracks: BTreeMap<_, _> = lanes.map(|lane| (track(lane.worker), lane.worker)).collect();
        for (uuid, worker) in tracks {
            // The thread with the number of the process would be its main one.
            let (pid, tid) = (Some(PROCESS), Some(uuid as i32));
            let thread = Thread { pid, tid, thread_name: Some(context(worker)) };
            self.descriptor(Track {
                uuid: Some(uuid),
                name: Some(context(worker)),
                parent_uuid: Some(PROCESS_TRACK),
                thread: Some(thread),
                process: None,
            });
        }
    }

    /// The first packet of a track. Each track is a sequence of its own.
    fn descriptor(&mut self, track: Track) {
        let packet = Packet {
            sequence: track.uuid.map(|uuid| uuid as u32),
            flags: Some(proto::STATE_CLEARED),
            track: Some(track),
            ..Packet::default()
        };
        packet.write(&mut self.out);
    }

    fn done(&mut self, done: &Done) {
        let uuid = track(done.worker);
        let event = Event { track: Some(uuid), ..self.event(done.what) };
        let packet = Packet {
            // Perfetto's own times have a sign.
            time: Some(done.time.min(i64::MAX as u64)),
            sequence: Some(uuid as u32),
            event: Some(event),
            ..Packet::default()
        };
        packet.write(&mut self.out);
    }

    fn event(&self, what: Doing) -> Event {
        match what {
            Doing::Poll(poll) => self.poll(&self.story.polls[poll]),
            Doing::Sleep(_) => event(Kind::Begin, "sleep", "asleep".into()),
            Doing::End => Event { kind: Some(Kind::End as i32), ..Event::default() },
            Doing::Wait(wait) => self.wait(wait),
            Doing::Steal { victim, tasks } => {
                let mut steal = event(Kind::Instant, "event", format!("steal {tasks}"));
                steal.notes.push(note("victim", Value::Number(victim.into())));
                steal
            }
            Doing::LongPoll { worker, nanos } => {
                let name = format!("long poll of worker {worker}: {}", Nanos(nanos));
                event(Kind::Instant, "event", name)
            }
            Doing::Late { task, nanos } => {
                let name = format!("{} later than the deadline", Nanos(nanos));
                let mut late = event(Kind::Instant, "event", name);
                late.notes = self.notes(task);
                late
            }
            Doing::Panic(task) => {
                let mut panic = event(Kind::Instant, "event", "panic".into());
                panic.notes = self.notes(task);
                panic
            }
        }
    }

    /// What a task is, for the details of an event.
    fn notes(&self, task: usize) -> Vec<Annotation> {
        let task = &self.story.tasks[task];
        let mut notes = vec![note("task", Value::Pointer(task.address))];
        let place = self.trace.place(task);
        if !place.is_empty() {
            notes.push(note("spawned at", Value::Text(place)));
        }
        notes
    }

    fn poll(&self, poll: &Poll) -> Event {
        let title = self.trace.title(&self.story.tasks[poll.task]);
        let mut event = event(Kind::Begin, "poll", title);
        event.notes = self.notes(poll.task);
        if let Some(number) = poll.wait {
            let wait = &self.story.waits[number];
            let nanos = poll.start.saturating_sub(wait.start);
            let key = if wait.spawn { "spawned by" } else { "woken by" };
            let by = self.trace.by(self.story, wait.by);
            event.notes.push(note("waited ns", Value::Number(nanos)));
            event.notes.push(note(key, Value::Text(by)));
            event.flows_end.push(flow(number));
        }
        if poll.end.is_none() {
            event.notes.push(note("still under way", Value::Yes(true)));
        }
        if poll.cut {
            event.notes.push(note("end is lost", Value::Yes(true)));
        }
        event
    }

    fn wait(&self, number: usize) -> Event {
        let wait = &self.story.waits[number];
        let what = if wait.spawn { "spawn" } else { "wake" };
        let title = self.trace.title(&self.story.tasks[wait.task]);
        let mut event = event(Kind::Instant, what, format!("{what} {title}"));
        event.notes = self.notes(wait.task);
        if wait.end.is_some() {
            event.flows.push(flow(number));
        }
        event
    }
}

/// The flow of a wait; 0 is none.
fn flow(wait: usize) -> u64 {
    wait as u64 + 1
}
