//! The parts of the example `checksum` which have nothing to do with filch: its command line,
//! the walk over folders and the spelling of names. They are a library so that they have unit
//! tests; what shows filch at work is all in `checksum/main.rs`.

pub mod args;
pub mod names;
pub mod walk;
