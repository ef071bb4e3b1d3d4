//! The service and its messages in Rust.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=store.proto");
    let proto = protox::compile(["store.proto"], ["."])?;
    Ok(tonic_prost_build::configure().compile_fds(proto)?)
}
