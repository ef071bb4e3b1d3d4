//! The firmware that the hypervisor is to its guests: the parts of SBI that they have.

use core::fmt;

use super::{memory::Space, vcpu::Vcpu};
use crate::{
    CONSOLE,
    mode::{self, Function},
};

const NOT_SUPPORTED: i64 = -2;
const INVALID_PARAM: i64 = -3;
/// Version 2.0 of the specification.
const VERSION: u64 = 2 << 24;

/// What a guest's calls change.
pub struct Firmware {
    number: usize,
    /// The time of the guest's next timer interrupt.
    pub deadline: u64,
    /// Whether the guest has been told of it.
    pub told: bool,
    line: Line,
    pub lines: u32,
}

/// What the guest does after a call.
pub enum After {
    GoesOn,
    Halts { failed: bool },
}

impl Firmware {
    pub const fn new(number: usize) -> Self {
        Self {
            number,
            deadline: u64::MAX,
            told: false,
            line: Line { bytes: [0; 120], len: 0 },
            lines: 0,
        }
    }

    pub fn serve(&mut self, vcpu: &mut Vcpu, space: &mut Space) -> After {
        let [a, b, _, _, _, _, function, extension] = vcpu.arguments();
        let (error, value) = match Function(extension as usize, function as usize) {
            mode::SET_TIMER => {
                (self.deadline, self.told) = (a, false);
                (0, 0)
            }
            mode::CONSOLE_WRITE => match space.bytes(b, a) {
                Some(bytes) => {
                    bytes.iter().for_each(|byte| self.put(*byte));
                    (0, a)
                }
                None => (INVALID_PARAM, 0),
            },
            mode::CONSOLE_WRITE_BYTE => {
                self.put(a as u8);
                (0, 0)
            }
            mode::SYSTEM_RESET => return After::Halts { failed: b != 0 },
            mode::SPEC_VERSION => (0, VERSION),
            _ => (NOT_SUPPORTED, 0),
        };
        vcpu.answer(error, value);
        After::GoesOn
    }

    fn put(&mut self, byte: u8) {
        if byte != b'\n' {
            self.line.bytes[self.line.len] = byte;
            self.line.len += 1;
        }
        if byte == b'\n' || self.line.len == self.line.bytes.len() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        CONSOLE.line(format_args!("guest {}: {}", self.number, self.line));
        self.line.len = 0;
        self.lines += 1;
    }

    /// Prints what the guest has begun to.
    pub fn end(&mut self) {
        if self.line.len != 0 {
            self.flush();
        }
    }
}

/// A line that the guest has begun.
struct Line {
    bytes: [u8; 120],
    len: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The terminal is the host's: no control characters.
        self.bytes[..self.len].iter().try_for_each(|byte| match byte {
            b' '..=b'~' => fmt::Write::write_char(f, char::from(*byte)),
            _ => f.write_str("?"),
        })
    }
}
