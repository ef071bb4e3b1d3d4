//! No pool: one side after the other. Its cost over the plain computation comes from the closures.

pub(crate) struct Sequential;

struct Nothing;

impl Sequential {
    fn new(_: usize) -> Self {
        Self
    }

    fn enter<R>(&self, run: impl FnOnce(Nothing) -> R) -> R {
        run(Nothing)
    }
}

fn join<A, B>(_: Nothing, a: impl FnOnce(Nothing) -> A, b: impl FnOnce(Nothing) -> B) -> (A, B) {
    (a(Nothing), b(Nothing))
}

super::computations!(Sequential, Nothing);
