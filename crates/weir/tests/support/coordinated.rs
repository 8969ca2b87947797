//! A coordinator and the agents of several hosts of a cluster, as real processes on this machine.

#![allow(dead_code)] // each test needs another part of it

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{signal, wait_for};
use crate::support::{Folder, Ran, example, weir};

pub(crate) const HOSTS: [&str; 3] = ["alpha", "beta", "gamma"];

/// A coordinator, and agents of hosts.
pub(crate) struct Coordinated {
    pub(crate) folder: Folder,
    /// By their numbers: several where they have an etcd.
    coordinators: BTreeMap<u16, Child>,
    /// Members of the etcd, with commas.
    etcd: Option<String>,
    many: u16,
    agents: BTreeMap<String, Child>,
    /// Third octet of the addresses: each test has its own.
    net: u8,
    /// Peers show certificates.
    secured: Option<u16>,
}

impl Coordinated {
    /// On a Unix socket, with an agent of each host.
    pub(crate) fn new(net: u8) -> Coordinated {
        let mut cluster = Coordinated::empty(net, None);
        cluster.start_coordinator();
        for host in HOSTS {
            cluster.start_agent(host);
        }
        cluster.wait_for_machines(HOSTS.len());
        cluster
    }

    /// With certificates, on this TCP port; nothing is started yet.
    pub(crate) fn secured(net: u8, port: u16) -> Coordinated {
        Coordinated::several(net, port, 1, None)
    }

    /// So many coordinators with an etcd, on this TCP port and those behind it; nothing is started yet.
    pub(crate) fn several(net: u8, port: u16, many: u16, etcd: Option<String>) -> Coordinated {
        let mut cluster = Coordinated::empty(net, Some(port));
        (cluster.many, cluster.etcd) = (many, etcd);
        let ca = cluster.folder.path("ca");
        assert_eq!(cluster.run(["pki", "init", "lab", "--folder", &ca]).code, 0);
        let coordinators = (1..=many).map(|number| ("coordinator", format!("c{number}")));
        let others = [("operator", "op"), ("viewer", "vi")].into_iter();
        let others = others.chain(HOSTS.map(|host| ("agent", host)));
        let others = others.map(|(role, name)| (role, name.to_owned()));
        for (role, name) in coordinators.chain(others) {
            let name = name.as_str();
            let own = cluster.folder.path(name);
            let issued = cluster.run(["pki", "issue", role, name, "--ca", &ca, "--folder", &own]);
            assert_eq!(issued.code, 0, "{issued:?}");
        }
        cluster
    }

