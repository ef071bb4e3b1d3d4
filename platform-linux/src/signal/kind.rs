//! Kinds of signals.

use core::ffi::c_int;

/// A kind of signal.
///
/// Some signals can be sent, but [`signal`](super::signal) refuses them: those that cannot be
/// handled (`SIGKILL`, `SIGSTOP`), those whose handler must not return to the fault (`SIGSEGV`,
/// `SIGBUS`, `SIGFPE`, `SIGILL`), and those that the C library reserves (32 and 33).
///
/// ```
/// use filch_linux::signal::SignalKind;
/// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
/// for (kind, number) in [
///     (SignalKind::hangup(), libc::SIGHUP),
///     (SignalKind::interrupt(), libc::SIGINT),
///     (SignalKind::quit(), libc::SIGQUIT),
///     (SignalKind::user_defined1(), libc::SIGUSR1),
///     (SignalKind::user_defined2(), libc::SIGUSR2),
///     (SignalKind::pipe(), libc::SIGPIPE),
///     (SignalKind::alarm(), libc::SIGALRM),
///     (SignalKind::child(), libc::SIGCHLD),
///     (SignalKind::io(), libc::SIGIO),
///     (SignalKind::window_change(), libc::SIGWINCH),
/// ] {
///     assert_eq!(kind.as_raw_value(), number);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(c_int);

impl SignalKind {
    /// A signal by its number, such as a real-time signal or one of `libc::SIG*`.
    pub const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn as_raw_value(self) -> c_int {
        self.0
    }

    /// `SIGALRM`: a timer of the system has run out. Ends the process by default.
    pub const fn alarm() -> Self {
        Self(libc::SIGALRM)
    }

    /// `SIGCHLD`: a child process has changed its state. Ignored by default. [`process`](crate::process) does not need it.
    pub const fn child() -> Self {
        Self(libc::SIGCHLD)
    }

    /// `SIGHUP`: the terminal is gone; for daemons: reload the configuration. Ends the process by
    /// default.
    pub const fn hangup() -> Self {
        Self(libc::SIGHUP)
    }

    /// `SIGINT`: Ctrl-C. Ends the process by default.
    pub const fn interrupt() -> Self {
        Self(libc::SIGINT)
    }

    /// `SIGIO`: a file is ready. Ends the process by default.
    pub const fn io() -> Self {
        Self(libc::SIGIO)
    }

    /// `SIGPIPE`: a write without a reader. Rust programs ignore it from their start.
    pub const fn pipe() -> Self {
        Self(libc::SIGPIPE)
    }

    /// `SIGQUIT`: Ctrl-\. Ends the process by default, with a core dump.
    pub const fn quit() -> Self {
        Self(libc::SIGQUIT)
    }

    /// `SIGTERM`: a request to end. Ends the process by default.
    pub const fn terminate() -> Self {
        Self(libc::SIGTERM)
    }

    /// `SIGUSR1`. Ends the process by default.
    pub const fn user_defined1() -> Self {
        Self(libc::SIGUSR1)
    }

    /// `SIGUSR2`. Ends the process by default.
    pub const fn user_defined2() -> Self {
        Self(libc::SIGUSR2)
    }

    /// `SIGWINCH`: the terminal has another size. Ignored by default.
    pub const fn window_change() -> Self {
        Self(libc::SIGWINCH)
    }
}
