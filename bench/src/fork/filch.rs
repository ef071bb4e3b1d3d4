//! filch itself.

use filch_linux::{Runtime, parallel::Fork};

pub(crate) struct Filch(Runtime);

impl Filch {
    fn new(workers: usize) -> Self {
        Self(filch_linux::Builder::new().workers(workers).build().expect("the runtime starts"))
    }

    fn enter<R: Send>(&self, run: impl FnOnce(Fork<'_>) -> R + Send) -> R {
        self.0.handle().fork(run)
    }
}

fn join<A: Send, B: Send>(
    fork: Fork<'_>,
    a: impl FnOnce(Fork<'_>) -> A + Send,
    b: impl FnOnce(Fork<'_>) -> B + Send,
) -> (A, B) {
    fork.join(a, b)
}

super::computations!(Filch, Fork<'_>);
