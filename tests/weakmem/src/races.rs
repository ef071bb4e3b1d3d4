//! The accesses of each location, and whether they were ordered.

use core::{fmt, panic::Location};

use crate::view::View;

/// A place in the source.
pub(crate) type Site = &'static Location<'static>;

/// The last accesses of one cell, or of one atomic, whose exclusive uses and end only must come
/// after them.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    write: Option<Access>,
    /// For each thread its last read, or atomic access.
    shared: Vec<Option<Access>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    what: &'static str,
    thread: usize,
    clock: u32,
    site: Site,
}

impl Access {
    /// An access by this thread, now.
    pub(crate) fn new(what: &'static str, thread: usize, seen: &View, site: Site) -> Self {
        Self { what, thread, clock: seen.clock(thread), site }
    }

    fn before(&self, seen: &View) -> bool {
        self.clock <= seen.clock(self.thread)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by thread {} at {}", self.what, self.thread, self.site)
    }
}

impl Accesses {
    /// An access that may be concurrent with others of its kind. `seen` is its thread's view.
    pub(crate) fn share(&mut self, access: Access, seen: &View) -> Result<(), String> {
        self.after_write(&access, seen)?;
        if self.shared.len() <= access.thread {
            self.shared.resize(access.thread + 1, None);
        }
        self.shared[access.thread] = Some(access);
        Ok(())
    }

    /// An access that must be ordered with all others.
    pub(crate) fn exclude(&mut self, access: Access, seen: &View) -> Result<(), String> {
        self.after_write(&access, seen)?;
        if let Some(other) = self.shared.iter().flatten().find(|other| !other.before(seen)) {
            return Err(race(other, &access));
        }
        self.shared.clear();
        self.write = Some(access);
        Ok(())
    }

    fn after_write(&self, access: &Access, seen: &View) -> Result<(), String> {
        match &self.write {
            Some(write) if !write.before(seen) => Err(race(write, access)),
            _ => Ok(()),
        }
    }
}

fn race(first: &Access, second: &Access) -> String {
    format!("data race: {first}, and {second}, which nothing orders")
}
