//! The ledger in small: nothing is lost, doubled or reordered, and no mapping changes, while
//! runtimes are killed, or stop for a while; and what comes is right where the switch is killed. Needs root; says SKIPPED without.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One ledger at a time: each wants all cores, and a kernel that is kept busy by several closes no
/// socket for a minute.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn what_comes_is_right_when_the_switch_is_killed() {
    comes_right("switch");
}

#[test]
fn what_comes_is_right_when_the_host_of_the_switch_is_lost() {
    comes_right("standby");
}

#[track_caller]
fn comes_right(what: &str) {
    if !possible() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ledger = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    ledger.args(["ledger", what, "flows=1000", "rate=2000"]);
    let ran = ledger.args(["faults=2", "heartbeat=200"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{errors}");
    let clean = "doubled 0, reordered 0, other mapping 0, unknown 0";
    assert!(said.contains(clean), "{said}");
}

/// True where there are namespaces.
fn possible() -> bool {
    let tried = Command::new("ip").args(["netns", "list"]).output();
    let root = rustix::process::geteuid().is_root();
    let possible = root && tried.is_ok_and(|tried| tried.status.success());
    if !possible {
        eprintln!("SKIPPED: the ledger needs root and ip");
    }
    possible
}

#[test]
fn nothing_is_lost_while_runtimes_are_killed() {
    if !possible() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
