//! A run that lasts some seconds, whose runtimes' processes are killed meanwhile.

#![allow(dead_code)] // each test needs another part of it

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{children, signal};
use crate::support::compare::{Run, flows, sorted};
use crate::support::{Folder, conserved, example, nothing_is_lost, number, run, weir};

/// Three hosts with a runtime each.
pub(crate) const HOSTS: &str = "  - {name: alpha, runtimes: 1}\n  - {name: beta, runtimes: 1}\n  \
                     - {name: gamma, runtimes: 1}";
/// Heartbeats tell of long silence only: this machine may have a lot to do.
pub(crate) const REPLICATED: &str = "replication: each-burst\nheartbeat: 250ms";

/// A run that lasts some seconds, with a control socket, and its folder. Dropped, it ends.
pub(crate) struct Long {
    child: Option<Child>,
    folder: Folder,
}

impl Drop for Long {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn traffic(packets: &str) -> String {
    format!("gen:flows=300,packets={packets},proto=tcp,payload=http,size=400,both=yes,seed=7")
}

impl Long {
    pub(crate) fn start(chain: &str, packets: &str, more: &[&str]) -> Long {
        let folder = Folder::new();
        let (chain, traffic) = (example(chain), traffic(packets));
        let out = folder.path("out.pcap");
        let words = ["run", &chain, "--in", &traffic, "--out", &out];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        Long::of(folder, &words)
    }

    /// The same by `weir up`: with these hosts, and more lines of the composition.
    pub(crate) fn up(chain: &str, packets: &str, hosts: &str, more: &str) -> Long {
        Long::up_to("\n  out: out.pcap", chain, packets, hosts, more)
    }

    /// Without a capture of what leaves, so that another switch can go on.
    pub(crate) fn up_to_nowhere(packets: &str, hosts: &str, more: &str) -> Long {
        Long::up_to("", "webedge.yaml", packets, hosts, more)
    }

    fn up_to(out: &str, chain: &str, packets: &str, hosts: &str, more: &str) -> Long {
        let folder = Folder::new();
        let composition = format!(
            "composition: long\nchain: {}\nhosts:\n{hosts}\nswitch: alpha\nports:\n  \
             in: {}{out}\n{more}\n",
            example(chain),
            traffic(packets),
        );
        let file = folder.write("cluster.yaml", composition);
        Long::of(folder, &["up", &file])
    }

    fn of(folder: Folder, words: &[&str]) -> Long {
        let (events, socket) = (folder.path("events.json"), folder.path("it.sock"));
        let more = [
            "--events", &events, "--seed", "1", "--quiet", "--output", "json",
        ];
        let child = weir(words.iter().chain(&more).chain(&["--control", &socket]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Long {
            child: Some(child),
            folder,
        }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it runs")
    }

    /// Its control socket.
    pub(crate) fn socket(&self) -> String {
        self.folder.path("it.sock")
    }

    /// How many deaths were noticed; `None` while a place has no runtime, or while the death
    /// of one would lose what is to be replicated.
    pub(crate) fn whole(&self) -> Option<u64> {
        self.whole_with(|switch| switch["unprotected"] == 0 && switch["unsettled"] == 0)
    }

    /// The same, while units move: before the first death that costs nothing either.
    fn whole_in_motion(&self) -> Option<u64> {
        self.whole_with(|switch| switch["unprotected"] == 0)
    }

    fn whole_with(&self, settled: fn(&Value) -> bool) -> Option<u64> {
        let socket = self.socket();
        let asked = run(["stats", &socket, "--output", "json"]);
        if asked.code != 0 {
            return None;
        }
        let stats = asked.json();
        let all = |of: &str| stats[of].as_array().cloned().unwrap_or_default();
        let died = |place: &Value| number(place, "/died");
        let ready = |place: &Value| place["state"] == "ready";
        let whole = all("runtimes").iter().all(ready) && all("switches").iter().all(settled);
        whole.then(|| all("runtimes").iter().map(died).sum())
    }

    /// Kills the process of a runtime whenever all is whole again, until the run ends, eight
    /// times at most; gives what it left, and how many were killed.
    pub(crate) fn killed_again_and_again(mut self) -> (Run, u64) {
        let run = self.child().id();
        self.killed_among(|| children(run))
    }

    /// The same of a run whose units move all the time: the first dies while they do.
    pub(crate) fn killed_in_motion(mut self) -> (Run, u64) {
        let run = self.child().id();
        self.killed_when(Long::whole_in_motion, || children(run))
    }

    /// The same, of processes that are not its own.
    pub(crate) fn killed_among(self, all: impl Fn() -> BTreeSet<u32>) -> (Run, u64) {
        self.killed_when(Long::whole, all)
    }

    fn killed_when(
        mut self,
        first: fn(&Long) -> Option<u64>,
        all: impl Fn() -> BTreeSet<u32>,
    ) -> (Run, u64) {
        let (mut killed, mut noticed) = (0, None);
        while self.child().try_wait().unwrap().is_none() {
            if killed < 8
                && let Some(deaths) = match noticed {
                    None => first(&self),
                    Some(_) => self.whole(),
                }
                && noticed.is_none_or(|before| before < deaths)
                && let Some(oldest) = all().into_iter().next()
            {
                signal(oldest, Signal::KILL);
                killed += 1;
                noticed = Some(deaths);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.ended(), killed)
    }

    pub(crate) fn ended(mut self) -> Run {
        let summary = self.summary();
        Run {
            summary,
            out: flows(&self.folder.path("out.pcap")),
            events: sorted(&self.folder.path("events.json")),
        }
    }

    /// Of one that writes no packets.
    pub(crate) fn ended_without_capture(mut self) -> Run {
        let summary = self.summary();
        Run {
            summary,
            out: Default::default(),
            events: sorted(&self.folder.path("events.json")),
        }
    }

    /// The summary of one that writes nothing.
    pub(crate) fn summed_up(mut self) -> Value {
        self.summary()
    }

    /// The exit code of one that has failed, and what it said.
    pub(crate) fn failed(mut self) -> (Option<i32>, String) {
        let child = self.child.take().expect("it runs");
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{said}");
        (done.status.code(), said)
    }

    fn summary(&mut self) -> Value {
        let child = self.child.take().expect("it runs");
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
        conserved(&summary);
        summary
    }
}

/// Alerts and requests, without records of flows: those tell of counts, of which a death
/// loses some.
pub(crate) fn findings(run: &Run) -> Vec<&String> {
    let found = |event: &&String| !event.contains("\"event_type\":\"flow\"");
    run.events.iter().filter(found).collect()
}

/// Both have put out the same packets and findings, and nothing is lost.
#[track_caller]
pub(crate) fn same_packets(plain: &Run, run: &Run) {
    nothing_is_lost(&run.summary);
    for field in ["packets_in", "packets_out", "bytes_out", "emitted", "held"] {
        let drops = (&plain.summary["drops"], &run.summary["drops"]);
        assert_eq!(
            plain.summary[field], run.summary[field],
            "{field}: {drops:?}"
        );
    }
    assert!(plain.out == run.out, "packets of flows differ");
    assert!(findings(plain) == findings(run), "other events");
}
