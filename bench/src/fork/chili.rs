//! chili. The calling thread is one of its workers.

use core::num::NonZero;

use chili::{Config, Scope, ThreadPool};

pub(crate) struct Chili(ThreadPool);

impl Chili {
    fn new(workers: usize) -> Self {
        let thread_count = NonZero::new(workers);
        Self(ThreadPool::with_config(Config { thread_count, ..Config::default() }))
    }

    fn enter<R: Send>(&self, run: impl FnOnce(&mut Scope<'_>) -> R + Send) -> R {
        run(&mut self.0.scope())
    }
}

fn join<A: Send, B: Send>(
    scope: &mut Scope<'_>,
    a: impl FnOnce(&mut Scope<'_>) -> A + Send,
    b: impl FnOnce(&mut Scope<'_>) -> B + Send,
) -> (A, B) {
    scope.join(a, b)
}

super::computations!(Chili, &mut Scope<'_>);
