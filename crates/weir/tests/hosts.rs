//! Runtimes on other hosts, which agents start: all on this machine, over the loopback. With
//! real links that are cut: `hosts_live.rs`.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::time::Duration;

use agents::{Agent, KEY, key};
use long::{Long, findings};
use process::{children, signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::compare::{Run, same};
use support::dice::Dice;
use support::{Folder, example, number, run};

const LOCAL: &str = "127.0.0.1:0";

/// Two agents for a chain, and the words of a run with three runtimes: one here, one with each.
fn two_agents(folder: &Folder, chain: &str, listen: &str) -> ([Agent; 2], Vec<String>) {
    let key = key(folder, "key", KEY);
    let agents = [(); 2].map(|()| Agent::start(chain, listen, &key, &[]));
    let hosts = format!("local,{},{}", agents[0].at, agents[1].at);
    // Of long silence only: this machine may have a lot to do.
    let words = ["--runtimes", "3", "--hosts", &hosts, "--key", &key];
    let words = words.iter().chain(&["--heartbeat", "250"]);
    (agents, words.map(|word| (*word).to_owned()).collect())
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

/// The same in packets of flows, in order, and in what functions found.
#[track_caller]
fn same_findings(plain: &Run, run: &Run, about: &str) {
    for field in ["packets_in", "packets_out", "bytes_out", "emitted", "held"] {
        assert_eq!(plain.summary[field], run.summary[field], "{about}: {field}");
    }
    for field in ["lost", "reordered"] {
        assert_eq!(run.summary["hand_overs"][field], 0, "{about}: {field}");
    }
    assert!(plain.out == run.out, "{about}: packets of flows differ");
    assert!(findings(plain) == findings(run), "{about}: other events");
}

/// Where a packet is applied changes nothing: what a run over hosts puts out is what one thread
/// does.
#[test]
fn a_run_over_hosts_is_that_of_one() {
    for (chain, listen, replication) in [
        ("http.yaml", LOCAL, "none"),
        ("webedge.yaml", LOCAL, "each-burst"),
        ("webedge.yaml", "[::1]:0", "every-8"),
    ] {
        let folder = Folder::new();
        let plain = Long::start(chain, "40k", &[]).ended();
        let (_agents, mut ways) = two_agents(&folder, &example(chain), listen);
        ways.extend(["--replication", replication].map(str::to_owned));
        let over = Long::start(chain, "40k", &words(&ways)).ended();
        same(&plain.whenever_noticed(), &over.whenever_noticed(), chain);
    }
}

/// Processes of runtimes on other hosts are killed, whenever all is protected again.
#[test]
fn what_is_replicated_outlives_runtimes_elsewhere() {
    let chain = "webedge.yaml";
    let folder = Folder::new();
    let plain = Long::start(chain, "400k", &[]).ended();
    let (agents, mut ways) = two_agents(&folder, &example(chain), LOCAL);
    ways.extend(["--replication", "each-burst"].map(str::to_owned));
    let ids = [agents[0].id(), agents[1].id()];
    let (run, killed) = Long::start(chain, "400k", &words(&ways))
        .killed_among(|| ids.iter().flat_map(|id| children(*id)).collect());
    assert!(killed > 1, "{killed} were killed");
    assert!(
        number(&run.summary, "/switch/suspected") > 0,
        "{}",
        run.summary
    );
    same_findings(&plain, &run, chain);
}

/// An agent is killed, and its runtimes end with it. Another one at its address serves on.
#[test]
fn an_agent_may_die() {
    let chain = "webedge.yaml";
    let folder = Folder::new();
    let plain = Long::start(chain, "400k", &[]).ended();
    let ([first, mut second], mut ways) = two_agents(&folder, &example(chain), LOCAL);
    ways.extend(["--replication", "each-burst"].map(str::to_owned));
    let mut long = Long::start(chain, "400k", &words(&ways));
    let before = wait_for("protection", || long.whole());
    let at = second.at.clone();
    let orphans = children(second.id());
    assert_eq!(orphans.len(), 1);
    signal(second.id(), Signal::KILL);
    wait_for("its end", || (!second.runs()).then_some(()));
    for orphan in orphans {
        wait_for("the orphan's end", || {
            (!std::path::Path::new(&format!("/proc/{orphan}")).exists()).then_some(())
        });
    }
    let second = Agent::start(&example(chain), &at, &folder.path("key"), &[]);
    if long.child().try_wait().unwrap().is_none() {
        wait_for("a successor", || {
            let over = long.child().try_wait().unwrap().is_some();
            (over || long.whole().is_some_and(|deaths| deaths > before)).then_some(())
        });
    }
    let run = long.ended();
    assert_eq!(
        number(&run.summary, "/switch/suspected"),
        1,
        "{}",
        run.summary
    );
    same_findings(&plain, &run, chain);
    assert!(
        second.said().contains("is started for the switch"),
        "{}",
        second.said()
    );
    assert!(
        first.said().contains("is started for the switch"),
        "{}",
        first.said()
    );
}

#[test]
fn what_runs_elsewhere_is_seen_from_here() {
    let chain = "webedge.yaml";
    let folder = Folder::new();
    let (_agents, ways) = two_agents(&folder, &example(chain), LOCAL);
    // More packets than pass meanwhile: the run is ended when all is seen.
    let long = Long::start(chain, "20M", &words(&ways));
    wait_for("three runtimes", || long.whole());
    let socket = long.socket();
    let asked = |words: &[&str]| {
        let ran = run(words.iter().copied().chain(["--output", "json"]));
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
        ran
    };
    // Flow by flow, the thread or process that it is at.
    let at: BTreeMap<String, String> = wait_for("flows of all three", || {
        let flows = asked(&["flows", "-i", &socket, "--limit", "5000"]).json();
        let flows = flows["flows"].as_array().unwrap().iter();
        let aged = |flow: &Value| flow["age_s"].as_f64() > Some(0.0);
        assert!(flows.clone().any(aged), "none has an age");
        let text = |value: &Value| value.to_string();
        let at: BTreeMap<_, _> = flows
            .map(|flow| (text(&flow["id"]), text(&flow["thread"])))
            .collect();
        let threads: BTreeSet<_> = at.values().collect();
        (threads.len() == 3).then_some(at)
    });
    let threads: BTreeMap<_, _> = at.iter().map(|(flow, thread)| (thread, flow)).collect();
    for flow in threads.into_values() {
        let filter = format!("id {flow}");
        let trace = asked(&["trace", &socket, &filter, "-n", "5"]);
        let lines = trace.out.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let packets = lines.filter(|line| line["flow"]["id"].as_u64() == flow.parse().ok());
        assert_eq!(packets.count(), 5, "{}", trace.out);
    }
    let stats = asked(&["stats", &socket]).json();
    assert!(number(&stats, "/chains/webedge/packets_in") > 0, "{stats}");
}

#[test]
fn what_can_not_be_is_said() {
    let folder = Folder::new();
    let (chain, other) = (example("http.yaml"), example("webedge.yaml"));
    let (mine, theirs) = (
        key(&folder, "key", KEY),
        key(&folder, "other", &KEY.replace('8', "9")),
    );
    let agent = Agent::start(&other, LOCAL, &mine, &["--most", "1"]);
    let nobody = UdpSocket::bind(LOCAL).unwrap();
    let silent = nobody.local_addr().unwrap().to_string();
    let hosts = |at: &str, key: &str, more: &[&str]| {
        let hosts = format!("local,{at}");
        let words = [
            "run",
            &chain,
            "--in",
            "gen:packets=10",
            "--hosts",
            &hosts,
            "--key",
            key,
        ];
        let ran = run(words
            .iter()
            .chain(&["--runtimes", "2", "--quiet"])
            .chain(more));
        (ran.code, ran.err)
    };
    for (at, key, part) in [
        (agent.at.as_str(), &mine, "its chain file is another one"),
        (&agent.at, &theirs, "does not answer"),
        (&silent, &mine, "does not answer"),
        ("nowhere", &mine, "ADDRESS:PORT"),
        (&agent.at, &folder.path("none"), "can't read the key"),
    ] {
        let (code, said) = hosts(at, key, &[]);
        assert!(code != 0 && said.contains(part), "{at}: {code} {said}");
    }
    assert!(agent.said().contains("is refused"), "{}", agent.said());
    let (code, said) = hosts(&agent.at, &mine, &["--processes"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
    let ran = run([
        "agent",
        &chain,
        "--listen",
        LOCAL,
        "--key",
        &folder.path("none"),
    ]);
    assert!(
        ran.code != 0 && ran.err.contains("can't read the key"),
        "{}",
        ran.err
    );
    let taken = run(["agent", &chain, "--listen", &agent.at, "--key", &mine]);
    assert!(
        taken.code != 0 && taken.err.contains("can't listen on"),
        "{}",
        taken.err
    );
}

/// Several hosts have a switch of one name and one kind, and enough agents to choose one.
#[test]
fn a_switch_that_differs_does_not_stand_by() {
    let folder = Folder::new();
    let chain = example("http.yaml");
    let key = key(&folder, "key", KEY);
    let agents =
        [1, 2, 3].map(|last| Agent::start(&chain, &format!("127.0.0.{last}:0"), &key, &[]));
    let words = |agents: &[Agent], more: &[&str]| {
        let hosts: Vec<&str> = agents.iter().map(|agent| agent.at.as_str()).collect();
        let hosts = hosts.join(",");
        let words = [
            "--runtimes",
            "3",
            "--hosts",
            &hosts,
            "--key",
            &key,
            "--standby",
        ];
        let words = words.iter().chain(more).map(|word| (*word).to_owned());
        words.collect::<Vec<_>>()
    };
    let stand = |agents: &[Agent], more: &[&str]| {
        let words = words(agents, more);
        let start = ["run", &chain, "--in", "gen:packets=10", "--quiet"];
        run(start.into_iter().chain(words.iter().map(String::as_str)))
    };
    let few = stand(&agents[..2], &[]);
    assert!(
        few.code == 2 && few.err.contains("on 3 hosts or more"),
        "{}",
        few.err
    );
    let all = words(&agents, &["--heartbeat", "250"]);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut long = Long::start("http.yaml", "20M", &all);
    let name = long.socket();
    wait_for("three runtimes", || long.whole());
    for more in [
        &["--heartbeat", "20"][..],
        &["--heartbeat", "250", "--replication", "each-burst"],
    ] {
        let other = stand(&agents, &[more, &["--control", &name]].concat());
        let said = other.err.contains("has another chain file");
        assert!(
            other.code == 1 && said,
            "{more:?}: {} {}",
            other.code,
            other.err
        );
    }
    assert!(long.child().try_wait().unwrap().is_none());
}

/// Nonsense, and messages of another cluster, start nothing and stop nothing.
#[test]
fn hostile_datagrams_change_nothing() {
    let folder = Folder::new();
    let chain = example("http.yaml");
    let (agents, ways) = two_agents(&folder, &chain, LOCAL);
    let long = Long::start("http.yaml", "200k", &words(&ways));
    wait_for("three runtimes", || long.whole());
    let socket = UdpSocket::bind(LOCAL).unwrap();
    let mut dice = Dice::new(7);
    for number in 0..10_000 {
        let mut bytes: Vec<u8> = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
        // One half begins as a link's do.
        if number % 2 == 0 && bytes.len() > 40 {
            bytes[..8].copy_from_slice(&[0x0c, 0, 0, 3, 0x77, 0x65, 0x69, 0]);
            bytes[20..26].copy_from_slice(&[0x88, 0xb6, 0x57, 0x4c, 1, dice.roll(9) as u8]);
        }
        let to = &agents[number % 2].at;
        let _ = socket.send_to(&bytes, to);
        if number % 200 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let ended = long.ended();
    assert_eq!(ended.summary["packets_in"], 200_000);
    for agent in &agents {
        assert_eq!(
            agent.said().matches("is started for").count(),
            1,
            "{}",
            agent.said()
        );
    }
}
