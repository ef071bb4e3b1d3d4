//! filch itself.

use filch_std::{Runtime, parallel};

use super::Fork;

pub(crate) struct Filch(Runtime);

impl Fork for Filch {
    type Scope<'a> = parallel::Fork<'a>;

    fn start(workers: usize) -> Self {
        Self(Runtime::builder().workers(workers).build().expect("the runtime starts"))
    }

    fn enter<R: Send>(&self, run: impl FnOnce(&mut parallel::Fork<'_>) -> R + Send) -> R {
        self.0.handle().fork(|mut fork| run(&mut fork))
    }

    fn join<A: Send, B: Send>(
        fork: &mut parallel::Fork<'_>,
        a: impl FnOnce(&mut parallel::Fork<'_>) -> A + Send,
        b: impl FnOnce(&mut parallel::Fork<'_>) -> B + Send,
    ) -> (A, B) {
        fork.join(|mut fork| a(&mut fork), |mut fork| b(&mut fork))
    }
}
