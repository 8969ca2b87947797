//! What happens around weir, and to it, while traffic flows: servers restart, links
//! flap, MTUs change, hosts go away, weir is stopped and started again.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bed::{Bed, Downloads, Files, Kind, SERVER, Talk, assert_balanced};
use network::{at, must};
use support::{conserved, example, number, sum};

const KINDS: [Kind; 2] = [Kind::Xdp, Kind::Packet];

fn moment(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Datagrams from the client to the server, as fast as one thread can, until the
/// flag is set.
fn flood(bed: &Bed) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let over = Arc::new(AtomicBool::new(false));
    let end = over.clone();
    let sender = bed.network.spawn("client", move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("an address");
        let to = at(SERVER[0], 53);
        while !end.load(Ordering::Relaxed) {
            for _ in 0..50 {
                // The way may be gone.
                let _ = socket.send_to(&[7; 200], to);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    (over, sender)
}

#[test]
fn connections_outlive_links_that_flap_and_change() {
    if !bed::possible(&["nginx", "curl", "ss"]) {
        return;
    }
    for kind in KINDS {
        let mut bed = Bed::bump(kind);
        let files = Files::new(&bed, 1 << 16);
        bed.serve();
        let weir = bed.weir(&example("edge.yaml"), &[]);
        let talks = [false, true].map(|six| Talk::start(&bed, six));
        let go_on = || talks.iter().for_each(Talk::goes_on);
        let place = bed.network.name("weir");
        let link = |name: &str, what: &[&str]| {
            must("ip", &[&["-n", &place, "link", "set", name], what].concat());
        };
        // Weir's own ends, one at a time and both.
        for (down, time) in [
            (&["inside"][..], 300),
            (&["outside"], 30),
            (&["inside", "outside"], 5),
        ] {
            down.iter().for_each(|name| link(name, &["down"]));
            moment(time);
            down.iter().for_each(|name| link(name, &["up"]));
            go_on();
        }
        // The cable, at the server's end; its routes go with it.
        bed.on("server", "ip link set eth0 down");
        moment(100);
        bed.on("server", "ip link set eth0 up");
        bed.on("server", "ip addr replace fd99::2/64 dev eth0 nodad");
        bed.routes("server", ["10.99.0.1", "fd99::1"]);
        go_on();
        // Shorter packets, and longer ones again.
        for mtu in ["1300", "1500"] {
            for host in ["client", "server"] {
                bed.on(host, &format!("ip link set eth0 mtu {mtu}"));
            }
            link("inside", &["mtu", mtu]);
            link("outside", &["mtu", mtu]);
            go_on();
            let wrong = Downloads::start(&bed, &files, 16).wait();
            assert!(wrong.is_empty(), "{kind:?}: {wrong:#?}");
        }
        // The web server goes and comes.
        bed.stop_serving();
        assert_eq!(
            Downloads::start(&bed, &files, 8).wait().len(),
            16,
            "nobody answers"
        );
        bed.serve();
        let wrong = Downloads::start(&bed, &files, 16).wait();
        assert!(wrong.is_empty(), "{kind:?}: {wrong:#?}");
        let rounds = talks.map(Talk::end);
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        conserved(&ran.json());
        println!("{kind:?}: {rounds:?} messages answered");
    }
}

#[test]
fn a_run_that_is_stopped_under_load_counts_what_was_on_its_way() {
    if !bed::possible(&[]) {
        return;
    }
    for kind in KINDS {
        let bed = Bed::bump(kind);
        let weir = bed.weir(&example("edge.yaml"), &[]);
        bed.ping(2);
        let before = bed.counts();
        let (over, sender) = flood(&bed);
        moment(500);
        let ran = weir.end("-TERM");
        over.store(true, Ordering::Relaxed);
        sender.join().expect("no panic");
        // What came in is out or counted; what went out has come to the hosts.
        let mut after = bed.counts();
        let summary = ran.json();
        for side in [0, 1] {
            // The sender went on.
            after.sent[side] = before.sent[side]
                + number(&summary, &format!("/ports/in/{side}/packets"))
                + sum(&summary, &format!("/ports/in/{side}/drops"));
        }
        let summary = assert_balanced(&ran, before, after, 20);
        assert!(
            number(&summary, "/packets_out") > 1_000,
            "{kind:?}: {summary:#}"
        );
    }
}

#[test]
fn a_host_that_goes_away_under_load_ends_the_run_with_its_name() {
    if !bed::possible(&[]) {
        return;
    }
    for kind in KINDS {
        let bed = Bed::bump(kind);
        let weir = bed.weir(&example("edge.yaml"), &[]);
        bed.ping(2);
        let (over, sender) = flood(&bed);
        moment(200);
        // Its interface goes with it, and with that weir's end of the cable.
        must("ip", &["netns", "del", &bed.network.name("server")]);
        let ran = weir.wait();
        over.store(true, Ordering::Relaxed);
        sender.join().expect("no panic");
        assert_eq!(ran.code, 1, "{}", ran.err);
        let error = format!(
            "error: {}: the interface outside is gone",
            kind.port("outside")
        );
        assert!(ran.err.contains(&error), "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert!(
            number(&summary, "/packets_in") > 100,
            "{kind:?}: {summary:#}"
        );
    }
}

#[test]
fn connections_go_on_when_weir_is_started_again() {
    if !bed::possible(&[]) {
        return;
    }
    for kind in KINDS {
        let bed = Bed::bump(kind);
        let mut weir = bed.weir(&example("edge.yaml"), &[]);
        let talks = [false, true].map(|six| Talk::start(&bed, six));
        for how in ["-TERM", "-KILL"] {
            weir.signal(how);
            weir.gone();
            moment(100);
            weir = bed.weir(&example("edge.yaml"), &[]);
            talks.iter().for_each(Talk::goes_on);
        }
        talks.into_iter().for_each(|talk| {
            talk.end();
        });
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        conserved(&ran.json());
    }
}
