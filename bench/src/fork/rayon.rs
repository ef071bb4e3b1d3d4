//! rayon, in a pool of its own.

use super::Fork;

pub(crate) struct Rayon(rayon::ThreadPool);

impl Fork for Rayon {
    type Scope<'a> = ();

    fn start(workers: usize) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        Self(pool.expect("the pool starts"))
    }

    fn enter<R: Send>(&self, run: impl FnOnce(&mut ()) -> R + Send) -> R {
        self.0.install(|| run(&mut ()))
    }

    fn join<A: Send, B: Send>(
        (): &mut (),
        a: impl FnOnce(&mut ()) -> A + Send,
        b: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        rayon::join(|| a(&mut ()), || b(&mut ()))
    }
}
