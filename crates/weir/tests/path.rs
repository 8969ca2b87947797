//! What routers further on say of the path, through firewall, NAT and balancer of
//! `examples/edge.yaml`: that a packet is too large, and that its hops are over.
//! weir is a bump, so none of these errors is its own.
//!
//! ```text
//!   host ───── client ───── weir ───── server ───── far
//!   10.0.0.11  .1    192.0.2.1   192.0.2.2   .1  198.51.100.11
//!   fd00:1::11  fd99::1      fd99::2        fd00:2::11
//! ```
//!
//! `client` and `server` are kernels that route, each with a smaller path MTU
//! behind it than its link has, so that nobody's MSS tells of it.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bed::{Kind, SERVER};
use network::{Cable, Network, Raw, Weir, at};
use support::{conserved, example};
use weir_packet::checksum::Sum;
use weir_packet::ipv4::Ipv4View;
use weir_packet::ipv6::Ipv6View;

/// The balancer's addresses: no server has them.
const WEB: [&str; 2] = ["203.0.113.80", "fd00:9::80"];
const HOST: [&str; 2] = ["10.0.0.11", "fd00:1::11"];
/// Largest datagrams that the paths behind the routers take.
const OUTSIDE: u32 = 1_400;
const INSIDE: u32 = 1_300;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Runs the lines of a script in a place.
fn sh(network: &Network, place: &str, script: &str) {
    network.run(place, "sh", &["-euc", script]);
}

fn paths() -> Network {
    let mut network = Network::new(&Cable::default());
    for (host, router, own, pair) in [
        ("host", "client", 1, [HOST[0], HOST[1]]),
        ("far", "server", 2, SERVER),
    ] {
        let other = 3 - own;
        network.add_place(host);
        let (lan4, lan6) = (prefix(pair[0]), prefix(pair[1]));
        let mtu = if own == 1 { INSIDE } else { OUTSIDE };
        let [name, at] = [host, router].map(|place| network.name(place));
        network::must(
            "ip",
            &[
                "link", "add", "eth0", "netns", &name, "type", "veth", "peer", "name", "behind",
                "netns", &at,
            ],
        );
        sh(
            &network,
            host,
            &format!(
                "ethtool -K eth0 tx off >/dev/null
                 ip addr add {}/24 dev eth0
                 ip addr add {}/64 dev eth0 nodad
                 ip link set eth0 up
                 ip route add default via {lan4}1
                 ip -6 route add default via {lan6}1",
                pair[0], pair[1]
            ),
        );
        // The other hosts' networks are behind the other router. A path MTU that
        // is locked is kept to by who forwards.
        sh(
            &network,
            router,
            &format!(
                "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
                 ip addr flush dev eth0 scope global
                 ip addr add 192.0.2.{own}/24 dev eth0
                 ip addr add fd99::{own}/64 dev eth0 nodad
                 ip addr add {lan4}1/24 dev behind
                 ip addr add {lan6}1/64 dev behind nodad
                 ip link set behind up
                 ip route add default via 192.0.2.{other}
                 ip -6 route add default via fd99::{other}
                 ip route add {}/32 dev behind mtu lock {mtu}
                 ip -6 route add {}/128 dev behind mtu lock {mtu}",
                pair[0], pair[1]
            ),
        );
    }
    network
}

/// A network's address without its last part.
fn prefix(address: &str) -> &str {
    let end = address.rfind(['.', ':']).expect("an address");
    &address[..=end]
}

/// Looks at the frames that come to `eth0` of a place until told to stop.
struct Ear {
    over: Arc<AtomicBool>,
    heard: JoinHandle<Vec<Vec<u8>>>,
}

impl Ear {
    fn open(network: &Network, place: &str) -> Ear {
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let heard = network.spawn(place, move || {
            let mut raw = Raw::open("eth0");
            ready.send(()).expect("the test waits");
            raw.listen(&stop)
        });
        is_ready.recv().expect("it opens");
        Ear { over, heard }
    }

    /// The ICMP errors among them.
    fn told(self) -> Vec<Told> {
        self.over.store(true, Ordering::Relaxed);
        let frames = self.heard.join().expect("no panic");
        frames.iter().filter_map(|frame| told(frame)).collect()
    }
}

