//! Interfaces with several threads: workers, runtimes behind a switch, plans of several stages; and
//! several wires at once.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::time::{Duration, Instant};

use network::process::children;
use network::{Cable, Network, STATEFUL, must};
use serde_json::Value;
use support::{Folder, conserved, example, nothing_is_lost, number};

/// Ways of running with several threads, and how many of them at least: workers that own
/// their ports are no more than that, where those can be shared out.
const WAYS: [(&[&str], usize); 5] = [
    (&["--workers", "2"], 2),
    (&["--runtimes", "2"], 3),
    (&["--plan", "pipeline"], 3),
    // Each further stage, or each runtime, is a process.
    (&["--plan", "pipeline", "--processes"], 1),
    (REPLICATED, 1),
];

const REPLICATED: &[&str] = &[
    "--runtimes",
    "3",
    "--processes",
    "--replication",
    "each-burst",
];

/// TCP, answered pings, events, conservation: by each way of running.
fn traffic(inside: &str, outside: &str) {
    for (way, threads) in WAYS {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let (stateful, events) = (folder.path("stateful.yaml"), folder.path("events.json"));
        std::fs::write(&stateful, STATEFUL).unwrap();
        web::server(&network);
        let ports = ["--in", inside, "--out", outside, "--events", &events];
        let weir = network.weir(&stateful, &[&ports[..], way].concat());
        assert!(weir.cores().len() >= threads, "{way:?}: {:?}", weir.cores());
        network.ping(3);
        let done = web::transfers(&network, 8);
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{way:?}: {}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert!(number(&summary, "/packets_out") > 300, "{way:?}: {summary}");
        let events = std::fs::read_to_string(&events).unwrap();
        let requests = events
            .lines()
            .filter(|line| line.contains("\"event_type\":\"http\""));
        assert!(requests.count() as u64 >= done, "{way:?}: {events}");
    }
}

#[test]
fn packet_sockets_carry_tcp_through_threads() {
    if network::possible() {
        traffic("af-packet:inside", "af-packet:outside");
    }
}

#[test]
fn xdp_sockets_carry_tcp_through_threads() {
    if network::possible() {
        traffic("xdp:inside", "xdp:outside");
    }
}

#[test]
fn threads_sleep_when_idle_and_lose_nothing_when_they_wake() {
    if !network::possible() {
        return;
    }
    for (way, threads) in WAYS {
        let network = Network::new(&Cable::default());
        let ports = ["--in", "xdp:inside", "--out", "xdp:outside"];
        let folder = Folder::new();
        let chain = folder.path("stateful.yaml");
        std::fs::write(&chain, STATEFUL).unwrap();
        let weir = network.weir(&chain, &[&ports[..], way].concat());
        assert!(weir.cores().len() >= threads, "{way:?}: {:?}", weir.cores());
        std::thread::sleep(Duration::from_millis(700));
        let before = weir.processor_time();
        std::thread::sleep(Duration::from_secs(3));
        let used = weir.processor_time() - before;
        println!("{way:?}: {used} s of 3 s");
        // One that never slept would use all of it, also beside others.
        assert!(used <= 0.3, "{way:?}: {used} s of 3 s");
        for _ in 0..5 {
            // One packet, after nothing: it must come through.
            network.ping(1);
            std::thread::sleep(Duration::from_millis(150));
        }
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{way:?}: {}", ran.err);
        conserved(&ran.json());
    }
}

