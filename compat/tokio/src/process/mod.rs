//! Child processes.

mod child;
mod command;
mod pipes;

pub use self::{
    child::Child,
    command::Command,
    pipes::{ChildStderr, ChildStdin, ChildStdout},
};
