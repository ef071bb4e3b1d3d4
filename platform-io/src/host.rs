//! What the hosts of this workspace do alike, and the builders of their runtimes: workers that do not listen sleep on their words, and all
//! of them do once the system refuses to wait for I/O.

/// Methods of [`Host`](filch_std::runtime::Host), over the fields `futex` and `driver`.
#[doc(hidden)]
#[macro_export]
macro_rules! host_methods {
    () => {
        fn now(&self) -> $crate::time::Instant {
            self.futex.now()
        }

        unsafe fn wait(
            &self,
            me: $crate::runtime::WorkerId,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::time::Instant>,
        ) {
            // SAFETY: the caller's.
            unsafe { self.futex.wait(me, word, expected, deadline) };
        }

        fn wake(&self, worker: $crate::runtime::WorkerId, word: &::filch::atomic::AtomicU32) {
            self.futex.wake(worker, word);
        }

        #[inline(always)]
        fn reactor(&self) -> Option<&dyn ::filch::Reactor> {
            Some(self)
        }

        fn io(&self) -> Option<&(dyn ::core::any::Any + Send + Sync)> {
            Some(&self.driver)
        }

        fn io_metrics(&self) -> Option<$crate::runtime::IoMetrics> {
            Some(self.driver.metrics())
        }

        fn block(
            &self,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::time::Instant>,
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
            me: $crate::runtime::WorkerId,
            word: &::filch::atomic::AtomicU32,
            expected: u32,
            deadline: Option<$crate::time::Instant>,
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

        fn interrupt(&self, worker: $crate::runtime::WorkerId, word: &::filch::atomic::AtomicU32) {
            self.ring();
            // Ordering: see `listen`.
            ::filch::atomic::fence(::filch::atomic::Ordering::SeqCst);
            if self.is_broken() {
                self.futex.wake(worker, word);
            }
        }
    };
}

/// A `Builder` that has `filch_std`'s in its field `inner`; it has `new`, and implements `RuntimeBuilder`. `$poller` names what the host
/// makes.
#[doc(hidden)]
#[macro_export]
macro_rules! host_builder {
    ($host:ident, $poller:literal) => {
        impl ::filch_std::internal::HasBuilder for $host {
            type Builder = Builder;
        }

        /// As [`Builder::new`].
        impl Default for Builder {
            fn default() -> Self {
                Self::new()
            }
        }

        use $crate::inner_knobs;
        ::filch_std::for_each_knob!(inner_knobs);

        impl Builder {
            #[doc = concat!("Builds the runtime, with ", $poller, " of its own.")]
            ///
            /// # Errors
            /// [`BuildError`]; threads that were started have ended by then.
            pub fn build(self) -> Result<Runtime, BuildError> {
                self.build_on()
            }

            /// As [`build`](Self::build), with a clock that tests can stop:
            /// [`time::pause`](crate::time::pause). It goes at first.
            ///
            /// # Errors
            /// As [`build`](Self::build).
            pub fn build_pausable(self) -> Result<PausableRuntime, BuildError> {
                self.build_on()
            }

            #[doc = concat!("Builds a runtime of one thread, the calling one, with ", $poller, " of its own: [`filch_std::Builder::build_local`].")]
            ///
            /// # Errors
            /// [`BuildError`]; `TooManyWorkers` if [`workers`](Self::workers) says more than one.
            pub fn build_local(self) -> Result<LocalRuntime, BuildError> {
                self.build_local_on()
            }

            /// As [`build_local`](Self::build_local), with a clock that tests can stop.
            ///
            /// # Errors
            /// As [`build_local`](Self::build_local).
            pub fn build_local_pausable(self) -> Result<PausableLocalRuntime, BuildError> {
                self.build_local_on()
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! inner_knobs {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        impl Builder {
            $(
                #[doc = concat!("As [`filch_std::Builder::", stringify!($name), "`].")]
                pub fn $name(mut self, $($arg: $type),*) -> Self {
                    self.inner = self.inner.$name($($arg),*);
                    self
                }
            )*
        }
    };
}
