//! Flows that are given to runtimes anew at each flowlet (`weir run --flowlets`): all that leaves is
//! what one thread puts out, while flows change runtimes all the time and runtimes die.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::io::Write as _;

use long::{HOSTS, Long, REPLICATED, findings};
use process::wait_for;
use serde_json::Value;
use support::{Folder, example, number, run};

/// So small that flowlets go to and fro: no runtime has room for long.
const SMALL: &str = "gap=1ms,size=3000,capacity=4Mbit";

/// Bytes of a capture that are written at once, some 1,000 packets, and how many more are written
/// when what was waited for is there.
const PIECE: usize = 80 * 1000;
const PIECES_AFTER: usize = 40;

fn count(summary: &Value, what: &str) -> u64 {
    summary["switch"][format!("flowlets.{what}")]
        .as_u64()
        .unwrap_or(0)
}

fn moved(summary: &Value) -> u64 {
    count(summary, "moved_ready") + count(summary, "moved_waiting")
}

#[test]
fn flowlets_change_runtimes_and_nothing_else_changes() {
    let plain = Long::start("webedge.yaml", "60k", &[]).ended();
    let flowlets = format!("--flowlets={SMALL}");
    for more in [
        &["--runtimes", "3", &flowlets][..],
        &["--runtimes", "3", "--processes", &flowlets],
        &["--runtimes", "3", "--replication", "each-burst", &flowlets],
    ] {
        let run = Long::start("webedge.yaml", "60k", more).ended();
        let moved = moved(&run.summary);
        assert!(moved > 300, "{more:?}: {moved} moved");
        assert_eq!(run.summary["hand_overs"]["count"], moved, "{more:?}");
        for field in ["packets_in", "packets_out", "bytes_out", "held", "drops"] {
            assert_eq!(plain.summary[field], run.summary[field], "{field}");
        }
        for field in ["lost", "reordered", "unfinished"] {
            assert_eq!(run.summary["hand_overs"][field], 0, "{more:?}: {field}");
        }
        assert!(plain.out == run.out, "{more:?}: packets of flows differ");
        assert!(plain.events == run.events, "{more:?}: other events");
    }
}

/// Packets of a flow come 15 ms after one another: in between its state goes ahead.
#[test]
fn states_go_ahead_in_the_gaps() {
    let folder = Folder::new();
    let capture = folder.path("in.pcap");
    let traffic = "flows=300,packets=400k,rate=20k,proto=tcp,payload=http,both=yes,seed=7";
    let made = run(["gen", "--out", &capture, traffic]);
    assert_eq!(made.code, 0, "{}", made.err);
    let capture = std::fs::read(capture).unwrap();
    let (chain, socket) = (example("webedge.yaml"), folder.path("it.sock"));
    let mut child = support::weir([
        "run",
        &chain,
        "--in",
        "-",
        "--quiet",
        "--output",
        "json",
        "--control",
        &socket,
        "--runtimes",
        "1",
        "--scaling",
        "1-4,interval=50ms,cool-down=5s",
        "--flowlets=gap=4ms,capacity=8Mbit,copies=2",
    ])
    .stdin(std::process::Stdio::piped())
    .stdout(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    // Its packets come piece by piece, and last until a second runtime was seen at work, however
    // fast or slow this machine is.
    let mut into = child.stdin.take().unwrap();
    let mut pieces = capture.chunks(PIECE);
    let seen = wait_for("a second runtime with work", || {
        let piece = pieces.next().expect("no second runtime in all packets");
        into.write_all(piece).unwrap();
        let asked = run(["get", "flowlets", &socket, "--output", "json"]);
        let seen = (asked.code == 0).then(|| asked.json())?;
        let runtimes = seen[0]["runtimes"].as_array()?;
        let busy = |runtime: &&Value| number(runtime, "/bytes_per_second") > 0;
        (runtimes.iter().filter(busy).count() > 1).then_some(seen)
    });
    assert_eq!(
        seen[0]["room_bytes_per_second"], 800_000,
        "80 % of 8 Mbit/s"
    );
    let text = run(["get", "flowlets", &socket]).out;
    assert!(text.contains("copies sent ahead"), "{text}");
    let told = run(["get", "scaling", &socket]).out;
    assert!(told.contains("% of what they can do"), "{told}");
    // As much again, so that the second one's copies come to use.
    for piece in pieces.by_ref().take(PIECES_AFTER) {
        into.write_all(piece).unwrap();
    }
    drop(into);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    support::conserved(&summary);
    assert!(count(&summary, "copy_used") > 0, "{}", summary["switch"]);
    assert!(number(&summary, "/switch/ahead_used") > 0);
    let hand_overs = &summary["hand_overs"];
    assert_eq!(
        (&hand_overs["lost"], &hand_overs["reordered"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn runtimes_may_be_killed_between_flowlets() {
    let plain = Long::start("webedge.yaml", "300k", &[]).ended();
    let more = format!("{REPLICATED}\nflowlets: {{gap: 1ms, size: 3000, capacity: 4Mbit}}");
    let (run, killed) = {
        let cluster = Long::up("webedge.yaml", "300k", HOSTS, &more);
        cluster.killed_in_motion()
    };
    assert!(killed > 0, "none was killed");
    assert!(moved(&run.summary) > 300, "{}", run.summary["switch"]);
    assert_eq!(run.summary["hand_overs"]["lost"], 0);
    assert!(plain.out == run.out, "packets of flows differ");
    assert!(findings(&plain) == findings(&run), "other events");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let chain = example("webedge.yaml");
    for (more, code, part) in [
        (&["--flowlets"][..], 2, "--runtimes"),
        (&["--runtimes", "2", "--flowlets=gap=5"], 2, "short time"),
        (
            &["--runtimes", "2", "--flowlets=pace=5"],
            2,
            "no setting `pace`",
        ),
        (
            &["--runtimes", "2", "--flowlets", "--dispatch", "hash"],
            2,
            "--dispatch",
        ),
    ] {
        let words = ["run", &chain, "--in", "gen:packets=10"];
        let ran = run(words.iter().chain(more).copied());
        assert_eq!(ran.code, code, "{more:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{more:?}: {}", ran.err);
    }
    let folder = Folder::new();
    let file = folder.write(
        "cluster.yaml",
        format!(
            "composition: edge\nchain: {chain}\nhosts: [{{name: alpha, runtimes: 2}}]\nswitch: \
             alpha\nports: {{in: \"gen:packets=10\"}}\nflowlets:\n  gap: 5 days\n"
        ),
    );
    let refused = run(["check", &file]);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("cluster.yaml:7"), "{}", refused.err);
}
