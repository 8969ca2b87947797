//! A bump whose engine is killed: what passes then, and that it comes back.
//!
//! Needs root; says SKIPPED without. All traffic stays in namespaces that each test makes and
//! removes.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/web.rs"]
mod web;

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use network::{Cable, Network, SERVER, must, process};
use support::{Folder, conserved, number};

/// What only a chain that works denies: datagrams to port 9.
fn chain(folder: &Folder, on_failure: &str) -> String {
    let path = folder.path("bump.yaml");
    let text = format!(
        "chain: guarded\nnetwork: {{mode: bump, on-failure: {on_failure}}}\nnfs:\n  - firewall:\n      \
         default: accept\n      rules:\n        - drop udp to any port 9\n  - monitor\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// The process that has the chain, of a guardian's.
fn engine(guardian: u32) -> String {
    let path = format!("/proc/{guardian}/task/{guardian}/children");
    let children = std::fs::read_to_string(path).expect("it runs");
    let mut children = children.split_whitespace();
    children.next().expect("it has an engine").to_owned()
}

/// Pings the server for so many seconds, ten times a second: how many answers
/// are missing.
fn missing(network: &Network, pings: u32) -> u32 {
    let answers = network.echo("client", SERVER[0], pings, Duration::from_millis(100));
    pings - answers.len() as u32
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !there() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn open_passes_while_the_engine_is_dead_and_it_comes_back() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let chain = chain(&folder, "open");
        let args = [format!("{kind}:inside"), format!("{kind}:outside")];
        let weir = network.weir(&chain, &["--in", &args[0], "--out", &args[1]]);
        network.ping(2);
        web::server(&network);
        let transfers = {
            // Connections that are open live on, whoever passes their packets.
            let path = network.name("client");
            assert!(!path.is_empty());
            network.spawn("client", || {
                web::fetch(network::at(SERVER[0], 80), false, 5, 20_000_000)
            })
        };
        let pings = std::thread::scope(|scope| {
            let pings = scope.spawn(|| missing(&network, 50));
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(900));
                let dead = engine(weir.id());
                must("kill", &["-9", &dead]);
                until("a new engine", || {
                    let path = format!("/proc/{0}/task/{0}/children", weir.id());
                    let children = std::fs::read_to_string(path).unwrap_or_default();
                    children.split_whitespace().any(|child| child != dead)
                });
            }
            pings.join().unwrap()
        });
        transfers.join().unwrap().unwrap();
        // Each death costs what comes until the bypass is there: a ping or two, more on a slow
        // machine. Without a bypass most would be missing.
        assert!(pings <= 25, "{kind}: {pings} of 50 missing");
        until("the chain works", || missing(&network, 1) == 0);
        // Until the last engine has the ports again.
        std::thread::sleep(Duration::from_secs(4));
        network.ping(2);
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert_eq!(number(&summary, "/failures/engines"), 3, "{summary}");
        assert!(
            number(&summary, "/failures/passed_packets") > 0,
            "{summary}"
        );
        assert!(number(&summary, "/packets_in") > 0, "{summary}");
        assert_eq!(
            ran.err.matches("packets pass unprocessed").count(),
            3,
            "{}",
            ran.err
        );
        assert_eq!(
            ran.err.matches("the engine is back").count(),
            3,
            "{}",
            ran.err
        );
    }
}

#[test]
fn closed_passes_nothing_until_weir_is_started_again() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "closed");
    let args = ["--in", "xdp:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&chain, &args);
    network.ping(2);
    must("kill", &["-9", &weir.id().to_string()]);
    assert_eq!(weir.wait().code, -1);
    assert_eq!(missing(&network, 5), 5, "nobody passes packets");
    let weir = network.weir(&chain, &args);
    network.ping(2);
    assert_eq!(weir.end("-TERM").code, 0);
}

#[test]
fn an_engine_ends_with_its_guardian_and_a_wrong_one_is_not_repeated() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "open");
    let args = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&chain, &args);
    let engine = engine(weir.id());
    must("kill", &["-9", &weir.id().to_string()]);
    until("the engine ends", || {
        !std::path::Path::new(&format!("/proc/{engine}/exe")).exists()
    });
    drop(weir.wait());
    // No interface is there: it says so, once.
    let args = ["--in", "af-packet:inside", "--out", "af-packet:nowhere"];
    let ran = network.weir(&chain, &args).wait();
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err.matches("nowhere: no interface").count(),
        1,
        "{}",
        ran.err
    );
    // One side is no bump.
    let ran = network.weir(&chain, &["--in", "af-packet:inside"]).wait();
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("on both sides"), "{}", ran.err);
}

/// Starts weir by this program, and lets go of its standard error once it runs.
fn speechless(network: &Network, program: &str, chain: &str) -> Child {
    let args = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let mut weir = network
        .weir_by(program, chain, &args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(weir.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("running")));
    weir
}

