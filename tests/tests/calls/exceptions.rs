//! Uses that are not resolved yet.

/// A lower file, the higher one that it uses, and what it uses of that. The list may only become shorter.
pub(super) const EXCEPTIONS: &[(&str, &str, &[&str])] = &[
    (
        "scheduler/executor.rs",
        "scheduler/admit.rs",
        &[
            "op_admit",
            "op_admit_local",
            "op_caller",
            "op_dismiss",
            "op_dismiss_local",
            "op_launch",
            "op_registry",
            "op_workers",
        ],
    ),
    (
        "scheduler/executor.rs",
        "scheduler/dispatch.rs",
        &["op_current", "op_schedule", "op_unblock", "op_unpark"],
    ),
    (
        "scheduler/executor.rs",
        "scheduler/help.rs",
        &["op_block", "op_contain", "op_help", "op_may_wait"],
    ),
];
