//! Signals of Unix.

use core::{
    ffi::c_int,
    fmt,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, ready},
};
use std::io;

use crate::{io::source::require_io, task::coop};

/// A kind of signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(c_int);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:ident;)*) => {$(
        $(#[$doc])*
        pub const fn $name() -> Self {
            Self(libc::$number)
        }
    )*};
}

impl SignalKind {
    /// A signal by its number.
    pub const fn from_raw(signum: c_int) -> Self {
        Self(signum)
    }

    /// Its number.
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }

    kinds! {
        /// `SIGALRM`.
        alarm = SIGALRM;
        /// `SIGCHLD`.
        child = SIGCHLD;
        /// `SIGHUP`.
        hangup = SIGHUP;
        /// `SIGINT`.
        interrupt = SIGINT;
        /// `SIGIO`.
        io = SIGIO;
        /// `SIGPIPE`.
        pipe = SIGPIPE;
        /// `SIGQUIT`.
        quit = SIGQUIT;
        /// `SIGTERM`.
        terminate = SIGTERM;
        /// `SIGUSR1`.
        user_defined1 = SIGUSR1;
        /// `SIGUSR2`.
        user_defined2 = SIGUSR2;
        /// `SIGWINCH`.
        window_change = SIGWINCH;
    }
}

impl From<c_int> for SignalKind {
    fn from(signum: c_int) -> Self {
        Self(signum)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.0
    }
}

/// Listens for a signal. From [`signal`].
#[must_use = "streams do nothing unless polled"]
pub struct Signal(filch_linux::signal::Signal);

/// Listens for a signal, from now on. The signal's own action never comes back.
///
/// # Errors
/// For signals that cannot be handled; those of the operating system.
///
/// # Panics
/// If there is no runtime, or it has no I/O.
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let handle = require_io("signals");
    let kind = filch_linux::signal::SignalKind::from_raw(kind.0);
    // It is ready at once, and in filch's runtime.
    handle.filch().block_on(async { filch_linux::signal::signal(kind) }).map(Signal)
}

impl Signal {
    /// The next signal, or those since the last call. `None` once the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses no signal.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Self::recv), for use in a `poll` function.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        let receive = pin!(poll_fn(|cx| self.0.poll_recv(cx)));
        let polled = ready!(coop::poll_filch(receive, cx));
        progress.made_progress();
        Poll::Ready(polled.ok())
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}
