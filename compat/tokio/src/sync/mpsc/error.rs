//! The errors of channels.

pub use real::sync::mpsc::error::*;
#[cfg(feature = "time")]
pub use timeout::SendTimeoutError;

#[cfg(feature = "time")]
mod timeout {
    use core::fmt;

    /// What [`send_timeout`](crate::sync::mpsc::Sender::send_timeout) has not sent.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum SendTimeoutError<T> {
        /// There was no room in time.
        Timeout(T),
        /// The receiver is closed.
        Closed(T),
    }

    impl<T> SendTimeoutError<T> {
        /// The value.
        pub fn into_inner(self) -> T {
            match self {
                Self::Timeout(value) | Self::Closed(value) => value,
            }
        }
    }

    impl<T> fmt::Debug for SendTimeoutError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Timeout(_) => "Timeout(..)",
                Self::Closed(_) => "Closed(..)",
            })
        }
    }

    impl<T> fmt::Display for SendTimeoutError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Timeout(_) => "timed out waiting on send operation",
                Self::Closed(_) => "channel closed",
            })
        }
    }

    impl<T> core::error::Error for SendTimeoutError<T> {}
}