/// Minutes of silence, in seconds: flows end, records are written and ports come
/// back although no packet comes.
#[test]
fn silence_ends_flows() {
    if !network::possible() {
        return;
    }
    let chain = "\
chain: quiet
flows: {max: 1000, timeouts: {udp: 1s}}
nfs:
  - monitor
  - nat44: {pool: 198.51.100.1}
";
    let ways = [&[][..]].into_iter().chain(WAYS.map(|(way, _)| way));
    for way in ways {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let (file, events) = (folder.path("quiet.yaml"), folder.path("events.json"));
        std::fs::write(&file, chain).unwrap();
        let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
        let to = ["--events", &events];
        let weir = network.weir(&file, &[&ports[..], &to, way].concat());
        let sender = network.spawn("client", || {
            let socket = std::net::UdpSocket::bind("10.99.0.1:5000").unwrap();
            socket.send_to(b"hello", "10.99.0.2:9").unwrap();
        });
        sender.join().unwrap();
        let written = |kind: &str, what: &str| {
            let events = std::fs::read_to_string(&events).unwrap_or_default();
            let lines = events.lines().filter(|line| line.contains(kind));
            lines.filter(|line| line.contains(what)).count()
        };
        let created = || written("\"nat\"", "\"create\"");
        let began = std::time::Instant::now();
        while created() == 0
            || written("\"nat\"", "\"delete\"") < created()
            || written("\"flow\"", "\"timeout\"") == 0
        {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(60), "{way:?}: {text}");
            std::thread::sleep(Duration::from_millis(200));
        }
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{way:?}: {}", ran.err);
        conserved(&ran.json());
    }
}

/// Kills the oldest child process, `most` times at most and one each `pause` milliseconds, while
/// files are fetched: all arrive. `check` gets the summary and how many were killed.
fn downloads_survive_kills(way: &[&str], pause: u64, most: u32, check: impl Fn(&Value, u32)) {
    if !network::possible() {
        return;
    }
    for (inside, outside) in [
        ("af-packet:inside", "af-packet:outside"),
        ("xdp:inside", "xdp:outside"),
    ] {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let chain = folder.path("stateful.yaml");
        std::fs::write(&chain, STATEFUL).unwrap();
        web::server(&network);
        let ports = ["--in", inside, "--out", outside];
        let weir = network.weir(&chain, &[&ports[..], way].concat());
        network.ping(1);
        let fetching = network.spawn("client", || {
            let fetch = |n| {
                let server = network::SERVER[n as usize % 2];
                web::fetch(network::at(server, 80), n % 3 == 0, n, 4 << 20)
            };
            (0..12).try_for_each(fetch)
        });
        let mut killed = 0;
        while !fetching.is_finished() {
            std::thread::sleep(Duration::from_millis(pause));
            let oldest = children(weir.id()).into_iter().next();
            if let Some(process) = oldest.filter(|_| killed < most) {
                must("kill", &["-9", &process.to_string()]);
                killed += 1;
            }
        }
        assert_eq!(fetching.join().unwrap(), Ok(()), "{inside}");
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{inside}: {}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        check(&summary, killed);
    }
}

#[test]
fn a_stage_that_is_killed_between_interfaces_breaks_no_connection() {
    let apart = ["--plan", "pipeline", "--processes"];
    // After more deaths weir takes the machine for faulty.
    downloads_survive_kills(&apart, 150, 4, |summary, killed| {
        let died = number(summary, "/processes/0/died");
        assert!(killed > 0 && died > 0, "{summary}");
    });
}

/// Firewall and NAT, whose states are replicated before a packet leaves: neither sees a
/// packet without the state that it needs, whichever runtime is killed.
#[test]
fn a_runtime_that_is_killed_between_interfaces_breaks_no_connection() {
    // No more often than there are successors.
    downloads_survive_kills(REPLICATED, 200, 8, |summary, killed| {
        nothing_is_lost(summary);
        let suspected = number(summary, "/switch/suspected");
        assert!(killed > 1 && suspected >= 2, "{summary}");
    });
}

/// The process's end wakes the switch's thread: it does not wait until it looks next, 0.1 s
/// later at most.
#[test]
fn a_death_is_seen_at_once_though_nothing_passes() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let ways = ["--runtimes", "8", "--processes"];
    let weir = network.weir(&example("monitor.yaml"), &[&ports[..], &ways].concat());
    let first = children(weir.id());
    assert_eq!(first.len(), 8);
    let mut late = Vec::new();
    for (number, runtime) in (1..).zip(&first) {
        // At another point of its sleep each time.
        std::thread::sleep(Duration::from_millis(400 + 37 * number));
        let before = children(weir.id());
        let killed = Instant::now();
        must("kill", &["-9", &runtime.to_string()]);
        while children(weir.id()).is_subset(&before) {
            assert!(killed.elapsed() < Duration::from_secs(30), "no successor");
        }
        let took = killed.elapsed();
        if took > Duration::from_millis(50) {
            late.push(took);
        }
    }
    assert!(late.len() <= 1, "{late:?}");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = "has died of signal 9; runtime ";
    assert!(ran.err.matches(line).count() >= 8, "{}", ran.err);
}