/// Kills the engine: packets pass and another one comes, by a guardian that
/// lives on.
fn comes_back(network: &Network, mut weir: Child) {
    network.ping(1);
    let dead = engine(weir.id());
    must("kill", &["-9", &dead]);
    until("packets pass", || missing(network, 1) == 0);
    until("a new engine that is there to stay", || {
        assert_eq!(weir.try_wait().unwrap(), None, "the guardian lives");
        let all = network::process::children(weir.id());
        let new = all.iter().find(|child| child.to_string() != dead);
        // It runs once packets are no longer the guardian's.
        new.is_some_and(|new| has_packet_sockets(*new) && !has_packet_sockets(weir.id()))
    });
    network.ping(2);
    must("kill", &["-TERM", &weir.id().to_string()]);
    until("the end", || weir.try_wait().unwrap().is_some());
    assert_eq!(weir.wait().unwrap().code(), Some(0));
}

/// Whether a process has the ports: rings of packet sockets are mapped as
/// sockets.
fn has_packet_sockets(process: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    maps.contains("socket:[")
}

#[test]
fn with_standard_error_gone_packets_pass_and_the_engine_comes_back() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "open");
    let weir = speechless(&network, env!("CARGO_BIN_EXE_weir"), &chain);
    comes_back(&network, weir);
}

#[test]
fn an_engine_comes_back_though_its_program_was_replaced() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "open");
    let program = folder.path("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &program).unwrap();
    let weir = speechless(&network, &program, &chain);
    std::fs::remove_file(&program).unwrap();
    comes_back(&network, weir);
}

/// What each datagram to port 9 is an event of.
fn logging(folder: &Folder) -> String {
    let path = folder.path("bump.yaml");
    let text = "chain: guarded\nnetwork: {mode: bump, on-failure: open}\nnfs:\n  - firewall:\n      \
                default: accept\n      rules:\n        - drop udp to any port 9 log\n";
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn who_reads_events_slowly_holds_neither_packets_nor_the_end_up() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    // Standard output is a pipe that is not read before the end.
    let args = [&ports[..], &["--events", "-"]].concat();
    let weir = network.weir(&logging(&folder), &args);
    network.ping(1);
    // Far more than the pipe takes.
    let sent = network.spawn("client", || {
        for _ in 0..3_000 {
            let socket = UdpSocket::bind(network::at("0.0.0.0", 0)).unwrap();
            socket.send_to(b"hello", network::at(SERVER[0], 9)).unwrap();
        }
    });
    sent.join().unwrap();
    network.ping(5);
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 1, "{}", ran.err);
    // The summary is on standard error, between other lines.
    let (_, summary) = ran.err.split_once("\n{\n").expect("a summary");
    let summary = format!("{{{summary}");
    let mut values = serde_json::Deserializer::from_str(&summary).into_iter();
    let summary: serde_json::Value = values.next().unwrap().unwrap();
    conserved(&summary);
    assert_eq!(number(&summary, "/failures/engines"), 0, "{summary}");
    let lost = number(&summary, "/events_lost");
    let read = ran.out.lines().count() as u64;
    assert!(lost > 0 && read > 0, "{summary}");
    // A line that the pipe took a part of is lost.
    let whole = read - u64::from(!ran.out.ends_with('\n'));
    let told = number(&summary, "/chains/guarded/events");
    assert_eq!(whole + lost, told, "{summary}");
}

/// Octets of a download that takes some seconds.
const DOWNLOAD: usize = 12_000_000;

