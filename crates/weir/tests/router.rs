//! A router: hosts with real stacks on both sides, nobody's address written
//! down.
//!
//! ```text
//!   client (10.0.0.5, fd00:1::5) ── weir (.1, ::1) ── server (198.51.100.254, fd00:2::fe)
//! ```
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each
//! test makes and removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use network::{Network, at, must, try_run};
use serde_json::Value;
use support::{Folder, conserved, example, number, packets, run};

/// The server as clients reach it.
const SERVER: [&str; 2] = ["198.51.100.254", "fd00:2::fe"];

/// The hosts, each with weir as its router.
fn hosts() -> Network {
    let network = Network::bare();
    let weir = network.name("weir");
    for (host, port, four, six, gate) in [
        ("client", "lan", "10.0.0.5/24", "fd00:1::5/64", "fd00:1::1"),
        (
            "server",
            "wan",
            "198.51.100.254/24",
            "fd00:2::fe/64",
            "fd00:2::1",
        ),
    ] {
        let name = network.name(host);
        let veth = ["link", "add", "eth0", "netns", &name, "type", "veth"];
        must(
            "ip",
            &[&veth[..], &["peer", "name", port, "netns", &weir]].concat(),
        );
        network.run(host, "ethtool", &["-K", "eth0", "tx", "off"]);
        must("ip", &["-n", &weir, "link", "set", port, "up"]);
        must("ip", &["-n", &name, "link", "set", "eth0", "up"]);
        must("ip", &["-n", &name, "address", "add", four, "dev", "eth0"]);
        must(
            "ip",
            &["-n", &name, "address", "add", six, "dev", "eth0", "nodad"],
        );
        must(
            "ip",
            &["-n", &name, "-6", "route", "add", "default", "via", gate],
        );
    }
    let client = network.name("client");
    must(
        "ip",
        &["-n", &client, "route", "add", "default", "via", "10.0.0.1"],
    );
    network
}

/// Starts the web server.
fn serve(network: &Network) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    network.spawn("server", move || {
        let listener = TcpListener::bind("[::]:80").expect("the port is free");
        ready.send(()).expect("the test waits");
        web::serve(&listener);
    });
    is_ready.recv().expect("the server starts");
}

/// Downloads and uploads by both families, contents verified.
fn transfers(network: &Network, each: u64) {
    let client = network.spawn("client", move || {
        for turn in 0..each {
            for address in SERVER {
                web::fetch(at(address, 80), turn % 2 == 1, turn, 1 << (turn * 5 % 19))?;
            }
        }
        Ok::<(), String>(())
    });
    let done = client.join().expect("no panic");
    done.unwrap_or_else(|why| panic!("{why}"));
}

/// Pings from the client; what it printed, whether answered or not.
fn ping(network: &Network, args: &[&str]) -> String {
    let client = network.name("client");
    let all = [&["netns", "exec", &client, "ping", "-n", "-W", "3"], args].concat();
    let ran = std::process::Command::new("ip").args(all).output();
    String::from_utf8_lossy(&ran.expect("ip is there").stdout).into_owned()
}

/// The server answers the client at both its addresses.
#[track_caller]
fn reach(network: &Network) {
    for address in SERVER {
        network.reach("client", address, 1);
    }
}

/// What the router says of itself; it balances.
fn of_router(summary: &Value) -> &Value {
    let router = &summary["network"];
    assert_eq!(router["mode"], "router", "{summary}");
    assert_eq!(router["balances"], true, "{router}");
    router
}

/// Firewall and NAT of the example, on ports of a kind.
fn connections(kind: &str) {
    if !network::possible() {
        return;
    }
    let network = hosts();
    serve(&network);
    let (lan, wan) = (format!("lan={kind}:lan"), format!("wan={kind}:wan"));
    let folder = Folder::new();
    let socket = folder.path("router.sock");
    let args = ["--in", &lan, "--in", &wan, "--control", &socket];
    let weir = network.weir(&example("router.yaml"), &args);
    for address in SERVER {
        let said = ping(&network, &["-c", "3", "-i", "0.2", address]);
        assert!(said.contains("3 received"), "{said}\n{}", weir.said);
    }
    // The router itself answers, and speaks up when hops are over.
    for address in ["10.0.0.1", "198.51.100.1", "fd00:1::1"] {
        let said = ping(&network, &["-c", "1", address]);
        assert!(said.contains("1 received"), "{said}");
    }
    for (address, own) in SERVER.into_iter().zip(["10.0.0.1", "fd00:1::1"]) {
        let said = ping(&network, &["-c", "1", "-t", "1", address]);
        assert!(said.contains(own) && said.contains("exceeded"), "{said}");
    }
    transfers(&network, 8);
    // The server has asked for the NAT's address and was answered.
    let seen = network.run("server", "ip", &["neigh", "show", "198.51.100.10"]);
    assert!(seen.contains("lladdr"), "{seen}");
    // What it drops by itself is told while it runs, with what that means.
    let stats = run(["stats", &socket, "--output", "json"]).json();
    let drops = &stats["network"]["drops"];
    assert_eq!(number(drops, "/network.ttl_exceeded"), 2, "{stats}");
    assert_eq!(number(&stats, "/network/echo"), 3, "{stats}");
    let reasons = run(["drops", &socket]).out;
    assert!(
        reasons.contains("network.ttl_exceeded  Its time"),
        "{reasons}"
    );
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    let router = of_router(&summary);
    let drops = &router["dropped_before_chain"];
    assert_eq!(number(drops, "/ttl_exceeded"), 2, "{router}");
    assert_eq!(number(router, "/echo"), 3, "{router}");
}