/// An ICMP error.
#[derive(Debug)]
struct Told {
    /// Who sent it.
    by: IpAddr,
    /// Its type and code.
    what: [u8; 2],
    /// The word behind its checksum: the MTU, where the packet was too big.
    word: u32,
    /// The packet that it is about: its ends and ports.
    about: (IpAddr, IpAddr, [u16; 2]),
}

/// Type and code of "too big" and of "hops are over", by family.
const TOO_BIG: [[u8; 2]; 2] = [[3, 4], [2, 0]];
const OVER: [[u8; 2]; 2] = [[11, 0], [3, 0]];

/// Reads an error and verifies its checksums.
fn told(frame: &[u8]) -> Option<Told> {
    let packet = frame.get(14..)?;
    let (by, message, errors) = match packet.first()? >> 4 {
        4 => {
            let view = Ipv4View::new(packet).ok()?;
            let message = packet.get(view.header_len()..usize::from(view.total_length()))?;
            assert!(view.checksum_is_right());
            let icmp = view.proto() == 1;
            let whole = view.fragment() & 0x3fff == 0;
            if !icmp || !whole {
                return None;
            }
            assert_eq!(Sum::new().bytes(message).folded(), 0xffff, "{message:02x?}");
            (IpAddr::V4(view.source()), message, 3..=12)
        }
        6 => {
            let view = Ipv6View::new(packet).ok()?;
            let message = view.rest().get(..usize::from(view.payload_length()))?;
            if view.next_header() != 58 {
                return None;
            }
            let (source, length) = (view.source(), message.len() as u32);
            let sum = Sum::new().pseudo_ipv6(source, view.destination(), 58, length);
            assert_eq!(sum.bytes(message).folded(), 0xffff, "{message:02x?}");
            (IpAddr::V6(source), message, 1..=4)
        }
        _ => return None,
    };
    let (&[kind, code, _, _, a, b, c, d], quote) = message.split_first_chunk()?;
    // Echoes and redirects are none.
    if !errors.contains(&kind) || (by.is_ipv4() && matches!(kind, 5 | 8)) {
        return None;
    }
    Some(Told {
        by,
        what: [kind, code],
        word: u32::from_be_bytes([a, b, c, d]),
        about: ends(quote),
    })
}

/// The ends of a packet, and the ports behind its header, which has a right
/// checksum.
fn ends(packet: &[u8]) -> (IpAddr, IpAddr, [u16; 2]) {
    let ports =
        |at: usize| [0, 2].map(|n| u16::from_be_bytes([packet[at + n], packet[at + n + 1]]));
    match packet[0] >> 4 {
        4 => {
            let view = Ipv4View::new(packet).expect("a header");
            assert!(view.checksum_is_right(), "the quoted header's checksum");
            let at = view.header_len();
            (view.source().into(), view.destination().into(), ports(at))
        }
        _ => {
            let view = Ipv6View::new(packet).expect("a header");
            (view.source().into(), view.destination().into(), ports(40))
        }
    }
}

/// The paths with weir in the middle, and a web server at the far end.
fn start(kind: Kind) -> (Network, Weir) {
    let network = paths();
    let (ready, is_ready) = std::sync::mpsc::channel();
    network.spawn("far", move || {
        let listener = TcpListener::bind("[::]:80").expect("the port is free");
        ready.send(()).expect("the test waits");
        web::serve(&listener);
    });
    is_ready.recv().expect("the server starts");
    let (inside, outside) = (kind.port("inside"), kind.port("outside"));
    let args = ["--in", &inside, "--out", &outside];
    let weir = network.weir(&example("edge.yaml"), &args);
    (network, weir)
}

