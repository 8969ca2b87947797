//! curl fetches from nginx through `examples/edge.yaml`, a bump, and
//! `examples/edge-router.yaml`, a router: firewall, NAT, balancer, HTTP and IDS.
//! Nothing fails, everything comes right, and every count agrees.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use bed::{Bed, Downloads, Files, Kind, assert_balanced, counted};
use support::{example, number, sum};

/// Downloads of mixed sizes, 1 octet to some MB.
fn downloads(mut bed: Bed, chain: &str) {
    let count = if bed::nightly() { 10_000 } else { 1_000 };
    let files = Files::new(&bed, 4 << 20);
    bed.serve();
    let weir = bed.weir(&example(chain), &[]);
    let before = bed.counts();
    let wrong = Downloads::start(&bed, &files, count).wait();
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert_eq!(bed.served(), count as u64);
    bed.assert_neighbours_were_found();
    let after = bed.counts();
    let ran = weir.end("-TERM");
    let summary = assert_balanced(&ran, before, after, 20);
    let of = |name: &str| number(&summary, name);
    assert_eq!(
        of("/nfs/http/counters/requests"),
        count as u64,
        "{summary:#}"
    );
    // What hosts tell others of multicast groups.
    let others = counted(&summary, "/drops/firewall.denied");
    assert!(others < 20, "{summary:#}");
    assert_eq!(sum(&summary, "/chains/edge/drops"), others, "{summary:#}");
}

#[test]
fn a_thousand_downloads_through_a_bump_of_xdp_sockets() {
    if bed::possible(&["curl", "nginx", "ss"]) {
        downloads(Bed::bump(Kind::Xdp), "edge.yaml");
    }
}

#[test]
fn a_thousand_downloads_through_a_bump_of_packet_sockets() {
    if bed::possible(&["curl", "nginx", "ss"]) {
        downloads(Bed::bump(Kind::Packet), "edge.yaml");
    }
}

#[test]
fn a_thousand_downloads_through_a_router_of_xdp_sockets() {
    if bed::possible(&["curl", "nginx", "ss"]) {
        downloads(Bed::router(Kind::Xdp), "edge-router.yaml");
    }
}

#[test]
fn a_thousand_downloads_through_a_router_of_packet_sockets() {
    if bed::possible(&["curl", "nginx", "ss"]) {
        downloads(Bed::router(Kind::Packet), "edge-router.yaml");
    }
}
