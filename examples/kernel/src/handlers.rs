//! Whether a core is in an interrupt handler.

use core::sync::atomic::{AtomicBool, Ordering};

use filch::Context;

/// For each core, whether it is in an interrupt handler: what a platform's `context` says. filch then has another core take what the
/// handler wakes, if one sleeps.
#[derive(Debug)]
pub struct Handlers<const N: usize>([AtomicBool; N]);

impl<const N: usize> Handlers<N> {
    /// No core is in a handler.
    #[allow(clippy::new_without_default, reason = "a static")]
    pub const fn new() -> Self {
        Self([const { AtomicBool::new(false) }; N])
    }

    /// Runs a handler on this core.
    pub fn run(&self, core: usize, handler: impl FnOnce()) {
        // Ordering: only this core's own code looks.
        let was = self.0[core].load(Ordering::Relaxed);
        self.0[core].store(true, Ordering::Relaxed);
        handler();
        self.0[core].store(was, Ordering::Relaxed);
    }

    /// What this core's code may do.
    pub fn context(&self, core: usize) -> Context {
        if self.0[core].load(Ordering::Relaxed) { Context::Handler } else { Context::Thread }
    }
}
