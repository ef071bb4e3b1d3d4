//! Runs the example `hypervisor`.

use std::{env, process::Command};

#[test]
fn guests_get_their_blocks() {
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/hypervisor");
    let run = Command::new(&program).output().expect("`cargo build --examples` has made it");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{run:?}");
    for guest in 0..2 {
        assert!(text.contains(&format!("guest {guest}: 500 blocks")), "{text}");
    }
}
