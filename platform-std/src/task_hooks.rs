//! What a program wants to hear of its tasks.

use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};
use std::sync::{Arc, PoisonError, RwLock};

use filch::{Event, SpawnInfo, TaskId};

use crate::{hooks, panics::quietly};

/// Called as a task is spawned and as it ends.
#[derive(Clone, Default)]
pub(crate) struct TaskHooks {
    pub(crate) spawn: Option<Arc<dyn Fn(TaskId, SpawnInfo) + Send + Sync>>,
    pub(crate) end: Option<Arc<dyn Fn(TaskId) + Send + Sync>>,
}

/// Hooks where the events come by.
#[derive(Default)]
pub(crate) struct Hooked {
    /// There are some.
    on: AtomicBool,
    hooks: RwLock<TaskHooks>,
}

impl Hooked {
    /// Sets the hooks. While no task is spawned, and none ends.
    pub(crate) fn set(&self, hooks: TaskHooks) {
        // Ordering: Relaxed, here and in `event`: the lock orders the rest.
        self.on.store(hooks.spawn.is_some() || hooks.end.is_some(), Ordering::Relaxed);
        let mut mine = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        let before = core::mem::replace(&mut *mine, hooks);
        drop(mine);
        // A hook's captures are dropped outside of the lock.
        quietly(|| drop(before));
    }

    #[inline(always)]
    pub(crate) fn event(&self, event: Event<'_>) {
        if matches!(event, Event::Spawn(_) | Event::End(_)) && self.on.load(Ordering::Relaxed) {
            self.tell(event);
        }
    }

    #[cold]
    fn tell(&self, event: Event<'_>) {
        // The lock is free while a hook runs: that may spawn, or build a runtime.
        let hooks = || self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks::call(|| match event {
            Event::Spawn(task) => {
                let hook = hooks().spawn.clone();
                hook.into_iter().for_each(|hook| hook(TaskId::of_event(task.task()), task.info()));
            }
            Event::End(task) => {
                let hook = hooks().end.clone();
                hook.into_iter().for_each(|hook| hook(TaskId::of_event(task)));
            }
            _ => {}
        });
    }
}

impl fmt::Debug for TaskHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spawn, end) = (self.spawn.is_some(), self.end.is_some());
        f.debug_struct("TaskHooks").field("spawn", &spawn).field("end", &end).finish()
    }
}
