//! The recorder: rings for all workers, and the names of tasks.

use filch::{
    Event, SpawnInfo, TaskInfo, WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    frame::{Frame, VERSION, send},
    kind::{self, Kind},
    lane::{Lane, Packed, Slot},
    names::{self, Label, NameSlot},
};

/// Records what the scheduler does, for ever: each ring keeps the last events of one worker, and one those of all other contexts.
///
/// The memory is the user's. `L` has a [`Lane`] for each worker and one more, `S` the [`Slot`]s of all, 16 bytes each, which the lanes share
/// out evenly, a power of two each; `N` a [`NameSlot`] for each kind of tasks.
///
/// ```
/// use filch_trace::{Lane, NameSlot, Recorder, Slot};
/// // Two workers, 256 records each and 256 for interrupt handlers: 12 KiB.
/// static RECORDER: Recorder<[Lane; 3], [Slot; 3 * 256], [NameSlot; 16]> = Recorder::new(
///     [const { Lane::new() }; 3],
///     [const { Slot::new() }; 3 * 256],
///     [const { NameSlot::new() }; 16],
/// );
/// // A platform's `event`:
/// RECORDER.record(None, filch::Event::Park, || 0);
/// assert_eq!(RECORDER.capacity(), 256);
/// ```
///
/// Idea: Go's execution tracer, and dial9, a flight recorder for tokio.
#[derive(Debug)]
pub struct Recorder<L, S, N> {
    lanes: L,
    slots: S,
    names: N,
    /// How many events have the same time.
    every: u32,
    tick: AtomicU32,
}

impl<L: AsRef<[Lane]>, S: AsRef<[Slot]>, N: AsRef<[NameSlot]>> Recorder<L, S, N> {
    maybe_const! {
        /// A recorder that reads the clock at each event.
        pub fn new(lanes: L, slots: S, names: N) -> Self {
            Self { lanes, slots, names, every: 1, tick: AtomicU32::new(0) }
        }
    }

    /// Where reading the clock is not cheap: a worker reads it for one of `n` of its polls, wakes, spawns and ends; those after it have its
    /// time. It reads it always when it parks, unparks or steals, and for the first event after a [`tick`](Self::tick).
    #[must_use]
    pub const fn reading_each(mut self, n: u32) -> Self {
        self.every = if n == 0 { 1 } else { n };
        self
    }

    /// How many records a ring has room for. 0 if there are fewer slots than lanes: then nothing is recorded.
    pub fn capacity(&self) -> usize {
        match self.slots.as_ref().len().checked_div(self.lanes.as_ref().len()) {
            None | Some(0) => 0,
            Some(n) => 1 << n.ilog2(),
        }
    }

    /// Some time has passed: each worker reads the clock for its next event. From any context. Cost: an exchange.
    ///
    /// Where the clock is not read for each event ([`reading_each`](Self::reading_each)), a timer that calls this each millisecond bounds the error of
    /// a long poll's end by that.
    pub fn tick(&self) {
        // Ordering: Relaxed: a hint.
        self.tick.fetch_add(1, Ordering::Relaxed);
    }

    /// The ring of a worker, and whether that is its only writer. All that have none share the last.
    #[inline(always)]
    fn ring(&self, worker: Option<WorkerId>) -> Option<(&Lane, &[Slot], bool)> {
        let (lanes, size) = (self.lanes.as_ref(), self.capacity());
        let last = lanes.len().checked_sub(1)?;
        let (index, alone) = match worker {
            Some(worker) if worker.index() < last => (worker.index(), true),
            _ => (last, false),
        };
        let slots = self.slots.as_ref().get(index * size..(index + 1) * size)?;
        if slots.is_empty() { None } else { Some((&lanes[index], slots, alone)) }
    }

    /// Records an event. A platform calls it from [`Platform::event`](filch::Platform::event), with what it is given there: the worker is the
    /// calling context. `now` is the time in nanoseconds, of the platform's clock.
    ///
    /// From any context, interrupt handlers included, if `now` may be called there. Lock-free. Two contexts that record for one worker at the
    /// same time make records worthless, and do no other harm. Cost: some nanoseconds, and those of `now`.
    #[inline]
    pub fn record(&self, worker: Option<WorkerId>, event: Event<'_>, now: impl FnOnce() -> u64) {
        let Some((lane, slots, alone)) = self.ring(worker) else { return };
        let Some(mut packed) = kind::of(&event) else { return };
        packed.time = if alone {
            let must = matches!(event, Event::Park | Event::Unpark | Event::Steal { .. });
            // Ordering: Relaxed: a hint.
            lane.time(must, self.every, self.tick.load(Ordering::Relaxed), now)
        } else {
            now()
        };
        if let Event::Spawn(task) = event {
            return self.spawn(lane, slots, alone, packed, task.info());
        }
        lane.write(slots, packed, alone);
    }

