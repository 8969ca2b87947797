//! Live ports: real TCP, UDP and ICMP of the kernel's between namespaces, with weir in the middle.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use network::{Cable, Network, SERVER, STATEFUL, at, must};
use support::{Folder, conserved, example, number, run};

/// Ping and transfers through a pure bump and through a chain with state.
fn traffic(network: &Network, inside: &str, outside: &str, mode: &str) {
    let folder = Folder::new();
    let stateful = folder.path("stateful.yaml");
    std::fs::write(&stateful, STATEFUL).unwrap();
    let args = ["--in", inside, "--out", outside];
    web::server(network);

    let weir = network.weir(&example("bump.yaml"), &args);
    assert_eq!(weir.said.matches(mode).count(), 2, "{}", weir.said);
    network.ping(5);
    // The hosts see each other's own addresses.
    let theirs = network.run("server", "cat", &["/sys/class/net/eth0/address"]);
    let seen = network.run("client", "ip", &["neigh", "show", SERVER[0]]);
    assert!(seen.contains(theirs.trim()), "{seen} {theirs}");
    web::transfers(network, 8);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(
        number(&summary, "/packets_in"),
        number(&summary, "/packets_out"),
        "{summary}"
    );

    let events = folder.path("events.json");
    let more = ["--events", &events, "--for", "3600"];
    let weir = network.weir(&stateful, &[&args[..], &more].concat());
    network.ping(5);
    let done = web::transfers(network, 12);
    // Nobody opens anything from outside.
    let refused = network.spawn("server", || {
        TcpStream::connect_timeout(&at("10.99.0.1", 80), Duration::from_millis(300)).is_err()
    });
    assert!(refused.join().unwrap());
    let ran = weir.end("-INT");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert!(number(&summary, "/drops/firewall.denied") >= 1, "{summary}");
    // A request and its response make an event.
    let events = std::fs::read_to_string(&events).unwrap();
    let requests = events
        .lines()
        .filter(|line| line.contains("\"event_type\":\"http\""));
    assert!(requests.count() as u64 >= done, "{done} requests: {events}");
}

#[test]
fn packet_sockets_carry_tcp_both_ways() {
    if network::possible() {
        let network = Network::new(&Cable::default());
        traffic(
            &network,
            "af-packet:inside",
            "af-packet:outside",
            "AF_PACKET",
        );
    }
}

#[test]
fn xdp_sockets_in_the_driver_carry_tcp_both_ways() {
    if network::possible() {
        let network = Network::new(&Cable {
            queues: 2,
            host_queues: 2,
            ..Cable::default()
        });
        let mode = "AF_XDP native, copy, 2 queues";
        traffic(&network, "xdp:inside", "xdp:outside:native:2", mode);
    }
}

#[test]
fn xdp_sockets_in_the_general_path_carry_tcp_both_ways() {
    if network::possible() {
        let network = Network::new(&Cable::default());
        let mode = "AF_XDP generic, copy, 1 queue";
        traffic(
            &network,
            "xdp:inside:1:generic",
            "xdp:outside:generic",
            mode,
        );
    }
}

#[test]
fn xdp_sockets_that_poll_their_driver_carry_tcp_both_ways() {
    if network::possible() {
        let network = Network::new(&Cable::default());
        for port in ["inside", "outside"] {
            for (name, value) in [("napi_defer_hard_irqs", 2), ("gro_flush_timeout", 200_000)] {
                let set = format!("echo {value} > /sys/class/net/{port}/{name}");
                network.run("weir", "sh", &["-ec", &set]);
            }
        }
        let mode = "AF_XDP native, copy, polled, 1 queue";
        traffic(&network, "xdp:inside", "xdp:outside:native", mode);
    }
}

