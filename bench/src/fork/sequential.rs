//! No pool: one after the other. What it adds to the plain computation is what the compiler makes of the closures.

use super::Fork;

pub(crate) struct Sequential;

impl Fork for Sequential {
    type Scope<'a> = ();

    fn start(_: usize) -> Self {
        Self
    }

    fn enter<R: Send>(&self, run: impl FnOnce(&mut ()) -> R + Send) -> R {
        run(&mut ())
    }

    fn join<A: Send, B: Send>(
        (): &mut (),
        a: impl FnOnce(&mut ()) -> A + Send,
        b: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        (a(&mut ()), b(&mut ()))
    }
}
