//! What the compiler checks of a static task: it says it at the task's own tokens.

use std::rc::Rc;

use filch::Spawner;

fn slots() -> usize {
    2
}

#[filch::task(pool_size = slots())]
async fn not_constant() {}

#[filch::task(pool_size = 2u8)]
async fn not_usize() {}

#[filch::task]
async fn not_send() {
    let kept = Rc::new(1);
    filch::yield_now().await;
    drop(kept);
}

#[filch::task]
async fn output_is_not_send() -> Rc<u8> {
    Rc::new(1)
}

#[filch::task(local)]
async fn local(kept: Rc<u8>) {
    filch::yield_now().await;
    drop(kept);
}

fn spawn(spawner: Spawner) {
    let _ = output_is_not_send().spawn(spawner);
    let _ = local(Rc::new(1)).spawn(spawner);
}

fn main() {
    let _ = (not_constant(), not_usize(), not_send(), spawn);
}