#[test]
fn taps_carry_tcp_both_ways() {
    if !network::possible() {
        return;
    }
    let folder = Folder::new();
    let stateful = folder.path("stateful.yaml");
    std::fs::write(&stateful, STATEFUL).unwrap();
    for chain in [example("bump.yaml"), stateful] {
        let network = Network::bare();
        let weir = network.name("weir");
        for name in ["tap0", "tap1"] {
            must("ip", &["-n", &weir, "tuntap", "add", name, "mode", "tap"]);
        }
        let run = network.weir(&chain, &["--in", "tap:tap0", "--out", "tap:tap1"]);
        // The hosts take their ends.
        for (name, host, number) in [("tap0", "client", 1), ("tap1", "server", 2)] {
            let (of, to) = (["-n", &weir, "link", "set", name], network.name(host));
            must("ip", &[&of[..], &["name", "eth0", "netns", &to]].concat());
            network.address(host, "eth0", number);
        }
        web::server(&network);
        network.ping(5);
        web::transfers(&network, 8);
        let ran = run.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert!(number(&summary, "/packets_out") > 500, "{summary}");
        assert!(ran.err.contains("tap0 is down"), "{}", ran.err);
    }
}

#[test]
fn what_the_kernel_drops_while_weir_stands_still_is_counted() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = Network::new(&Cable::default());
        let args = [format!("{kind}:inside"), format!("{kind}:outside")];
        let bump = example("bump.yaml");
        let weir = network.weir(&bump, &["--in", &args[0], "--out", &args[1]]);
        network.ping(1);
        weir.signal("-STOP");
        let sender = network.spawn("client", || {
            let frame: Vec<u8> =
                [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb6], &[0; 1_400]].concat();
            let mut raw = network::Raw::open("eth0");
            let burst = vec![frame; 1_000];
            for _ in 0..20 {
                raw.send(&burst);
            }
        });
        sender.join().unwrap();
        weir.signal("-CONT");
        network.ping(1);
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        let (came, dropped) = (
            number(&summary, "/ports/in/0/packets"),
            number(&summary, "/ports/in/0/drops/kernel_dropped"),
        );
        assert!(came > 500 && dropped > 1_000, "{kind}: {summary}");
        // Besides, the kernel's own words with its neighbours.
        assert!(
            (20_000..20_100).contains(&(came + dropped)),
            "{kind}: {summary}"
        );
    }
}

#[test]
fn a_tap_that_is_not_there_is_made_and_goes_with_the_run() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let args = ["--in", "tap:made0", "--out", "af-packet:outside"];
    let weir = network.weir(&example("bump.yaml"), &args);
    assert!(weir.said.contains("made by this run"), "{}", weir.said);
    // The machine itself is the client.
    network.address("weir", "made0", 7);
    network.reach("weir", SERVER[0], 3);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let links = network.run("weir", "ip", &["-o", "link"]);
    assert!(!links.contains("made0"), "{links}");
}

#[test]
fn a_queue_short_of_its_peer_falls_back_and_says_so() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable {
        queues: 1,
        host_queues: 4,
        ..Cable::default()
    });
    let args = ["--in", "xdp:inside:native", "--out", "xdp:outside"];
    let refused = network.weir(&example("bump.yaml"), &args).wait();
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("native mode can't be had"),
        "{}",
        refused.err
    );

    let args = ["--in", "xdp:inside", "--out", "xdp:outside"];
    let place = network.name("weir");
    let promiscuous = || {
        let link = must("ip", &["-d", "-n", &place, "link", "show", "inside"]);
        !link.contains("promiscuity 0")
    };
    assert!(!promiscuous());
    let weir = network.weir(&example("bump.yaml"), &args);
    assert!(promiscuous());
    network.ping(3);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!promiscuous());
    let summary = ran.json();
    assert_eq!(
        summary["ports"]["in"][0]["mode"],
        "AF_XDP generic, copy, 1 queue, promiscuous, MTU 1500"
    );
    let warnings = summary["warnings"].to_string();
    assert!(
        warnings.contains("fewer receive queues") && warnings.contains("generic mode"),
        "{warnings}"
    );
    assert!(
        ran.err.contains("warning: xdp:inside: native mode"),
        "{}",
        ran.err
    );
}

