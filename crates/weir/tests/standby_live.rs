//! A router on two hosts, one of which stands by: the host with the switch goes, with everything on
//! it, and the other one takes over its flows and its addresses.
//!
//! ```text
//!                ┌─ one ─┐
//!   client ── lan┤       ├wan ── server      one, two: agent, switch
//!                └─ two ─┘
//!                  three                     an agent alone; all three on 10.97.0.0/24
//! ```
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agents::{Agent, KEY, key};
use network::process::children;
use network::{Network, must};
use support::Folder;

const HOSTS: [&str; 3] = ["one", "two", "three"];
/// Heartbeats of this many ms: the place of a switch is free when four are missing.
const HEARTBEAT: &str = "100";
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// The example of a router, and this more.
const MORE: &str = "  - monitor\n";

/// Bridges `lan`, `wan` and `net`, the hosts at them, and a client and a server.
fn network() -> Network {
    let mut network = Network::bare();
    for place in HOSTS {
        network.add_place(place);
    }
    for bridge in ["lan", "wan", "net"] {
        network.run("weir", "ip", &["link", "add", bridge, "type", "bridge"]);
        network.run("weir", "ip", &["link", "set", bridge, "up"]);
    }
    for (at, host) in HOSTS.into_iter().enumerate() {
        join(&network, host, "net");
        let address = format!("10.97.0.{}/24", at + 1);
        network.run(host, "ip", &["addr", "add", &address, "dev", "net"]);
        if at < 2 {
            join(&network, host, "lan");
            join(&network, host, "wan");
        }
    }
    for (place, bridge, addresses) in [
        ("client", "lan", ["10.0.0.2/24", "fd00:1::2/64"]),
        ("server", "wan", ["198.51.100.254/24", "fd00:2::fe/64"]),
    ] {
        join(&network, place, bridge);
        network.run(place, "ethtool", &["-K", bridge, "tx", "off"]);
        for address in addresses {
            let words = ["addr", "add", address, "dev", bridge];
            network.run(place, "ip", &words);
        }
    }
    for (place, to, via) in [
        ("client", "default", "10.0.0.1"),
        ("client", "fd00:2::/64", "fd00:1::1"),
        ("server", "fd00:1::/64", "fd00:2::1"),
    ] {
        network.run(place, "ip", &["route", "add", to, "via", via]);
    }
    network
}

/// Gives a place an interface with the name of a bridge, and joins it to that.
fn join(network: &Network, place: &str, bridge: &str) {
    let (there, hub, end) = (
        network.name(place),
        network.name("weir"),
        format!("{place}-{bridge}"),
    );
    let veth = ["link", "add", bridge, "netns", &there, "type", "veth"];
    must(
        "ip",
        &[&veth[..], &["peer", "name", &end, "netns", &hub]].concat(),
    );
    network.run("weir", "ip", &["link", "set", &end, "master", bridge, "up"]);
    network.run(place, "ip", &["link", "set", bridge, "up"]);
}

/// A switch, that runs or stands by.
struct Switch {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Switch {
    fn start(network: &Network, host: &str, chain: &str, key: &str) -> Switch {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &network.name(host)]);
        command.args([env!("CARGO_BIN_EXE_weir"), "run", chain, "--standby"]);
        command.args([
            "--in",
            "lan=xdp:lan",
            "--in",
            "wan=xdp:wan",
            "--runtimes",
            "3",
        ]);
        let hosts = [1, 2, 3].map(|last| format!("10.97.0.{last}:4790"));
        command.args(["--hosts", &hosts.join(","), "--key", key]);
        command.args(["--heartbeat", HEARTBEAT, "--replication", "each-burst"]);
        command.args(["--name", &network.name("router")]);
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Switch {
            child,
            lines,
            said: String::new(),
        }
    }

    /// Waits until it says that.
    #[track_caller]
    fn says(&mut self, what: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.said.contains(what) {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said = format!("{}{line}\n", self.said),
                Err(_) => panic!("it does not say `{what}`: {}", self.said),
            }
        }
    }

    /// Waits for its end; gives its exit code.
    fn ends(mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end: {}", self.said);
    }

    fn signal(&self, signal: &str) {
        must("kill", &[signal, &self.child.id().to_string()]);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Agents and switches of the hosts.
struct Bed {
    network: Network,
    chain: String,
    key: String,
    agents: [Option<Agent>; 3],
    switches: [Option<Switch>; 2],
    _folder: Folder,
}

impl Bed {
    /// All are there: the first host runs the switch.
    fn new() -> Bed {
        let network = network();
        let folder = Folder::new();
        let chain = folder.path("router.yaml");
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/router.yaml");
        let text = std::fs::read_to_string(example).unwrap();
        std::fs::write(&chain, format!("{text}{MORE}")).unwrap();
        let key = key(&folder, "key", KEY);
        let mut bed = Bed {
            network,
            chain,
            key,
            agents: [None, None, None],
            switches: [None, None],
            _folder: folder,
        };
        (0..3).for_each(|host| bed.start_agent(host));
        bed.start_switch(0);
        bed.says(0, "\nrunning");
        bed.start_switch(1);
        bed.says(1, "stands by");
        bed
    }

    fn start_agent(&mut self, host: usize) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.network.name(HOSTS[host])]);
        command.args([env!("CARGO_BIN_EXE_weir"), "agent", &self.chain]);
        let at = format!("10.97.0.{}:4790", host + 1);
        let command = command.args(["--listen", &at, "--key", &self.key]);
        self.agents[host] = Some(Agent::of(command));
    }

    fn start_switch(&mut self, host: usize) {
        let switch = Switch::start(&self.network, HOSTS[host], &self.chain, &self.key);
        self.switches[host] = Some(switch);
    }

    #[track_caller]
    fn says(&mut self, host: usize, what: &str) {
        self.switches[host].as_mut().unwrap().says(what);
    }

    /// The host loses its power: nothing of it is left, nor on its wires.
    fn power_off(&mut self, host: usize) {
        self.wires(host, "down");
        if let Some(agent) = self.agents[host].take() {
            for runtime in children(agent.id()) {
                must("kill", &["-9", &runtime.to_string()]);
            }
        }
        self.switches[host] = None;
    }

    /// The host is back, and its switch stands by.
    fn power_on(&mut self, host: usize) {
        self.wires(host, "up");
        self.start_agent(host);
        self.start_switch(host);
        self.says(host, "stands by");
    }

    fn wires(&self, host: usize, state: &str) {
        for bridge in ["lan", "wan", "net"] {
            let end = format!("{}-{bridge}", HOSTS[host]);
            self.network
                .run("weir", "ip", &["link", "set", &end, state]);
        }
    }

    /// Fetches one file after the other until it is told to stop; gives how many.
    fn fetch_on(&self) -> (Sender<()>, JoinHandle<Result<u64, String>>) {
        self.network.spawn("server", || {
            for address in ["0.0.0.0:80", "[fd00:2::fe]:80"] {
                let listener = TcpListener::bind(address).unwrap();
                std::thread::spawn(move || web::serve(&listener));
            }
        });
        for address in ["198.51.100.254", "fd00:2::fe"] {
            self.network.reach("client", address, 1);
        }
        let (stop, until) = channel::<()>();
        let fetching = self.network.spawn("client", move || {
            let mut done = 0;
            while until.try_recv().is_err() {
                let server = ["198.51.100.254:80", "[fd00:2::fe]:80"][done as usize % 2];
                web::fetch(server.parse().unwrap(), done % 3 == 0, done, 4 << 20)?;
                done += 1;
            }
            Ok::<u64, String>(done)
        });
        (stop, fetching)
    }
}

