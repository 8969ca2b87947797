//! `weir verify`: the copies of a cluster that runs are compared with what they are copies of.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use long::{HOSTS, Long, REPLICATED};
use process::wait_for;
use serde_json::Value;
use support::{number, run};

const CHAIN: &str = "webedge.yaml";

/// Compares all copies of a run under way again and again, until most flows had one that is equal.
#[track_caller]
fn compared(long: &Long) -> Value {
    let socket = long.socket();
    wait_for("copies to compare", || {
        let ran = run(["verify", "--instance", &socket, "--output", "json"]);
        if ran.code != 0 {
            // It is not there yet.
            assert_eq!(ran.out, "");
            return None;
        }
        let found = ran.json();
        assert_eq!(found["wrong"], 0, "{found}");
        (sum(&found, "equal") >= 200).then_some(found)
    })
}

fn sum(found: &Value, of: &str) -> u64 {
    let runtimes = found["runtimes"].as_array().unwrap().iter();
    runtimes.map(|its| number(its, &format!("/{of}"))).sum()
}

#[test]
fn copies_are_compared_while_packets_flow() {
    for more in [
        &["--runtimes", "3", "--replication", "each-burst"][..],
        &[
            "--runtimes",
            "3",
            "--replication",
            "each-burst",
            "--processes",
        ],
        &["--runtimes", "3", "--replication", "every-8"],
        &[
            "--runtimes",
            "2",
            "--loggers",
            "1",
            "--replication",
            "each-burst",
        ],
    ] {
        let long = Long::start(CHAIN, "400k", more);
        let found = compared(&long);
        let runtimes = found["runtimes"].as_array().unwrap().len();
        assert_eq!(runtimes, 3, "{more:?}: {found}");
        let done = long.ended();
        assert_eq!(done.summary["packets_in"], done.summary["packets_out"]);
        let at_replicas = number(&done.summary, "/switch/compare_equal");
        assert!(at_replicas >= 200, "{more:?}: {at_replicas}");
        assert!(done.summary["switch"]["compare_differs"].is_null());
    }
}

#[test]
fn copies_on_other_hosts_are_compared() {
    let cluster = Long::up(CHAIN, "400k", HOSTS, REPLICATED);
    let socket = cluster.socket();
    compared(&cluster);
    let told = run(["verify", "--instance", &socket]);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    assert!(told.out.starts_with("RUNTIME  EQUAL"), "{}", told.out);
    assert!(told.out.contains("none differs"), "{}", told.out);
    cluster.ended();
}

#[test]
fn where_there_is_nothing_to_compare_it_is_said() {
    let long = Long::start(CHAIN, "400k", &["--runtimes", "2"]);
    let socket = long.socket();
    let found = wait_for("flows without copies", || {
        let ran = run(["verify", "--instance", &socket, "--output", "json"]);
        let found = (ran.code == 0).then(|| ran.json())?;
        (sum(&found, "skipped") > 0).then_some(found)
    });
    assert_eq!(found["equal"], 0, "{found}");
    long.ended();
    let plain = Long::start(CHAIN, "400k", &[]);
    let socket = plain.socket();
    let refused = wait_for("an answer", || {
        let ran = run(["verify", "--instance", &socket]);
        ran.err.contains("behind a switch").then_some(ran)
    });
    assert_eq!(refused.code, 1);
    plain.ended();
}
