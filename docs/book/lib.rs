//! The book of filch. `mdbook build docs/book` makes its pages, `cargo test -p filch-book` compiles and runs its code.
//!
//! A test keeps the chapters here, in `SUMMARY.md` and in the folder the same.

macro_rules! chapters {
    ($($name:ident $file:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("src/", $file, ".md"))]
            struct $name;
        )*

        /// The chapters whose code is tested, by their files' names.
        pub const TESTED: &[&str] = &[$($file),*];
    };
}

chapters! {
    Introduction "introduction"
    Start "start"
    Tasks "tasks"
    Blocking "blocking"
    Io "io"
    Http "http"
    Time "time"
    Shutdown "shutdown"
    Testing "testing"
    Cookbook "cookbook"
    FromTokio "from-tokio"
    FromSmol "from-smol"
    FromRayon "from-rayon"
    Design "design"
}

/// The chapters that are pages of `docs/`, whose code is tested elsewhere: they consist of one `include`.
pub const INCLUDED: &[&str] = &["guarantees", "observing", "porting", "embedding"];
