//! Short connections, one after another and many at a time, through a firewall and
//! a NAT with few ports: everything that a connection took is given back.
//!
//! `WEIR_LONG_TESTS=1` makes a million of them.

#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bed::{Bed, CLIENTS, Kind, assert_balanced, counted};
use network::at;
use support::{number, sum};

/// Few ports, few flows and short times: what is not given back is missed soon.
const CHAIN: &str = "\
chain: churn
flows:
  max: 30000
  when-full: refuse
  timeouts: {tcp-opening: 5s, tcp-closing: 2s, tcp-closed: 300ms, udp: 300ms, icmp: 1s}
nfs:
  - firewall:
      default: drop
      rules: [accept out tcp to any port 80, accept out udp to any port 53, accept icmp, accept icmpv6]
  - nat44: {pool: 203.0.113.1, ports: 1024-9215, block: 64, log: false}
";
/// Ports of the pool.
const PORTS: u64 = 8_192;
/// Longer than an exchange takes, with repeated segments.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's address that the client reaches from its address of that number.
fn server(number: usize, six: bool) -> String {
    match six {
        false => format!("198.51.100.{}", 11 + number),
        true => format!("fd00:2::{}", 11 + number),
    }
}

/// Gives the server as many addresses as the client has, and the client a way to
/// each from another address of its own.
fn pairs(bed: &Bed) {
    for number in 0..CLIENTS {
        for (six, prefix, via) in [(false, 32, "10.99.0.2"), (true, 128, "fd99::2")] {
            let (to, from) = (server(number, six), bed::client(number, six));
            if number > 0 {
                bed.on("server", &format!("ip addr add {to}/{prefix} dev lo"));
            }
            bed.on(
                "client",
                &format!("ip route add {to}/{prefix} via {via} src {from}"),
            );
        }
    }
    // Each of them is short, and no port of the client's is kept for a minute after.
    bed.on("client", "sysctl -q -w net.ipv4.tcp_max_tw_buckets=0");
    bed.on(
        "server",
        "sysctl -q -w net.ipv4.tcp_max_tw_buckets=0 net.core.somaxconn=8192",
    );
}

/// Answers every request of eight octets with the same octets, over TCP and UDP.
fn echo(bed: &Bed) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    bed.network.spawn("server", move || {
        let tcp = Arc::new(TcpListener::bind("[::]:80").expect("the port is free"));
        for _ in 0..16 {
            let tcp = tcp.clone();
            std::thread::spawn(move || {
                for mut stream in tcp.incoming().flatten() {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let mut octets = [0; 8];
                    if stream.read_exact(&mut octets).is_ok() {
                        let _ = stream.write_all(&octets);
                        let _ = stream.read(&mut octets);
                    }
                }
            });
        }
        let udp: Vec<UdpSocket> = (0..CLIENTS)
            .flat_map(|number| [false, true].map(|six| server(number, six)))
            .map(|address| UdpSocket::bind(at(&address, 53)).expect("the port is free"))
            .collect();
        for socket in udp {
            std::thread::spawn(move || {
                let mut octets = [0; 8];
                while let Ok((_, from)) = socket.recv_from(&mut octets) {
                    let _ = socket.send_to(&octets, from);
                }
            });
        }
        ready.send(()).expect("the test waits");
    });
    is_ready.recv().expect("the server starts");
}

/// One connection: it is opened, used and closed.
fn connect(server: SocketAddr, number: u64) -> Result<(), String> {
    let wrong = |what, error: std::io::Error| format!("{server}, {number}: {what}: {error}");
    let mut stream =
        TcpStream::connect_timeout(&server, PATIENCE).map_err(|e| wrong("opening", e))?;
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let octets = number.to_be_bytes();
    stream.write_all(&octets).map_err(|e| wrong("asking", e))?;
    let mut got = [0; 8];
    stream
        .read_exact(&mut got)
        .map_err(|e| wrong("reading", e))?;
    if got == octets {
        Ok(())
    } else {
        Err(format!("{server}, {number}: {got:?}"))
    }
}

/// One question and its answer, from a socket of its own; asked again, by another,
/// if either was lost.
fn ask(from: IpAddr, server: SocketAddr, number: u64) -> Result<(), String> {
    let wrong = |what, error: std::io::Error| format!("{server}, {number}: {what}: {error}");
    let octets = number.to_be_bytes();
    for _ in 0..10 {
        let socket = UdpSocket::bind((from, 0)).map_err(|e| wrong("opening", e))?;
        let _ = socket.set_read_timeout(Some(Duration::from_secs(2)));
        socket
            .send_to(&octets, server)
            .map_err(|e| wrong("asking", e))?;
        let mut got = [0; 8];
        if socket.recv_from(&mut got).is_ok() {
            return if got == octets {
                Ok(())
            } else {
                Err(format!("{server}, {number}: {got:?}"))
            };
        }
    }
    Err(format!("{server}, {number}: no answer"))
}

