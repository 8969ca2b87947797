//! Workers that each own queues of the interfaces, between hosts of many addresses.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::time::Duration;

use network::{Cable, Network, STATEFUL, Weir, at, must};
use serde_json::Value;
use support::{Folder, conserved, example, number, run, sum};

/// Addresses of the server beside its first: as many pairs of hosts, so that each worker
/// has some whatever the seed.
const MORE: u32 = 12;

fn server(n: u64) -> String {
    format!("10.99.0.{}", 100 + n % u64::from(MORE))
}

/// Hosts with several queues on each interface.
fn hosts() -> Network {
    let network = Network::new(&Cable {
        queues: 4,
        host_queues: 4,
        ..Cable::default()
    });
    for n in 0..u64::from(MORE) {
        let (host, address) = (network.name("server"), format!("{}/24", server(n)));
        must("ip", &["-n", &host, "addr", "add", &address, "dev", "eth0"]);
    }
    network
}

const KINDS: [[&str; 2]; 3] = [
    ["af-packet:inside", "af-packet:outside"],
    ["xdp:inside:native", "xdp:outside:native"],
    ["xdp:inside:native", "af-packet:outside"],
];

/// Downloads and uploads with every address of the server, several at a time.
fn transfers(network: &Network, each: u64) {
    let clients = [0, 1, 2].map(|client| {
        network.spawn("client", move || {
            (0..each).try_for_each(|turn| {
                let seed = turn * 3 + client;
                let length = 1usize << (seed * 5 % 19);
                let length = length + (seed as usize * 997) % length;
                web::fetch(at(&server(seed), 80), turn % 3 == 2, seed, length)
            })
        })
    });
    for client in clients {
        client
            .join()
            .expect("no panic")
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Asks over the control socket.
#[track_caller]
fn ask(args: &[&str]) -> Value {
    let ran = run(args.iter().chain(&["--output", "json"]));
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    ran.json()
}

/// What the summary says of each worker under this name.
fn each(summary: &Value, name: &str) -> Vec<u64> {
    let workers = summary["workers"]["each"].as_array().expect("workers");
    workers
        .iter()
        .map(|worker| number(worker, &format!("/{name}")))
        .collect()
}

/// The run's end: it agrees with itself, and each worker has had work.
#[track_caller]
fn end(weir: Weir, signal: &str) -> Value {
    let ran = weir.end(signal);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(summary["workers"]["own_ports"], true, "{summary}");
    assert!(
        each(&summary, "packets").iter().all(|n| *n > 50),
        "{summary}"
    );
    assert!(each(&summary, "flows").iter().all(|n| *n > 0), "{summary}");
    assert!(
        each(&summary, "steered").iter().any(|n| *n > 0),
        "{summary}"
    );
    summary
}

#[test]
fn downloads_come_right_over_two_workers_and_counters_balance() {
    if !network::possible() {
        return;
    }
    for [inside, outside] in KINDS {
        let network = hosts();
        let folder = Folder::new();
        let (stateful, events) = (folder.path("stateful.yaml"), folder.path("events.json"));
        std::fs::write(&stateful, STATEFUL).unwrap();
        web::server(&network);
        let ports = ["--in", inside, "--out", outside, "--workers", "2"];
        let with = ["--events", &events, "--seed", "7"];
        let weir = network.weir(&stateful, &[&ports[..], &with].concat());
        assert!(weir.said.contains("over 2 workers"), "{}", weir.said);
        // No thread has the ports beside the workers.
        assert_eq!(weir.cores().len(), 2, "{:?}", weir.cores_by_name());
        network.ping(3);
        transfers(&network, 24);
        let summary = end(weir, "-TERM");
        let (came, went) = (
            number(&summary, "/packets_in"),
            number(&summary, "/packets_out"),
        );
        assert_eq!(came, went + sum(&summary, "/drops"), "{inside}: {summary}");
        assert!(went > 1_000, "{inside}: {summary}");
        // A request and its response make an event, whichever worker saw them.
        let events = std::fs::read_to_string(&events).unwrap();
        let requests = events
            .lines()
            .filter(|line| line.contains("\"event_type\":\"http\""));
        assert!(requests.count() >= 72, "{inside}: {events}");
    }
}

#[test]
fn the_control_socket_shows_both_workers() {
    if !network::possible() {
        return;
    }
    for [inside, outside] in KINDS {
        let network = hosts();
        let folder = Folder::new();
        let socket = folder.path("it.sock");
        web::server(&network);
        let ports = ["--in", inside, "--out", outside, "--workers", "2"];
        let events = folder.path("events.json");
        let with = ["--control", &socket, "--seed", "7", "--events", &events];
        let weir = network.weir(&example("monitor.yaml"), &[&ports[..], &with].concat());
        transfers(&network, 12);
        let stats = ask(&["stats", &socket]);
        let names: Vec<&str> = stats["threads"]
            .as_array()
            .expect("threads")
            .iter()
            .map(|thread| thread["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["worker 2", "worker 1"], "{stats}");
        let steered: u64 = (0..2)
            .map(|n| number(&stats, &format!("/threads/{n}/steered")))
            .sum();
        assert!(steered > 0, "{stats}");
        // All workers' packets are among those of the ports.
        let came: u64 = (0..2)
            .map(|n| number(&stats, &format!("/ports/in/{n}/packets")))
            .sum();
        let went: u64 = (0..2)
            .map(|n| number(&stats, &format!("/ports/out/{n}/packets")))
            .sum();
        assert!(came >= went && went + 50 > came && went > 500, "{stats}");
        // Flows of both: each worker gives numbers of its own.
        let flows = ask(&["flows", "-i", &socket]);
        let ids: Vec<u64> = flows["flows"]
            .as_array()
            .expect("flows")
            .iter()
            .map(|flow| number(flow, "/id"))
            .collect();
        let second = |id: &&u64| **id >= 1 << 40;
        let of_second = ids.iter().filter(second).count();
        assert!(of_second > 0 && of_second < ids.len(), "{flows}");
        // A trace sees packets wherever they are.
        let traced = std::thread::spawn({
            let socket = socket.clone();
            move || run(["trace", &socket, "tcp", "-n", "200", "--output", "json"])
        });
        // Nothing tells when the trace has begun; it ends with its 200th packet.
        for _ in 0..100 {
            if traced.is_finished() {
                break;
            }
            transfers(&network, 12);
        }
        let traced = traced.join().expect("no panic");
        assert_eq!(traced.code, 0, "{}", traced.err);
        let of = |n: u64| traced.out.contains(&server(n));
        assert!(
            (0..u64::from(MORE)).filter(|n| of(*n)).count() > 2,
            "{}",
            traced.out
        );
        // Flows that are ended have their events, whichever worker has them.
        let ended = ask(&["flows", "-i", &socket, "end", "all"]);
        end(weir, "-INT");
        let events = std::fs::read_to_string(&events).unwrap();
        let of_ended = events
            .lines()
            .filter(|line| line.contains("\"reason\":\"ended\""));
        assert_eq!(of_ended.count() as u64, number(&ended, "/ended"));
    }
}

#[test]
fn idle_workers_sleep_and_lose_nothing_when_they_wake() {
    if !network::possible() {
        return;
    }
    for [inside, outside] in KINDS {
        let network = hosts();
        web::server(&network);
        let ports = [
            "--in",
            inside,
            "--out",
            outside,
            "--workers",
            "2",
            "--seed",
            "7",
        ];
        let weir = network.weir(&example("monitor.yaml"), &ports);
        transfers(&network, 8);
        std::thread::sleep(Duration::from_millis(700));
        let before = weir.processor_time();
        std::thread::sleep(Duration::from_secs(5));
        let used = weir.processor_time() - before;
        println!("{inside}: {used} s of 5 s");
        // One that never slept would use all of it, also beside others.
        assert!(used <= 0.5, "{inside}: {used} s of 5 s");
        for n in 0..u64::from(MORE) {
            // One packet after a while without any, at whichever worker.
            network.reach("client", &server(n), 1);
            std::thread::sleep(Duration::from_millis(30));
        }
        end(weir, "-TERM");
    }
}

#[test]
fn a_tap_and_several_wires_work_over_workers() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    let folder = Folder::new();
    let tap = folder.path("tap.yaml");
    std::fs::write(&tap, "chain: a\nnetwork: {mode: tap}\nnfs: [monitor]\n").unwrap();
    for kind in ["af-packet", "xdp"] {
        let port = format!("{kind}:inside");
        let with = ["--in", &port, "--workers", "2", "--seed", "7"];
        let weir = network.weir(&tap, &with);
        assert!(weir.said.contains("over 2 workers"), "{}", weir.said);
        // Nobody answers for the server's addresses: the tap is beside the wire.
        for n in 0..u64::from(MORE) {
            let add = [
                "neigh",
                "replace",
                &server(n),
                "lladdr",
                "02:00:00:00:00:09",
                "dev",
                "eth0",
            ];
            network.run("client", "ip", &add);
        }
        let sender = network.spawn("client", || {
            let socket = std::net::UdpSocket::bind("10.99.0.1:0").unwrap();
            for n in 0..600 {
                socket.send_to(b"hello", at(&server(n), 9)).unwrap();
                if n % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        sender.join().unwrap();
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        let kept = number(&summary, "/network/kept");
        assert!(kept > 100, "{kind}: {summary}");
        assert_eq!(kept, number(&summary, "/kept"), "{summary}");
        assert_eq!(
            each(&summary, "packets").iter().sum::<u64>(),
            kept,
            "{summary}"
        );
    }
}

#[test]
fn ports_that_cant_be_shared_are_one_threads_and_it_is_said_why() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let file = folder.path("copy.pcapng");
    for (ports, why) in [
        (
            ["--in", "xdp:inside", "--out", "xdp:outside"],
            "has 1 queue",
        ),
        (
            ["--in", "af-packet:inside", "--out", file.as_str()],
            "is written by one thread",
        ),
        (
            ["--in", "tap:some0", "--out", "af-packet:outside"],
            "has one queue",
        ),
        (
            [
                "--in",
                "inside=emu(loss=0%):af-packet:inside",
                "--out",
                "af-packet:outside",
            ],
            "emulates the link",
        ),
    ] {
        let weir = network.weir(
            &example("monitor.yaml"),
            &[&ports[..], &["--workers", "2"]].concat(),
        );
        assert!(weir.said.contains(why), "{why}: {}", weir.said);
        assert!(
            weir.said.contains("one thread has all ports"),
            "{}",
            weir.said
        );
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.json()["workers"]["own_ports"], false);
    }
}

#[test]
fn an_interface_that_goes_away_ends_all_workers() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = hosts();
        let place = network.name("weir");
        web::server(&network);
        let ports = [format!("{kind}:inside"), format!("{kind}:outside")];
        let with = [
            "--in",
            &ports[0],
            "--out",
            &ports[1],
            "--workers",
            "3",
            "--seed",
            "7",
        ];
        let weir = network.weir(&example("monitor.yaml"), &with);
        transfers(&network, 6);
        must("ip", &["-n", &place, "link", "del", "inside"]);
        let ran = weir.wait();
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("inside is gone"), "{}", ran.err);
        conserved(&ran.json());
    }
}
