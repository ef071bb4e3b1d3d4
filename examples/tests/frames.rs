//! The example `frames`: its tasks run between the frames, and the frames are on time.
#![cfg(target_os = "linux")]

use std::{env, process::Command};

/// The numbers of its last line: ball, player, scores, wakes.
fn play(args: &[&str]) -> [u32; 4] {
    let _watchdog = filch_test_support::watchdog();
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/frames");
    assert!(program.exists(), "{program:?} is missing: run `cargo build --examples` first");
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    let after = |name: &str| {
        let rest = last.split_once(name).unwrap_or_else(|| panic!("no {name:?} in {last:?}")).1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    assert!(last.starts_with(args.last().unwrap()), "{last}");
    ["ball ", "player ", "scores ", "woken "].map(after)
}

#[test]
fn tasks_run_between_the_frames_of_a_loop_of_events() {
    let [ball, player, scores, wakes] = play(&["30"]);
    // Timers, sockets, the blocking pool and a channel.
    assert!(ball >= 10 && player >= 10 && scores >= 2, "{ball} {player} {scores}");
    assert!(wakes >= 2, "the pool's threads post events: {wakes}");
}

#[test]
fn tasks_run_between_the_frames_of_a_loop_that_sleeps_on_the_descriptor() {
    let [ball, player, scores, wakes] = play(&["--fd", "30"]);
    assert!(ball >= 10 && player >= 10 && scores >= 2, "{ball} {player} {scores}");
    assert!(wakes >= 10, "each move of the player wakes the loop: {wakes}");
}
