//! An instance with a firewall whose file can be changed, and questions to it.

#![allow(dead_code)] // each test needs another part of it

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::process::wait_for;
use crate::support::{Folder, number, run, weir};

/// Flows of the generator, all TCP.
pub(crate) const FLOWS: u64 = 300;
pub(crate) const INPUT: &str = "gen:flows=300,packets=100000000000,proto=tcp";

/// A firewall with these rules in front of a counter.
pub(crate) fn chain(rules: &str, more: &str) -> String {
    format!("chain: edge\nnfs:\n  - firewall: {{rules: [{rules}], {more}}}\n  - counter\n")
}

/// The same with the firewall behind the counter, in a stage of its own.
pub(crate) fn chain_behind(rules: &str, more: &str) -> String {
    format!("chain: edge\nnfs:\n  - counter\n  - firewall: {{rules: [{rules}], {more}}}\n")
}

/// An instance in a folder of its own, which lasts until it is dropped.
pub(crate) struct Instance {
    pub(crate) folder: Folder,
    pub(crate) child: Child,
}

impl Instance {
    /// `weir run` of this chain, with the generator.
    pub(crate) fn run(chain: &str, more: &[&str]) -> Instance {
        let folder = Folder::new();
        let path = folder.write("chain.yaml", chain);
        let args = ["run", path.as_str(), "--in", INPUT, "--quiet"];
        Instance::start(folder, &[&args, more].concat())
    }

    /// `weir up` of this chain on three hosts.
    pub(crate) fn up(chain: &str) -> Instance {
        let folder = Folder::new();
        folder.write("chain.yaml", chain);
        let hosts = "hosts:\n  - {name: alpha, runtimes: 1}\n  - {name: beta, runtimes: 1}\n  - {name: gamma, runtimes: 1}\n";
        let composition = format!(
            "composition: edge\nchain: chain.yaml\nswitch: alpha\nreplication: each-burst\nheartbeat: 500ms\n\
             most_runtimes: 4\nports: {{in: '{INPUT}'}}\n{hosts}"
        );
        let path = folder.write("cluster.yaml", composition);
        Instance::start(folder, &["up", &path, "--quiet"])
    }

    pub(crate) fn start(folder: Folder, args: &[&str]) -> Instance {
        let said = std::fs::File::create(folder.path("said")).expect("a file can be made");
        let events = folder.path("events.json");
        let mut command = weir(args);
        command.args(["--control", &folder.path("it.sock"), "--events", &events]);
        let child = command.stdout(Stdio::null()).stderr(said).spawn();
        let instance = Instance {
            folder,
            child: child.expect("weir starts"),
        };
        wait_for("all flows", || (instance.flows()? == FLOWS).then_some(()));
        instance
    }

    /// True once a rule of the function `ids` has matched.
    pub(crate) fn has_alerted(&self, sid: u32) -> bool {
        let events = std::fs::read_to_string(self.folder.path("events.json")).unwrap();
        events.contains(&format!("\"signature_id\":{sid},"))
    }

    pub(crate) fn socket(&self) -> String {
        self.folder.path("it.sock")
    }

    pub(crate) fn put(&self, chain: impl AsRef<[u8]>) {
        self.folder.write("chain.yaml", chain);
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path("said")).expect("it was made")
    }

    /// Asks it, and gives the exit code and the answer.
    pub(crate) fn asked(&self, what: &str, more: &[&str]) -> (i32, Value) {
        let socket = self.socket();
        let args = [what, "-i", socket.as_str(), "--output", "json"];
        let ran = run([&args, more].concat());
        assert!(ran.code == 0 || ran.code == 3, "{what}: {}", ran.err);
        (ran.code, ran.json())
    }

    #[track_caller]
    pub(crate) fn reload(&self) -> Value {
        let (code, answer) = self.asked("reload", &[]);
        assert_eq!(code, 0, "{answer:#}");
        answer
    }

    pub(crate) fn stats(&self) -> Option<Value> {
        let ran = run(["stats", &self.socket(), "--output", "json"]);
        (ran.code == 0).then(|| ran.json())
    }

    pub(crate) fn flows(&self) -> Option<u64> {
        Some(number(&self.stats()?, "/chains/edge/flows/active"))
    }

    /// A stage's process tells its counts some moments after its start.
    pub(crate) fn firewall(&self, what: &str) -> u64 {
        let pointer = format!("/chains/edge/nfs/firewall/{what}");
        wait_for("counts", || self.stats()?.pointer(&pointer)?.as_u64())
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.firewall("dropped")
    }

    /// Waits until a counter of the firewall stands so.
    #[track_caller]
    pub(crate) fn counts(&self, what: &str, wanted: u64) {
        let what = format!("counters/{what}");
        wait_for(&what, || (self.firewall(&what) >= wanted).then_some(()));
        assert_eq!(self.firewall(&what), wanted, "{what}");
    }

    /// The runtimes that are ready: numbers of places, ids and processes.
    pub(crate) fn runtimes(&self) -> Vec<(u64, u64, u32)> {
        let rows = wait_for("runtimes", || {
            let ran = run(["get", "runtimes", &self.socket(), "--output", "json"]);
            (ran.code == 0).then(|| ran.json())
        });
        let rows = rows.as_array().expect("a list").clone();
        let ready = rows.iter().filter(|row| row["state"] == "ready");
        let of = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
        ready
            .map(|row| {
                (
                    of(row, "place"),
                    of(row, "runtime"),
                    of(row, "process") as u32,
                )
            })
            .collect()
    }

    pub(crate) fn do_it(&self, args: &[&str]) {
        let ran = run([args, &["-i", &self.socket()]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What left the chain since; nothing where all is dropped.
pub(crate) fn passed(instance: &Instance) -> u64 {
    let stats = wait_for("counts", || instance.stats());
    let nfs = "/chains/edge/nfs";
    number(&stats, &format!("{nfs}/counter/packets"))
}
