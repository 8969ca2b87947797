//! Connections between real interfaces whose flows live on several hosts: links to hosts are
//! cut, both ways and one way, runtimes there are killed, and the switch.
//!
//! ```text
//!   client ── weir ── server          one, two: agents, each at a link of its own
//!             │  │
//!           one  two                  10.98.1.0/24, 10.98.2.0/24
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
#[path = "support/program.rs"]
mod program;
mod support;
#[path = "support/web.rs"]
mod web;

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use agents::{Agent, KEY, key};
use network::process::{children, wait_for};
use network::{Cable, Network, STATEFUL, must};
use support::{Folder, conserved, nothing_is_lost, number};

const HOSTS: [&str; 2] = ["one", "two"];
/// Silence after which a host is suspected, in heartbeats of this many ms: long enough for a
/// machine that is busy with other tests.
const HEARTBEAT: &str = "100";

/// One test at a time: a machine with more to do than it can makes hosts seem silent.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hosts beside weir's, each at a link of its own.
fn network() -> Network {
    let mut network = Network::new(&Cable::default());
    for (number, host) in HOSTS.into_iter().enumerate() {
        network.add_place(host);
        let (there, weir) = (network.name(host), network.name("weir"));
        let veth = ["link", "add", "eth0", "netns", &there, "type", "veth"];
        let peer = ["peer", "name", host, "netns", &weir];
        must("ip", &[&veth[..], &peer].concat());
        for (place, interface, last) in [("weir", host, 1), (host, "eth0", 2)] {
            let address = format!("10.98.{}.{last}/24", number + 1);
            network.run(place, "ip", &["addr", "add", &address, "dev", interface]);
            network.run(place, "ip", &["link", "set", interface, "up"]);
        }
    }
    network
}

/// The hosts, a folder with a chain of firewall and NAT and with a key, the paths of these, and a server.
fn scene() -> (Network, Folder, String, String) {
    let (network, folder) = (network(), Folder::new());
    let chain = folder.write("stateful.yaml", STATEFUL);
    let key = key(&folder, "key", KEY);
    web::server(&network);
    (network, folder, chain, key)
}

fn agent(network: &Network, number: usize, chain: &str, key: &str) -> Agent {
    let name = network.name(HOSTS[number]);
    let at = format!("10.98.{}.2:4790", number + 1);
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name, weir, "agent", chain]);
    Agent::of(command.args(["--listen", &at, "--key", key]))
}

/// The words of weir, with runtimes on these hosts.
fn words<'a>(
    runtimes: &'a str,
    hosts: &'a str,
    key: &'a str,
    replication: &'a str,
) -> [&'a str; 14] {
    [
        "--in",
        "xdp:inside",
        "--out",
        "xdp:outside",
        "--runtimes",
        runtimes,
        "--hosts",
        hosts,
        "--key",
        key,
        "--heartbeat",
        HEARTBEAT,
        "--replication",
        replication,
    ]
}

/// A fault of a host.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing goes either way.
    Cut,
    /// Nothing comes from the host: what is sent to it arrives.
    Mute,
    /// Nothing comes to the host.
    Deaf,
    /// The runtime there is killed.
    Killed,
}

impl Fault {
    fn begin(self, network: &Network, host: usize, agent: &Agent) {
        match self {
            Fault::Cut => link(network, host, "down"),
            Fault::Mute => drops(network, host, "output"),
            Fault::Deaf => drops(network, host, "input"),
            Fault::Killed => {
                for runtime in children(agent.id()) {
                    must("kill", &["-9", &runtime.to_string()]);
                }
            }
        }
    }

    fn end(self, network: &Network, host: usize) {
        match self {
            Fault::Cut => link(network, host, "up"),
            Fault::Mute | Fault::Deaf => {
                network.run(HOSTS[host], "nft", &["flush", "ruleset"]);
            }
            Fault::Killed => {}
        }
    }
}

fn link(network: &Network, host: usize, state: &str) {
    network.run("weir", "ip", &["link", "set", HOSTS[host], state]);
}

/// A host drops what it sends, or what comes to it.
fn drops(network: &Network, host: usize, hook: &str) {
    let chain = format!("{{ type filter hook {hook} priority 0; policy drop; }}");
    network.run(HOSTS[host], "nft", &["add", "table", "inet", "cut"]);
    network.run(
        HOSTS[host],
        "nft",
        &["add", "chain", "inet", "cut", hook, &chain],
    );
}

/// Fetches one file after the other until it is told to stop; gives how many.
fn fetch_on(network: &Network) -> (Sender<()>, JoinHandle<Result<u64, String>>) {
    let (stop, until) = channel::<()>();
    let fetching = network.spawn("client", move || {
        let mut done = 0;
        while until.try_recv().is_err() {
            let server = network::SERVER[done as usize % 2];
            web::fetch(network::at(server, 80), done % 3 == 0, done, 4 << 20)?;
            done += 1;
        }
        Ok::<u64, String>(done)
    });
    (stop, fetching)
}