#[test]
fn kinds_of_ports_go_together() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    web::server(&network);
    let args = ["--in", "xdp:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&example("bump.yaml"), &args);
    network.ping(3);
    web::transfers(&network, 4);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_its_name() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp", "tap"] {
        let network = Network::new(&Cable::default());
        let weir = network.name("weir");
        if kind == "tap" {
            must(
                "ip",
                &["-n", &weir, "tuntap", "add", "gone0", "mode", "tap"],
            );
        } else {
            must(
                "ip",
                &["-n", &weir, "link", "set", "inside", "name", "gone0"],
            );
            must("ip", &["-n", &weir, "link", "set", "gone0", "up"]);
        }
        let port = format!("{kind}:gone0");
        let run = network.weir(
            &example("bump.yaml"),
            &["--in", &port, "--out", "af-packet:outside"],
        );
        must("ip", &["-n", &weir, "link", "del", "gone0"]);
        let ran = run.wait();
        assert_eq!(ran.code, 1, "{}", ran.err);
        let error = format!("error: {port}: the interface gone0 is gone");
        assert!(ran.err.contains(&error), "{}", ran.err);
        conserved(&ran.json());
    }
}

#[test]
fn an_interface_that_is_down_for_a_while_is_used_again() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = Network::new(&Cable::default());
        let args = [format!("{kind}:inside"), format!("{kind}:outside")];
        let run = network.weir(
            &example("bump.yaml"),
            &["--in", &args[0], "--out", &args[1]],
        );
        network.ping(2);
        let weir = network.name("weir");
        must("ip", &["-n", &weir, "link", "set", "outside", "down"]);
        let answers = network.echo("client", SERVER[0], 2, Duration::from_millis(100));
        assert!(answers.is_empty(), "a cable that is cut");
        must("ip", &["-n", &weir, "link", "set", "outside", "up"]);
        // The kernel tells of a carrier once a second.
        network.ping(1);
        let ran = run.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        conserved(&ran.json());
    }
}

#[test]
fn tags_that_the_kernel_took_off_are_back() {
    if !network::possible() {
        return;
    }
    // From the client to everybody: bare, tagged, tagged twice, long and tagged.
    let frames: Vec<Vec<u8>> = [
        (&[][..], 60),
        (&[0x81, 0x00, 0x60, 0x07], 100),
        (&[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x00, 0x07], 200),
        (&[0x81, 0x00, 0x0f, 0xfe], 1_482),
    ]
    .iter()
    .enumerate()
    .map(|(number, &(tags, length))| {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, number as u8]);
        frame.extend(tags);
        // An experimental EtherType, so that nobody answers.
        frame.extend([0x88, 0xb6]);
        frame.extend((0..length).map(|i: u32| i as u8));
        frame
    })
    .collect();
    for kind in ["af-packet", "xdp"] {
        let network = Network::new(&Cable::default());
        let args = [format!("{kind}:inside"), format!("{kind}:outside")];
        let bump = example("bump.yaml");
        let weir = network.weir(&bump, &["--in", &args[0], "--out", &args[1]]);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let wanted = frames.len();
        let receiver = network.spawn("server", move || {
            let mut raw = network::Raw::open("eth0");
            ready.send(()).expect("the test waits");
            let own = |frame: &Vec<u8>| frame.get(6..11) == Some(&[2, 0, 0, 0, 0]);
            raw.receive(wanted, own)
        });
        is_ready.recv().expect("the receiver starts");
        let to_send = frames.clone();
        let sender = network.spawn("client", move || network::Raw::open("eth0").send(&to_send));
        sender.join().unwrap();
        let got = receiver.join().unwrap();
        assert!(got == frames, "{kind}: {got:02x?}");
        assert_eq!(weir.end("-TERM").code, 0);
    }
}

