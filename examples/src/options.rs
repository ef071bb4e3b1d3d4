//! The command lines of the servers: only options with a value each.

use core::{
    error::Error,
    fmt::{self, Display, Formatter},
    net::SocketAddr,
    num::NonZero,
    time::Duration,
};
use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::ExitCode,
};

use lexopt::{Arg, Parser};

use self::UsageError::{Invalid, MissingValue, Unknown};
use crate::names::quote;

/// The value of an option.
pub trait Value {
    /// Describes a valid text, to end the sentence "invalid value for --x: must be".
    const MUST_BE: &'static str;

    /// The value of a text, if it is valid.
    fn parse(text: &str) -> Option<Self>
    where
        Self: Sized;
}

/// A place for an option's value, of any type.
pub trait Slot {
    /// Sets the value from this text, or returns what it must be.
    fn set(&mut self, text: &str) -> Result<(), &'static str>;
}

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Print the help.
    Help,
    /// Run; the slots are filled.
    Run,
}

/// An error in the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// Not an option, or an unknown one.
    Unknown(OsString),
    /// An option is the last argument.
    MissingValue(String),
    /// The value is not of the option's kind: option, value, what it must be.
    Invalid(String, String, &'static str),
}

/// The exit status of a program that was given wrong arguments.
const USAGE: u8 = 2;

/// [`parse`]s the program's own arguments. If the program must not run, prints the error or the
/// help, and returns the exit status.
pub fn read(name: &str, help: &str, options: &mut [(&str, &mut dyn Slot)]) -> Result<(), ExitCode> {
    match parse(env::args_os().skip(1), options) {
        Ok(Request::Run) => Ok(()),
        Ok(Request::Help) => {
            print!("{help}");
            Err(ExitCode::SUCCESS)
        }
        Err(error) => Err(refuse(name, &error.to_string())),
    }
}

/// Prints the error in the arguments, and where to read more.
pub fn refuse(name: &str, why: &str) -> ExitCode {
    eprintln!("{name}: {why}\nTry '{name} --help'.");
    ExitCode::from(USAGE)
}

/// Reads the arguments, without the name of the program, into the slots of the options with these names. `--name VALUE` and
/// `--name=VALUE` are the same; the last of several counts.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    options: &mut [(&str, &mut dyn Slot)],
) -> Result<Request, UsageError> {
    let mut parser = Parser::from_args(args);
    parser.set_short_equals(false);
    // An error would be of a value that no option has taken; all are.
    while let Some(arg) = parser.next().map_err(|error| Unknown(error.to_string().into()))? {
        let name = match &arg {
            Arg::Long(name) => (*name).to_owned(),
            Arg::Short(_) => String::new(),
            Arg::Value(value) => return Err(Unknown(value.clone())),
        };
        let option = dashed(&arg);
        let Some((_, slot)) = options.iter_mut().find(|(known, _)| *known == name) else {
            return match parser.optional_value() {
                None if name == "help" => Ok(Request::Help),
                value => Err(Unknown(written(option, value))),
            };
        };
        let value = parser.value().map_err(|_| MissingValue(format!("--{name}")))?;
        let value = value.to_string_lossy();
        if let Err(must_be) = slot.set(&value) {
            return Err(Invalid(format!("--{name}"), value.into_owned(), must_be));
        }
    }
    Ok(Request::Run)
}

/// An option as it is written, without its value.
pub(crate) fn dashed(option: &Arg<'_>) -> OsString {
    match option {
        Arg::Short(letter) => format!("-{letter}").into(),
        Arg::Long(name) => format!("--{name}").into(),
        Arg::Value(value) => value.clone(),
    }
}

/// An option as it is written, with what follows in the same argument.
pub(crate) fn written(mut option: OsString, value: Option<OsString>) -> OsString {
    if let Some(value) = value {
        option.push(if option.as_encoded_bytes().starts_with(b"--") { "=" } else { "" });
        option.push(value);
    }
    option
}

impl<T: Value> Slot for T {
    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = T::parse(text).ok_or(T::MUST_BE)?;
        Ok(())
    }
}

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort(pub String);