/// Firewall and NAT, whose states are on other hosts: whoever starts the switch again when it is
/// dead, no connection sees it but by a pause, with replicas and without.
#[test]
fn connections_outlive_their_switch() {
    if !bed::possible(&[]) {
        return;
    }
    let _alone = alone();
    let (network, _folder, chain, key) = scene();
    for replication in ["none", "each-burst"] {
        let agents = [0, 1].map(|number| agent(&network, number, &chain, &key));
        let hosts = format!("{},{}", agents[0].at, agents[1].at);
        let words = words("2", &hosts, &key, replication);
        let mut weir = network.weir(&chain, &words);
        network.ping(1);
        let (stop, fetching) = fetch_on(&network);
        for turn in 0..3 {
            std::thread::sleep(Duration::from_secs(2));
            weir.signal("-9");
            weir.gone();
            weir = network.weir(&chain, &words);
            assert!(!fetching.is_finished(), "{replication}: death {turn}");
        }
        std::thread::sleep(Duration::from_secs(3));
        stop.send(()).unwrap();
        let done = fetching.join().unwrap();
        assert!(done.as_ref().is_ok_and(|done| *done > 2), "{done:?}");
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        assert!(number(&summary, "/switch/recovered") > 0, "{summary}");
        for none in ["/switch/unit_lost", "/switch/claim_refused"] {
            assert_eq!(summary.pointer(none), None, "{replication}: {summary}");
        }
        for agent in &agents {
            assert_eq!(agent.said().matches("is taken over").count(), 3);
        }
    }
}

/// Firewall and NAT: switch, agents and runtimes become another program, and again what they were,
/// and no connection sees it but by a pause. All processes but the runtimes' keep their numbers.
#[test]
fn connections_outlive_an_upgrade() {
    if !bed::possible(&[]) {
        return;
    }
    let _alone = alone();
    let (network, folder, chain, key) = scene();
    let socket = folder.path("it.sock");
    let next = program::next(&folder);
    let mut agents = [0, 1].map(|number| agent(&network, number, &chain, &key));
    let hosts = format!("{},{}", agents[0].at, agents[1].at);
    let words = words("2", &hosts, &key, "each-burst");
    let weir = network.weir(&chain, &[&words[..], &["--control", &socket]].concat());
    network.ping(1);
    let (stop, fetching) = fetch_on(&network);
    let own = env!("CARGO_BIN_EXE_weir");
    for (words, program) in [
        (&["--to", next.as_str()][..], next.as_str()),
        (&["--rollback"][..], own),
    ] {
        let more = ["-i", &socket, "--timeout", "120"];
        let ran = support::run([&["upgrade"], words, &more].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let digest = program::digest(program);
        let running = wait_for("five processes", || {
            program::running(&socket).filter(|all| all.len() == 5)
        });
        assert!(running.iter().all(|of| *of == digest), "{running:?}");
        assert!(!fetching.is_finished(), "after {words:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(agents.iter_mut().all(Agent::runs));
    stop.send(()).unwrap();
    let done = fetching.join().unwrap();
    assert!(done.as_ref().is_ok_and(|done| *done > 2), "{done:?}");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    assert!(number(&summary, "/switch/recovered") > 0, "{summary}");
    for none in ["/switch/unit_lost", "/switch/claim_refused"] {
        assert_eq!(summary.pointer(none), None, "{summary}");
    }
    for agent in &agents {
        assert_eq!(agent.said().matches("upgraded to weir").count(), 2);
    }
}

/// Firewall and NAT, whose states are replicated before a packet leaves: whichever host goes,
/// no connection sees it but by a pause.
#[test]
fn a_host_that_is_cut_off_breaks_no_connection() {
    if !bed::possible(&["nft"]) {
        return;
    }
    let _alone = alone();
    let (network, _folder, chain, key) = scene();
    let agents = [0, 1].map(|number| agent(&network, number, &chain, &key));
    let hosts = format!("local,{},{}", agents[0].at, agents[1].at);
    let words = words("3", &hosts, &key, "each-burst");
    let weir = network.weir(&chain, &words);
    network.ping(1);
    let (stop, fetching) = fetch_on(&network);
    let faults = [Fault::Cut, Fault::Killed, Fault::Mute, Fault::Deaf];
    for (turn, fault) in faults.into_iter().cycle().take(8).enumerate() {
        let host = turn % HOSTS.len();
        fault.begin(&network, host, &agents[host]);
        std::thread::sleep(Duration::from_secs(1));
        fault.end(&network, host);
        // A runtime starts there again, and what is not protected gets a replica.
        std::thread::sleep(Duration::from_secs(3));
        assert!(
            !fetching.is_finished(),
            "after {fault:?} of {}",
            HOSTS[host]
        );
    }
    stop.send(()).unwrap();
    let done = fetching.join().unwrap();
    assert!(done.as_ref().is_ok_and(|done| *done > 4), "{done:?}");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    nothing_is_lost(&summary);
    assert!(number(&summary, "/switch/suspected") >= 6, "{summary}");
}
