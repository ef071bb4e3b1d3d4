//! Shrinks a failing episode.

use super::{Failure, Options, run};

/// A failure, and the smallest failing episode that was found.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The episode.
    pub options: Options,
    /// Its failure.
    pub failure: Failure,
    /// How many episodes were tried.
    pub tried: usize,
}

/// Searches for a smaller failing episode: with fewer faults, fewer tasks, fewer workers, fewer
/// steps. Runs at most `tries` episodes. The violated invariant may differ.
pub fn shrink(options: &Options, failure: Failure, tries: usize) -> Shrunk {
    // Of all that are tried, the smallest one goes to the file.
    let file = options.file.clone();
    let options = Options { file: None, ..options.clone() };
    let mut best = Shrunk { options, failure, tried: 0 };
    loop {
        let smaller = candidates(&best.options);
        let found = smaller.into_iter().take(tries - best.tried.min(tries)).find_map(|options| {
            best.tried += 1;
            run(&options).err().map(|failure| (options, failure))
        });
        let Some((options, failure)) = found else {
            if file.is_some() && best.tried > 0 {
                drop(run(&Options { file, ..best.options.clone() }));
            }
            return best;
        };
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
