//! What the code of the attributes `main` and `test` calls.

pub use filch_std::__macros::{
    NO_PATIENCE, PATIENCE, run, run_local, run_local_paused, run_paused,
};

use crate::Builder;

pub fn builder() -> Builder {
    Builder::new()
}
