//! Events as lines of a log, behind the features `log` and `defmt`.

use super::WorkerId;
use crate::trace::Event;

impl Event<'_> {
    /// Writes the event to the program's log: by the crate `log` with that feature, by `defmt` with that one. A
    /// [`LongPoll`](Event::LongPoll) is a warning, all else has the level `trace`.
    ///
    /// A platform calls it from [`Platform::event`](super::Platform::event). Those calls come on hot paths and, if handlers wake or
    /// spawn tasks, from handlers: the logger must be callable there, and what it does costs each poll. `log`'s records have the
    /// target `filch`.
    ///
    /// ```
    /// use filch::{Event, WorkerId};
    /// // The body of a platform's `event`:
    /// fn event(worker: Option<WorkerId>, event: Event<'_>) {
    ///     event.log(worker);
    /// }
    /// event(Some(WorkerId::new(2)), Event::Park); // TRACE filch: worker 2: Park
    /// ```
    #[cfg_attr(docsrs, doc(cfg(any(feature = "log", feature = "defmt"))))]
    pub fn log(self, worker: Option<WorkerId>) {
        #[cfg(feature = "log")]
        self.to_log(worker);
        #[cfg(feature = "defmt")]
        self.to_defmt(worker);
    }

    #[cfg(feature = "log")]
    fn to_log(self, worker: Option<WorkerId>) {
        let level = match self {
            Self::LongPoll { .. } => log::Level::Warn,
            _ => log::Level::Trace,
        };
        match worker {
            Some(worker) => log::log!(target: "filch", level, "{worker:?}: {self:?}"),
            None => log::log!(target: "filch", level, "{self:?}"),
        }
    }

    #[cfg(feature = "defmt")]
    fn to_defmt(self, worker: Option<WorkerId>) {
        match self {
            Self::LongPoll { .. } => defmt::warn!("{}: {}", worker, self),
            _ => defmt::trace!("{}: {}", worker, self),
        }
    }
}
