//! Numbers of runtimes.

crate::util::id! {
    /// What no other runtime of the program has.
    Id
}
