//! Cells that detect races.

use core::{fmt, panic::Location};

use crate::{
    races::{Access, Site},
    run,
    tag::Tag,
};

/// As [`core::cell::UnsafeCell`], but two unordered accesses, at least one of them a write, end the
/// run with a report of both.
///
/// The pointer is valid during the call. Dropping the cell is a write; later accesses are reported,
/// as long as its memory is not reused (see [`Quarantine`](crate::Quarantine)).
pub struct UnsafeCell<T: ?Sized> {
    tag: Tag,
    value: core::cell::UnsafeCell<T>,
}

impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self { tag: Tag::new(), value: core::cell::UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Reads through a shared pointer.
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        let site = Location::caller();
        self.touch(false, site);
        let result = f(self.value.get());
        // A second check, as `f` may have let other threads run.
        self.touch(false, site);
        result
    }

    /// Writes through an exclusive pointer.
    #[track_caller]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        let site = Location::caller();
        self.touch(true, site);
        let result = f(self.value.get());
        self.touch(true, site);
        result
    }

    /// The value of a cell that is not shared.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn touch(&self, writes: bool, site: Site) {
        run::act(|run, me| {
            let at = self.tag.locate(run, site, || 0)?;
            let seen = run.memory.seen(me);
            if writes {
                run.accesses[at].exclude(Access::new("write", me, seen, site), seen)?;
            } else {
                run.accesses[at].share(Access::new("read", me, seen, site), seen)?;
            }
            run.note(me, if writes { "write" } else { "read" }, at, 0, site);
            Ok(())
        });
    }
}

impl<T: ?Sized> Drop for UnsafeCell<T> {
    #[track_caller]
    fn drop(&mut self) {
        self.tag.kill(Location::caller());
    }
}

impl<T: Default> Default for UnsafeCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for UnsafeCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnsafeCell").finish_non_exhaustive()
    }
}
