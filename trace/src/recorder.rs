//! The recorder: rings for all workers, and the names of tasks.

use filch::{Event, SpawnInfo, TaskInfo, WorkerId};

use crate::{
    frame::{Frame, VERSION, send},
    kind::{self, AGAIN, ENDED, Kind},
    lane::{Lane, Packed, Slot},
    names::{self, Label, NameSlot},
};

/// The code of a record of a poll.
const POLL: u8 = Kind::PollStart as u8;

/// Records what the scheduler does, for ever: each ring keeps the last events of one worker, and one those of all other contexts.
///
/// The memory is the user's: a [`Lane`] for each worker and one more, the [`Slot`]s of all, 16 bytes each, which the lanes share out evenly, a power
/// of two each; and a [`NameSlot`] for each kind of tasks.
///
/// ```
/// use filch::{Event, WorkerId};
/// use filch_trace::{Lane, NameSlot, Recorder, Slot};
/// // Two workers, 256 records each and 256 for interrupt handlers: 12 KiB.
/// static LANES: [Lane; 3] = [const { Lane::new() }; 3];
/// static SLOTS: [Slot; 3 * 256] = [const { Slot::new() }; 3 * 256];
/// static NAMES: [NameSlot; 16] = [const { NameSlot::new() }; 16];
/// static RECORDER: Recorder = Recorder::new(&LANES, &SLOTS, &NAMES).resolution(250);
/// assert_eq!(RECORDER.capacity(), 256);
/// // A platform's `event`:
/// let worker = WorkerId::new(0);
/// RECORDER.record(Some(worker), Event::PollStart(0x1000), || 5_000);
/// assert_eq!(RECORDER.polling(worker), Some(0x1000));
/// // A timer, each millisecond:
/// RECORDER.tick();
/// // On a fault:
/// let mut file = Vec::new();
/// RECORDER.dump(9_000, |_| {}, "a fault", &mut |bytes| file.extend_from_slice(bytes));
/// assert!(!file.is_empty());
/// // The program begins anew.
/// RECORDER.forget();
/// assert_eq!(RECORDER.polling(worker), None);
/// ```
///
/// Idea: Go's execution tracer, and dial9, a flight recorder for tokio.
#[derive(Debug)]
pub struct Recorder {
    lanes: &'static [Lane],
    slots: &'static [Slot],
    names: &'static [NameSlot],
    /// A lane has two to the power of this slots.
    shift: u32,
    /// For so many nanoseconds a time is good, about; 0: for one event.
    resolution: u64,
}

impl Recorder {
    /// A recorder that reads the clock at each event. With fewer slots than lanes, or without a lane, it records nothing.
    pub const fn new(
        lanes: &'static [Lane],
        slots: &'static [Slot],
        names: &'static [NameSlot],
    ) -> Self {
        let (lanes, shift) = match slots.len().checked_div(lanes.len()) {
            None | Some(0) => (&[] as &[Lane], 0),
            Some(n) => (lanes, n.ilog2()),
        };
        Self { lanes, slots, names, shift, resolution: 0 }
    }

