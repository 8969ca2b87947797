//! tshark, which reads what weir writes.

use std::process::Command;

/// Whether tshark is there; in CI it must be.
pub(crate) fn has_tshark() -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok();
    if !there {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark is missing, which CI has"
        );
        let text = b"SKIPPED: no tshark (apt-get install tshark)\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
    }
    there
}

/// Fields of each packet of a capture, as tshark reads them.
pub(crate) fn tshark(path: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-r", path, "-n", "-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let ran = command.output().expect("tshark runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{path}: {said}");
    assert!(
        !said.contains("cut short") && !said.contains("damaged"),
        "{said}"
    );
    let lines = String::from_utf8_lossy(&ran.stdout).into_owned();
    let lines = lines.lines();
    lines
        .map(|line| line.split('|').map(str::to_owned).collect())
        .collect()
}