/// Two chains side by side, one with a stage that is not trusted.
const BESIDE: &str = "\
chains:
  - chain: web
    match: [{protocol: tcp}]
    nfs: [ip-check, monitor]
  - chain: rest
    nfs: [ip-check, monitor]
    plan: {untrusted: [monitor]}
";

#[test]
fn a_stage_that_is_not_trusted_stops_its_own_packets_only() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = folder.path("beside.yaml");
    std::fs::write(&chain, BESIDE).unwrap();
    web::server(&network);
    let weir = network.weir(&chain, &["--in", "xdp:inside", "--out", "xdp:outside"]);
    network.ping(3);
    web::transfers(&network, 4);
    let tenant = || children(weir.id()).into_iter().next();
    // It does nothing any more: pings are its packets, TCP is not.
    let stopped = tenant().unwrap();
    must("kill", &["-STOP", &stopped.to_string()]);
    web::transfers(&network, 8);
    must("kill", &["-9", &stopped.to_string()]);
    let again = (0..1_200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        tenant().filter(|tenant| *tenant != stopped)
    });
    assert!(again.is_some(), "it was not started again");
    network.ping(1);
    web::transfers(&network, 4);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(number(&summary, "/processes/0/died"), 1, "{summary}");
    assert_eq!(summary["processes"][0]["trusted"], false, "{summary}");
}

#[test]
fn a_script_moves_flows_while_they_pass() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let script = folder.path("moves.yaml");
    std::fs::write(
        &script,
        "- {at: 300ms, move: {from: 1, to: 2}}\n- {at: 600ms, move: {from: 2, to: 1}}\n",
    )
    .unwrap();
    web::server(&network);
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let with = ["--runtimes", "2", "--script", &script];
    let weir = network.weir(&example("monitor.yaml"), &[&ports[..], &with].concat());
    web::transfers(&network, 8);
    std::thread::sleep(Duration::from_millis(700));
    web::transfers(&network, 2);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert!(!ran.err.contains("was not carried out"), "{}", ran.err);
}

#[test]
fn cores_hold_the_threads() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let text = "chain: a\nnfs: [monitor]\nthreads: {cores: 0, busy-poll: true}\n";
    let (says, silent) = (folder.write("threads.yaml", text), example("monitor.yaml"));
    let with = &["--cores", "0", "--busy-poll"][..];
    for (chain, with, way) in [
        (&silent, with, &["--workers", "2"][..]),
        (&silent, with, &["--runtimes", "1"]),
        (&silent, with, &[]),
        (&says, &[], &["--workers", "2"]),
        (&says, &[], &[]),
    ] {
        let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
        let weir = network.weir(chain, &[&ports[..], with, way].concat());
        network.ping(2);
        let cores = weir.cores();
        assert!(cores.len() > way.len() / 2, "{way:?}: {cores:?}");
        assert!(cores.iter().all(|core| core == "0"), "{way:?}: {cores:?}");
        // Who answers is not kept from it by those who never let go of that core.
        let all = weir.cores_by_name();
        let control = all.iter().find(|(name, _)| name == "control").unwrap();
        let there = std::thread::available_parallelism().unwrap().get();
        assert!(there == 1 || control.1 != "0", "{all:?}");
        // It never sleeps.
        let before = weir.wakeful_time();
        std::thread::sleep(Duration::from_millis(800));
        let awake = weir.wakeful_time() - before;
        assert!(awake > 0.5, "{way:?}: {awake} s of 0.8 s");
        assert_eq!(weir.end("-TERM").code, 0);
    }
}

