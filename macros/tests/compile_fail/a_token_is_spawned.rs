//! A task that is called and not spawned does not run.
#![deny(unused_must_use)]

#[filch::task]
async fn blink() {}

fn main() {
    blink();
}
