//! Runtimes in processes that are killed: with states replicated, packets of each flow,
//! in order, and what functions found are those of a run in which nobody dies.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use long::{Long, findings};
use support::{example, number, run};

#[test]
fn what_is_replicated_outlives_its_runtime() {
    for (chain, replication) in [("webedge.yaml", "each-burst"), ("http.yaml", "every-6")] {
        let plain = Long::start(chain, "400k", &[]).ended();
        let ways = [
            "--runtimes",
            "3",
            "--processes",
            "--replication",
            replication,
        ];
        let (run, killed) = Long::start(chain, "400k", &ways).killed_again_and_again();
        assert!(killed > 2, "{killed} were killed");
        let died = number(&run.summary, "/switch/suspected");
        assert!(died > 1, "{}", run.summary);
        for field in ["packets_in", "packets_out", "bytes_out", "emitted", "held"] {
            assert_eq!(plain.summary[field], run.summary[field], "{chain}: {field}");
        }
        for field in ["lost", "reordered"] {
            assert_eq!(run.summary["hand_overs"][field], 0, "{chain}: {field}");
        }
        assert!(plain.out == run.out, "{chain}: packets of flows differ");
        let (expected, found) = (findings(&plain), findings(&run));
        assert_eq!(expected.len(), found.len(), "{chain}");
        assert!(expected == found, "{chain}: other events");
    }
}

/// Without replicas a death loses its flows' states, by name, and everything is accounted for.
#[test]
fn what_is_not_replicated_is_lost_by_name() {
    let ways = ["--runtimes", "3", "--processes"];
    let (run, killed) = Long::start("webedge.yaml", "400k", &ways).killed_again_and_again();
    assert!(killed > 0);
    assert_eq!(run.summary["packets_in"], 400_000);
    assert!(number(&run.summary, "/switch/suspected") > 0);
    let warnings = run.summary["warnings"].to_string();
    assert!(warnings.contains("has died of signal 9"), "{warnings}");
    assert_eq!(run.summary["hand_overs"]["reordered"], 0);
}

#[test]
fn replication_without_runtimes_is_refused() {
    let chain = example("http.yaml");
    for (more, part) in [
        (&["--replication", "each-burst"][..], "--runtimes N"),
        (
            &["--replication", "each-burst", "--runtimes", "1"],
            "`--runtimes 2`",
        ),
        (
            &["--replication", "sometimes", "--runtimes", "2"],
            "every-N",
        ),
        (
            &["--replication", "every-1", "--runtimes", "2"],
            "from 2 on",
        ),
    ] {
        let ran = run(["run", &chain, "--in", "null"].iter().chain(more));
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{more:?}: {}", ran.err);
    }
}
