//! `weir up` and `weir get`: a cluster of real processes on this machine, from one file.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeSet;
use std::path::Path;

use long::{HOSTS, Long, REPLICATED, same_packets};
use process::{children, signal, wait_for};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use support::{Folder, example, nothing_is_lost, number, run};

const CHAIN: &str = "webedge.yaml";
/// What `weir get` says, once it is answered: a machine with a lot to do may be too late.
#[track_caller]
fn get(what: &str, socket: &str) -> Value {
    wait_for(what, || {
        let ran = run(["get", what, socket, "--output", "json"]);
        assert!(
            ran.code == 0 || ran.err.contains("in time"),
            "{what}: {}",
            ran.err
        );
        (ran.code == 0).then(|| ran.json())
    })
}

/// Numbers of the processes in the rows of `weir get` that `of` picks.
fn processes(rows: &Value, of: impl Fn(&Value) -> bool) -> Vec<u32> {
    let rows = rows.as_array().unwrap().iter().filter(|row| of(row));
    let numbers = rows.filter_map(|row| row["process"].as_u64());
    numbers.map(|number| number as u32).collect()
}

/// A process and all that it has started, those that they have started, and so on.
fn family(of: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::from([of]);
    for child in children(of) {
        all.extend(family(child));
    }
    all
}

fn exists(process: u32) -> bool {
    // One that has ended and was not waited for has no command line.
    let line = std::fs::read(format!("/proc/{process}/cmdline"));
    line.is_ok_and(|line| !line.is_empty())
}

#[track_caller]
fn are_gone(all: &BTreeSet<u32>) {
    for process in all {
        wait_for("the end of a process", || (!exists(*process)).then_some(()));
    }
}

