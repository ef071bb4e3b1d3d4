//! The file format: frames.
//!
//! A trace is a sequence of frames. Each is one `Frame` in postcard's encoding, made free of zeros by COBS, and followed by a zero. So a reader
//! finds the next frame after a damaged one, and where a trace begins in a longer stream. Variants and fields may be added at the end; then
//! the version stays. It changes with what is there.

use serde::{Deserialize, Serialize};

use crate::names::Label;

/// The version of the format.
///
/// ```
/// assert_eq!(filch_trace::VERSION, 1);
/// ```
pub const VERSION: u16 = 1;
/// The longest frame, COBS and its zero included, in bytes.
///
/// ```
/// assert_eq!(filch_trace::LONGEST, 512);
/// ```
pub const LONGEST: usize = 512;
/// Of longer names the end is kept, of notes the beginning.
const TEXT: usize = 200;

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame<'a> {
    /// The first.
    Header {
        /// `filch`.
        magic: [u8; 5],
        version: u16,
        /// When the trace was written, in nanoseconds of its clock.
        now: u64,
        workers: u16,
    },
    /// A task that lived then. `name` may be that of a later frame; 0 is none.
    Task { task: u64, name: u16, scheduled: bool, class: u8 },
    /// The records that follow are those of a worker; 0xffff: of all other contexts. So many were written since the beginning.
    Lane { lane: u16, written: u64 },
    /// See `Kind`. Of the time the lowest 45 bits are there.
    Record { code: u8, subject: u64, time: u64, extra: u16 },
    /// Of the lane, so many records were overwritten before they could be read.
    Lost { records: u64 },
    /// What the tasks with this number are called.
    Name {
        number: u16,
        #[serde(borrow)]
        name: &'a str,
        file: &'a str,
        line: u32,
        column: u32,
    },
    /// Why the trace was written.
    Note { text: &'a str },
    /// The last.
    End,
}

impl<'a> Frame<'a> {
    pub(crate) fn name(number: u16, label: Label) -> Self {
        let place = label.place;
        Self::Name {
            number,
            name: last_of(label.name),
            file: last_of(place.map_or("", |place| place.file())),
            line: place.map_or(0, |place| place.line()),
            column: place.map_or(0, |place| place.column()),
        }
    }

    pub(crate) fn note(text: &'a str) -> Self {
        let mut end = text.len().min(TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::Note { text: &text[..end] }
    }
}

fn last_of(text: &str) -> &str {
    let mut begin = text.len().saturating_sub(TEXT);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}

/// Writes a frame.
pub(crate) fn send(out: &mut dyn FnMut(&[u8]), frame: &Frame<'_>) {
    let mut buffer = [0; LONGEST];
    // It fits: see `LONGEST` and `TEXT`.
    if let Ok(bytes) = postcard::to_slice_cobs(frame, &mut buffer) {
        out(bytes);
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use core::panic::Location;
    use std::{string::String, vec::Vec};

    use super::*;

    fn back(frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        send(&mut |part| bytes.extend_from_slice(part), frame);
        assert_eq!(bytes.iter().position(|byte| *byte == 0), Some(bytes.len() - 1));
        assert_eq!(postcard::from_bytes_cobs::<Frame<'_>>(&mut bytes), Ok(*frame));
    }

    #[test]
    fn the_longest_frames_fit() {
        let (code, subject, time, extra) = (255, u64::MAX, u64::MAX, u16::MAX);
        back(&Frame::Record { code, subject, time, extra });
        let long: &'static str = String::leak("ü".repeat(1_000));
        back(&Frame::note(long));
        back(&Frame::name(9, Label { name: long, place: Some(Location::caller()) }));
        back(&Frame::Header { magic: *b"filch", version: VERSION, now: u64::MAX, workers: 512 });
        let worst = Frame::Name {
            number: 1,
            name: &long[..200],
            file: &long[..200],
            line: u32::MAX,
            column: u32::MAX,
        };
        back(&worst);
    }

    /// The numbers of the variants are the format.
    #[test]
    fn frames_are_as_in_version_1() {
        let bytes = |frame: Frame<'_>| {
            let mut buffer = [0; 64];
            postcard::to_slice(&frame, &mut buffer).unwrap().to_vec()
        };
        assert_eq!(
            bytes(Frame::Header { magic: *b"filch", version: 1, now: 300, workers: 2 }),
            [0, b'f', b'i', b'l', b'c', b'h', 1, 172, 2, 2]
        );
        assert_eq!(
            bytes(Frame::Task { task: 16, name: 3, scheduled: true, class: 2 }),
            [1, 16, 3, 1, 2]
        );
        assert_eq!(bytes(Frame::Lane { lane: 1, written: 5 }), [2, 1, 5]);
        assert_eq!(
            bytes(Frame::Record { code: 35, subject: 16, time: 7, extra: 1 }),
            [3, 35, 16, 7, 1]
        );
        assert_eq!(bytes(Frame::Lost { records: 4 }), [4, 4]);
        let name = Frame::Name { number: 1, name: "a", file: "b", line: 2, column: 3 };
        assert_eq!(bytes(name), [5, 1, 1, b'a', 1, b'b', 2, 3]);
        assert_eq!(bytes(Frame::Note { text: "x" }), [6, 1, b'x']);
        assert_eq!(bytes(Frame::End), [7]);
    }
}
