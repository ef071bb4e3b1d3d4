//! What the hosts of this workspace do alike: workers that do not listen sleep on their words, and all of them do once the system
//! refuses to wait for I/O.

/// Methods of [`Host`](filch_std::Host), over the fields `futex` and `driver`.
#[doc(hidden)]
#[macro_export]
macro_rules! host_methods {
    () => {
        fn now(&self) -> $crate::Instant {
            self.futex.now()
        }

        unsafe fn wait(
            &self,
            me: $crate::WorkerId,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::Instant>,
        ) {
            // SAFETY: the caller's.
            unsafe { self.futex.wait(me, word, expected, deadline) };
        }

        fn wake(&self, worker: $crate::WorkerId, word: &::filch::atomic::AtomicU32) {
            self.futex.wake(worker, word);
        }

        #[inline(always)]
        fn reactor(&self) -> Option<&dyn ::filch::Reactor> {
            Some(self)
        }

        fn io(&self) -> Option<&(dyn ::core::any::Any + Send + Sync)> {
            Some(&self.driver)
        }

        fn io_metrics(&self) -> Option<$crate::IoMetrics> {
            Some(self.driver.metrics())
        }

        fn block(
            &self,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::Instant>,
        ) {
            self.futex.block(word, expected, deadline);
        }

        fn unblock(&self, word: &::filch::atomic::AtomicU32) {
            self.futex.unblock(word);
        }
    };
}

/// Methods of [`Reactor`](filch::Reactor), over the host's own: `hear` listens, and says whether there are events to deliver; `ring` ends
/// that, now or the next time; `is_broken` says that the system refuses to wait, which is final.
#[doc(hidden)]
#[macro_export]
macro_rules! reactor_methods {
    () => {
        unsafe fn listen(
            &self,
            me: $crate::WorkerId,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::Instant>,
        ) -> bool {
            if self.is_broken() {
                // Ordering: pairs with the fence in `interrupt`: either that one sees that it is broken, or the futex sees the
                // changed word.
                ::filch::atomic::fence(::filch::atomic::Ordering::SeqCst);
                // SAFETY: the caller's.
                unsafe { self.futex.wait(me, word, expected, deadline) };
                return false;
            }
            self.hear(me, word, expected, deadline)
        }

        fn interrupt(&self, worker: $crate::WorkerId, word: &::filch::atomic::AtomicU32) {
            self.ring();
            // Ordering: see `listen`.
            ::filch::atomic::fence(::filch::atomic::Ordering::SeqCst);
            if self.is_broken() {
                self.futex.wake(worker, word);
            }
        }
    };
}