    fn empty(net: u8, secured: Option<u16>) -> Coordinated {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("run")).unwrap();
        folder.write(
            "webedge.yaml",
            std::fs::read(example("webedge.yaml")).unwrap(),
        );
        Coordinated {
            folder,
            coordinators: BTreeMap::new(),
            etcd: None,
            many: 1,
            agents: BTreeMap::new(),
            net,
            secured,
        }
    }

    /// Writes the composition, with more of its keys.
    pub(crate) fn composition(&self, input: &str, more: &str) -> String {
        let host = |(n, name): (usize, &str)| {
            let net = self.net;
            format!(
                "  - {{name: {name}, runtimes: 1, address: \"127.7.{net}.{}:4790\"}}",
                n + 2
            )
        };
        let hosts: Vec<String> = HOSTS.into_iter().enumerate().map(host).collect();
        let text = format!(
            "composition: edge{}\nchain: webedge.yaml\nhosts:\n{}\nswitch: alpha\nports: {{in: \
             \"{input}\"}}\nreplication: each-burst\nheartbeat: 500ms\n{more}\n",
            self.net,
            hosts.join("\n")
        );
        self.folder.write("edge.yaml", text)
    }

    /// Name of the composition.
    pub(crate) fn name(&self) -> String {
        format!("edge{}", self.net)
    }

    pub(crate) fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = weir(words);
        command
            .env("XDG_RUNTIME_DIR", self.folder.path("run"))
            .env_remove("WEIR_COORDINATOR")
            .env_remove("WEIR_IDENTITY");
        command
    }

    pub(crate) fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::of(self.command(words).output().unwrap())
    }

    /// Runs a command as this name, with its certificate where there are some.
    pub(crate) fn run_as<'a>(&self, who: &str, words: impl IntoIterator<Item = &'a str>) -> Ran {
        let mut command = self.command(words);
        command.env("WEIR_COORDINATOR", self.address());
        command.env("WEIR_IDENTITY", self.folder.path(who));
        Ran::of(command.output().unwrap())
    }

    /// Where the coordinator is, or where all are.
    pub(crate) fn address(&self) -> String {
        let all: Vec<String> = (1..=self.many)
            .map(|number| self.address_of(number))
            .collect();
        all.join(",")
    }

    fn address_of(&self, number: u16) -> String {
        match self.secured {
            None => format!("unix:{}", self.folder.path("run/weir/coordinator.socket")),
            Some(port) => format!("127.7.{}.1:{}", self.net, port + number - 1),
        }
    }

    fn log(&self, name: &str) -> Stdio {
        let path = self.folder.path(name);
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap()
            .into()
    }

    /// What a process has said.
    pub(crate) fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path(name)).unwrap_or_default()
    }

    pub(crate) fn start_coordinator(&mut self) {
        self.start_one(1);
    }

    /// Starts one of several; what it says is in a file of its own.
    pub(crate) fn start_one(&mut self, number: u16) {
        let store = match &self.etcd {
            None => self.folder.path("store"),
            Some(members) => format!("etcd:{members}"),
        };
        let own = self.folder.path(&format!("c{number}"));
        let socket = self.folder.path(&format!("run/c{number}.socket"));
        let at = self.address_of(number);
        let mut words = vec!["coordinator", "--store", &store];
        if self.secured.is_some() {
            words.extend(["--listen", &at, "--identity", &own]);
        }
        if self.etcd.is_some() {
            words.extend(["--socket", &socket]);
        }
        let log = match number {
            1 => "coordinator.log".to_owned(),
            _ => format!("coordinator{number}.log"),
        };
        let mut command = self.command(words);
        let child = command.stderr(self.log(&log)).spawn().unwrap();
        self.coordinators.insert(number, child);
    }

    pub(crate) fn kill_coordinator(&mut self) {
        self.kill_one(1);
    }

    pub(crate) fn kill_one(&mut self, number: u16) {
        let mut child = self.coordinators.remove(&number).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal_one(&self, number: u16, what: Signal) {
        signal(self.coordinators[&number].id(), what);
    }

    pub(crate) fn start_agent(&mut self, host: &str) {
        let (state, at) = (self.folder.path("state"), self.address());
        let own = self.folder.path(host);
        let mut words = vec![
            "agent",
            "--coordinator",
            &at,
            "--host",
            host,
            "--state",
            &state,
        ];
        if self.secured.is_some() {
            words.extend(["--identity", &own]);
        }
        let mut command = self.command(words);
        let child = command
            .stderr(self.log(&format!("{host}.log")))
            .spawn()
            .unwrap();
        self.agents.insert(host.to_owned(), child);
    }

    pub(crate) fn kill_agent(&mut self, host: &str) {
        let mut child = self.agents.remove(host).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until so many agents are connected.
    pub(crate) fn wait_for_machines(&self, many: usize) {
        wait_for("agents", || {
            let ran = self.run_as("op", ["get", "machines", "--output", "json"]);
            let machines = (ran.code == 0).then(|| ran.json())?;
            let connected = machines
                .as_array()?
                .iter()
                .filter(|it| it["connected"] == true);
            (connected.count() == many).then_some(())
        });
    }

    /// How the composition stands.
    pub(crate) fn stands(&self) -> Option<Value> {
        let name = self.name();
        let ran = self.run_as("op", ["get", "compositions", &name, "--output", "json"]);
        (ran.code == 0).then(|| ran.json()[0].clone())
    }

    /// Waits until it stands so.
    pub(crate) fn wait_until(&self, state: &str) -> Value {
        wait_for(state, || self.stands().filter(|it| it["state"] == state))
    }

    /// Numbers of the processes that look after the hosts' shares.
    pub(crate) fn processes(&self) -> Vec<u64> {
        let stands = self.stands().unwrap();
        let hosts = stands["hosts"].as_array().unwrap();
        hosts
            .iter()
            .filter_map(|host| host["process"].as_u64())
            .collect()
    }

    /// What `weir get` says of the instance.
    pub(crate) fn get(&self, what: &str) -> Value {
        let name = self.name();
        wait_for(what, || {
            let ran = self.run_as("op", ["get", what, &name, "--output", "json"]);
            (ran.code == 0).then(|| ran.json())
        })
    }

    /// What the instance has counted.
    pub(crate) fn stats(&self) -> Value {
        let name = self.name();
        wait_for("counts", || {
            let ran = self.run_as("op", ["stats", &name, "--output", "json"]);
            (ran.code == 0).then(|| ran.json())
        })
    }
}

/// Shares outlive their agents: they are ended here.
impl Drop for Coordinated {
    fn drop(&mut self) {
        for child in self
            .agents
            .values_mut()
            .chain(self.coordinators.values_mut())
        {
            let _ = child.kill();
            let _ = child.wait();
        }
        for host in HOSTS {
            let path = format!("state/{host}/{}/standing", self.name());
            let Ok(text) = std::fs::read(self.folder.path(&path)) else {
                continue;
            };
            let standing: Value = serde_json::from_slice(&text).unwrap_or_default();
            if let Some(process @ 1..) = standing["process"].as_u64() {
                signal(process as u32, Signal::KILL);
            }
        }
    }
}
