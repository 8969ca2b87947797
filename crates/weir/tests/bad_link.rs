//! Links that lose packets, on either side of weir: what TCP carries still comes
//! whole, counts agree, and an attack in pieces is still found.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bed::{Bed, Downloads, Files, Kind, assert_balanced, counted};
use support::{events, example, number, sum};

/// Has both hosts lose so many of a hundred TCP segments that they send, and as many
/// of those they get. Neighbour discovery is spared: it gives up after three tries,
/// which one run in thirty would see. So is a SYN+ACK at its sender: Linux forgets a
/// half-open connection when its own device refuses the repeated SYN+ACK, and then
/// resets the client, which one run in sixty would see.
fn lose(bed: &Bed, percent: u32) {
    let rules: String = ["ingress", "egress"]
        .iter()
        .map(|hook| {
            let spare = match *hook {
                "egress" => "tcp flags & (syn | ack) == (syn | ack) accept; ",
                _ => "",
            };
            format!(
                "chain {hook} {{ type filter hook {hook} device eth0 priority 0; {spare}\
                 meta l4proto tcp numgen random mod 100 < {percent} counter drop; }}\n"
            )
        })
        .collect();
    let path = bed
        .folder
        .write("loss.nft", format!("table netdev bad {{\n{rules}}}\n"));
    for host in ["client", "server"] {
        bed.on(host, &format!("nft -f {path}"));
    }
}

/// How many packets the hosts have lost, `[sent, got]`.
fn lost(bed: &Bed) -> [u64; 2] {
    let of = |host: &str, hook: &str| -> u64 {
        let said = bed.on(host, &format!("nft list chain netdev bad {hook}"));
        let after = said.split_once("counter packets ").expect("a counter").1;
        let number = after.split_whitespace().next().and_then(|n| n.parse().ok());
        number.expect("a number")
    };
    ["egress", "ingress"].map(|hook| of("client", hook) + of("server", hook))
}

/// An attack, a few octets in a segment; the client's port.
fn attack(server: SocketAddr) -> Result<u16, std::io::Error> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(60))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let request =
        b"GET /1 HTTP/1.1\r\nHost: www\r\nUser-Agent: sqlmap/1.7\r\nConnection: close\r\n\r\n";
    for piece in request.chunks(5) {
        stream.write_all(piece)?;
        std::thread::sleep(Duration::from_millis(3));
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    Ok(stream.local_addr()?.port())
}

/// Attacks by IPv4 and IPv6, several at once: the ports they came from.
fn attacks(bed: &Bed, each: usize) -> Vec<u16> {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            bed.network.spawn("client", move || {
                let server = ["203.0.113.80:80", "[fd00:9::80]:80"][thread % 2];
                let server: SocketAddr = server.parse().expect("an address");
                let attack = |_| attack(server).unwrap_or_else(|why| panic!("{server}: {why}"));
                (0..each).map(attack).collect::<Vec<u16>>()
            })
        })
        .collect();
    threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("they succeed"))
        .collect()
}

fn losses(kind: Kind) {
    let mut bed = Bed::bump(kind);
    let files = Files::new(&bed, 1 << 18);
    bed.serve();
    lose(&bed, 5);
    let log = bed.folder.path("events.json");
    let chain = example("edge.yaml");
    let short = ["--set", "flows.timeouts.tcp-closed=500ms", "--events", &log];
    let weir = bed.weir(&chain, &short);
    let before = bed.counts();
    let count = 64;
    let downloads = Downloads::start(&bed, &files, count);
    let attackers = attacks(&bed, 5);
    let wrong = downloads.wait();
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    // What is closed is over soon.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..10 {
        bed.ping(1);
    }
    let [unsent, ungot] = lost(&bed);
    assert!(
        unsent > 50 && ungot > 50,
        "{unsent} and {ungot} packets were lost"
    );
    let after = bed.counts();
    let summary = assert_balanced(&weir.end("-TERM"), before, after, 20);
    // A packet that comes for a connection which is over here is denied.
    let denied = counted(&summary, "/drops/firewall.denied");
    assert_eq!(sum(&summary, "/chains/edge/drops"), denied, "{summary:#}");
    let ended = |how: &str| counted(&summary, &format!("/chains/edge/flows/ended/{how}"));
    let connections = attackers.len() as u64 + 32;
    assert!(
        ended("finished") + ended("reset") >= connections,
        "{summary:#}"
    );
    let requests = number(&summary, "/nfs/http/counters/requests");
    assert_eq!(requests, (count + attackers.len()) as u64, "{summary:#}");

    let alerts: Vec<_> = events(&log)
        .into_iter()
        .filter(|event| event["event_type"] == "alert")
        .collect();
    assert_eq!(alerts.len(), attackers.len(), "{alerts:#?}");
    let flows: BTreeSet<u64> = alerts
        .iter()
        .map(|alert| number(alert, "/flow_id"))
        .collect();
    assert_eq!(flows.len(), attackers.len());
    println!(
        "{kind:?}: {unsent} packets lost before weir, {ungot} behind it, {denied} denied; {} alerts of {} attacks",
        alerts.len(),
        attackers.len()
    );
}

#[test]
fn what_links_lose_comes_again_xdp_sockets() {
    if bed::possible(&["curl", "nginx", "nft", "ss"]) {
        losses(Kind::Xdp);
    }
}

#[test]
fn what_links_lose_comes_again_packet_sockets() {
    if bed::possible(&["curl", "nginx", "nft", "ss"]) {
        losses(Kind::Packet);
    }
}
