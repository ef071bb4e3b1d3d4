//! The runtime of the real tokio beside a runtime. What is re-exported of that crate asks it whether the thread may block, and for the budget.

pub(super) use kind::{handle, start};

/// One with a thread, timers and sockets, for other crates of the program that depend on the real tokio.
#[cfg(feature = "companion")]
mod kind {
    use std::io;

    use filch_io::tokio::Companion;
    use filch_linux::runtime::Linux;
    use real::runtime::Handle;

    pub(crate) fn start(host: &Linux, filch: filch_linux::Handle) -> io::Result<()> {
        Companion::start(host.beside(), filch)
    }

    pub(crate) fn handle(host: &Linux) -> Option<Handle> {
        Companion::handle(host.beside())
    }
}

/// A mere context, one for the whole program: no thread, no timer, no file. Nothing is ever spawned there.
#[cfg(not(feature = "companion"))]
mod kind {
    use std::{io, sync::OnceLock};

    use filch_linux::runtime::Linux;
    use real::runtime::{Builder, Handle, Runtime};

    /// It lives as long as the program.
    static CONTEXT: OnceLock<Runtime> = OnceLock::new();

    pub(crate) fn start(_: &Linux, _: filch_linux::Handle) -> io::Result<()> {
        if CONTEXT.get().is_none() {
            let context = Builder::new_current_thread().build()?;
            // Another thread may have been faster.
            drop(CONTEXT.set(context));
        }
        Ok(())
    }

    pub(crate) fn handle(_: &Linux) -> Option<Handle> {
        CONTEXT.get().map(|context| context.handle().clone())
    }
}
