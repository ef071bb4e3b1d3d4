//! The options of `#[filch::task]`. The function is a task all the same, so that its callers compile.

#[filch::task(pool_size = 0)]
async fn no_slot() {}

#[filch::task(pool_size = -1)]
async fn negative() {}

#[filch::task(pool_size = "2")]
async fn text() {}

#[filch::task(pool_size)]
async fn no_value() {}

#[filch::task(pool_size = 1, pool_size = 2)]
async fn size_twice() {}

#[filch::task(pool_sise = 2)]
async fn unknown() {}

#[filch::task(local = true)]
async fn local_has_no_value() {}

#[filch::task(local pool_size = 2)]
async fn no_comma() {}

#[filch::task(crate = "filch")]
async fn no_path() {}

#[filch::task(2)]
async fn no_name() {}

fn main() {
    let _ = (no_slot(), negative(), text(), no_value(), size_twice());
    let _ = (unknown(), local_has_no_value(), no_comma(), no_path(), no_name());
}
