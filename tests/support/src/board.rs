//! The platform of the examples in the documentation of `filch`.

/// Defines `Board`, on which any thread can be a worker. It contains panics, and its clock moves on only while a worker waits: then at once to the
/// deadline. So an example with timers takes no time, and ends as it is written.
#[macro_export]
macro_rules! board {
    () => {
        #[derive(Debug)]
        struct Board;

        static CLOCK: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
        std::thread_local! {
            static WORKER: core::cell::Cell<Option<filch::WorkerId>> =
                const { core::cell::Cell::new(None) };
        }
        static PANICS: filch::PanicVtable = filch::PanicVtable {
            // SAFETY: `guard` made it by `Box::leak`.
            drop: |payload| drop(unsafe { Box::from_raw(payload.cast::<String>().as_ptr()) }),
            // SAFETY: as above; the message is never freed while an example reads it.
            message: |payload| Some(unsafe { payload.cast::<String>().as_ref() }),
            resume: |_| std::process::abort(),
        };

        // SAFETY: a thread is the worker that it was made; a wait returns at once, which it may.
        unsafe impl filch::Platform for Board {
            fn now(&self) -> filch::Instant {
                filch::Instant::from_nanos(CLOCK.load(core::sync::atomic::Ordering::SeqCst))
            }
            fn current_worker(&self) -> Option<filch::WorkerId> {
                WORKER.get()
            }
            unsafe fn set_worker(&self, worker: Option<filch::WorkerId>) {
                WORKER.set(worker);
            }
            unsafe fn wait(
                &self,
                _: filch::WorkerId,
                word: &filch::atomic::AtomicU32,
                old: u32,
                end: Option<filch::Instant>,
            ) {
                let order = core::sync::atomic::Ordering::SeqCst;
                match end {
                    Some(end) if word.load(order) == old => {
                        CLOCK.fetch_max(end.as_nanos(), order);
                    }
                    _ => std::thread::yield_now(),
                }
            }
            fn wake(&self, _: filch::WorkerId, _: &filch::atomic::AtomicU32) {}
            fn relax(&self, _: u32) {
                std::thread::yield_now();
            }
            fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), filch::Panic> {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll));
                caught.map_err(|payload| {
                    let message = Box::new($crate::message(&*payload).to_owned());
                    let payload = core::ptr::NonNull::from(Box::leak(message)).cast();
                    // SAFETY: a string may be sent and shared.
                    unsafe { filch::Panic::from_raw(payload, &PANICS) }
                })
            }
        }
    };
}
