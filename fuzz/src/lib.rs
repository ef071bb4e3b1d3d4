//! The fuzz targets: each turns its input into a list of operations, applies them to the real code
//! and to a plain model of it, and panics if the two differ; `trace` reads it. `targets/` wraps them for libFuzzer;
//! `tests/corpus.rs` runs the corpora.

#[path = "../../core/tests/common/mod.rs"]
mod common;
mod deque;
mod executor;
mod injector;
mod ring;
mod state;
mod trace;
mod wheel;
mod world;

use arbitrary::{Arbitrary, Unstructured};

/// The targets by name.
pub const TARGETS: [&str; 7] = ["ring", "injector", "deque", "wheel", "state", "executor", "trace"];

/// Runs a target on an input. The fuzzer searches for panics.
pub fn run(target: &str, data: &[u8]) {
    let input = &mut Unstructured::new(data);
    match target {
        "ring" => ring::run(input),
        "injector" => injector::run(input),
        "deque" => deque::run(input),
        "wheel" => wheel::run(input),
        "state" => state::run(input),
        "executor" => executor::run(input),
        "trace" => trace::run(input),
        _ => panic!("no such target: {target}"),
    }
}

/// The operations up to the end of the input, or at most so many.
fn operations<'a, T: Arbitrary<'a>>(
    input: &mut Unstructured<'a>,
    most: usize,
) -> impl Iterator<Item = T> {
    let next = move || if input.is_empty() { None } else { T::arbitrary(input).ok() };
    core::iter::from_fn(next).take(most)
}

/// A value, or its default at the end of the input.
fn value<'a, T: Arbitrary<'a> + Default>(input: &mut Unstructured<'a>) -> T {
    T::arbitrary(input).unwrap_or_default()
}
