//! The memory of the machine, by its target, for the linker script of cortex-m-rt.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let variable = |name| env::var(name).expect("cargo sets it");
    let (name, target) = (variable("OUT_DIR"), variable("TARGET"));
    let board = if target.starts_with("thumbv6m") { "microbit.x" } else { "mps2.x" };
    fs::copy(board, Path::new(&name).join("memory.x"))?;
    println!("cargo:rustc-link-search={name}");
    println!("cargo:rerun-if-changed={board}");
    Ok(())
}
