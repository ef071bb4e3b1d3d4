//! rayon, in a pool of its own.

pub(crate) struct Rayon(rayon::ThreadPool);

/// The thread finds its pool.
struct Here;

impl Rayon {
    fn new(workers: usize) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        Self(pool.expect("the pool starts"))
    }

    fn enter<R: Send>(&self, run: impl FnOnce(Here) -> R + Send) -> R {
        self.0.install(|| run(Here))
    }
}

fn join<A: Send, B: Send>(
    _: Here,
    a: impl FnOnce(Here) -> A + Send,
    b: impl FnOnce(Here) -> B + Send,
) -> (A, B) {
    rayon::join(|| a(Here), || b(Here))
}

super::computations!(Rayon, Here);
