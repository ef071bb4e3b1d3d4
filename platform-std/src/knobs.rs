//! The options of a [`Builder`](crate::Builder), for the builders of crates with a host of their own: one list.

/// Calls `$one` with the methods of [`Builder`](crate::Builder) that take it and return it: names and arguments. Hidden, and outside the
/// stability promise.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_knob {
    ($one:ident) => {
        $one! {
            workers(n: usize);
            max_workers(most: usize);
            name(name: impl Into<String>);
            name_fn(f: impl Fn($crate::runtime::ThreadRole) -> String + Send + Sync + 'static);
            affinity(affinity: $crate::runtime::Affinity);
            seed(seed: u64);
            stack_size(bytes: usize);
            stealing(on: bool);
            classes(on: bool);
            background_share(n: u32);
            lifo_cap(polls: u32);
            budget(units: u16);
            spin_rounds(rounds: u32);
            watchdog(timeouts: Option<(core::time::Duration, core::time::Duration)>);
            park_timeout(longest: Option<core::time::Duration>);
            poll_limit(limit: Option<core::time::Duration>);
            spare_slots(slots: u16);
            nesting(depth: u32);
            job_slice(slice: core::time::Duration);
            job_workers(most: u16);
            blocking_threads(most: usize);
            blocking_keep_alive(time: core::time::Duration);
            on_long_poll(f: impl Fn($crate::runtime::LongPoll) + Send + Sync + 'static);
            on_wake(f: impl Fn() + Send + Sync + 'static);
            on_thread_start(f: impl Fn() + Send + Sync + 'static);
            on_thread_stop(f: impl Fn() + Send + Sync + 'static);
            unhandled_panic(policy: $crate::runtime::UnhandledPanic);
        }
        #[cfg(feature = "observe")]
        $one! {
            class_metrics(on: bool);
            task_metrics(tasks: usize);
            on_task_spawn(f: impl Fn($crate::task::TaskId, $crate::task::SpawnInfo) + Send + Sync + 'static);
            on_task_end(f: impl Fn($crate::task::TaskId) + Send + Sync + 'static);
            recorder(records: usize);
        }
    };
}