    /// A recorder with memory from the allocator, which is never freed: for so many workers, so many records of 16 bytes each and as many for all
    /// other contexts, rounded up to a power of two, and so many kinds of tasks.
    ///
    /// # Panics
    /// If that is more memory than any program can have.
    ///
    /// ```
    /// let recorder = filch_trace::Recorder::leaked(2, 200, 16);
    /// assert_eq!(recorder.capacity(), 256);
    /// ```
    #[cfg(any(test, feature = "alloc"))]
    #[cfg_attr(docsrs, doc(cfg(feature = "alloc")))]
    pub fn leaked(workers: usize, records: usize, names: usize) -> Self {
        fn many<T>(number: usize, new: fn() -> T) -> &'static [T] {
            (0..number).map(|_| new()).collect::<alloc::vec::Vec<_>>().leak()
        }
        let lanes = workers.saturating_add(1);
        let each = match records {
            0 => 0,
            _ => records.checked_next_power_of_two().unwrap_or(usize::MAX),
        };
        Self::new(
            many(lanes, Lane::new),
            many(lanes.saturating_mul(each), Slot::new),
            many(names, NameSlot::new),
        )
    }

    /// Where reading the clock takes longer than a short poll: polls, wakes, spawns and ends that come within about so many nanoseconds, 32 at
    /// most, have one time, that of the first. A worker reads the clock as often as that takes by the events before; always when it parks,
    /// unparks or steals; and for the first event after a [`tick`](Self::tick).
    #[must_use]
    pub const fn resolution(mut self, nanos: u64) -> Self {
        self.resolution = nanos;
        self
    }

    /// How many records a ring has room for.
    pub const fn capacity(&self) -> usize {
        if self.lanes.is_empty() { 0 } else { 1 << self.shift }
    }

    /// Some time has passed: each worker reads the clock for its next event. From any context. Cost: a store for each worker.
    ///
    /// With a [`resolution`](Self::resolution), a timer that calls this each millisecond bounds the error of a long poll's end by that, or
    /// twice that.
    pub fn tick(&self) {
        self.lanes.iter().for_each(Lane::forget_time);
    }

    /// Drops all records; names stay. For a program that begins anew: while no context records.
    pub fn forget(&self) {
        self.lanes.iter().for_each(Lane::forget);
    }

    /// The ring of a worker, and whether that is its only writer. All that have none share the last.
    #[inline(always)]
    fn ring(&self, worker: Option<WorkerId>) -> Option<(&Lane, &[Slot], bool)> {
        let last = self.lanes.len().checked_sub(1)?;
        let (index, alone) = match worker {
            Some(worker) if worker.index() < last => (worker.index(), true),
            _ => (last, false),
        };
        let slots = self.slots.get(index << self.shift..)?.get(..1 << self.shift)?;
        Some((self.lanes.get(index)?, slots, alone))
    }

    /// Records an event. A platform calls it from [`Platform::event`](filch::Platform::event), with what it is given there: the worker is the
    /// calling context. `now` is the time in nanoseconds, of the platform's clock.
    ///
    /// From any context, interrupt handlers included, if `now` may be called there. Lock-free. Two contexts that record for one worker at the
    /// same time make records worthless, and do no other harm. Cost: one or two nanoseconds, and those of `now`.
    #[inline(always)]
    pub fn record(&self, worker: Option<WorkerId>, event: Event<'_>, now: impl FnOnce() -> u64) {
        match event {
            Event::PollStart(task) => self.short(worker, Kind::PollStart, 0, task, 0, now),
            Event::PollEnd(task) => self.short(worker, Kind::PollEnd, POLL, task, ENDED, now),
            Event::End(task) => self.short(worker, Kind::End, 0, task, 0, now),
            Event::Wake(task) => self.short(worker, Kind::Wake, POLL | ENDED, task, AGAIN, now),
            other => self.long(worker, other, now),
        }
    }

    /// A poll is one record, not three, if it ends at the time when it began, and the task is ready then: its begin is `open`, and gets a mark.
    #[inline(always)]
    fn short(
        &self,
        worker: Option<WorkerId>,
        kind: Kind,
        open: u8,
        task: usize,
        mark: u8,
        now: impl FnOnce() -> u64,
    ) {
        let Some((lane, slots, alone)) = self.ring(worker) else { return };
        let subject = kind::subject(task);
        let again = alone && lane.has_time();
        if again && mark != 0 && lane.mark(slots, open, subject, mark) {
            return;
        }
        let time = self.time(lane, alone, again, now);
        lane.write(slots, Packed { code: kind as u8, subject, time, extra: 0 }, alone);
    }

    #[inline(never)]
    fn long(&self, worker: Option<WorkerId>, event: Event<'_>, now: impl FnOnce() -> u64) {
        let Some((lane, slots, alone)) = self.ring(worker) else { return };
        let Some(mut packed) = kind::of(&event) else { return };
        let must = matches!(event, Event::Park | Event::Unpark | Event::Steal { .. });
        packed.time = self.time(lane, alone, alone && !must && lane.has_time(), now);
        match event {
            Event::Spawn(task) => self.spawn(lane, slots, alone, packed, task.info()),
            _ => lane.write(slots, packed, alone),
        }
    }

    /// The time of an event: of the events before it if it is to have that `again`; else the clock's, which a worker keeps for the events to come.
    #[inline(always)]
    fn time(&self, lane: &Lane, alone: bool, again: bool, now: impl FnOnce() -> u64) -> u64 {
        match (alone, again) {
            (false, _) => now(),
            (true, true) => lane.use_time(),
            (true, false) => lane.read_time(self.resolution, now),
        }
    }

    /// The task that a worker polls, the innermost one; none if it polls none, or if that poll began too many events ago. From any context, while
    /// the worker goes on. Cost: a look at each record since the beginning of the poll.
    pub fn polling(&self, worker: WorkerId) -> Option<usize> {
        let (lane, slots, alone) = self.ring(Some(worker))?;
        // Polls that have ended, and whose beginnings are to come.
        let mut ended = 0_usize;
        for number in lane.numbers(slots.len()).rev().filter(|_| alone) {
            let Packed { code, subject, .. } = lane.read(slots, number)?;
            if code == Kind::PollEnd as u8 {
                ended += 1;
            } else if code == POLL {
                match ended.checked_sub(1) {
                    None => return Some(kind::address(subject)),
                    Some(left) => ended = left,
                }
            }
        }
        None
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
        names::number(self.names, Label { name: name.unwrap_or(""), place })
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
        let lanes = self.lanes;
        let workers = lanes.len().saturating_sub(1) as u16;
        send(out, &Frame::Header { magic: *b"filch", version: VERSION, now, workers });
        tasks(&mut |task| {
            let frame = Frame::Task {
                task: kind::subject(task.id.get()),
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
        for (i, slot) in self.names.iter().enumerate() {
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
    let numbers = lane.numbers(slots.len());
    send(out, &Frame::Lane { lane: kind::lane(worker), written: lane.written() as u64 });
    let mut lost = 0_u64;
    for number in numbers {
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
