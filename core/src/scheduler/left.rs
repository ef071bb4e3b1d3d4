//! Polls that have left their workers, and go on in their contexts: see `in_place`.

use core::ptr::null;

use crate::{
    parts::{Parts, Switch},
    platform::Platform,
    scheduler::core::{executor::Scheduler, slot::Slots},
    task::{executor_ref::Frame, header::Header},
};

/// INV-LEFT: the word of a context ([`Platform::left_poll`]) is null or leads to the frame of a poll that has left its worker and goes on
/// in this context, until its end.
impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// The poll of this executor that goes on in the calling context, and has left its worker.
    #[cold]
    pub(crate) fn left_poll(&'static self) -> Option<&'static Frame> {
        if !<S::Parts as Parts>::Waits::ON || self.platform.is_handler() {
            return None;
        }
        // SAFETY: INV-LEFT.
        let frame = unsafe { self.newest_left().as_ref() }?;
        (frame.executor() == Some(self.erased())).then_some(frame)
    }

    /// The task of that poll.
    pub(crate) fn left_task(&'static self) -> Option<&'static Header> {
        // SAFETY: a poll holds a reference to its task.
        self.left_poll()?.task().map(|task| unsafe { task.as_ref() })
    }

    /// The newest poll of any executor that goes on in the calling context, and has left its worker; or null. For `Polls`.
    pub(crate) fn newest_left(&self) -> *const Frame {
        // SAFETY: the word is the calling context's.
        let word = self.platform.left_poll().map(|word| unsafe { word.as_ref() });
        word.map_or(null(), |word| word.get().cast())
    }

    /// Such a poll begins in the calling context, or the one before goes on: notes it, with its budget. Returns what was there.
    pub(crate) fn swap_left_poll(&self, frame: *const Frame, budget: u32) -> (*const Frame, u32) {
        // SAFETY: both are the calling context's.
        let (word, cell) = unsafe {
            let word = self.platform.left_poll().map(|word| word.as_ref());
            (word, self.platform.budget().map(|cell| cell.as_ref()))
        };
        let before = word.map_or(null(), |word| word.replace(frame.cast())).cast();
        (before, cell.map_or(0, |cell| cell.replace(budget)))
    }
}
