//! The folder of real captures and rules, which stands beside the project.

use std::path::PathBuf;

/// The folder, or `None` with a loud note.
pub fn traces() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let beside = root
        .ancestors()
        .nth(2)
        .map(|root| root.join("../shared/traces"));
    let named = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    let found = beside.into_iter().chain(named).find(|path| path.is_dir());
    if found.is_none() {
        skipped("no ../shared/traces beside the project, and WEIR_TRACES names no folder");
    }
    found
}

/// Straight to standard error: the harness keeps what a passed test prints.
pub fn skipped(why: &str) {
    let text = format!("SKIPPED: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}
