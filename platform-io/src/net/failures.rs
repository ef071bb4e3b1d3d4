//! Errors that name what failed.

use core::{error::Error, fmt, net::SocketAddr};
use std::io;

/// An error of the operating system, and the operation that failed. As an [`io::Error`] it has the
/// error's kind, and the error as its source.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    error: io::Error,
}

impl Failure {
    pub(crate) fn new(what: String, error: io::Error) -> Self {
        Self { what, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.error.kind(), failure)
    }
}

/// The addresses that failed, and why.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<(SocketAddr, io::Error)>);

impl Failures {
    pub(crate) fn push(&mut self, addr: SocketAddr, error: io::Error) {
        self.0.push((addr, error));
    }

    /// One error for all: the kind and the source are those of the last address.
    pub(crate) fn into_error(self, what: &str) -> io::Error {
        use core::fmt::Write as _;
        let mut tried = self.0;
        let Some((addr, error)) = tried.pop() else {
            return io::Error::new(io::ErrorKind::InvalidInput, "no address was given");
        };
        let mut text = what.to_owned();
        for (addr, error) in &tried {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " {addr}: {error};");
        }
        let _ = write!(text, " {addr}");
        Failure::new(text, error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_named() {
        let mut failures = Failures::default();
        failures.push(([127, 0, 0, 1], 1).into(), io::ErrorKind::TimedOut.into());
        failures.push(([127, 0, 0, 1], 2).into(), io::Error::from_raw_os_error(111));
        let error = failures.into_error("cannot connect to");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(
            error.to_string(),
            "cannot connect to 127.0.0.1:1: timed out; 127.0.0.1:2: Connection refused (os error 111)"
        );
        let source = Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(111));
    }
}
