//! Loggers in real time: members of a cluster that keep copies of the units of all runtimes and own
//! none (SNF §6). What they have, a runtime goes on with.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeSet;

use long::{Long, REPLICATED, same_packets};
use process::{signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, example, number, run};

const CHAIN: &str = "webedge.yaml";
/// Two hosts with a runtime each, and one with a logger.
const WITH: &str = "  - {name: alpha, runtimes: 1}\n  - {name: beta, runtimes: 1}\n  \
                    - {name: gamma, loggers: 1}";
/// One runtime and a logger, each in a process of its own.
const ALONE: [&str; 7] = [
    "--runtimes",
    "1",
    "--loggers",
    "1",
    "--processes",
    "--replication",
    "each-burst",
];

/// The rows of `weir get runtimes` that are ready and of this role; none where nobody answers.
fn ready(socket: &str, role: &str) -> Vec<Value> {
    let listed = run(["get", "runtimes", socket, "--output", "json"]);
    if listed.code != 0 {
        return Vec::new();
    }
    let rows = listed.json();
    let rows = rows.as_array().unwrap().iter();
    rows.filter(|row| row["role"] == role && row["state"] == "ready")
        .cloned()
        .collect()
}

fn processes(socket: &str, role: &str) -> BTreeSet<u32> {
    // On a thread it is in the switch's own process.
    let rows = ready(socket, role).into_iter();
    rows.filter(|row| row["site"] != "thread")
        .filter_map(|row| Some(row["process"].as_u64()? as u32))
        .collect()
}

#[test]
fn flows_of_a_killed_runtime_go_on_with_the_state_of_a_logger() {
    let plain = Long::start(CHAIN, "600k", &[]).ended();
    let cluster = Long::up(CHAIN, "600k", WITH, REPLICATED);
    let socket = cluster.socket();
    let (run, killed) = cluster.killed_among(|| processes(&socket, "runtime"));
    assert!(killed > 1, "{killed} were killed");
    assert!(number(&run.summary, "/switch/resumed_from_logger") > 0);
    same_packets(&plain, &run);
}

#[test]
fn the_only_runtime_has_its_copies_at_a_logger() {
    let plain = Long::start(CHAIN, "400k", &[]).ended();
    let long = Long::start(CHAIN, "400k", &ALONE);
    let socket = long.socket();
    let (run, killed) = long.killed_among(|| processes(&socket, "runtime"));
    assert!(killed > 1, "{killed} were killed");
    assert!(number(&run.summary, "/switch/resumed_from_logger") > 0);
    same_packets(&plain, &run);
}

#[test]
fn a_killed_logger_is_replaced_and_filled_again() {
    let plain = Long::start(CHAIN, "600k", &[]).ended();
    let cluster = Long::up(CHAIN, "600k", WITH, REPLICATED);
    let socket = cluster.socket();
    let (run, killed) = cluster.killed_among(|| processes(&socket, "logger"));
    assert!(killed > 1, "{killed} were killed");
    same_packets(&plain, &run);
}

/// The next switch is told which of those that it takes over is the logger, and asks it.
#[test]
fn a_logger_outlives_the_switch_and_serves_the_next_one() {
    let hosts = "  - {name: alpha}\n  - {name: beta, runtimes: 1}\n  - {name: gamma, loggers: 1}";
    let cluster = Long::up_to_nowhere("1M", hosts, REPLICATED);
    let socket = cluster.socket();
    let switch = wait_for("a whole cluster", || {
        cluster.whole()?;
        let hosts = run(["get", "hosts", &socket, "--output", "json"]);
        let hosts = (hosts.code == 0).then(|| hosts.json())?;
        Some(hosts[0]["process"].as_u64()? as u32)
    });
    let before = ready(&socket, "logger");
    let runtime = processes(&socket, "runtime");
    signal(switch, Signal::KILL);
    wait_for("another switch", || {
        let asked = run(["events", &socket]);
        (asked.code == 0 && asked.out.contains("recovered")).then_some(())
    });
    wait_for("a whole cluster", || cluster.whole());
    let after = ready(&socket, "logger");
    assert_eq!(before[0]["process"], after[0]["process"]);
    signal(*runtime.first().unwrap(), Signal::KILL);
    let summary = cluster.summed_up();
    let count = |what| number(&summary, what);
    assert_eq!(count("/packets_before") + count("/packets_in"), 1_000_000);
    assert!(count("/switch/resumed_from_logger") > 0);
    let begun = summary.pointer("/switch/first_opened");
    assert_eq!(begun, None, "a flow began anew");
}