/// No fetch has failed, and more than so many were done.
#[track_caller]
fn goes_well(stop: &Sender<()>, fetching: JoinHandle<Result<u64, String>>, fewer: u64) {
    stop.send(()).unwrap();
    let done = fetching.join().unwrap();
    assert!(done.as_ref().is_ok_and(|done| *done > fewer), "{done:?}");
}

/// Firewall and NAT, whose addresses and states move to the other host, again and again.
#[test]
fn connections_outlive_the_host_of_their_switch() {
    if !bed::possible(&[]) {
        return;
    }
    let mut bed = Bed::new();
    let (stop, fetching) = bed.fetch_on();
    for turn in 0..4 {
        let (runs, stands_by) = (turn % 2, (turn + 1) % 2);
        std::thread::sleep(Duration::from_secs(2));
        bed.power_off(runs);
        bed.says(stands_by, "takes over");
        bed.says(stands_by, "\nrunning");
        std::thread::sleep(Duration::from_secs(2));
        assert!(!fetching.is_finished(), "host {runs} goes: turn {turn}");
        bed.power_on(runs);
    }
    std::thread::sleep(Duration::from_secs(2));
    goes_well(&stop, fetching, 2);
}

/// A switch that is told to end leaves its flows to the one that stands by.
#[test]
fn a_switch_that_is_told_to_end_hands_over() {
    if !bed::possible(&[]) {
        return;
    }
    let mut bed = Bed::new();
    let (stop, fetching) = bed.fetch_on();
    for turn in 0..4 {
        let (runs, stands_by) = (turn % 2, (turn + 1) % 2);
        std::thread::sleep(Duration::from_secs(1));
        let switch = bed.switches[runs].take().unwrap();
        switch.signal("-TERM");
        assert_eq!(switch.ends(), Some(0));
        bed.says(stands_by, "\nrunning");
        bed.start_switch(runs);
        bed.says(runs, "stands by");
        assert!(!fetching.is_finished(), "turn {turn}");
    }
    std::thread::sleep(Duration::from_secs(1));
    goes_well(&stop, fetching, 2);
    for agent in bed.agents.iter().flatten() {
        assert!(agent.said().contains("is taken over"), "{}", agent.said());
    }
}

/// A switch that its users reach and the agents do not lets nothing out, and says why it ends.
#[test]
fn a_switch_that_is_cut_off_from_the_agents_gives_way() {
    if !bed::possible(&[]) {
        return;
    }
    let mut bed = Bed::new();
    let (stop, fetching) = bed.fetch_on();
    std::thread::sleep(Duration::from_secs(1));
    bed.network
        .run("weir", "ip", &["link", "set", "one-net", "down"]);
    bed.says(0, "the switch gives way");
    assert_eq!(bed.switches[0].take().unwrap().ends(), Some(75));
    bed.says(1, "\nrunning");
    std::thread::sleep(Duration::from_secs(2));
    goes_well(&stop, fetching, 0);
}

/// A switch whose machine stood still finds another one in its place, and lets nothing out.
#[test]
fn a_switch_that_stood_still_gives_way_to_the_one_that_stands_by() {
    if !bed::possible(&[]) {
        return;
    }
    let mut bed = Bed::new();
    let (stop, fetching) = bed.fetch_on();
    std::thread::sleep(Duration::from_secs(1));
    let stopped = bed.switches[0].take().unwrap();
    stopped.signal("-STOP");
    bed.says(1, "\nrunning");
    std::thread::sleep(Duration::from_secs(1));
    stopped.signal("-CONT");
    assert_eq!(stopped.ends(), Some(75));
    std::thread::sleep(Duration::from_secs(2));
    goes_well(&stop, fetching, 0);
}