/// Two runtimes on a host that is no switch's, and none on the switch's.
#[test]
fn a_cluster_from_one_file_does_what_one_thread_does() {
    let hosts = "  - {name: alpha}\n  - {name: beta, runtimes: 2}\n  - {name: gamma, runtimes: 1}";
    for (chain, more) in [("http.yaml", ""), (CHAIN, "replication: every-8")] {
        let plain = Long::start(chain, "40k", &[]).ended();
        // Nobody dies here: a busy machine is not to make anybody suspect.
        let more = format!("{more}\ndispatch: hash\nheartbeat: 2s");
        let mut cluster = Long::up(chain, "40k", hosts, &more);
        let up = cluster.child().id();
        let mut all = BTreeSet::new();
        while cluster.child().try_wait().unwrap().is_none() {
            all.extend(family(up));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let cluster = cluster.ended();
        same_packets(&plain, &cluster);
        assert_eq!(cluster.summary["runtimes"].as_array().unwrap().len(), 3);
        assert!(all.len() >= 3, "{all:?}");
        are_gone(&all);
    }
}

/// Agents and processes of runtimes are killed in turn, whenever all is protected again: all
/// packets come out, in order, as one thread puts them out.
#[test]
fn agents_and_runtimes_may_be_killed() {
    let plain = Long::start(CHAIN, "1M", &[]).ended();
    let mut cluster = Long::up(CHAIN, "1M", HOSTS, REPLICATED);
    let (up, socket) = (cluster.child().id(), cluster.socket());
    let mut killed = [0, 0];
    let mut all = BTreeSet::new();
    let mut before = None;
    while cluster.child().try_wait().unwrap().is_none() {
        all.extend(family(up));
        let noticed = cluster.whole();
        if killed.iter().sum::<u64>() == 6 || noticed.is_none() || noticed <= before {
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        }
        let kind = usize::from(killed[0] > killed[1]);
        let listed = run([
            "get",
            ["runtimes", "hosts"][kind],
            &socket,
            "--output",
            "json",
        ]);
        // It may be over since.
        if listed.code != 0 {
            continue;
        }
        let elsewhere = |row: &Value| match kind {
            0 => row["site"] == "agent",
            _ => row["agent"].is_string() && row["state"] == "ready",
        };
        let found = processes(&listed.json(), elsewhere);
        // One may have started since.
        all.extend(family(up));
        if let Some(victim) = found.get(killed[kind] as usize % found.len().max(1)) {
            assert!(all.contains(victim), "{victim} is none of {all:?}");
            signal(*victim, Signal::KILL);
            killed[kind] += 1;
            before = noticed;
        }
    }
    let cluster = cluster.ended();
    assert!(killed[0] > 0 && killed[1] > 0, "{killed:?} were killed");
    assert!(number(&cluster.summary, "/switch/suspected") > 0);
    same_packets(&plain, &cluster);
    are_gone(&all);
}

/// A runtime that ends many flows at the end of a run is busy for longer than the switch bears silence:
/// it is waited for, and all events come.
#[test]
fn the_end_of_many_flows_is_no_silence() {
    let traffic = "gen:flows=250k,packets=600k,proto=udp,seed=7";
    let folder = Folder::new();
    let file = folder.write(
        "cluster.yaml",
        format!(
            "composition: many\nchain: {}\nhosts:\n  - {{name: alpha}}\n  - {{name: beta, runtimes: \
             1}}\nswitch: alpha\nports: {{in: '{traffic}'}}\nheartbeat: 100ms\nset: [flows.max=300000]\n",
            example("monitor.yaml")
        ),
    );
    let events = folder.path("events.json");
    let ran = run([
        "up", &file, "--events", &events, "--quiet", "--output", "json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("silent"), "{}", ran.err);
    let ended = std::fs::read_to_string(events).unwrap();
    let ended = ended
        .lines()
        .filter(|line| line.contains("\"event_type\":\"flow\""));
    let flows = number(&ran.json(), "/flows");
    assert_eq!((ended.count() as u64, flows > 200_000), (flows, true));
}

/// The process of the switch, which is the one of its host.
fn switch_of(socket: &str) -> u32 {
    wait_for("the switch", || {
        let listed = run(["get", "hosts", socket, "--output", "json"]);
        // There is none just now.
        (listed.code == 0).then(|| processes(&listed.json(), |row| row["agent"].is_null())[0])
    })
}

/// The inputs go on behind what the switch before had taken in, and every unit goes on: those of
/// the switch's own host at their replicas.
#[test]
fn the_switch_may_be_killed() {
    let mut cluster = Long::up_to_nowhere("2M", HOSTS, REPLICATED);
    let (up, socket) = (cluster.child().id(), cluster.socket());
    let mut all = BTreeSet::new();
    let mut former = 0;
    for _ in 0..2 {
        let switch = wait_for("another switch", || {
            let switch = switch_of(&socket);
            (switch != former && cluster.whole().is_some()).then_some(switch)
        });
        all.extend(family(up));
        signal(switch, Signal::KILL);
        former = switch;
    }
    let events = wait_for("what it did", || {
        let ran = run(["events", &socket]);
        (ran.code == 0 && ran.out.contains("recovered")).then_some(ran.out)
    });
    assert!(events.contains("switch 3 takes the runtimes of the one before over: 2"));
    assert!(events.contains("switch_died     host alpha"), "{events}");
    assert!(events.contains("units lost: 0"), "{events}");
    all.extend(family(up));
    let summary = cluster.summed_up();
    let count = |what| number(&summary, what);
    let packets = count("/packets_before") + count("/packets_in");
    assert_eq!(packets, 2_000_000);
    assert!(count("/packets_before") > 0);
    assert!(count("/switch/recovered") > 0);
    let begun = summary.pointer("/switch/first_opened");
    assert_eq!(begun, None, "a flow began anew");
    are_gone(&all);
}

/// Descriptors that a process may have; gives how many it might.
fn may_open(process: u32, most: Option<u64>) -> Option<u64> {
    let limit = Rlimit {
        current: most,
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let process = Pid::from_raw(process as i32);
    let before = prlimit(process, Resource::Nofile, limit);
    before.unwrap().current
}

/// A machine that has no descriptor left when a switch has died: the runtimes go on, and so does the
/// run when it has some.
#[test]
fn a_switch_that_can_not_start_is_started_later() {
    let mut cluster = Long::up_to_nowhere("1M", HOSTS, REPLICATED);
    let (up, socket) = (cluster.child().id(), cluster.socket());
    wait_for("all", || cluster.whole());
    let agents = || {
        let listed = run(["get", "runtimes", &socket, "--output", "json"]);
        (listed.code == 0).then(|| processes(&listed.json(), |row| row["site"] == "agent"))
    };
    let before = wait_for("the runtimes", agents);
    let switch = switch_of(&socket);
    let most = may_open(up, Some(3));
    signal(switch, Signal::KILL);
    std::thread::sleep(std::time::Duration::from_secs(1));
    may_open(up, most);
    let next = wait_for("another switch", || {
        let listed = run(["get", "hosts", &socket, "--output", "json"]);
        let listed = (listed.code == 0).then(|| listed.json())?;
        let next = processes(&listed, |row| row["agent"].is_null());
        next.into_iter().find(|process| *process != switch)
    });
    assert_ne!(next, switch);
    assert_eq!(
        wait_for("the runtimes", agents),
        before,
        "some were started anew"
    );
    let summary = cluster.summed_up();
    let count = |what| number(&summary, what);
    assert_eq!(count("/packets_before") + count("/packets_in"), 1_000_000);
}

/// The switch that runs, of several.
fn running(socket: &str) -> Option<u32> {
    let listed = run(["get", "hosts", socket, "--output", "json"]);
    let rows = (listed.code == 0).then(|| listed.json())?;
    let rows = rows
        .as_array()?
        .iter()
        .filter(|row| row["switch"] == "runs");
    let mut processes = rows.filter_map(|row| row["switch_process"].as_u64());
    processes.next().map(|process| process as u32)
}

/// Whichever host's switch dies, the other's takes over, and no flow begins anew.
#[test]
fn a_switch_stands_by_on_another_host() {
    let more = format!("{REPLICATED}\nstandby: beta");
    let mut cluster = Long::up_to_nowhere("2M", HOSTS, &more);
    let (up, socket) = (cluster.child().id(), cluster.socket());
    let mut all = BTreeSet::new();
    let (mut former, mut hosts) = (0, Vec::new());
    for fault in [Signal::KILL, Signal::STOP, Signal::KILL] {
        let switch = wait_for("another switch", || {
            let switch = running(&socket).filter(|switch| *switch != former)?;
            cluster.whole().map(|_| switch)
        });
        let listed = get("hosts", &socket);
        let all_rows = listed.as_array().unwrap();
        let runs = all_rows.iter().find(|row| row["switch"] == "runs").unwrap();
        hosts.push(runs["host"].as_str().unwrap().to_owned());
        wait_for("one that stands by", || {
            let listed = get("hosts", &socket);
            let mut rows = listed.as_array().unwrap().iter();
            rows.any(|row| row["switch"] == "stands by" && row["switch_process"].is_u64())
                .then_some(())
        });
        all.extend(family(up));
        signal(switch, fault);
        former = switch;
        if fault == Signal::STOP {
            // Four heartbeats are one second. One that stands still answers nobody.
            std::thread::sleep(std::time::Duration::from_secs(4));
            signal(switch, Signal::CONT);
        }
    }
    assert_eq!(hosts, ["alpha", "beta", "alpha"]);
    let events = wait_for("what it did", || {
        let ran = run(["events", &socket]);
        (ran.code == 0 && ran.out.contains("recovered")).then_some(ran.out)
    });
    assert!(
        events.contains("switch 4 takes the runtimes of the one before over: 3"),
        "{events}"
    );
    assert!(events.contains("units lost: 0"), "{events}");
    assert!(events.contains("exit code 75"), "{events}");
    all.extend(family(up));
    let summary = cluster.summed_up();
    let count = |what| number(&summary, what);
    assert_eq!(count("/packets_before") + count("/packets_in"), 2_000_000);
    let begun = summary.pointer("/switch/first_opened");
    assert_eq!(begun, None, "a flow began anew");
    are_gone(&all);
}

/// Its runtimes wait for another one meanwhile: it starts no others, and gives way.
#[test]
fn a_switch_that_stood_still_gives_way() {
    let mut cluster = Long::up_to_nowhere("6M", HOSTS, REPLICATED);
    let socket = cluster.socket();
    wait_for("three runtimes", || cluster.whole());
    let switch = switch_of(&socket);
    signal(switch, Signal::STOP);
    // Four heartbeats are one second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    signal(switch, Signal::CONT);
    let events = wait_for("another switch", || {
        let ran = run(["events", &socket]);
        (ran.code == 0 && ran.out.contains("recovered")).then_some(ran.out)
    });
    assert!(events.contains("exit code 75"), "{events}");
    assert!(events.contains("switch 2 takes the runtimes of the one before over: 2"));
    assert!(events.contains("units lost: 0"), "{events}");
    assert_ne!(switch_of(&socket), switch);
    signal(cluster.child().id(), Signal::INT);
    let summary = cluster.summed_up();
    assert_eq!(
        summary.pointer("/switch/first_opened"),
        None,
        "a flow began anew"
    );
}

/// What it has written to a capture, no other switch can go on with: the run ends, and says so.
#[test]
fn a_capture_ends_with_its_switch() {
    let mut cluster = Long::up(CHAIN, "50M", HOSTS, REPLICATED);
    let all = {
        wait_for("three runtimes", || cluster.whole());
        family(cluster.child().id())
    };
    signal(switch_of(&cluster.socket()), Signal::KILL);
    let (code, said) = cluster.failed();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("none can go on with the capture `"), "{said}");
    are_gone(&all);
}

/// What is piped into it is an input, as in `weir run`.
#[test]
fn standard_input_is_a_capture() {
    let folder = support::Folder::new();
    let capture = folder.path("in.pcap");
    let made = run(["gen", "--out", &capture, "flows=10,packets=1000"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let text = format!(
        "composition: piped\nchain: {}\nhosts: [{{name: alpha, runtimes: 1}}, {{name: beta, \
         runtimes: 1}}]\nswitch: alpha\nports: {{in: \"-\"}}\n",
        support::example("webedge.yaml")
    );
    let file = folder.write("cluster.yaml", text);
    let words = [
        "up",
        &file,
        "--control",
        "none",
        "--quiet",
        "--output",
        "json",
    ];
    let ran = support::weir(words)
        .stdin(std::fs::File::open(&capture).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(number(&summary, "/packets_in"), 1_000);
}

/// Each switch reads it.
#[test]
fn a_composition_that_can_be_read_once_is_refused() {
    let ran = support::weir(["up", "/dev/stdin"])
        .stdin(std::process::Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("give a file"), "{said}");
}

/// However the cluster's own process ends, none of the others is left.
#[test]
fn nothing_outlives_it() {
    for how in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut cluster = Long::up(CHAIN, "50M", HOSTS, REPLICATED);
        wait_for("three runtimes", || cluster.whole());
        let up = cluster.child().id();
        let all = family(up);
        // The switch, two agents, and a runtime of each.
        assert_eq!(all.len(), 6, "{all:?}");
        signal(up, how);
        cluster.child().wait().unwrap();
        are_gone(&all);
    }
}

#[test]
fn what_runs_where_is_listed() {
    let mut cluster = Long::up(CHAIN, "50M", HOSTS, REPLICATED);
    wait_for("protection", || cluster.whole());
    let (up, socket) = (cluster.child().id(), cluster.socket());
    let runtimes = wait_for("units on each", || {
        let all = get("runtimes", &socket);
        let rows = all.as_array().unwrap();
        // A runtime that is ready just now tells its process with the next answer.
        let busy = |row: &Value| {
            let holds = number(row, "/units") > 0 && number(row, "/replicas") > 0;
            holds && row["process"].is_u64()
        };
        rows.iter().all(busy).then_some(all)
    });
    let rows = runtimes.as_array().unwrap();
    let column = |rows: &[Value], name: &str| -> Vec<Value> {
        rows.iter().map(|row| row[name].clone()).collect()
    };
    assert_eq!(column(rows, "host"), ["alpha", "beta", "gamma"]);
    assert_eq!(column(rows, "site"), ["thread", "agent", "agent"]);
    assert_eq!(column(rows, "state"), ["ready", "ready", "ready"]);
    let all = family(up);
    let found = processes(&runtimes, |_| true);
    assert_eq!(found.len(), 3, "{runtimes}");
    assert!(
        found.iter().all(|process| all.contains(process)),
        "{found:?} {all:?}"
    );

    let hosts = get("hosts", &socket);
    let rows = hosts.as_array().unwrap();
    assert_eq!(column(rows, "host"), ["alpha", "beta", "gamma"]);
    assert_eq!(column(rows, "state"), ["ready", "ready", "ready"]);
    assert_eq!(column(rows, "runtimes_ready"), [1, 1, 1]);
    let agents = processes(&hosts, |row| row["agent"].is_string());
    assert!(
        agents.iter().all(|agent| children(up).contains(agent)),
        "{hosts}"
    );

    let replicas = get("replicas", &socket);
    assert_eq!(replicas["chains"][0]["replication"], "each-burst");
    assert_eq!(replicas["runtimes"].as_array().unwrap().len(), 3);
    let moves = get("moves", &socket);
    assert_eq!(moves[0]["chain"], "webedge");
    assert_eq!(moves[0]["lost"], 0);

    // A host that dies is seen as such, and its successor.
    signal(agents[0], Signal::KILL);
    let successor = wait_for("a successor", || {
        let hosts = get("hosts", &socket);
        let beta = &hosts[1];
        let back = beta["state"] == "ready" && beta["died"] == 1;
        back.then(|| processes(&hosts, |row| row["host"] == "beta"))
    });
    assert_ne!(successor, [agents[0]]);
    wait_for("its runtime", || {
        let runtimes = get("runtimes", &socket);
        (runtimes[1]["state"] == "ready" && runtimes[1]["died"] != 0).then_some(())
    });
    let moves = get("moves", &socket);
    assert!(number(&moves[0], "/resumed") > 0, "{moves}");

    rebalance(&socket);
    tables(&socket);
    signal(up, Signal::KILL);
    cluster.child().wait().unwrap();
}

/// The same for people.
#[track_caller]
fn tables(socket: &str) {
    for (what, heads) in [
        ("runtimes", ["PLACE", "UNPROTECTED"]),
        ("hosts", ["AGENT", "PROCESS"]),
        ("replicas", ["REPLICATION", "UNPROTECTED"]),
        ("moves", ["UNDER WAY", "RESUMED"]),
    ] {
        let ran = run(["get", what, socket]);
        let first = ran.out.lines().next().unwrap();
        assert!(
            heads.iter().all(|head| first.contains(head)),
            "{what}: {}",
            ran.out
        );
    }
}

/// Units are moved to the runtime that has the fewest, from the one that has the most.
#[track_caller]
fn rebalance(socket: &str) {
    let runtimes = get("runtimes", socket);
    let units = |row: &&Value| number(row, "/units");
    let rows = runtimes.as_array().unwrap();
    let from = rows.iter().max_by_key(units).unwrap();
    let to = rows.iter().min_by_key(units).unwrap();
    let (numbers, before) = ([from, to].map(|row| number(row, "/runtime")), units(&to));
    let ids = numbers.map(|id| id.to_string());
    let moves = |words: &[&str]| {
        let socket = ["--instance", socket, "--output", "json"];
        run([&["move"], words, &socket].concat())
    };
    let moved = moves(&[&ids[0], &ids[1], "--count", "10", "--mode", "pull"]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    assert_eq!(moved.json()["moving"], 10);
    wait_for("units", || {
        let runtimes = get("runtimes", socket);
        let rows = runtimes.as_array().unwrap().iter();
        let mut rows = rows.filter(|row| number(row, "/runtime") == numbers[1]);
        (number(rows.next()?, "/units") >= before + 10).then_some(())
    });
    wait_for("the end of the moves", || {
        let moves = get("moves", socket);
        let done = number(&moves[0], "/moved") >= 10 && number(&moves[0], "/under_way") == 0;
        done.then_some(())
    });
    for (words, part) in [
        ([ids[0].as_str(), &ids[0]], "source and target are the same"),
        (["999", &ids[0]], "no such runtime to move from"),
        ([&ids[0], "999"], "no such runtime to move to"),
    ] {
        let refused = moves(&words);
        assert!(
            refused.code == 1 && refused.err.contains(part),
            "{}",
            refused.err
        );
    }
}

/// A composition that is right.
fn whole() -> String {
    format!(
        "composition: edge\nchain: {}\nhosts: [{{name: alpha, runtimes: 2}}]\nswitch: alpha\n\
         ports: {{in: \"gen:packets=10\", out: out.pcap}}\n",
        example(CHAIN)
    )
}

/// Lines that are wrong behind those, and what is said.
const LINES: [(&str, &str); 9] = [
    ("standby: beta", "there is no host `beta`"),
    ("standby: alpha", "`alpha` has the switch itself"),
    ("standby: []", "names of hosts"),
    ("replicaton: none", "did you mean `replication`?"),
    ("replication: each-packet", "there are none, each-burst"),
    ("heartbeat: 1h", "from `1ms` to `10s`"),
    ("dispatch: random", "is not one of the values here"),
    ("set: nonsense", "is no setting"),
    ("templates: nowhere", "there is no folder nowhere"),
];

/// Changes that make it wrong: in which line, and what is said.
const CHANGES: [(&str, &str, u32, &str); 9] = [
    ("ports", "parts", 5, "unknown key `parts`"),
    ("switch: alpha", "switch: alpa", 4, "did you mean `alpha`?"),
    ("runtimes: 2", "runtimes: 0", 3, "no host has a runtime"),
    (
        "runtimes: 2",
        "runtimes: 65",
        3,
        "a whole number from 0 to 64",
    ),
    (
        "2}]",
        "2}, {name: alpha}]",
        3,
        "there is a host `alpha` above",
    ),
    ("webedge.yaml", "nowhere.yaml", 2, "there is no chain file"),
    ("gen:packets=10", "gen:packet=10", 5, "packet"),
    ("out.pcap", "lan=out.pcap", 5, "the chain has no port lan"),
    ("runtimes: 2", "runtimes: [", 3, "error"),
];

fn wrong() -> Vec<(String, u32, &'static str)> {
    let lines = LINES.map(|(line, part)| (format!("{}{line}\n", whole()), 6, part));
    let changes = CHANGES.map(|(from, to, line, part)| {
        let text = whole().replace(from, to);
        assert_ne!(text, whole(), "{from}");
        (text, line, part)
    });
    let one = whole().replace("runtimes: 2", "runtimes: 1");
    let alone = format!("{one}replication: each-burst\n");
    let alone = (alone, 6, "a replica needs a second runtime");
    let two = whole().replace("2}]", "2}, {name: beta}]");
    let two = (
        format!("{two}standby: beta\n"),
        6,
        "there must be 3 at least",
    );
    let captured = whole().replace("2}]", "2}, {name: beta}, {name: gamma}]");
    let captured = format!("{captured}standby: beta\n");
    let captured = (captured, 6, "none can go on with the capture");
    let more = [alone, two, captured];
    lines.into_iter().chain(changes).chain(more).collect()
}

#[test]
fn a_wrong_composition_is_refused_with_its_line() {
    for (text, line, part) in wrong() {
        let folder = Folder::new();
        let file = folder.write("cluster.yaml", &text);
        let up = run(["up", &file, "--control", "none"]);
        let at = format!("{file}:{line}:");
        let all = up.err.contains(part) && up.err.contains(&at);
        assert!(up.code == 3 && all, "{part}: {}: {}", up.code, up.err);
        assert!(!Path::new(&folder.path("out.pcap")).exists(), "{part}");
        // As YAML it is broken: what it was to be is not known, where it is broken is.
        let check = run(["check", &file]);
        assert!(
            check.code == 3 && check.err.contains(&at),
            "{part}: {}",
            check.err
        );
        assert!(
            part == "error" || check.err == up.err,
            "{part}: {}",
            check.err
        );
    }
}

#[test]
fn an_error_in_the_chain_file_is_at_its_line() {
    let folder = Folder::new();
    folder.write("chain.yaml", "chain: c\nnfs:\n  - firewal\n");
    let text = "composition: edge\nchain: chain.yaml\nhosts: [{name: a, runtimes: 1}]\n\
                switch: a\nports: {in: gen}\n";
    let file = folder.write("cluster.yaml", text);
    let ran = run(["check", &file]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("chain.yaml:3:"), "{}", ran.err);
}

#[test]
fn the_example_runs_and_its_schema_is_printed() {
    let ran = run(["check", &example("cluster.yaml")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in ["composition edge", "host beta: 1 runtimes", "firewall"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let checked = run(["check", &example("cluster.yaml"), "--output", "json"]).json();
    assert_eq!(checked["composition"]["hosts"].as_array().unwrap().len(), 3);
    // The same with fewer packets.
    let folder = Folder::new();
    let text = std::fs::read_to_string(example("cluster.yaml")).unwrap();
    let fewer = text.replace("=2M", "=50k").replace(CHAIN, &example(CHAIN));
    let file = folder.write("cluster.yaml", fewer);
    let args = ["--control", "none", "--quiet", "--output", "json"];
    let ran = run([&["up", file.as_str()], &args[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    nothing_is_lost(&summary);
    for packets in ["packets_in", "packets_out"] {
        assert_eq!(summary[packets], 50_000, "{summary}");
    }
    let schema = run(["schema", "composition"]).json();
    assert_eq!(schema["title"], "weir composition");
    assert!(schema["properties"]["hosts"]["items"]["properties"]["runtimes"].is_object());
}

#[test]
fn what_has_no_runtimes_is_not_listed() {
    let mut plain = Long::start("http.yaml", "20M", &[]);
    let socket = plain.socket();
    let ran = wait_for("its answer", || {
        let ran = run(["get", "runtimes", &socket]);
        ran.err.contains("behind a switch").then_some(ran)
    });
    assert_eq!(ran.code, 1, "{}", ran.err);
    let moved = run(["move", "1", "2", "--instance", &socket]);
    assert!(
        moved.code == 1 && moved.err.contains("behind a switch"),
        "{}",
        moved.err
    );
    plain.child().kill().unwrap();
}
