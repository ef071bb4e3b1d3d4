//! Why a task has no output.

use core::{any::Any, error::Error, fmt};
use std::{io, sync::Mutex};

use super::Id;

/// A task was cancelled, or has panicked.
pub struct JoinError {
    id: Id,
    /// In a mutex so that the error is `Sync`.
    panic: Option<Mutex<Box<dyn Any + Send + 'static>>>,
}

impl JoinError {
    pub(crate) fn cancelled(id: Id) -> Self {
        Self { id, panic: None }
    }

    pub(crate) fn panic(id: Id, payload: Box<dyn Any + Send + 'static>) -> Self {
        Self { id, panic: Some(Mutex::new(payload)) }
    }

    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// Whether the task has panicked.
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// The panic.
    ///
    /// # Panics
    /// If the task was cancelled.
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(_) => panic!("`JoinError` reason is not a panic."),
        }
    }

    /// The panic.
    ///
    /// # Errors
    /// The error itself, if the task was cancelled.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        match self.panic {
            Some(payload) => {
                Ok(payload.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
            }
            None => Err(self),
        }
    }

    /// The task.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The panic's text, if it has one.
    fn text(&self) -> Option<String> {
        let payload = crate::util::lock(self.panic.as_ref()?);
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| payload.downcast_ref::<&'static str>().copied()).map(Into::into)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.panic, self.text()) {
            (None, _) => write!(f, "task {} was cancelled", self.id),
            (Some(_), Some(text)) => {
                write!(f, "task {} panicked with message {text:?}", self.id)
            }
            (Some(_), None) => write!(f, "task {} panicked", self.id),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.panic, self.text()) {
            (None, _) => write!(f, "JoinError::Cancelled({:?})", self.id),
            (Some(_), Some(text)) => write!(f, "JoinError::Panic({:?}, {text:?}, ...)", self.id),
            (Some(_), None) => write!(f, "JoinError::Panic({:?}, ...)", self.id),
        }
    }
}

impl Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(match error.is_panic() {
            true => "task panicked",
            false => "task was cancelled",
        })
    }
}
