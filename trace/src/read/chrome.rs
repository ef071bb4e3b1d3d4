//! Traces as JSON for Chrome's viewer, and all that read its format.

use std::{format, io, string::String};

use serde_json::{Value, json};

use super::{
    Story, Trace,
    label::{Nanos, context},
    story::{Cause, Doing, Done, Poll, Sleep, Wait},
};

/// The one process.
const PROCESS: u32 = 1;

impl Trace {
    /// Writes the trace as Chrome's trace events, in JSON: for `chrome://tracing`, Perfetto, Speedscope and others.
    ///
    /// Each worker is a thread. Polls and sleeps are complete events, those that are still under way last to the end; spawns, steals, reports,
    /// and wakes outside of polls are instant events. A flow leads from the poll in which a task was woken or spawned to its own. Times
    /// are since the beginning of the trace; `otherData.begin_ns` is that.
    ///
    /// It writes many small pieces: give it a [`BufWriter`](io::BufWriter).
    ///
    /// ```
    /// # let mut file = Vec::new();
    /// # filch_trace::Recorder::new(&[], &[], &[]).dump(0, |_| {}, "", &mut |bytes| file.extend_from_slice(bytes));
    /// let mut json = Vec::new();
    /// filch_trace::read::Trace::read(&file)?.chrome(&mut json)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of the writer.
    pub fn chrome(&self, out: &mut impl io::Write) -> io::Result<()> {
        let story = self.story();
        let other = json!({ "begin_ns": story.span.0, "notes": self.notes });
        writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
        let process = named("process_name", 0, "filch");
        // The first, so that each other one has a comma before it.
        write!(out, "{process}")?;
        let mut export = Export { trace: self, story: &story, out };
        export.threads()?;
        export.slices()?;
        for done in &story.log {
            export.instant(done)?;
        }
        writeln!(out, "\n]}}")
    }
}

/// An event without a time.
fn named(what: &str, thread: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": { "name": name } })
}

/// The thread of a worker; that of all other contexts comes after all of them.
fn thread(worker: Option<u16>) -> u32 {
    worker.map_or(1 << 16, u32::from) + 1
}

struct Export<'a, W> {
    trace: &'a Trace,
    story: &'a Story,
    out: &'a mut W,
}

impl<W: io::Write> Export<'_, W> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(b",\n")?;
        Ok(serde_json::to_writer(&mut *self.out, event)?)
    }

    /// A time, in microseconds since the beginning.
    fn time(&self, time: u64) -> f64 {
        time.saturating_sub(self.story.span.0) as f64 / 1000.0
    }

    fn title(&self, task: usize) -> String {
        self.trace.title(&self.story.tasks[task])
    }

    fn threads(&mut self) -> io::Result<()> {
        for lane in &self.trace.lanes {
            let thread = thread(lane.worker);
            self.event(&named("thread_name", thread, &context(lane.worker)))?;
            let sort = json!({ "ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": thread,
                "args": { "sort_index": thread } });
            self.event(&sort)?;
        }
        Ok(())
    }

    /// What has a length, in the order of the beginnings.
    fn slices(&mut self) -> io::Result<()> {
        let story = self.story;
        for done in &story.log {
            match done.what {
                Doing::Poll(number) => {
                    self.poll(&story.polls[number])?;
                    self.flow(number)?;
                }
                Doing::Sleep(sleep) => self.sleep(&story.sleeps[sleep])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn complete(&self, worker: Option<u16>, start: u64, end: Option<u64>) -> Value {
        let length = end.unwrap_or(self.story.span.1).saturating_sub(start);
        json!({ "ph": "X", "pid": PROCESS, "tid": thread(worker),
            "ts": self.time(start), "dur": length as f64 / 1000.0 })
    }

    fn poll(&mut self, poll: &Poll) -> io::Result<()> {
        let task = &self.story.tasks[poll.task];
        let mut args = json!({ "task": format!("{:#x}", task.address) });
        let place = self.trace.place(task);
        if !place.is_empty() {
            args["spawned at"] = place.into();
        }
        if let Some(wait) = poll.wait.map(|wait| self.story.waits[wait]) {
            args["waited ns"] = poll.start.saturating_sub(wait.start).into();
            let key = if wait.spawn { "spawned by" } else { "woken by" };
            args[key] = self.trace.by(self.story, wait.by).into();
        }
        if poll.end.is_none() {
            args["still under way"] = true.into();
        }
        if poll.cut {
            args["end is lost"] = true.into();
        }
        let mut event = self.complete(poll.worker, poll.start, poll.end);
        event["cat"] = "poll".into();
        event["name"] = self.trace.title(task).into();
        event["args"] = args;
        self.event(&event)
    }

    fn sleep(&mut self, sleep: &Sleep) -> io::Result<()> {
        let mut event = self.complete(Some(sleep.worker), sleep.start, sleep.end);
        event["cat"] = "sleep".into();
        event["name"] = "asleep".into();
        self.event(&event)
    }

    /// An arrow to a poll, from that in which its task was woken.
    fn flow(&mut self, number: usize) -> io::Result<()> {
        let poll = &self.story.polls[number];
        let Some(wait) = poll.wait.map(|wait| self.story.waits[wait]) else { return Ok(()) };
        if !matches!(wait.by, Cause::Task(_)) || wait.start > poll.start {
            return Ok(());
        }
        let name = if wait.spawn { "spawn" } else { "wake" };
        let end = |phase: &str, worker, time| {
            json!({ "ph": phase, "cat": "wake", "name": name, "id": number, "pid": PROCESS,
                "tid": thread(worker), "ts": self.time(time) })
        };
        let (begin, mut end) = (end("s", wait.on, wait.start), end("f", poll.worker, poll.start));
        // At the poll around it, not at the next one.
        end["bp"] = "e".into();
        self.event(&begin)?;
        self.event(&end)
    }

    fn instant(&mut self, done: &Done) -> io::Result<()> {
        let (name, args) = match done.what {
            Doing::Wait(wait) => match self.wait(&self.story.waits[wait]) {
                Some(wait) => wait,
                None => return Ok(()),
            },
            Doing::Steal { victim, tasks } => {
                (format!("steal {tasks}"), json!({ "victim": victim, "tasks": tasks }))
            }
            Doing::LongPoll { worker, nanos } => (
                format!("long poll of worker {worker}: {}", Nanos(nanos)),
                json!({ "worker": worker, "ns": nanos }),
            ),
            Doing::Late { task, nanos } => (
                format!("{} later than the deadline", Nanos(nanos)),
                json!({ "task": self.title(task), "ns": nanos }),
            ),
            Doing::Panic(task) => ("panic".into(), json!({ "task": self.title(task) })),
            Doing::Poll(_) | Doing::Sleep(_) | Doing::End => return Ok(()),
        };
        let event = json!({ "ph": "i", "s": "t", "cat": "event", "name": name, "pid": PROCESS,
            "tid": thread(done.worker), "ts": self.time(done.time), "args": args });
        self.event(&event)
    }

    /// A spawn, or a wake that no flow shows.
    fn wait(&self, wait: &Wait) -> Option<(String, Value)> {
        let task = &self.story.tasks[wait.task];
        let what = match (wait.spawn, wait.by) {
            (true, _) => "spawn",
            (false, Cause::Worker(_) | Cause::Outside) => "wake",
            (false, _) => return None,
        };
        let address = format!("{:#x}", task.address);
        let name = format!("{what} {}", self.trace.title(task));
        Some((name, json!({ "task": address, "spawned at": self.trace.place(task) })))
    }
}
