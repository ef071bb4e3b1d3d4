//! How an atomic or a cell knows its location in the run.
//!
//! The tag is in the object. So it moves along with the object, an object that is written anew is a
//! new location, and dropped or freed memory is recognised by its content.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    races::{Access, Site},
    run::{self, Run},
};

/// The pattern that a drop leaves, and that the quarantine writes to freed memory.
pub(crate) const POISON: u8 = 0xDB;

const DEAD: u64 = u64::from_ne_bytes([POISON; 8]);

/// Zero, or the run's epoch and the location's number; or `DEAD`. A real atomic, as one in a
/// `static` is shared by checks on several threads; it orders nothing between them.
#[derive(Debug)]
pub(crate) struct Tag(AtomicU64);

impl Tag {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The location in this run. If it is new to the run, `value` is its first value.
    pub(crate) fn locate(
        &self,
        run: &mut Run,
        site: Site,
        value: impl FnOnce() -> u64,
    ) -> Result<usize, String> {
        if self.0.load(Relaxed) == DEAD {
            return Err(format!("access at {site} to what was dropped or freed"));
        }
        let at = match self.get(run) {
            Some(at) => at,
            None => {
                let at = run.blank();
                self.put(run, at);
                at
            }
        };
        if run.memory.is_blank(at) {
            run.memory.begin(at, value());
        }
        Ok(at)
    }

    /// An exclusive use: all earlier accesses are ordered before it, and later ones after it. The
    /// location ends, and with it the values that could be read; the new location begins with the
    /// value that the next access finds.
    pub(crate) fn renew(&self, site: Site) {
        run::act(|run, me| {
            let access = self.finish(run, me, "exclusive access", site)?;
            let at = run.blank();
            run.accesses[at].exclude(access, run.memory.seen(me))?;
            self.put(run, at);
            Ok(())
        });
    }

    /// No access is allowed after this.
    pub(crate) fn kill(&self, site: Site) {
        run::act(|run, me| {
            self.finish(run, me, "drop", site)?;
            self.0.store(DEAD, Relaxed);
            Ok(())
        });
    }

    fn finish(
        &self,
        run: &mut Run,
        me: usize,
        what: &'static str,
        site: Site,
    ) -> Result<Access, String> {
        let access = Access::new(what, me, run.memory.seen(me), site);
        if let Some(at) = self.get(run) {
            run.accesses[at].exclude(access, run.memory.seen(me))?;
        }
        Ok(access)
    }

    fn get(&self, run: &Run) -> Option<usize> {
        let tag = self.0.load(Relaxed);
        (tag >> 32 == u64::from(run.epoch)).then_some((tag & u64::from(u32::MAX)) as usize)
    }

    fn put(&self, run: &Run, at: usize) {
        self.0.store(u64::from(run.epoch) << 32 | at as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_told_apart_from_any_run() {
        assert_eq!(DEAD.to_ne_bytes(), [POISON; 8]);
        assert_eq!(Tag::new().0.into_inner(), 0);
    }
}
