//! Tasks that are held to some workers: from any context, for those of them that look.

use crate::{
    atomic::maybe_const,
    lock::Spin,
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// An unbounded queue without memory of its own, from which a consumer takes the first task that is for it.
///
/// No worker waits for the lock: one that finds it taken looks again later (`scheduler::held`).
pub(crate) struct Held {
    stack: Stack,
    ordered: Spin<Chain>,
}

impl Held {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stack: Stack::new(), ordered: Spin::new(Chain::new()) }
        }
    }

    /// Adds a task. Lock-free, callable from any context.
    pub(crate) fn push(&self, ready: Ready) {
        self.stack.push(ready);
    }

    /// Takes the task of the lowest rank, the oldest of those. `rank` is asked once for each task that waits; those without a rank stay.
    /// `None` if another consumer holds the lock. Cost: linear in the tasks that wait.
    pub(crate) fn pop<R: Ord>(&self, rank: impl Fn(&Ready) -> Option<R>) -> Option<Option<Ready>> {
        self.ordered.try_with(|ordered| {
            // A swap even of an empty stack, on which `OwnClasses::mark` relies.
            ordered.append(self.stack.take_all());
            let mut first = None::<(usize, R)>;
            for i in 0..ordered.len() {
                let Some(ready) = ordered.pop_front() else { break };
                if let Some(rank) = rank(&ready) {
                    if first.as_ref().is_none_or(|(_, least)| rank < *least) {
                        first = Some((i, rank));
                    }
                }
                ordered.push_back(ready);
            }
            let mut taken = None;
            let turns = if first.is_some() { ordered.len() } else { 0 };
            for i in 0..turns {
                let Some(ready) = ordered.pop_front() else { break };
                match &first {
                    Some((at, _)) if *at == i => taken = Some(ready),
                    _ => ordered.push_back(ready),
                }
            }
            taken
        })
    }
}