/// A logger is listed, drained, and never counted as a runtime.
#[test]
fn a_logger_is_seen_and_drained() {
    let plain = Long::start(CHAIN, "400k", &[]).ended();
    let cluster = Long::up(CHAIN, "400k", WITH, REPLICATED);
    let socket = cluster.socket();
    wait_for("copies at the logger", || {
        let row = ready(&socket, "logger").pop()?;
        (row["replicas"].as_u64()? > 0).then_some(())
    });
    let row = ready(&socket, "logger").pop().unwrap();
    assert_eq!((&row["host"], &row["units"]), (&"gamma".into(), &0.into()));
    let hosts = run(["get", "hosts", &socket, "--output", "json"]).json();
    assert_eq!(hosts[2]["loggers_ready"], 1);
    assert_eq!(hosts[2]["runtimes"], 0);
    let id = row["runtime"].to_string();
    let moved = run(["move", "1", &id, "--instance", &socket]);
    assert!(moved.err.contains("logger"), "{}", moved.err);
    let scaled = run(["scale", "3", "--instance", &socket]);
    assert!(scaled.err.contains("2 places"), "{}", scaled.err);
    let drained = run(["drain", &id, "--instance", &socket]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    assert_eq!(ready(&socket, "logger"), Vec::<Value>::new());
    assert!(
        ready(&socket, "runtime")
            .iter()
            .any(|row| row["replicas"] != 0)
    );
    let scaled = run(["scale", "2", "--instance", &socket]);
    assert_eq!(scaled.code, 0, "{}", scaled.err);
    let again = ready(&socket, "logger").pop().expect("it is there again");
    assert_ne!(again["runtime"], row["runtime"]);
    let run = cluster.ended();
    assert_eq!(run.summary["drops"], plain.summary["drops"]);
    same_packets(&plain, &run);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let chain = example(CHAIN);
    for (more, part) in [
        (&["--loggers", "1"][..], "--runtimes"),
        (&["--runtimes", "1", "--loggers", "1"], "--replication"),
        (
            &["--runtimes", "1", "--loggers", "1", "--replication", "none"],
            "none are made",
        ),
        (
            &[
                "--runtimes",
                "1",
                "--loggers",
                "here",
                "--replication",
                "each-burst",
            ],
            "expected `local`",
        ),
        (
            &[
                "--runtimes",
                "60",
                "--loggers",
                "5",
                "--replication",
                "each-burst",
            ],
            "at most 64 of both",
        ),
        (
            &[
                "--runtimes",
                "1",
                "--loggers",
                "127.0.0.1:9",
                "--replication",
                "each-burst",
            ],
            "--hosts local",
        ),
    ] {
        let words = ["run", &chain, "--in", "gen:packets=10"];
        let ran = run(words.iter().chain(more).copied());
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{more:?}: {}", ran.err);
    }
    let folder = Folder::new();
    for (hosts, replication, line, part) in [
        ("{name: a, runtimes: 1, loggers: 1}", "", 3, "none are made"),
        (
            "{name: a, runtimes: 60, loggers: 5}",
            "replication: each-burst\n",
            3,
            "at most 64 of both",
        ),
    ] {
        let text = format!(
            "composition: edge\nchain: {chain}\nhosts: [{hosts}]\nswitch: a\nports: {{in: \
             \"gen:packets=10\"}}\n{replication}"
        );
        let file = folder.write("cluster.yaml", text);
        let refused = run(["check", &file]);
        assert_eq!(refused.code, 3, "{}", refused.err);
        assert!(refused.err.contains(part), "{}", refused.err);
        let place = format!("cluster.yaml:{line}");
        assert!(refused.err.contains(&place), "{}", refused.err);
    }
}