fn transfers(kind: Kind) {
    let (network, weir) = start(kind);
    let ears = ["host", "far"].map(|place| Ear::open(&network, place));
    let client = network.spawn("host", || {
        // Uploads first: who knows of a smaller path offers a smaller MSS.
        for turn in 0..4 {
            for address in WEB.into_iter().chain(SERVER) {
                web::fetch(at(address, 80), turn % 2 == 0, turn, 200_000)?;
            }
        }
        Ok::<(), String>(())
    });
    let done = client.join().expect("no panic");
    let said = ["host", "far"].map(|place| {
        network.run(
            place,
            "sh",
            &["-c", "ip route show cache; ip -6 route show cache"],
        )
    });
    done.unwrap_or_else(|why| panic!("{why}; {said:?}"));
    let [host, far] = ears.map(Ear::told);
    // Both ends have learnt what the path takes, of those they spoke to.
    for address in WEB.into_iter().chain(SERVER) {
        let route = network.run("host", "ip", &["route", "get", address]);
        assert!(route.contains(&format!("mtu {OUTSIDE}")), "{route}");
    }
    for address in ["203.0.113.1", HOST[1]] {
        let route = network.run("far", "ip", &["route", "get", address]);
        assert!(route.contains(&format!("mtu {INSIDE}")), "{route}");
    }
    for to in WEB.into_iter().chain(SERVER).map(ip) {
        let six = usize::from(to.is_ipv6());
        let right = |told: &&Told| {
            let (from, at, [_, port]) = told.about;
            (told.what, told.word) == (TOO_BIG[six], OUTSIDE)
                && (from, at, port) == (ip(HOST[six]), to, 80)
        };
        assert!(host.iter().any(|told| right(&told)), "{to}: {host:#?}");
    }
    // Outside nobody hears of the client's own address of IPv4, nor of the
    // balancer's.
    for (six, reached) in ["203.0.113.1", HOST[1]].into_iter().enumerate() {
        let mut of = far
            .iter()
            .filter(|told| told.what == TOO_BIG[six])
            .peekable();
        assert!(of.peek().is_some(), "{far:#?}");
        for told in of {
            let (from, to, [port, _]) = told.about;
            let all = (told.word, from, to, port);
            assert_eq!(all, (INSIDE, ip(SERVER[six]), ip(reached), 80));
        }
    }
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}

#[test]
fn smaller_links_on_both_sides_are_found_out_xdp_sockets() {
    if network::possible() {
        transfers(Kind::Xdp);
    }
}

#[test]
fn smaller_links_on_both_sides_are_found_out_packet_sockets() {
    if network::possible() {
        transfers(Kind::Packet);
    }
}

#[test]
fn every_hop_is_found_by_tcp_and_udp_and_pings() {
    if !network::possible() {
        return;
    }
    let (network, weir) = start(Kind::Xdp);
    // weir is none of the hops. The routers, seen from inside:
    let hops = [["10.0.0.1", "fd00:1::1"], ["192.0.2.2", "fd99::2"]];
    for (hop, number) in hops.iter().zip(1..) {
        sh(
            &network,
            "host",
            &format!(
                "sysctl -qw net.ipv4.ip_default_ttl={number} net.ipv6.conf.eth0.hop_limit={number}"
            ),
        );
        for to in WEB.into_iter().chain(SERVER) {
            let ear = Ear::open(&network, "host");
            let six = usize::from(to.contains(':'));
            let asked = network.spawn("host", move || {
                let any = ["0.0.0.0:0", "[::]:0"][six];
                let socket = UdpSocket::bind(any).expect("a socket");
                socket.send_to(b"?", at(to, 53)).expect("it is sent");
                let port = socket.local_addr().expect("an address").port();
                let tried = TcpStream::connect_timeout(&at(to, 80), Duration::from_secs(20));
                (port, tried.map(drop).map_err(|error| error.raw_os_error()))
            });
            let (udp, tcp) = asked.join().expect("no panic");
            // The kernel has taken the error for one about its own connection.
            assert_eq!(
                tcp,
                Err(Some(rustix::io::Errno::HOSTUNREACH.raw_os_error())),
                "{to}"
            );
            let told = ear.told();
            for port in [53, 80] {
                let right = |told: &&Told| {
                    let (from, at, ports) = told.about;
                    (told.what, told.by) == (OVER[six], ip(hop[six]))
                        && (from, at) == (ip(HOST[six]), ip(to))
                        && ports[1] == port
                        && (port == 80 || ports[0] == udp)
                };
                assert!(
                    told.iter().any(|told| right(&told)),
                    "{to} {port}: {told:#?}"
                );
            }
        }
        for (to, hop) in SERVER.into_iter().zip(hop) {
            let ping = format!("ping -n -c 1 -W 3 -t {number} {to} || true");
            let said = network.run("host", "sh", &["-c", &ping]);
            assert!(said.contains(hop) && said.contains("exceeded"), "{said}");
        }
    }
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}