/// Real-time priorities of the threads of a process, by thread, each once; 0 is none.
fn priorities(process: u32) -> Vec<(String, u32)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut all: Vec<(String, u32)> = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
        .map(|stat| {
            let (name, rest) = stat.rsplit_once(')').unwrap();
            let name = name.split_once('(').unwrap().1;
            // `rt_priority` is field 40 of proc_pid_stat(5), and the state, first of these, 3.
            let priority = rest.split_whitespace().nth(37).unwrap();
            (name.to_owned(), priority.parse().unwrap())
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn who_moves_packets_goes_first_if_asked_and_who_answers_does_not() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let text = "chain: a\nnfs: [monitor]\nthreads: {first: true}\n";
    let says = folder.write("threads.yaml", text);
    let tenant = "chain: a\nnfs: [ip-check, monitor]\nplan: {untrusted: [monitor]}\n";
    let (tenant, silent) = (folder.write("tenant.yaml", tenant), example("monitor.yaml"));
    let apart = "chain: a\nnfs: [ip-check, monitor]\nplan: {processes: [monitor]}\n";
    let apart = folder.write("apart.yaml", apart);
    for (chain, with, first) in [
        (&silent, &["--first"][..], 1),
        (&silent, &["--first", "--workers", "2"], 1),
        (&silent, &["--first", "--runtimes", "1"], 1),
        (&silent, &[], 0),
        (&says, &[], 1),
        (&says, &["--first=false"], 0),
        (&tenant, &["--first"], 1),
        (&apart, &["--first", "--cores", "0,1"], 1),
    ] {
        let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
        let weir = network.weir(chain, &[&ports[..], with].concat());
        network.ping(2);
        for (name, priority) in priorities(weir.id()) {
            let answers = ["control", "commands", "relay"].contains(&name.as_str());
            let expected = if answers { 0 } else { first };
            assert_eq!(priority, expected, "{name} {with:?}");
        }
        for stage in children(weir.id()) {
            for (name, priority) in priorities(stage) {
                let trusted = chain == &apart && name != "commands";
                assert_eq!(priority, u32::from(trusted), "{name}");
            }
        }
        assert_eq!(weir.end("-TERM").code, 0);
    }
    // Nobody else would ever have the core.
    let run = [
        "run",
        &silent,
        "--first",
        "--busy-poll",
        "--in",
        "af-packet:lo",
    ];
    let refused = support::run(run);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("--first or --busy-poll"),
        "{}",
        refused.err
    );
}

#[test]
fn wires_keep_their_packets_apart() {
    if !network::possible() {
        return;
    }
    let networks = [(); 2].map(|()| Network::new(&Cable::default()));
    let [first, second] = &networks;
    // The second pair of hosts is tied to the first one's weir.
    let (from, to) = (second.name("weir"), first.name("weir"));
    for (port, name) in [("inside", "inside2"), ("outside", "outside2")] {
        let moved = ["-n", &from, "link", "set", port, "netns", &to, "name", name];
        must("ip", &moved);
        must("ip", &["-n", &to, "link", "set", name, "up"]);
    }
    let ports = [
        "--in",
        "inside=af-packet:inside",
        "--in",
        "inside=xdp:inside2",
        "--out",
        "outside=af-packet:outside",
        "--out",
        "outside=xdp:outside2",
    ];
    for way in [&[][..], &["--workers", "2"]] {
        let weir = first.weir(&example("monitor.yaml"), &[&ports[..], way].concat());
        // Both pairs of hosts have the same addresses: only wires that are apart
        // let each of them reach its own.
        for network in &networks {
            network.ping(1);
        }
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        for [a, b] in [[0, 2], [1, 3]] {
            let [came, went] = [
                format!("/ports/in/{a}/packets"),
                format!("/ports/out/{b}/packets"),
            ];
            assert!(number(&summary, &came) > 0, "{summary}");
            assert_eq!(
                number(&summary, &came),
                number(&summary, &went),
                "{summary}"
            );
        }
    }
}