#[test]
fn what_hosts_leave_to_a_card_is_done_by_a_packet_port() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable {
        offloads: true,
        ..Cable::default()
    });
    let args = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&example("bump.yaml"), &args);
    network.ping(1);
    // TCP and UDP, over IPv4 and IPv6, in both directions, by segments of up to
    // 64 KiB that are cut on their way.
    const BYTES: usize = 3 << 20;
    for (place, address) in SERVER.iter().enumerate() {
        let listener = network.spawn("server", move || {
            TcpListener::bind(at(address, 80)).unwrap()
        });
        let listener = listener.join().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![0; BYTES];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&got).unwrap();
            got
        });
        let client = network.spawn("client", move || {
            let sent: Vec<u8> = (0..BYTES).map(|i| ((i * 31) >> 5) as u8).collect();
            let mut stream = TcpStream::connect(at(address, 80)).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            stream.write_all(&sent).unwrap();
            let mut back = vec![0; BYTES];
            stream.read_exact(&mut back).unwrap();
            assert!(
                back == sent,
                "{address}: what came back is not what was sent"
            );
            sent
        });
        assert!(client.join().unwrap() == server.join().unwrap());
        let any = ["0.0.0.0:0", "[::]:0"][place];
        let receiver = network.spawn("server", move || UdpSocket::bind(at(address, 9)).unwrap());
        let receiver = receiver.join().unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let sender = network.spawn("client", move || {
            let socket = UdpSocket::bind(any).unwrap();
            socket.send_to(b"without", at(address, 9)).unwrap();
        });
        sender.join().unwrap();
        let mut got = [0; 16];
        assert_eq!(receiver.recv(&mut got).unwrap(), 7, "{address}");
    }
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    for port in ["/ports/in/0", "/ports/in/1"] {
        for noticed in ["partial_checksum", "segmented"] {
            let count = number(&summary, &format!("{port}/noticed/{noticed}"));
            assert!(count > 5, "{port} {noticed}: {summary}");
        }
    }
}

#[test]
fn packets_larger_than_a_small_frame_come_whole_and_nothing_leaves_a_tap() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let copy = folder.path("copy.pcap");
    let args = ["--in", "af-packet:lo", "--out", &copy];
    let args = [&args[..], &["--for", "1.5"]].concat();
    let started = Instant::now();
    // Again and again: nothing tells when the run has its port.
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let sender = network.spawn("weir", move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let large: Vec<u8> = (0..40_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        while !ends.load(Ordering::Relaxed) {
            // A socket that has heard that nobody listens says so once.
            let _ = socket.send_to(&large, "127.0.0.1:9");
            std::thread::sleep(Duration::from_millis(100));
        }
        large
    });
    let ran = network.run(
        "weir",
        env!("CARGO_BIN_EXE_weir"),
        &[
            &["run", &example("bump.yaml"), "--quiet", "--output", "json"],
            &args[..],
        ]
        .concat(),
    );
    over.store(true, Ordering::Relaxed);
    let large = sender.join().unwrap();
    assert!(started.elapsed() >= Duration::from_millis(1_500));
    let summary: serde_json::Value = serde_json::from_str(&ran).unwrap();
    conserved(&summary);
    let (packets, _) = support::packets(&copy);
    let found = packets
        .iter()
        .find(|packet| packet.data.len() == 14 + 20 + 8 + 40_000);
    assert!(
        found.is_some_and(|packet| packet.data.ends_with(&large)),
        "{summary}"
    );
    // The other direction has no port: nothing went back.
    assert_eq!(number(&summary, "/ports/out/0/packets"), 0, "{summary}");
}

#[test]
fn runs_that_make_no_sense_are_refused() {
    let bump = example("bump.yaml");
    for (args, code, say) in [
        (
            &["--in", "af-packet:weir-none"][..],
            1,
            "weir-none: no interface",
        ),
        (
            &["--in", "xdp:weir-none", "--out", "null"],
            1,
            "weir-none: no interface",
        ),
        (
            &["--in", "af-packet:lo", "--out", "xdp:lo"],
            2,
            "one interface",
        ),
        (
            &["--in", "af-packet:lo", "--out", "af-packet:lo"],
            2,
            "one interface",
        ),
        (
            &["--in", "gen", "--for", "3"],
            2,
            "--for is for runs with interfaces",
        ),
        (&["--in", "af-packet:lo", "--for=-1"], 2, "--for"),
        (&["--in", "xdp:lo:many"], 2, "xdp:IFACE"),
    ] {
        let ran = run(["run", &bump].iter().chain(args));
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(say), "{args:?}: {}", ran.err);
    }
}
