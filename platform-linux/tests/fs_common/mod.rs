//! What the tests of files share.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses a part of it")]

use std::path::Path;

use filch_linux::{
    Builder,
    fs::{self, Way},
    runtime::PausableRuntime,
};

use super::os_common::{scratch, watchdog};

/// The ways that this build has.
pub(crate) fn ways() -> Vec<Way> {
    if cfg!(feature = "io-uring") { vec![Way::Pool, Way::Ring] } else { vec![Way::Pool] }
}

/// A builder of a runtime that reads files this way.
pub(crate) fn builder(way: Way) -> Builder {
    let builder = filch_linux::Builder::new().workers(2);
    #[cfg(feature = "io-uring")]
    return builder.io_uring(way == Way::Ring);
    #[cfg(not(feature = "io-uring"))]
    {
        assert_eq!(way, Way::Pool);
        builder
    }
}

/// Runs a test on a runtime that reads files this way, with a folder.
pub(crate) fn run(name: &str, way: Way, test: impl AsyncFnOnce(&Path)) {
    let _watchdog = watchdog();
    let folder = scratch(&format!("fs-{name}-{way:?}"));
    let runtime: PausableRuntime = builder(way).build_pausable().unwrap();
    runtime.block_on(async {
        assert_eq!(fs::way().unwrap(), way, "the kernel has io_uring, and allows it");
        test(&folder.0).await;
    });
}

/// Each of the functions is a test of the pool and one of the ring.
macro_rules! both {
    ($($name:ident,)*) => {
        mod pool {
            $(
                #[test]
                fn $name() {
                    crate::fs_common::run(stringify!($name), filch_linux::fs::Way::Pool, crate::$name);
                }
            )*
        }

        #[cfg(feature = "io-uring")]
        mod ring {
            $(
                #[test]
                fn $name() {
                    crate::fs_common::run(stringify!($name), filch_linux::fs::Way::Ring, crate::$name);
                }
            )*
        }
    };
}
pub(crate) use both;
