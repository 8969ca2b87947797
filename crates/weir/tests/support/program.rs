//! Another program of the same release: a copy of this one, with another digest.

#![allow(dead_code)] // each test needs another part of it

use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, run};

/// Makes one; gives its path.
pub(crate) fn next(folder: &Folder) -> String {
    let path = folder.path("weir-next");
    // By a process of its own: one that this has started meanwhile would keep the file open for writing,
    // and it could not be run.
    let words = "cp \"$0\" \"$1\" && printf next >> \"$1\"";
    let copied = Command::new("sh")
        .args(["-c", words, env!("CARGO_BIN_EXE_weir"), &path])
        .status();
    assert!(copied.unwrap().success());
    path
}

/// The digest by which weir names a program.
pub(crate) fn digest(program: &str) -> String {
    let said = Command::new(program)
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
