//! How an atomic or a cell knows its location in the run.
//!
//! The tag lies in the object, so that it moves along with it, memory that is written anew is a new location, and memory
//! that was dropped or freed can be told by what lies there.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    races::{Access, Site},
    run::{self, Run},
};

/// What drop leaves, and the quarantine fills freed memory with.
pub(crate) const POISON: u8 = 0xDB;

const DEAD: u64 = u64::from_ne_bytes([POISON; 8]);

/// Zero, or the run's epoch and the location's number; or `DEAD`. The machine's own atomics, as one that lives in a
/// `static` is shared by checks on several threads; between those it orders nothing.
#[derive(Debug)]
pub(crate) struct Tag(AtomicU64);

impl Tag {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The location in this run, which is new if the run has not seen it; `value` is then its first value.
    pub(crate) fn locate(
        &self,
        run: &mut Run,
        site: Site,
        value: impl FnOnce() -> u64,
    ) -> Result<usize, String> {
        let tag = self.0.load(Relaxed);
        if tag == DEAD {
            return Err(format!("access at {site} to what was dropped or freed"));
        }
        if tag >> 32 == u64::from(run.epoch) {
            return Ok((tag & u64::from(u32::MAX)) as usize);
        }
        let at = run.locate(value());
        self.0.store(u64::from(run.epoch) << 32 | at as u64, Relaxed);
        Ok(at)
    }

    /// An exclusive use: all accesses so far must come before it. The location ends; the next access makes a new one.
    pub(crate) fn renew(&self, what: &'static str, site: Site) {
        self.finish(what, site, 0);
    }

    /// Nobody may touch it any more.
    pub(crate) fn kill(&self, site: Site) {
        self.finish("drop", site, DEAD);
    }

    fn finish(&self, what: &'static str, site: Site, tag: u64) {
        run::act(|run, me| {
            if self.0.load(Relaxed) >> 32 == u64::from(run.epoch) {
                let at = self.locate(run, site, || 0)?;
                let access = Access::new(what, me, run.memory.seen(me), site);
                run.accesses[at].exclude(access, run.memory.seen(me))?;
            }
            self.0.store(tag, Relaxed);
            Ok(())
        });
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
