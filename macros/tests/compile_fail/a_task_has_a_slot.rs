//! The number of slots is checked where the constant's value is known, and so is the alignment.

const NONE: usize = 0;

#[filch::task(pool_size = NONE)]
async fn no_slot() {}

#[repr(align(8192))]
struct Large(u8);

#[filch::task]
async fn aligned(_: Large) {}

fn main() {
    let _ = (no_slot(), aligned(Large(0)));
}
