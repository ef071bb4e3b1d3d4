//! The command line.

use core::error::Error;
use core::fmt::{self, Display, Formatter};
use core::num::NonZero;
use std::ffi::{OsStr, OsString};

use lexopt::{Arg, Parser};

use crate::{
    names::quote,
    options::{dashed, written},
};

/// The answer to `--help`.
pub const HELP: &str = "\
Usage: checksum [--workers N] [PATH]...
Print the SHA-256 of every regular file below each PATH, sorted by path, in the
format of sha256sum(1). With no PATH, the current folder.

  --workers N  hash on N worker threads (default: the processors available)
  --help       print this help and exit
  --           take all that follows for a PATH

A symbolic link is followed if it is a PATH, and left out if it is found below
one. `-` is not standard input; a file of that name is `./-`.

Exit status: 0 if all is well, 1 if something could not be read or written,
2 if the arguments are wrong or the workers cannot be started.
";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Print the sums.
    Sum {
        /// The number of workers, if given.
        workers: Option<NonZero<usize>>,
        /// Where to search for files; never empty.
        paths: Vec<OsString>,
    },
}

/// An error in the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// An option that does not exist.
    UnknownOption(OsString),
    /// `--workers` is the last argument.
    MissingWorkers,
    /// The value of `--workers` is not a number of workers.
    InvalidWorkers(String),
    /// `-`, which other programs take for standard input.
    StandardInput,
}

/// Reads the arguments, without the name of the program. As with the GNU tools, options may
/// follow paths, and the last of several values counts.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut parser = Parser::from_args(args);
    parser.set_short_equals(false);
    let mut workers = None;
    let mut paths = Vec::new();
    loop {
        // To the parser both are paths.
        if let Some(raw) = parser.try_raw_args() {
            match raw.peek().map(OsStr::as_encoded_bytes) {
                Some(b"-") => return Err(UsageError::StandardInput),
                Some(b"--") => paths.extend(raw.skip(1)),
                _ => {}
            }
        }
        match parser.next() {
            Ok(None) => break,
            Ok(Some(Arg::Value(path))) => paths.push(path),
            Ok(Some(Arg::Long("workers"))) => {
                let value = parser.value().map_err(|_| UsageError::MissingWorkers)?;
                workers = Some(parse_workers(value.as_encoded_bytes())?);
            }
            Ok(Some(Arg::Long("help"))) => match parser.optional_value() {
                None => return Ok(Command::Help),
                value => return Err(unknown("--help".into(), value)),
            },
            Ok(Some(option)) => {
                let option = dashed(&option);
                return Err(unknown(option, parser.optional_value()));
            }
            // Of a value that no option has taken; all are.
            Err(error) => return Err(UsageError::UnknownOption(error.to_string().into())),
        }
    }
    if paths.is_empty() {
        paths.push(OsString::from("."));
    }
    Ok(Command::Sum { workers, paths })
}

fn unknown(option: OsString, value: Option<OsString>) -> UsageError {
    UsageError::UnknownOption(written(option, value))
}

fn parse_workers(value: &[u8]) -> Result<NonZero<usize>, UsageError> {
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|_| UsageError::InvalidWorkers(text.into_owned()))
}

impl Display for UsageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOption(option) => write!(f, "unknown option {}", quote(option)),
            Self::MissingWorkers => write!(f, "option --workers needs a number"),
            Self::InvalidWorkers(value) => {
                let value = quote(OsStr::new(value));
                write!(f, "invalid number of workers {value}: must be 1 or more")
            }
            Self::StandardInput => write!(f, "cannot read standard input; is the file ./- meant?"),
        }
    }
}

impl Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(args: &[&str]) -> Result<Command, UsageError> {
        parse(args.iter().map(OsString::from))
    }

    fn sum(workers: usize, paths: &[&str]) -> Result<Command, UsageError> {
        let paths = paths.iter().map(OsString::from).collect();
        Ok(Command::Sum { workers: NonZero::new(workers), paths })
    }

    #[test]
    fn paths_and_options_mix() {
        assert_eq!(parse_all(&[]), sum(0, &["."]));
        assert_eq!(parse_all(&["a", "--workers", "3", "b"]), sum(3, &["a", "b"]));
        assert_eq!(parse_all(&["--workers=2", "--workers=4"]), sum(4, &["."]));
        assert_eq!(parse_all(&["--", "--help", "-", "--"]), sum(0, &["--help", "-", "--"]));
        assert_eq!(parse_all(&["a", "--help"]), Ok(Command::Help));
        assert_eq!(
            parse_all(&["a", "--", "-b", "--", "--workers"]),
            sum(0, &["a", "-b", "--", "--workers"])
        );
    }

    #[test]
    fn mistakes_are_named() {
        for value in ["0", "-1", "x", "", "1.5", "99999999999999999999999"] {
            let error = Err(UsageError::InvalidWorkers(value.into()));
            assert_eq!(parse_all(&["--workers", value]), error);
            assert_eq!(parse_all(&[&format!("--workers={value}")]), error);
        }
        assert_eq!(parse_all(&["--workers"]), Err(UsageError::MissingWorkers));
        assert_eq!(parse_all(&["-"]), Err(UsageError::StandardInput));
        assert_eq!(parse_all(&["a", "-", "b"]), Err(UsageError::StandardInput));
        for option in ["--work", "--work=3", "--work=", "-x", "-xyz", "-x=3", "--help=3"] {
            let error = UsageError::UnknownOption(option.into());
            assert_eq!(parse_all(&["a", option, "3"]), Err(error));
        }
    }
}
