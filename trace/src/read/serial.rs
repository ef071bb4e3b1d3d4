//! Traces in the log of a serial line.

use std::vec::Vec;

/// What comes before the digits.
const MARKER: &[u8] = b"filch-trace: ";

/// The trace in a log of a serial line.
///
/// A kernel without files prints what the recorder gives it, as hexadecimal digits, after `filch-trace: `, so many to a line as it likes. All else
/// in the log is left out: other lines, what stands before the marker, and what comes after the digits. Of a damaged line the part before the
/// damage counts. The result is for [`Trace::read`](super::Trace::read), which finds the next frame after a hole.
///
/// ```
/// let log = b"[    0.1] filch-trace: 0266\n[    0.2] hello\nfilch-trace: 696c\r\n";
/// assert_eq!(filch_trace::read::serial(log), [0x02, 0x66, 0x69, 0x6c]);
/// ```
pub fn serial(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter_map(after_marker).flat_map(digits).collect()
}

/// What comes after the last marker of a line: two contexts may have printed at once.
fn after_marker(line: &[u8]) -> Option<&[u8]> {
    let at = line.windows(MARKER.len()).rposition(|part| part == MARKER)?;
    Some(&line[at + MARKER.len()..])
}

/// The bytes of which both digits are there, up to the first that are none.
fn digits(text: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.chunks_exact(2).map_while(move |pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_together() {
        let log = b"boot\r\n[1.0] filch-trace: 00FFa0\r\nother filch-trace 11\nfilch-trace: 7f\n\nfilch-trace: ";
        assert_eq!(serial(log), [0, 0xff, 0xa0, 0x7f]);
        assert!(serial(b"").is_empty());
        assert!(serial(b"filch-trace:").is_empty());
    }

    #[test]
    fn damaged_digits_end_a_line() {
        assert_eq!(
            serial(b"filch-trace: 0102x304\nfilch-trace: 05 06\nfilch-trace: 078\n"),
            [1, 2, 5, 7]
        );
        assert_eq!(
            serial(b"filch-trace: 01filch-trace: 02\n\xff\xfefilch-trace: 03\xff\n"),
            [2, 3]
        );
    }
}
