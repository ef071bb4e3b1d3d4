//! What is wrong with a `main` or a `test` is said at its place.

#[filch_std::main]
fn not_async() {}

#[filch_std::main(worker_threads = 2)]
async fn the_name_of_another_runtime() {}

#[filch_std::main(paused)]
async fn a_program_with_a_stopped_clock() {}

#[filch_std::test]
async fn arguments(_: u32) {}

#[filch_std::main(workers = "two")]
async fn no_number() {}

#[filch_std::main]
async fn another_type() -> u32 {
    "a text"
}

#[filch_std::main]
struct NoFunction;

fn main() {}
