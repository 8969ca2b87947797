//! Another program of the same release: a copy of this one, with another digest.

#![allow(dead_code)] // each test needs another part of it

use std::io::Write as _;

use serde_json::Value;

use crate::support::{Folder, run};

/// Makes one; gives its path.
pub(crate) fn next(folder: &Folder) -> String {
    let path = folder.path("weir-next");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &path).unwrap();
    let file = std::fs::OpenOptions::new().append(true).open(&path);
    file.unwrap().write_all(b"next").unwrap();
    path
}

/// The digest by which weir names a program.
pub(crate) fn digest(program: &str) -> String {
    let said = std::process::Command::new(program)
        .args(["version", "--output", "json"])
        .output()
        .unwrap();
    let about: Value = serde_json::from_slice(&said.stdout).unwrap();
    about["digest"].as_str().unwrap().to_owned()
}

/// The digests of the programs that an instance runs: of each switch or agent, and of each runtime of
/// an agent.
pub(crate) fn running(socket: &str) -> Option<Vec<String>> {
    let ran = run(["get", "programs", socket, "--output", "json"]);
    if ran.code != 0 {
        return None;
    }
    let digest = |of: &Value| of["program"]["digest"].as_str().unwrap_or("?").to_owned();
    let mut all = Vec::new();
    for host in ran.json().as_array().unwrap() {
        all.push(digest(host));
        all.extend(host["runtimes"].as_array().unwrap().iter().map(digest));
    }
    Some(all)
}
