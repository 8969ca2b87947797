//! A weir that has nothing to do costs nothing and misses nothing.

#[path = "support/network.rs"]
mod network;
mod support;

use std::time::Duration;

use network::{Cable, Network, Weir, must};
use support::{conserved, example, sum};

/// Hosts around a bump whose ports are TAP interfaces.
fn taps() -> (Network, Weir) {
    let network = Network::bare();
    let weir = network.name("weir");
    for name in ["tap0", "tap1"] {
        must("ip", &["-n", &weir, "tuntap", "add", name, "mode", "tap"]);
    }
    let run = network.weir(
        &example("bump.yaml"),
        &["--in", "tap:tap0", "--out", "tap:tap1"],
    );
    for (name, host, number) in [("tap0", "client", 1), ("tap1", "server", 2)] {
        let (of, to) = (["-n", &weir, "link", "set", name], network.name(host));
        must("ip", &[&of[..], &["name", "eth0", "netns", &to]].concat());
        network.address(host, "eth0", number);
    }
    (network, run)
}

#[test]
fn an_idle_run_sleeps_and_loses_nothing_when_it_wakes() {
    if !network::possible() {
        return;
    }
    let mut beds: Vec<(&str, Network, Weir)> = Vec::new();
    for (inside, outside) in [
        ("af-packet:inside", "af-packet:outside"),
        ("xdp:inside", "xdp:outside"),
        ("xdp:inside:generic", "xdp:outside:generic"),
    ] {
        let network = Network::new(&Cable::default());
        let weir = network.weir(&example("bump.yaml"), &["--in", inside, "--out", outside]);
        beds.push((inside, network, weir));
    }
    let (network, weir) = taps();
    beds.push(("tap", network, weir));

    for (_, network, _) in &beds {
        network.ping(2);
    }
    std::thread::sleep(Duration::from_millis(500));
    let used = |beds: &[(&str, Network, Weir)]| -> Vec<f64> {
        beds.iter()
            .map(|(_, _, weir)| weir.processor_time())
            .collect()
    };
    let before = used(&beds);
    std::thread::sleep(Duration::from_secs(10));
    for ((name, ..), (before, after)) in beds.iter().zip(before.iter().zip(used(&beds))) {
        let used = after - before;
        println!("{name}: {used:.2} s of a processor in 10 s");
        assert!(used < 0.2, "{name}: {used} s in 10 s");
    }
    // One packet after 10 s, then after a little while again: each gets its answer.
    for _ in 0..3 {
        for (_, network, _) in &beds {
            network.ping(1);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    for (name, _network, weir) in beds {
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        // Before the hosts had their ends the TAP interfaces were down.
        let drops = sum(&summary, "/drops");
        assert!(
            drops == 0 || name == "tap" && drops < 10,
            "{name}: {summary}"
        );
    }
}
