//! The spelling of file names and errors in the output, as in the GNU coreutils.

use core::fmt::Write;
use std::ffi::OsStr;
use std::io;

/// The line of `sha256sum` for a file, with the newline. Only the escaped form keeps a name with
/// a line break on one line; the backslash in front tells `sha256sum -c` to undo it.
pub fn sum_line(digest: &[u8], name: &OsStr) -> Vec<u8> {
    let name = name.as_encoded_bytes();
    let mut line = Vec::with_capacity(2 * digest.len() + name.len() + 4);
    if name.iter().any(|byte| escape(*byte).is_some()) {
        line.push(b'\\');
    }
    for byte in digest {
        line.extend([byte >> 4, byte & 0xf].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    line.extend(b"  ");
    for byte in name {
        match escape(*byte) {
            Some(escaped) => line.extend(escaped),
            None => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

fn escape(byte: u8) -> Option<&'static [u8; 2]> {
    match byte {
        b'\\' => Some(br"\\"),
        b'\n' => Some(br"\n"),
        b'\r' => Some(br"\r"),
        _ => None,
    }
}

/// The text of an error as C programs print it: Rust adds the number of the error.
pub fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(code) = error.raw_os_error() {
        let suffix = format!(" (os error {code})");
        if text.ends_with(&suffix) {
            text.truncate(text.len() - suffix.len());
        }
    }
    text
}

/// A name as the error messages of the coreutils spell it under a UTF-8 locale: bare if a shell
/// takes it literally, otherwise quoted for a shell.
pub fn quote(name: &OsStr) -> String {
    let any = |test: fn(usize, Char) -> bool| chars(name).enumerate().any(|(i, c)| test(i, c));
    let is_special = name.is_empty() || name == "{" || name == "}";
    if !is_special && !any(needs_quotes) {
        name.to_string_lossy().into_owned()
    } else if any(|_, c| c == Ok('\'')) && !any(needs_single_quotes) {
        format!("\"{}\"", name.to_string_lossy())
    } else {
        single_quote(name)
    }
}

/// A character, or a byte that is no part of one.
type Char = Result<char, u8>;

fn chars(name: &OsStr) -> impl Iterator<Item = Char> {
    name.as_encoded_bytes().utf8_chunks().flat_map(|chunk| {
        chunk.valid().chars().map(Ok).chain(chunk.invalid().iter().copied().map(Err))
    })
}

/// Whether the character at this index is special to a shell, or hides the end of the name in a
/// message `PROGRAM: NAME: REASON`.
fn needs_quotes(index: usize, c: Char) -> bool {
    match c {
        Ok('~' | '#') => index == 0,
        Ok(' ' | ':' | '\'') => true,
        Ok('{' | '}') => false,
        _ => needs_single_quotes(index, c),
    }
}

/// Whether the coreutils do not put this character between double quotes, which they choose for
/// names with an apostrophe. (Most of these characters would be harmless there.)
fn needs_single_quotes(index: usize, c: Char) -> bool {
    match c {
        Ok('~' | '#') => index != 0,
        Ok('!' | '"' | '$' | '&' | '(' | ')' | '*' | ';' | '<' | '=' | '>' | '?') => true,
        Ok('[' | '\\' | '^' | '`' | '{' | '|' | '}') => true,
        _ => is_unprintable(c),
    }
}

/// Characters that Unicode has not assigned, which the C library also counts, are left out.
fn is_unprintable(c: Char) -> bool {
    c.map_or(true, |c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Single quotes, interrupted for an apostrophe (`'\''`) and for runs of unprintable characters
/// (`'$'\n\033''`).
fn single_quote(name: &OsStr) -> String {
    let mut out = String::from("'");
    let mut in_escapes = false;
    for c in chars(name) {
        let escaped = is_unprintable(c);
        if escaped && !in_escapes {
            out.push_str("'$'");
        } else if in_escapes && !escaped && c != Ok('\'') {
            out.push_str("''");
        }
        in_escapes = escaped;
        match c {
            Ok('\'') => out.push_str(r"'\''"),
            Ok(c) if !escaped => out.push(c),
            Ok(c) => push_escapes(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(byte) => push_escapes(&mut out, &[byte]),
        }
    }
    out.push('\'');
    out
}

fn push_escapes(out: &mut String, bytes: &[u8]) {
    // The bytes from 7 on.
    const NAMED: &[u8] = b"abtnvfr";
    for byte in bytes {
        let named = byte.checked_sub(7).and_then(|index| NAMED.get(usize::from(index)));
        // Writing to a string cannot fail.
        let _ = match named {
            Some(letter) => write!(out, "\\{}", char::from(*letter)),
            None => write!(out, "\\{byte:03o}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sha256sum() {
        let line = |name: &str| sum_line(&[0x01, 0xaf], OsStr::new(name));
        assert_eq!(line("a  b"), b"01af  a  b\n");
        assert_eq!(line("a\\b"), b"\\01af  a\\\\b\n");
        assert_eq!(line("\n\r\t"), b"\\01af  \\n\\r\t\n");
    }

    #[test]
    #[cfg(unix)]
    fn names_may_be_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let name = OsStr::from_bytes(b"\xff\n\xc3");
        assert_eq!(sum_line(&[], name), b"\\  \xff\\n\xc3\n");
        assert_eq!(quote(name), r"''$'\377\n\303'");
    }

    #[test]
    fn errors_have_no_number() {
        let error = io::Error::from_raw_os_error(2);
        assert!(!reason(&error).contains("os error"), "{error}");
        assert!(error.to_string().starts_with(&reason(&error)), "{error}");
        assert_eq!(reason(&io::Error::other("(os error 2)")), "(os error 2)");
    }

    /// What sha256sum of coreutils 9.1 prints for these names.
    #[test]
    fn quotes_are_those_of_coreutils() {
        for (name, quoted) in [
            ("a-b_c.d/é{~#", "a-b_c.d/é{~#"),
            ("", "''"),
            ("{", "'{'"),
            ("~a", "'~a'"),
            ("a b", "'a b'"),
            ("a:b", "'a:b'"),
            ("a\\b", "'a\\b'"),
            ("it's", "\"it's\""),
            ("#it's: a", "\"#it's: a\""),
            ("it's #1", r"'it'\''s #1'"),
            ("it's $1", r"'it'\''s $1'"),
            ("a\nb\n\x1b0", r"'a'$'\n''b'$'\n\033''0'"),
            ("\n'", r"''$'\n'\'''"),
            ("'\n", r"''\'''$'\n'"),
            ("\u{7}\u{8}\t\u{b}\u{c}\r\u{e}", r"''$'\a\b\t\v\f\r\016'"),
            ("\u{85}\u{2028}é", r"''$'\302\205\342\200\250''é'"),
        ] {
            assert_eq!(quote(OsStr::new(name)), quoted, "{name:?}");
        }
    }
}