/// Makes `count` connections from all addresses: seven of eight TCP, half of them
/// IPv4. The first that failed ends it.
fn churn(
    bed: &Bed,
    count: u64,
    done: &Arc<AtomicU64>,
) -> Vec<std::thread::JoinHandle<Result<(), String>>> {
    let threads = 4 * CLIENTS as u64;
    let each = count / threads;
    (0..threads)
        .map(|thread| {
            let done = done.clone();
            bed.network.spawn("client", move || {
                for turn in 0..each {
                    let number = thread * each + turn;
                    let (of, six) = ((thread as usize) % CLIENTS, turn % 2 == 1);
                    let to = server(of, six);
                    if turn % 8 < 2 && turn % 16 < 8 {
                        let from = bed::client(of, six).parse().expect("an address");
                        ask(from, at(&to, 53), number)?;
                    } else {
                        connect(at(&to, 80), number)?;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        })
        .collect()
}

fn connections(kind: Kind, count: u64) {
    let bed = Bed::bump(kind);
    pairs(&bed);
    echo(&bed);
    let chain = bed.folder.write("churn.yaml", CHAIN);
    let weir = bed.weir(&chain, &[]);
    let before = bed.counts();
    let (start, done) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let clients = churn(&bed, count, &done);
    // Memory once every flow's place and every port has been used, and then.
    let (mut settled, mut most) = (None, 0);
    while !clients.iter().all(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(100));
        if done.load(Ordering::Relaxed) > count / 2 {
            let now = weir.memory();
            settled.get_or_insert(now);
            most = most.max(now);
        }
    }
    let took = start.elapsed();
    for client in clients {
        client
            .join()
            .expect("no panic")
            .unwrap_or_else(|why| panic!("{why}"));
    }
    let settled = settled.expect("half of them were made at some time");
    assert!(
        most < settled + (4 << 20),
        "memory grew from {settled} to {most} octets"
    );
    // All times run out; packets tell weir the time.
    std::thread::sleep(Duration::from_millis(2_500));
    for _ in 0..20 {
        bed.ping(20);
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = bed.counts();
    let summary = assert_balanced(&weir.end("-TERM"), before, after, 20);
    let of = |name: &str| number(&summary, name);
    let made = done.load(Ordering::Relaxed);
    assert_eq!(made, count / 16 * 16);
    // A socket may have the port of one that was closed a moment ago.
    assert!(of("/flows") >= made - made / 50, "{summary:#}");
    // What is left is the pings' and the last connections', if at all.
    assert!(
        counted(&summary, "/chains/churn/flows/ended/shutdown") < 100,
        "{summary:#}"
    );
    let (created, deleted) = (
        of("/nfs/nat44/counters/created"),
        of("/nfs/nat44/counters/deleted"),
    );
    assert_eq!(created, deleted, "{summary:#}");
    assert!(
        created >= made * 4 / 10 && created > 2 * PORTS,
        "{summary:#}"
    );
    // Where all ports are in use for a moment the client asks again.
    let short = counted(&summary, "/drops/nat44.no_port");
    // Where the server's answer comes when all is over, or hosts talk of groups.
    let late =
        counted(&summary, "/drops/firewall.denied") + counted(&summary, "/drops/nat44.no_mapping");
    assert_eq!(
        sum(&summary, "/chains/churn/drops"),
        short + late,
        "{summary:#}"
    );
    assert!(late < 100 + made / 100, "{summary:#}");
    println!(
        "{kind:?}: {made} connections in {took:?}, {created} mappings of {PORTS} ports, {short} \
         packets found none free, {late} came late, {} MB",
        most >> 20
    );
}

#[test]
fn connections_give_back_what_they_took_xdp_sockets() {
    if bed::possible(&[]) {
        connections(Kind::Xdp, if bed::nightly() { 1_000_000 } else { 40_000 });
    }
}

#[test]
fn connections_give_back_what_they_took_packet_sockets() {
    if bed::possible(&[]) {
        connections(
            Kind::Packet,
            if bed::nightly() { 1_000_000 } else { 40_000 },
        );
    }
}
