//! Models of the protocols of the platforms: the sources of `filch-linux`, compiled over loom's atomics. Run with
//! `RUSTFLAGS="--cfg filch_loom" cargo test -p filch-models --release`.

#[cfg(all(test, filch_loom))]
mod token;
#[cfg(all(test, filch_loom))]
#[path = "../../../platform-linux/src/token.rs"]
#[allow(dead_code, reason = "a model uses a part of it")]
mod token_of_linux;
