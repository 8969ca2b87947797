//! `generated/` is what `proto/` says. After a change of `proto/`,
//! `WEIR_API_WRITE=1 cargo test -p weir-api` writes it anew.

use std::path::Path;

#[test]
fn the_generated_code_is_that_of_the_descriptions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(
        ["weir/v1/coordinator.proto", "weir/v1/instance.proto"],
        [root.join("proto")],
    )
    .unwrap();
    let made = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tonic_prost_build::configure()
        .server_mod_attribute("weir.v1", "#[cfg(feature = \"service\")]")
        .client_mod_attribute("weir.v1", "#[cfg(feature = \"service\")]")
        .out_dir(made)
        .compile_fds(files)
        .unwrap();
    let made = std::fs::read_to_string(made.join("weir.v1.rs")).unwrap();
    let kept = root.join("generated/weir.v1.rs");
    if std::env::var_os("WEIR_API_WRITE").is_some() {
        std::fs::write(&kept, made).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        made == kept,
        "run `WEIR_API_WRITE=1 cargo test -p weir-api`, and commit the change"
    );
}
