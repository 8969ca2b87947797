//! Links that are emulated, and what is played into a network.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::time::{Duration, Instant};

use network::{Cable, Network, SERVER};
use support::{Folder, conserved, example, number, packets, run};

#[test]
fn tcp_gets_through_a_bad_link_and_every_packet_is_accounted_for() {
    if !network::possible() {
        return;
    }
    for (kind, way) in [("af-packet", &[][..]), ("xdp", &["--workers", "2"])] {
        let network = Network::new(&Cable::default());
        web::server(&network);
        let bad = "emu(loss=2%,delay=3ms,jitter=1ms,reorder=2%,duplicate=2%,rate=50Mbit,seed=7)";
        let inside = format!("inside={bad}:{kind}:inside");
        let outside = format!("{kind}:outside");
        let ports = ["--in", &inside, "--out", &outside];
        let weir = network.weir(&example("bump.yaml"), &[&ports[..], way].concat());
        network.ping(1);
        web::transfers(&network, 6);
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        for place in ["in", "out"] {
            for what in [
                "drops/emulated_loss",
                "noticed/emulated_duplicate",
                "noticed/emulated_reorder",
            ] {
                let count = number(&summary, &format!("/ports/{place}/0/{what}"));
                assert!(count > 3, "{place} {what}: {summary}");
            }
        }
        // There and back, both ways through the link.
        let said = network_rtt(&network, &ports);
        assert!(said >= 4.0, "{said} ms");
    }
}

/// Milliseconds of the fastest ping of some through a run.
fn network_rtt(network: &Network, ports: &[&str]) -> f64 {
    let weir = network.weir(&example("bump.yaml"), ports);
    network.ping(1);
    let times = network.echo("client", SERVER[0], 10, Duration::from_millis(50));
    weir.end("-TERM");
    times.iter().min().expect("answers").as_secs_f64() * 1e3
}

#[test]
fn a_link_before_a_capture_goes_by_the_captures_times() {
    let folder = Folder::new();
    let to = folder.path("late.pcapng");
    let from = "emu(loss=10%,duplicate=5%,delay=50ms,seed=3):gen:flows=10,packets=5000,rate=1000";
    let args = ["run", &example("bump.yaml"), "--in", from, "--out", &to];
    let with = ["--quiet", "--output", "json"];
    let first = run(args.iter().chain(&with));
    assert_eq!(first.code, 0, "{}", first.err);
    let summary = first.json();
    conserved(&summary);
    let (lost, doubled) = (
        number(&summary, "/ports/in/0/drops/emulated_loss"),
        number(&summary, "/ports/in/0/noticed/emulated_duplicate"),
    );
    assert!((400..600).contains(&lost), "{summary}");
    assert_eq!(number(&summary, "/packets_out"), 5_000 - lost + doubled);
    let (written, _) = packets(&to);
    // The generator begins at a whole second.
    assert_eq!(written[0].time_ns % 1_000_000_000 / 50_000_000, 1);
    let second = run(args.iter().chain(&with)).json();
    assert_eq!(
        number(&second, "/ports/in/0/drops/emulated_loss"),
        lost,
        "by the seed"
    );
}

#[test]
fn a_link_before_a_file_delays_what_is_written_and_holds_nothing_back() {
    let folder = Folder::new();
    let to = folder.path("late.pcapng");
    let out = format!(
        "emu(loss=10%,duplicate=5%,reorder=5%,late=20ms,delay=50ms,limit=20000,seed=3):{to}"
    );
    let from = "gen:flows=10,packets=5000,rate=1000";
    for way in [&[][..], &["--workers", "2"]] {
        let args = ["run", &example("bump.yaml"), "--in", from, "--out", &out];
        let with = ["--quiet", "--output", "json"];
        let ran = run(args.iter().chain(&with).chain(way));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        let of = |what: &str| number(&summary, &format!("/ports/out/0/{what}"));
        let (lost, doubled) = (of("drops/emulated_loss"), of("noticed/emulated_duplicate"));
        assert!((400..600).contains(&lost) && (150..350).contains(&doubled));
        assert_eq!(number(&summary, "/packets_out"), 5_000 - lost);
        assert_eq!(of("packets"), 5_000 - lost);
        let (written, _) = packets(&to);
        assert_eq!(written.len() as u64, 5_000 - lost + doubled);
        assert!(written.is_sorted_by_key(|packet| packet.time_ns));
        assert_eq!(written[0].time_ns % 1_000_000_000 / 50_000_000, 1);
        assert_eq!(summary["warnings"], serde_json::json!([]), "{summary}");
    }
}

