//! The real tokio's channel of many senders, with `send_timeout` by this crate's timers.

use core::fmt;
#[cfg(feature = "time")]
use core::time::Duration;

use real::sync::mpsc as kept;
pub use real::sync::mpsc::{
    Permit, PermitIterator, Receiver, UnboundedReceiver, UnboundedSender, WeakUnboundedSender,
    unbounded_channel,
};

use self::error::{SendError, TrySendError};

/// The errors of channels.
pub mod error;

/// A channel with room for so many values.
///
/// # Panics
/// If there is to be no room, or more than a semaphore can count.
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = kept::channel(buffer);
    (Sender(sender), receiver)
}

/// One of the senders of a channel with limited room.
pub struct Sender<T>(kept::Sender<T>);

impl<T> Sender<T> {
    /// Sends a value, once there is room.
    ///
    /// # Errors
    /// If the receiver is closed.
    ///
    /// # Cancel safety
    /// Dropped, it has sent nothing, and loses its place in the queue.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value).await
    }

    /// Waits until the receiver is closed.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// If there is none, or the receiver is closed.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message)
    }

    /// Sends a value, if there is room within that time.
    ///
    /// # Errors
    /// If there is none in time, or the receiver is closed.
    ///
    /// # Panics
    /// If there is no runtime, or it has no timers.
    #[cfg(feature = "time")]
    pub async fn send_timeout(
        &self,
        value: T,
        timeout: Duration,
    ) -> Result<(), error::SendTimeoutError<T>> {
        match crate::time::timeout(timeout, self.reserve()).await {
            Err(_) => Err(error::SendTimeoutError::Timeout(value)),
            Ok(Err(_)) => Err(error::SendTimeoutError::Closed(value)),
            Ok(Ok(permit)) => {
                permit.send(value);
                Ok(())
            }
        }
    }

    /// As [`send`](Self::send), for code that may block.
    ///
    /// # Errors
    /// As that.
    ///
    /// # Panics
    /// If the thread polls futures of a runtime.
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.blocking_send(value)
    }

    /// Whether the receiver is closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits for room for a value.
    ///
    /// # Errors
    /// If the receiver is closed.
    ///
    /// # Cancel safety
    /// Dropped, it loses its place in the queue.
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        self.0.reserve().await
    }

    /// Waits for room for `n` values.
    ///
    /// # Errors
    /// If the receiver is closed, or there is never so much room.
    ///
    /// # Cancel safety
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, SendError<()>> {
        self.0.reserve_many(n).await
    }

    /// As [`reserve`](Self::reserve), with the sender in the permit.
    ///
    /// # Errors
    /// As that.
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.0.reserve_owned().await.map(OwnedPermit)
    }

    /// The room for a value, if there is some.
    ///
    /// # Errors
    /// If there is none, or the receiver is closed.
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.0.try_reserve()
    }

    /// The room for `n` values, if there is so much.
    ///
    /// # Errors
    /// If there is not, or the receiver is closed.
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        self.0.try_reserve_many(n)
    }

    /// As [`try_reserve`](Self::try_reserve), with the sender in the permit.
    ///
    /// # Errors
    /// As that, with the sender.
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        self.0.try_reserve_owned().map(OwnedPermit).map_err(|error| match error {
            TrySendError::Full(sender) => TrySendError::Full(Self(sender)),
            TrySendError::Closed(sender) => TrySendError::Closed(Self(sender)),
        })
    }

    /// Whether both send to the same receiver.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// For how many values there is room now.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// For how many values there is room at most.
    pub fn max_capacity(&self) -> usize {
        self.0.max_capacity()
    }

    /// A sender that does not keep the channel open.
    #[must_use = "the sender itself keeps the channel open"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender(self.0.downgrade())
    }

    /// How many senders there are.
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }

    /// How many senders there are that do not keep the channel open.
    pub fn weak_count(&self) -> usize {
        self.0.weak_count()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sender that does not keep the channel open.
pub struct WeakSender<T>(kept::WeakSender<T>);

impl<T> WeakSender<T> {
    /// A sender, if there is still one.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.0.upgrade().map(Sender)
    }

    /// How many senders keep the channel open.
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }

    /// How many senders there are that do not.
    pub fn weak_count(&self) -> usize {
        self.0.weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The room for a value, with its sender.
pub struct OwnedPermit<T>(kept::OwnedPermit<T>);

impl<T> OwnedPermit<T> {
    /// Sends a value.
    pub fn send(self, value: T) -> Sender<T> {
        Sender(self.0.send(value))
    }

    /// Gives the room back.
    pub fn release(self) -> Sender<T> {
        Sender(self.0.release())
    }

    /// Whether both are of the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Whether it is of that sender's channel.
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.0.same_channel_as_sender(&sender.0)
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