#[test]
fn connections_of_both_families_by_packet_sockets() {
    connections("af-packet");
}

#[test]
fn connections_of_both_families_by_xdp() {
    connections("xdp");
}

#[test]
fn a_link_that_takes_less_is_found_out() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    serve(&network);
    let folder = Folder::new();
    let chain = folder.path("narrow.yaml");
    let text = std::fs::read_to_string(example("router.yaml")).unwrap();
    let wide = "wan: {addresses: [198.51.100.1/24, \"fd00:2::1/64\"]}";
    let narrow = wide.replace("]}", "], mtu: 1400}");
    assert!(text.contains(wide));
    std::fs::write(&chain, text.replace(wide, &narrow)).unwrap();
    let args = ["--in", "lan=af-packet:lan", "--in", "wan=af-packet:wan"];
    let weir = network.weir(&chain, &args);
    // Uploads: the client sends 1,500 octets at first, not to be fragmented.
    transfers(&network, 8);
    for (address, family) in SERVER.into_iter().zip(["-4", "-6"]) {
        let route = network.run("client", "ip", &[family, "route", "get", address]);
        assert!(route.contains("mtu 1400"), "{route}");
    }
    let ran = weir.end("-TERM");
    let summary = ran.json();
    conserved(&summary);
    let router = of_router(&summary);
    let drops = &router["dropped_before_chain"];
    assert!(number(drops, "/too_big") >= 2, "{router}");
}

#[test]
fn a_neighbour_that_comes_back_with_another_address_is_found() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    let args = ["--in", "lan=af-packet:lan", "--in", "wan=af-packet:wan"];
    let weir = network.weir(&example("router.yaml"), &args);
    reach(&network);
    let set = |args: &[&str]| {
        network.run("server", "ip", &[&["link", "set", "eth0"], args].concat());
    };
    set(&["down"]);
    set(&["address", "02:00:00:00:77:01"]);
    set(&["up"]);
    // Its addresses and routes of IPv6 went with the link, and can come back when
    // that is there.
    let server = network.name("server");
    let again = |args: &[&str]| {
        let all = [&["-n", &server], args].concat();
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(why) = try_run("ip", &all) {
            assert!(Instant::now() < end, "{why}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let address = [
        "address",
        "replace",
        "fd00:2::fe/64",
        "dev",
        "eth0",
        "nodad",
    ];
    again(&address);
    again(&["-6", "route", "replace", "default", "via", "fd00:2::1"]);
    // It tells where it is as soon as it speaks.
    for address in ["198.51.100.1", "fd00:2::1"] {
        network.reach("server", address, 1);
    }
    reach(&network);
    let summary = weir.end("-TERM").json();
    let router = of_router(&summary);
    assert!(number(router, "/moved") >= 2, "{router}");
}

#[test]
fn an_address_that_a_host_has_too_is_warned_of() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    for address in ["10.0.0.1/24", "fd00:1::1/64"] {
        let args = ["address", "add", address, "dev", "eth0", "nodad"];
        network.run("client", "ip", &args);
    }
    let args = ["--in", "lan=af-packet:lan", "--in", "wan=af-packet:wan"];
    let weir = network.weir(&example("router.yaml"), &args);
    // The client's answers come before those that it gives to pings.
    for address in ["198.51.100.1", "fd00:2::1"] {
        network.reach("server", address, 1);
        let said = ping(&network, &["-c", "1", "-I", "10.0.0.5", SERVER[0]]);
        assert!(said.contains("1 received"), "{said}");
    }
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    let claimed = of_router(&summary)["claimed_by_others"].as_array().unwrap();
    let mac = network.run("client", "cat", &["/sys/class/net/eth0/address"]);
    for address in ["10.0.0.1", "fd00:1::1"] {
        let found = claimed.iter().find(|c| c["address"] == address);
        let found = found.unwrap_or_else(|| panic!("{address}: {claimed:?}"));
        assert_eq!(
            (&found["port"], &found["mac"]),
            (&"lan".into(), &mac.trim().into())
        );
        let warned = format!("warning: lan: {address} is claimed by {}", mac.trim());
        assert!(ran.err.contains(&warned), "{}", ran.err);
    }
    assert_eq!(claimed.len(), 2, "{claimed:?}");
}

