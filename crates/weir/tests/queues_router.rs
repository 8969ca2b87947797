//! A router whose workers each own queues: real hosts of many addresses on both sides,
//! nobody's hardware address written down.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::UdpSocket;
use std::time::Duration;

use network::{Cable, Network, at, must};
use support::{Folder, conserved, number, sum};

/// Addresses of each host and family.
const MANY: u64 = 8;

const CHAIN: &str = "\
chain: router
ports:
  - {name: lan, side: inside}
  - {name: wan, side: outside}
network:
  mode: router
  ports:
    lan: {addresses: [10.0.0.1/24, \"fd00:1::1/64\"]}
    wan: {addresses: [198.51.100.1/24, \"fd00:2::1/64\"]}
nfs: [monitor]
";

fn server(n: u64, six: bool) -> String {
    match six {
        false => format!("198.51.100.{}", 11 + n % MANY),
        true => format!("fd00:2::{}", 11 + n % MANY),
    }
}

fn hosts() -> Network {
    let network = Network::new(&Cable {
        queues: 4,
        host_queues: 4,
        ..Cable::default()
    });
    for (host, four, six, via) in [
        ("client", "10.0.0", "fd00:1:", ["10.0.0.1", "fd00:1::1"]),
        (
            "server",
            "198.51.100",
            "fd00:2:",
            ["198.51.100.1", "fd00:2::1"],
        ),
    ] {
        let name = network.name(host);
        must(
            "ip",
            &[
                "-n", &name, "addr", "flush", "dev", "eth0", "scope", "global",
            ],
        );
        for n in 11..11 + MANY {
            let (four, six) = (format!("{four}.{n}/24"), format!("{six}:{n}/64"));
            must("ip", &["-n", &name, "addr", "add", &four, "dev", "eth0"]);
            must(
                "ip",
                &["-n", &name, "addr", "add", &six, "dev", "eth0", "nodad"],
            );
        }
        must(
            "ip",
            &["-n", &name, "route", "add", "default", "via", via[0]],
        );
        must(
            "ip",
            &["-n", &name, "-6", "route", "add", "default", "via", via[1]],
        );
    }
    network
}

#[test]
fn each_worker_routes_and_knows_its_neighbours() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = hosts();
        let folder = Folder::new();
        let chain = folder.path("router.yaml");
        std::fs::write(&chain, CHAIN).unwrap();
        web::server(&network);
        let ports = [format!("lan={kind}:inside"), format!("wan={kind}:outside")];
        let with = [
            "--in",
            &ports[0],
            "--in",
            &ports[1],
            "--workers",
            "2",
            "--seed",
            "7",
        ];
        let weir = network.weir(&chain, &with);
        assert!(weir.said.contains("over 2 workers"), "{}", weir.said);
        // The router's own addresses, whichever worker is asked.
        for to in ["10.0.0.1", "fd00:1::1", "198.51.100.1"] {
            network.reach("client", to, 3);
        }
        let clients = [0, 1, 2].map(|client| {
            network.spawn("client", move || {
                (0..16).try_for_each(|turn| {
                    let seed = turn * 3 + client;
                    let length = 1usize << (seed * 5 % 18);
                    let to = at(&server(seed, turn % 2 == 1), 80);
                    web::fetch(to, turn % 3 == 2, seed, length)
                })
            })
        });
        for client in clients {
            client
                .join()
                .expect("no panic")
                .unwrap_or_else(|e| panic!("{kind}: {e}"));
        }
        // Nobody has that address: the sender is told so.
        // An unconnected host: the error is counted, since Linux tells a UDP socket of it
        // only with IP_RECVERR.
        let asked = network.spawn("client", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"hello", "198.51.100.77:9").unwrap();
        });
        asked.join().unwrap();
        // Three questions, a second apart, and time for a busy machine.
        std::thread::sleep(Duration::from_secs(6));
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert_eq!(summary["network"]["balances"], true, "{summary}");
        let each = summary["workers"]["each"].as_array().expect("workers");
        assert_eq!(each.len(), 2);
        for worker in each {
            assert!(number(worker, "/packets") > 50, "{summary}");
        }
        assert!(
            each.iter().any(|worker| number(worker, "/steered") > 0),
            "{summary}"
        );
        assert!(number(&summary, "/packets_out") > 1_000, "{summary}");
        let unresolved = number(&summary, "/drops/network.unresolved");
        assert!(unresolved >= 1, "{summary}");
        assert!(number(&summary, "/network/errors") >= 1, "{summary}");
        assert_eq!(number(&summary, "/network/conflicts"), 0, "{summary}");
        assert!(sum(&summary, "/drops") < unresolved + 60, "{summary}");
    }
}
