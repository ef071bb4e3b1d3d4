//! The files of the rooms.

/// Rooms below `core/src`, and the files of each, lowest first: a file may use those before it. A room has all files of its
/// folder, but for `mod.rs`, models and tests. The order is the one with the fewest exceptions, which
/// `cargo test -p filch-tests --test layers -- --ignored --nocapture propose` prints together with these.
pub(super) const ROOMS: &[(&str, &[&str])] = &[(
    "scheduler",
    &[
        "bay",
        "config",
        "error",
        "adapt",
        "rng",
        "ward",
        "park",
        "slot",
        "duties",
        "listener",
        "idle",
        "dispatch",
        "worker",
        "snapshot",
        "shutdown",
        "job",
        "admit",
        "executor",
        "timing",
        "leave",
        "watchdog",
        "find",
        "broadcast",
        "replace",
        "helper",
        "jobs",
        "sleep",
        "help",
    ],
)];