    /// A spawn is up to three records: the spawn with the name, a class but the normal one, and a deadline.
    fn spawn(&self, lane: &Lane, slots: &[Slot], alone: bool, spawn: Packed, info: SpawnInfo) {
        let extra = self.name(info.name.or(info.type_name), info.location);
        lane.write(slots, Packed { extra, ..spawn }, alone);
        #[cfg(feature = "classes")]
        {
            let more = |kind, subject, extra| {
                let packed = Packed { time: spawn.time, ..kind::packed(kind, subject, extra) };
                lane.write(slots, packed, alone);
            };
            if info.class != filch::Class::Normal {
                more(Kind::Class, spawn.subject, kind::number(info.class));
            }
            if let Some(deadline) = info.deadline {
                more(Kind::Deadline, deadline.as_nanos(), 0);
            }
        }
    }

    fn name(
        &self,
        name: Option<&'static str>,
        place: Option<&'static core::panic::Location<'static>>,
    ) -> u16 {
        if name.is_none() && place.is_none() {
            return 0;
        }
        names::number(self.names.as_ref(), Label { name: name.unwrap_or(""), place })
    }

    /// Writes what was recorded, as a file of this crate's format, piece by piece. `now` is the time, and `tasks` calls its argument with each
    /// live task ([`Scheduler::tasks`](filch::Scheduler::tasks)), or with none.
    ///
    /// The workers may go on: what they overwrite meanwhile is missing. From any context where `out` and `tasks` may be called: a panic handler, a
    /// handler of a fault or a signal. It allocates nothing, and takes no lock. Cost: some 100 ns for each record.
    pub fn dump(
        &self,
        now: u64,
        tasks: impl FnOnce(&mut dyn FnMut(TaskInfo)),
        note: &str,
        out: &mut dyn FnMut(&[u8]),
    ) {
        let lanes = self.lanes.as_ref();
        let workers = lanes.len().saturating_sub(1) as u16;
        send(out, &Frame::Header { magic: *b"filch", version: VERSION, now, workers });
        tasks(&mut |task| {
            let frame = Frame::Task {
                task: task.id.get() as u64,
                name: self.name(task.name.or(task.type_name), task.location),
                scheduled: task.scheduled,
                class: class_of(&task),
            };
            send(out, &frame);
        });
        for (i, lane) in lanes.iter().enumerate() {
            let worker = (i + 1 < lanes.len()).then(|| WorkerId::new(i as u16));
            if let Some((_, slots, _)) = self.ring(worker) {
                dump_lane(lane, slots, worker, out);
            }
        }
        for (i, slot) in self.names.as_ref().iter().enumerate() {
            let Some(label) = slot.get() else { continue };
            send(out, &Frame::name(i as u16 + 1, label));
        }
        if !note.is_empty() {
            send(out, &Frame::note(note));
        }
        send(out, &Frame::End);
    }
}

fn dump_lane(lane: &Lane, slots: &[Slot], worker: Option<WorkerId>, out: &mut dyn FnMut(&[u8])) {
    let written = lane.claimed();
    let lane_number = kind::lane(worker);
    send(out, &Frame::Lane { lane: lane_number, written: written as u64 });
    let mut lost = 0_u64;
    for number in written.saturating_sub(slots.len())..written {
        match lane.read(slots, number) {
            Some(Packed { code, subject, time, extra }) => {
                send(out, &Frame::Record { code, subject, time, extra });
            }
            None => lost += 1,
        }
    }
    if lost > 0 {
        send(out, &Frame::Lost { records: lost });
    }
}

#[cfg(feature = "classes")]
fn class_of(task: &TaskInfo) -> u8 {
    kind::number(task.class) as u8
}

#[cfg(not(feature = "classes"))]
fn class_of(_: &TaskInfo) -> u8 {
    0
}
