//! From a failure to a smaller one.

use super::{Failure, Options, run};

/// A failure, and the smallest episode that was found to have one.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The episode.
    pub options: Options,
    /// What goes wrong in it.
    pub failure: Failure,
    /// How many episodes were tried.
    pub tried: usize,
}

/// Looks for a smaller episode that fails: with fewer faults, fewer tasks, fewer workers, fewer steps. At most `tries` are
/// run. What fails need not be the same invariant.
pub fn shrink(options: &Options, failure: Failure, tries: usize) -> Shrunk {
    let mut best = Shrunk { options: options.clone(), failure, tried: 0 };
    loop {
        let smaller = candidates(&best.options);
        let found = smaller.into_iter().take(tries - best.tried.min(tries)).find_map(|options| {
            best.tried += 1;
            run(&options).err().map(|failure| (options, failure))
        });
        let Some((options, failure)) = found else { return best };
        (best.options, best.failure) = (options, failure);
    }
}

/// Smaller episodes, the most promising first.
fn candidates(options: &Options) -> Vec<Options> {
    let mut all = Vec::new();
    let mut push = |change: &dyn Fn(&mut Options)| {
        let mut smaller = options.clone();
        change(&mut smaller);
        if smaller != *options {
            all.push(smaller);
        }
    };
    push(&|o| o.faults = super::Faults::none());
    push(&|o| o.steps /= 8);
    push(&|o| o.steps /= 2);
    push(&|o| o.steps -= o.steps / 4);
    push(&|o| o.size = 2);
    push(&|o| o.size = (o.size / 2).max(2));
    for workers in 1..options.workers.unwrap_or(6) {
        push(&|o| o.workers = Some(workers));
    }
    for fault in options.faults.iter() {
        push(&|o| o.faults = o.faults.without(fault));
    }
    all
}