/// Serves one download, slowly.
fn serve(network: &Network) -> std::thread::JoinHandle<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = network.spawn("server", move || {
        let listener = TcpListener::bind(network::at("0.0.0.0", 8080)).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let some = vec![7; 40_000];
        for _ in 0..DOWNLOAD / some.len() {
            if stream.write_all(&some).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    is_ready.recv().unwrap();
    server
}

#[test]
fn a_download_goes_on_when_weir_is_started_again() {
    if !network::possible() {
        return;
    }
    for kind in ["af-packet", "xdp"] {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let chain = folder.write(
            "bump.yaml",
            "chain: guarded\nnetwork: {mode: bump}\nnfs:\n  - firewall:\n      default: drop\n      \
             rules:\n        - accept out from 10.99.0.0/24\n",
        );
        let args = [format!("{kind}:inside"), format!("{kind}:outside")];
        let args = ["--in", &args[0], "--out", &args[1]];
        let weir = network.weir(&chain, &args);
        let server = serve(&network);
        let client = network.spawn("client", || {
            let mut stream = TcpStream::connect(network::at(SERVER[0], 8080)).unwrap();
            // The client only listens: each of its segments answers one.
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let (mut buffer, mut all) = (vec![0; 1 << 16], 0);
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return Ok(all),
                    Ok(octets) => all += octets,
                    Err(error) => return Err(format!("{error} after {all} octets")),
                }
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        assert!(!client.is_finished(), "the download is slow");
        weir.signal("-KILL");
        weir.gone();
        // Longer than what is under way takes to arrive: only the server repeats.
        std::thread::sleep(Duration::from_millis(500));
        let weir = network.weir(&chain, &args);
        assert_eq!(client.join().unwrap(), Ok(DOWNLOAD), "{kind}");
        server.join().unwrap();
        let ran = weir.end("-TERM");
        assert_eq!(ran.code, 0, "{}", ran.err);
        conserved(&ran.json());
    }
}

/// Sends a datagram to port 9 from a port of its own, which is one event.
fn denied(network: &Network, port: u16) {
    let sent = network.spawn("client", move || {
        let socket = UdpSocket::bind(network::at("0.0.0.0", port)).unwrap();
        socket.send_to(b"hello", network::at(SERVER[0], 9)).unwrap();
    });
    sent.join().unwrap();
}

fn lines(path: &str) -> usize {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .count()
}

#[test]
fn a_hang_up_stops_nothing_and_has_the_event_file_opened_again() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let (events, moved) = (folder.path("events.json"), folder.path("events.1"));
    std::fs::write(&events, "from before\n").unwrap();
    let ports = ["--in", "af-packet:inside", "--out", "xdp:outside"];
    let args = [&ports[..], &["--events", &events]].concat();
    let weir = network.weir(&logging(&folder), &args);
    network.ping(1);
    let first = engine(weir.id());
    denied(&network, 20_000);
    until("an event", || lines(&events) == 2);
    std::fs::rename(&events, &moved).unwrap();
    // To the guardian, which a log rotation knows the number of.
    weir.signal("-HUP");
    until("a new file", || {
        lines(&events) == 0 && std::fs::exists(&events).unwrap()
    });
    denied(&network, 20_001);
    until("an event in the new file", || lines(&events) == 1);
    assert_eq!(lines(&moved), 2);
    // To all, as when a terminal goes.
    for _ in 0..3 {
        must("kill", &["-HUP", &engine(weir.id())]);
        weir.signal("-HUP");
        network.ping(5);
    }
    assert_eq!(engine(weir.id()), first, "the engine lives");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(number(&summary, "/failures/engines"), 0, "{summary}");
    assert_eq!(number(&summary, "/failures/passed_packets"), 0, "{summary}");
    assert_eq!(number(&summary, "/events_lost"), 0, "{summary}");
}

#[test]
fn a_hang_up_ends_no_process_of_a_stage() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "closed");
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let args = [&ports[..], &["--plan", "pipeline", "--processes"]].concat();
    let weir = network.weir(&chain, &args);
    network.ping(1);
    let stage = engine(weir.id());
    must("kill", &["-HUP", &stage]);
    weir.signal("-HUP");
    network.ping(5);
    assert_eq!(engine(weir.id()), stage, "the process lives");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}

#[test]
fn the_time_of_a_run_is_over_though_no_engine_can_be_started() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "open");
    let gone = folder.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let events = format!("{gone}/events.json");
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let args = [&ports[..], &["--for", "3", "--events", &events]].concat();
    let weir = network.weir(&chain, &args);
    // It works once packets pass; one that never worked is not started again.
    network.ping(1);
    std::fs::remove_dir_all(&gone).unwrap();
    must("kill", &["-9", &engine(weir.id())]);
    let ran = weir.wait();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("the engine was down"), "{}", ran.err);
}

/// A chain file that was edited and not reloaded is not in force for the next engine.
#[test]
fn an_engine_comes_back_by_the_file_that_runs() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = chain(&folder, "open");
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&chain, &ports);
    network.ping(1);
    let first = engine(weir.id());
    std::fs::write(&chain, "no chain").unwrap();
    must("kill", &["-9", &first]);
    let next = process::wait_for("the next engine", || {
        let all = process::children(weir.id()).into_iter();
        let mut others = all.map(|id| id.to_string()).filter(|id| *id != first);
        others.next()
    });
    network.ping(3);
    assert_eq!(engine(weir.id()), next, "it lives");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(number(&ran.json(), "/failures/engines"), 1, "{}", ran.err);
}

#[test]
fn a_disk_that_is_full_of_events_opens_nothing() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let path = logging(&folder);
    let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
    let weir = network.weir(&path, &[&ports[..], &["--events", "/dev/full"]].concat());
    let denied = network.spawn("server", || {
        let socket = UdpSocket::bind(network::at("0.0.0.0", 9)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        socket.recv(&mut [0; 10]).is_ok()
    });
    network.ping(1);
    let sent = network.spawn("client", || {
        // Each from a port of its own: a flow is logged once.
        for port in 20_000..20_100 {
            let socket = UdpSocket::bind(network::at("0.0.0.0", port)).unwrap();
            socket.send_to(b"hello", network::at(SERVER[0], 9)).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    sent.join().unwrap();
    assert!(!denied.join().unwrap(), "what is denied has come");
    let ran = weir.end("-TERM");
    assert_eq!(ran.code, 1, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(number(&summary, "/failures/engines"), 0, "{summary}");
    let lost = number(&summary, "/events_lost");
    assert_eq!(lost, 100, "{summary}");
    let warned = ran.err.matches("warning: can't write events").count();
    assert_eq!(warned, 1, "{}", ran.err);
}