#[test]
fn what_is_on_its_way_when_a_run_is_ended_is_not_lost_from_memory() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let from = "emu(delay=2s,limit=5000):gen:flows=10,packets=100M,rate=2000";
    let args = [
        "--in",
        from,
        "--out",
        "inside=null",
        "--out",
        "af-packet:outside",
    ];
    let weir = network.weir(
        &example("monitor.yaml"),
        &[&args[..], &["--pace", "full"]].concat(),
    );
    std::thread::sleep(Duration::from_millis(200));
    // Nor a warning of frames that were not given back.
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(summary["warnings"], serde_json::json!([]), "{summary}");
    let came: u64 = summary["ports"]["in"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| number(port, "/packets"))
        .sum();
    assert!(came > 0);
    assert_eq!(came, number(&summary, "/packets_in"), "{summary}");
}

#[test]
fn a_capture_is_played_into_a_network_by_its_times_or_at_once() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let capture = folder.path("played.pcap");
    let made = run(["gen", "flows=5,packets=300,rate=100", "--out", &capture]);
    assert_eq!(made.code, 0, "{}", made.err);
    let (played, _) = packets(&capture);
    for (kind, pace, least, most) in [
        // Of a slow machine it takes longer; at once is sooner than by its times.
        ("af-packet", "1x", 2.9, 60.0),
        ("xdp", "2x", 1.4, 60.0),
        ("af-packet", "full", 0.0, 2.9),
    ] {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let wanted: Vec<Vec<u8>> = played.iter().map(|packet| packet.data.clone()).collect();
        let receiver = network.spawn("server", move || {
            let mut raw = network::Raw::open("eth0");
            ready.send(()).expect("the test waits");
            let known: std::collections::HashSet<Vec<u8>> = wanted.iter().cloned().collect();
            let began = Instant::now();
            let got = raw.receive(wanted.len(), |frame| known.contains(frame));
            (got == wanted, got.len(), began.elapsed())
        });
        is_ready.recv().expect("the receiver starts");
        let to = format!("{kind}:outside");
        let args = ["--in", &capture, "--out", &to, "--pace", pace];
        // It ends by itself.
        let ran = network.weir(&example("bump.yaml"), &args).wait();
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        let took = summary["elapsed_s"].as_f64().unwrap();
        assert!((least..most).contains(&took), "{pace}: {took} s");
        let (same, count, _) = receiver.join().unwrap();
        assert!(same, "{kind} {pace}: {count} came");
    }
}

#[test]
fn the_generator_goes_through_a_chain_into_a_network_and_answers_come_back() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let back = folder.path("back.pcap");
    let generator = "gen:flows=50,packets=2000,rate=20k";
    let args = [
        "--in",
        generator,
        "--out",
        "inside=null",
        "--out",
        "xdp:outside",
        "--workers",
        "2",
    ];
    let ran = network.weir(&example("monitor.yaml"), &args).wait();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert!(
        number(&summary, "/ports/out/0/packets") >= 2_000,
        "{summary}"
    );
    // A live port into a capture: what the host says goes into the file.
    let args = ["--in", "af-packet:inside", "--out", &back, "--for", "2"];
    let weir = network.weir(&example("bump.yaml"), &args);
    let answers = network.echo("client", SERVER[0], 1, Duration::ZERO);
    assert!(answers.is_empty(), "nobody is there");
    let ran = weir.wait();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (written, _) = packets(&back);
    assert!(!written.is_empty());
}

#[test]
fn links_that_make_no_sense_are_refused() {
    let bump = example("bump.yaml");
    for (args, say) in [
        (&["--in", "emu(loss=2):gen"][..], "can't be the loss"),
        (&["--in", "emu(loss=2%)gen"], "emu(KEY=VALUE,…):PORT"),
        (&["--in", "emu(loss=2%):null"], "in front of"),
        (&["--in", "emu(speed=2):gen"], "no `speed`"),
        (
            &["--in", "gen", "--pace", "2x"],
            "--pace is for runs with interfaces",
        ),
        (&["--in", "gen", "--pace", "fast"], "`full`"),
    ] {
        let ran = run(["run", &bump].iter().chain(args));
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(say), "{args:?}: {}", ran.err);
    }
}
