//! Uses that are not resolved yet.

/// A lower file, the higher one that it uses, and what it uses of that. The list may only become shorter.
pub(super) const EXCEPTIONS: &[(&str, &str, &[&str])] = &[];