impl Value for HostPort {
    const MUST_BE: &'static str = "HOST:PORT";

    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        // An IPv6 address without brackets could be mistaken for one with a port.
        let bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        (!host.is_empty() && !bare && port.parse::<u16>().is_ok()).then(|| Self(text.to_owned()))
    }
}

/// A value that has no default.
impl Value for Option<HostPort> {
    const MUST_BE: &'static str = HostPort::MUST_BE;

    fn parse(text: &str) -> Option<Self> {
        HostPort::parse(text).map(Some)
    }
}

/// An address that needs no look-up, and has no default.
impl Value for Option<SocketAddr> {
    const MUST_BE: &'static str = "IP:PORT";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Some)
    }
}

/// A number of workers; by default the number of processors.
impl Value for Option<NonZero<usize>> {
    const MUST_BE: &'static str = "1 or more";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Some)
    }
}

/// A file that need not be there.
impl Value for Option<PathBuf> {
    const MUST_BE: &'static str = "a path";

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Some(text.into()))
    }
}

/// A time in seconds.
impl Value for Duration {
    const MUST_BE: &'static str = "a number of seconds above 0, at most 86400";

    fn parse(text: &str) -> Option<Self> {
        let time = Self::try_from_secs_f64(text.parse().ok()?).ok()?;
        (!time.is_zero() && time <= Self::from_secs(86_400)).then_some(time)
    }
}

impl Display for UsageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(arg) => write!(f, "unknown option {}", quote(arg)),
            Self::MissingValue(name) => write!(f, "option {name} needs a value"),
            Self::Invalid(name, value, must_be) => {
                write!(
                    f,
                    "invalid value {} for {name}: must be {must_be}",
                    quote(OsStr::new(value))
                )
            }
        }
    }
}

impl Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<(HostPort, Option<NonZero<usize>>, Duration), UsageError> {
        let mut values = (HostPort("a:1".into()), None, Duration::from_secs(10));
        let (addr, workers, grace) = (&mut values.0, &mut values.1, &mut values.2);
        let args = args.iter().map(OsString::from);
        parse(args, &mut [("addr", addr), ("workers", workers), ("grace", grace)])?;
        Ok(values)
    }

    #[test]
    fn options_have_values() {
        assert_eq!(read(&[]), Ok((HostPort("a:1".into()), None, Duration::from_secs(10))));
        assert_eq!(
            read(&["--workers", "3", "--addr=[::1]:0", "--grace=1", "--grace", "0.5"]),
            Ok((HostPort("[::1]:0".into()), NonZero::new(3), Duration::from_millis(500)))
        );
        let help = ["--grace=1", "--help", "--wrong"].map(OsString::from);
        let mut grace = Duration::ZERO;
        assert_eq!(parse(help, &mut [("grace", &mut grace)]), Ok(Request::Help));
    }

    #[test]
    fn mistakes_are_named() {
        for (args, message) in [
            (&["--workers", "0"][..], "invalid value 0 for --workers: must be 1 or more"),
            (&["--addr=here"], "invalid value here for --addr: must be HOST:PORT"),
            (&["--addr", "::1"], "invalid value '::1' for --addr: must be HOST:PORT"),
            (&["--addr", ":80"], "invalid value ':80' for --addr: must be HOST:PORT"),
            (&["--addr", "a:65536"], "invalid value 'a:65536' for --addr: must be HOST:PORT"),
            (&["--grace"], "option --grace needs a value"),
            (&["--gr=1"], "unknown option '--gr=1'"),
            (&["there"], "unknown option there"),
            (&["addr", "a:1"], "unknown option addr"),
            (&["--gr", "1"], "unknown option --gr"),
            (&["-g=1"], "unknown option '-g=1'"),
            (&["-grace"], "unknown option -grace"),
            (&["--help=1"], "unknown option '--help=1'"),
            (
                &["--grace", "--help"],
                "invalid value --help for --grace: must be a number of seconds above 0, at most 86400",
            ),
        ] {
            assert_eq!(read(args).unwrap_err().to_string(), message);
        }
        for grace in ["0", "-1", "NaN", "inf", "", "1s", "1e9"] {
            assert!(matches!(read(&["--grace", grace]), Err(UsageError::Invalid(..))), "{grace}");
        }
    }
}