#[test]
fn neighbours_learn_where_it_is_after_a_start_elsewhere() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    let args = ["--in", "lan=af-packet:lan", "--in", "wan=af-packet:wan"];
    let first = network.weir(&example("router.yaml"), &args);
    reach(&network);
    first.signal("-KILL");
    first.gone();
    // The other one has other hardware.
    let folder = Folder::new();
    let text = std::fs::read_to_string(example("router.yaml")).unwrap();
    let mut moved = text.clone();
    for port in ["lan", "wan"] {
        let old = format!("    {port}: {{addresses:");
        let mac = format!("    {port}: {{mac: \"02:00:00:00:99:01\", addresses:");
        assert!(text.contains(&old));
        moved = moved.replace(&old, &mac);
    }
    let chain = folder.write("moved.yaml", moved);
    let second = network.weir(&chain, &args);
    // Nobody says a word: what hosts know comes from weir.
    for (host, address) in [("client", "10.0.0.1"), ("client", "fd00:1::1")] {
        let end = Instant::now() + Duration::from_secs(60);
        let known = || network.run(host, "ip", &["neigh", "show", address]);
        while !known().contains("02:00:00:00:99:01") {
            assert!(Instant::now() < end, "{}", known());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    reach(&network);
    let ran = second.end("-TERM");
    of_router(&ran.json());
}

#[test]
fn what_is_played_comes_in_at_a_port_without_a_wire_and_answers_leave_there() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    let folder = Folder::new();
    let back = folder.path("back.pcapng");
    let played = "lan=gen:flows=4,packets=60,rate=100,proto=icmp,src=10.0.0.64/28,\
                  dst=198.51.100.254/32";
    let answers = format!("lan={back}");
    for more in [&["--workers", "2"][..], &[]] {
        for kind in ["af-packet", "xdp"] {
            let wan = format!("wan={kind}:wan");
            let args = ["--in", played, "--out", &wan, "--out", &answers];
            // It ends by itself.
            let ran = network
                .weir(&example("router.yaml"), &[&args[..], more].concat())
                .wait();
            assert_eq!(ran.code, 0, "{}", ran.err);
            let summary = ran.json();
            conserved(&summary);
            let router = of_router(&summary);
            // For the server, and for nobody where nobody is.
            let known = router["neighbours"].as_array().expect("a list");
            assert!(known.iter().all(|one| one["port"] == "wan"), "{router}");
            let (frames, _) = packets(&back);
            // Some of the last may come when it has ended.
            assert!(frames.len() > 40, "{} of 60: {summary}", frames.len());
            for frame in frames {
                let (link, packet) = frame.data.split_at(14);
                assert_eq!(link[..6], [0; 6]);
                assert_eq!((packet[16..19].to_vec(), packet[20]), (vec![10, 0, 0], 0));
                assert!((64..80).contains(&packet[19]));
            }
        }
    }
    for (more, said) in [
        (&["--out", "wan=seen.pcap"][..], "leave by its interfaces"),
        (
            &["--out", &answers, "--out", "lan=b.pcap"],
            "has an output already",
        ),
        (
            &["--in", "lan=af-packet:lan"],
            "an interface or a capture already",
        ),
    ] {
        let args = ["--in", played, "--out", "wan=af-packet:wan"];
        let ran = network
            .weir(&example("router.yaml"), &[&args[..], more].concat())
            .wait();
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn a_tap_lets_nothing_out() {
    if !network::possible() {
        return;
    }
    let network = hosts();
    let folder = Folder::new();
    let chain = folder.path("tap.yaml");
    let text = "chain: tap\nnetwork: {mode: tap}\nnfs: [monitor]\n";
    std::fs::write(&chain, text).unwrap();
    let weir = network.weir(&chain, &["--in", "af-packet:lan"]);
    let said = ping(&network, &["-c", "1", "-W", "1", "10.0.0.9"]);
    assert!(said.contains("0 received"), "{said}");
    let summary = weir.end("-TERM").json();
    conserved(&summary);
    let kept = number(&summary["network"], "/kept");
    assert!(
        kept >= 1 && kept == number(&summary, "/kept") && number(&summary, "/packets_out") == 0,
        "{summary}"
    );
}
