//! Runtimes in processes that are killed: with states replicated, packets of each flow,
//! in order, and what functions found are those of a run in which nobody dies.

#[path = "support/process.rs"]
mod process;
mod support;

use std::process::{Child, Stdio};
use std::time::Duration;

use process::{children, signal};
use rustix::process::Signal;
use serde_json::Value;
use support::compare::{Run, flows, sorted};
use support::{Folder, conserved, example, number, run, weir};

/// A run that lasts some seconds, with a control socket, and its folder.
struct Long {
    child: Child,
    folder: Folder,
}

fn traffic(packets: &str) -> String {
    format!("gen:flows=300,packets={packets},proto=tcp,payload=http,size=400,both=yes,seed=7")
}

impl Long {
    fn start(chain: &str, packets: &str, more: &[&str]) -> Long {
        let folder = Folder::new();
        let (out, events) = (folder.path("out.pcap"), folder.path("events.json"));
        let socket = folder.path("it.sock");
        let traffic = traffic(packets);
        let args = [
            "run",
            &example(chain),
            "--in",
            &traffic,
            "--out",
            &out,
            "--events",
            &events,
            "--seed",
            "1",
            "--quiet",
            "--output",
            "json",
            "--control",
            &socket,
        ]
        .map(str::to_owned);
        let more = more.iter().map(|word| (*word).to_owned());
        let child = weir(args.into_iter().chain(more))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Long { child, folder }
    }

    /// True where so many deaths were noticed, each place has a runtime, and the death of
    /// none would lose anything that is to be replicated.
    fn is_whole(&self, deaths: u64) -> bool {
        let socket = self.folder.path("it.sock");
        let asked = run(["stats", &socket, "--output", "json"]);
        if asked.code != 0 {
            return false;
        }
        let stats = asked.json();
        let all = |of: &str| stats[of].as_array().cloned().unwrap_or_default();
        let died = |place: &Value| number(place, "/died");
        let settled = |switch: &Value| switch["unprotected"] == 0 && switch["unsettled"] == 0;
        all("runtimes").iter().map(died).sum::<u64>() == deaths
            && all("runtimes")
                .iter()
                .all(|place| place["state"] == "ready")
            && all("switches").iter().all(settled)
    }

    /// Kills the process of a runtime whenever all is whole again, until the run ends, eight
    /// times at most; gives what it left, and how many were killed.
    fn killed_again_and_again(mut self) -> (Run, u64) {
        let mut killed = 0;
        while self.child.try_wait().unwrap().is_none() {
            if killed < 8
                && self.is_whole(killed)
                && let Some(oldest) = children(self.child.id()).into_iter().next()
            {
                signal(oldest, Signal::KILL);
                killed += 1;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.ended(), killed)
    }

    fn ended(self) -> Run {
        let done = self.child.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
        conserved(&summary);
        Run {
            summary,
            out: flows(&self.folder.path("out.pcap")),
            events: sorted(&self.folder.path("events.json")),
        }
    }
}

/// Alerts and requests, without records of flows: those tell of counts, of which a death
/// loses some.
fn findings(run: &Run) -> Vec<&String> {
    let found = |event: &&String| !event.contains("\"event_type\":\"flow\"");
    run.events.iter().filter(found).collect()
}

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
