//! The time of the hot paths: `cargo bench --manifest-path bench/micro/Cargo.toml`.

use divan::{Bencher, counter::ItemsCount};

fn main() {
    divan::main();
}

/// Operations in a run: enough to make the runtime's start negligible.
const TIMES: usize = 100_000;

#[divan::bench(args = filch_micro::PATHS.iter().map(|path| path.0))]
fn path(bencher: Bencher<'_, '_>, name: &str) {
    let Some((_, run)) = filch_micro::PATHS.iter().find(|path| path.0 == name) else { return };
    bencher.counter(ItemsCount::new(TIMES)).bench(|| run(TIMES));
}
