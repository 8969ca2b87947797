//! iperf3 through weir: TCP both ways and UDP, IPv4 and IPv6, with a bump and with
//! the functions of `examples/edge.yaml`.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use bed::{Bed, Kind, SERVER, assert_balanced, counted};
use serde_json::Value;
use support::{example, number};

/// One run of iperf3's client: what both ends say of it.
#[track_caller]
fn stream(bed: &Bed, six: bool, more: &str) -> Value {
    // Between two tests a server does not listen for a moment: one for each.
    let iperf = bed.start("server", "iperf3 --server --one-off --port 443");
    bed.wait_for_listener("server", 443);
    let server = SERVER[usize::from(six)];
    let from = bed::client(1, six);
    let line = format!("iperf3 --client {server} --bind {from} --port 443 --json --time 1 {more}");
    let said = bed.on("client", &line);
    iperf.wait();
    let result: Value = serde_json::from_str(&said).expect("JSON");
    assert!(result.get("error").is_none(), "{line}: {said}");
    result
}

/// All kinds of streams, through each of the chains.
fn streams(kind: Kind) {
    let bed = Bed::bump(kind);
    for chain in [example("bump.yaml"), edge(&bed)] {
        let weir = bed.weir(&chain, &[]);
        let before = bed.counts();
        let mut octets = 0;
        for six in [false, true] {
            for way in ["", "--reverse"] {
                octets += tcp(&bed, six, way);
            }
            octets += udp(&bed, six, if six { "--reverse" } else { "" });
        }
        let after = bed.counts();
        let summary = assert_balanced(&weir.end("-TERM"), before, after, 20);
        assert!(
            number(&summary, "/bytes_out") > octets,
            "{octets} octets: {summary:#}"
        );
        let others = counted(&summary, "/drops/firewall.denied");
        assert!(others < 20, "{summary:#}");
    }
}

/// Octets that came over a connection in a second.
fn tcp(bed: &Bed, six: bool, way: &str) -> u64 {
    let said = stream(bed, six, way);
    let octets = number(&said, "/end/sum_received/bytes");
    assert!(octets > 1 << 20, "{octets} octets {way} (IPv6: {six})");
    octets
}

/// Octets that came in datagrams. On a busy machine some are lost for want of room,
/// before weir, behind it or in it, where they are counted.
fn udp(bed: &Bed, six: bool, way: &str) -> u64 {
    let said = stream(bed, six, &format!("--udp --bitrate 5M --length 1200 {way}"));
    let (sent, lost) = (
        number(&said, "/end/sum/packets"),
        number(&said, "/end/sum/lost_packets"),
    );
    assert!(
        sent > 200 && lost * 2 < sent,
        "{lost} of {sent} lost {way} (IPv6: {six})"
    );
    (sent - lost) * 1_200
}

/// The chain of `examples/edge.yaml`, with datagrams to iperf3 let through.
fn edge(bed: &Bed) -> String {
    std::os::unix::fs::symlink(example("rules"), bed.folder.path("rules")).unwrap();
    let text = std::fs::read_to_string(example("edge.yaml")).unwrap();
    let more = text.replace("to any port 53 name", "to any port 53,443 name");
    assert_ne!(text, more);
    bed.folder.write("edge.yaml", more)
}

#[test]
fn streams_pass_xdp_sockets_both_ways() {
    if bed::possible(&["iperf3", "ss"]) {
        streams(Kind::Xdp);
    }
}

#[test]
fn streams_pass_packet_sockets_both_ways() {
    if bed::possible(&["iperf3", "ss"]) {
        streams(Kind::Packet);
    }
}
