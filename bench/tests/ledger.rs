//! The ledger in small: nothing is lost, doubled or reordered, and no mapping changes, while
//! runtimes are killed, or stop for a while. Needs root; says SKIPPED without.

use std::process::Command;

#[test]
fn nothing_is_lost_while_runtimes_are_killed() {
    let tried = Command::new("ip").args(["netns", "list"]).output();
    let root = rustix::process::geteuid().is_root();
    if !root || !tried.is_ok_and(|tried| tried.status.success()) {
        eprintln!("SKIPPED: the ledger needs root and ip");
        return;
    }
    for more in [
        &[][..],
        &["hosts", "heartbeat=100"],
        &["seed=4", "faults=8"],
    ] {
        let mut ledger = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
        ledger.args(["ledger", "flows=1000", "rate=2000", "faults=2"]);
        let ran = ledger.args(more).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}\n{errors}");
        // Where it waits for a process that stands still, the kernel may drop some: that is counted.
        let none = said.contains("lost 0 (weir has counted 0)");
        assert!(none || more.contains(&"seed=4"), "{said}");
    }
}
