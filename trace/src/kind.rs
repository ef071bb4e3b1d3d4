//! What records say, and how it is packed.

use filch::{Event, WorkerId};

use crate::lane::Packed;

/// Marks of a code beside the kind, in its lowest five bits.
#[cfg(any(feature = "read", test))]
pub(crate) const KIND: u8 = 31;
/// Of a `PollStart`: the poll has ended at the same time. Of a `PollEnd`, or with the mark above: the task was ready then.
pub(crate) const ENDED: u8 = 32;
pub(crate) const AGAIN: u8 = 64;

/// The kinds of records. The numbers are those of the file format, and do not change.
///
/// | kind | subject | extra |
/// |---|---|---|
/// | `Spawn` | task | number of the name, or 0 |
/// | `Wake`, `PollStart`, `PollEnd`, `End` | task | |
/// | `Steal` | number of tasks | victim |
/// | `Park`, `Unpark` | | |
/// | `LongPoll` | nanoseconds | worker |
/// | `Class` | task | 0 normal, 1 urgent, 2 background |
/// | `Deadline` | nanoseconds of the clock; of the task of the record before | |
/// | `Late` | task | nanoseconds, as [`shorten`] |
/// | `Panic` | task | |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "classes"), allow(dead_code, reason = "a reader knows them"))]
pub(crate) enum Kind {
    Spawn = 1,
    Wake = 2,
    PollStart = 3,
    PollEnd = 4,
    End = 5,
    Steal = 6,
    Park = 7,
    Unpark = 8,
    LongPoll = 9,
    Class = 10,
    Deadline = 11,
    Late = 12,
    Panic = 13,
}

impl Kind {
    #[cfg(any(feature = "read", test))]
    pub(crate) fn of(code: u8) -> Option<Self> {
        const ALL: [Kind; 13] = [
            Kind::Spawn,
            Kind::Wake,
            Kind::PollStart,
            Kind::PollEnd,
            Kind::End,
            Kind::Steal,
            Kind::Park,
            Kind::Unpark,
            Kind::LongPoll,
            Kind::Class,
            Kind::Deadline,
            Kind::Late,
            Kind::Panic,
        ];
        ALL.get(usize::from(code & KIND).checked_sub(1)?).copied()
    }
}

pub(crate) fn packed(kind: Kind, subject: u64, extra: u16) -> Packed {
    Packed { code: kind as u8, subject, time: 0, extra: extra.min(0xfffe) }
}

/// A task, as records name it: the lowest 56 bits of its address.
#[inline(always)]
pub(crate) fn subject(task: usize) -> u64 {
    task as u64 & Packed::MOST
}

/// The address of a task: those of kernels have ones above the 56 bits.
pub(crate) fn address(subject: u64) -> usize {
    ((subject << 8) as i64 >> 8) as usize
}

/// What is recorded of an event, without its time; none of those that are not known here.
#[inline(always)]
pub(crate) fn of(event: &Event<'_>) -> Option<Packed> {
    Some(match *event {
        Event::Spawn(task) => packed(Kind::Spawn, subject(task.task()), 0),
        Event::Wake(task) => packed(Kind::Wake, subject(task), 0),
        Event::PollStart(task) => packed(Kind::PollStart, subject(task), 0),
        Event::PollEnd(task) => packed(Kind::PollEnd, subject(task), 0),
        Event::End(task) => packed(Kind::End, subject(task), 0),
        Event::Panic(task) => packed(Kind::Panic, subject(task), 0),
        Event::Steal { victim, tasks } => packed(Kind::Steal, u64::from(tasks), victim),
        Event::Park => packed(Kind::Park, 0, 0),
        Event::Unpark => packed(Kind::Unpark, 0, 0),
        Event::LongPoll { worker, nanos } => packed(Kind::LongPoll, nanos, worker),
        #[cfg(feature = "classes")]
        Event::Class { task, class, .. } => packed(Kind::Class, subject(task), number(class)),
        #[cfg(feature = "classes")]
        Event::LateDeadline { task, nanos } => packed(Kind::Late, subject(task), shorten(nanos)),
        _ => return None,
    })
}

/// The number of a class in the format.
#[cfg(feature = "classes")]
pub(crate) fn number(class: filch::Class) -> u16 {
    match class {
        filch::Class::Urgent => 1,
        filch::Class::Background => 2,
        _ => 0,
    }
}

/// A number of 16 bits that is rounded down to 11 of its digits: five bits are the exponent. At most 2^42.
#[cfg(any(feature = "classes", test))]
pub(crate) fn shorten(n: u64) -> u16 {
    let exponent = (64 - n.leading_zeros()).saturating_sub(11).min(31);
    ((exponent as u16) << 11 | (n >> exponent).min(0x7ff) as u16).min(0xfffe)
}

#[cfg(any(feature = "read", test))]
pub(crate) fn lengthen(short: u16) -> u64 {
    u64::from(short & 0x7ff) << (short >> 11)
}

/// A worker's number in the format: 0xffff is none.
pub(crate) fn lane(worker: Option<WorkerId>) -> u16 {
    worker.map_or(u16::MAX, |worker| worker.index() as u16)
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_numbers() {
        for code in 0..=255 {
            let kind = Kind::of(code).map_or(0, |kind| kind as u8);
            assert_eq!(kind, if (1..=13).contains(&(code & KIND)) { code & KIND } else { 0 });
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_task_is_named_by_its_address() {
        for task in [0x10, 0x7fff_dead_bee0, 0xffff_8880_0000_1000_usize] {
            assert_eq!(address(subject(task)), task);
            let events = [Event::Wake(task), Event::PollStart(task), Event::End(task)];
            for event in events {
                assert_eq!(of(&event).unwrap().subject, subject(task));
            }
        }
    }

    #[test]
    fn shortened_numbers_are_off_by_a_thousandth_at_most() {
        for shift in 0..42 {
            for n in [1_u64 << shift, (1 << shift) + 1, (3 << shift) >> 1, (1 << shift) - 1] {
                let back = lengthen(shorten(n));
                assert!(back <= n && n - back <= n >> 10, "{n}: {back}");
            }
        }
        assert!(lengthen(shorten(u64::MAX)) > 1 << 41);
    }
}
