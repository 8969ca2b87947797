//! Makes Rust of `proto/`: with protox, so that neither protoc nor the network
//! is needed.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let files = protox::compile(["weir/v1/instance.proto"], [&root])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
