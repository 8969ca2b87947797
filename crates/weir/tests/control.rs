//! The control socket and those who ask over it, with real instances.
//!
//! Where interfaces are needed it needs root; says SKIPPED without.

#[path = "support/network.rs"]
mod network;
mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::{Cable, Network, SERVER, at};
use serde_json::{Value, json};
use support::{Folder, conserved, example, number, run, weir};

/// Waits for something to become true.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks, and reads the answer.
#[track_caller]
fn ask(args: &[&str]) -> Value {
    let ran = run(args.iter().chain(&["--output", "json"]));
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    ran.json()
}

/// A run without interfaces that lasts until it is killed.
struct Generating(Child);

impl Generating {
    fn start(chain: &str, more: &[&str]) -> Generating {
        let input = "gen:flows=1000,packets=100000000000";
        let args = [&["run", chain, "--in", input, "--quiet"], more].concat();
        let child = weir(args).stdout(Stdio::null()).spawn();
        Generating(child.expect("weir starts"))
    }
}

impl Drop for Generating {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_socket_is_its_owners_alone_and_survives_whoever_connects() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let args = ["--control", socket.as_str()];
    let first = Generating::start(&example("monitor.yaml"), &args);
    until("it can be asked", || run(["stats", &socket]).code == 0);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // Bytes that are no HTTP/2, half a preface, silence, and gone at once.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let hostile = [
        &[0xff; 4096][..],
        b"GET / HTTP/1.1\r\n\r\n",
        &preface[..9],
        b"",
    ];
    let mut open = Vec::new();
    for bytes in hostile.iter().cycle().take(40) {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        // It may have been sent away already.
        let _ = stream.write_all(bytes);
        open.push(stream);
    }
    // A whole preface, then frames that are none.
    for octet in 0..20u8 {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        let _ = stream.write_all(preface);
        let _ = stream.write_all(&[octet; 999]);
    }
    drop(open);
    until("it can be asked still", || {
        run(["stats", &socket]).code == 0
    });

    // A client that is killed while it watches.
    let mut watching = weir(["stats", &socket, "--watch", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let mut some = [0; 16];
    let read = watching.stdout.take().expect("piped").read(&mut some);
    assert!(read.expect("lines come") > 0);
    watching.kill().unwrap();
    watching.wait().unwrap();
    let before = number(&ask(&["stats", &socket]), "/chains/monitor/packets_in");
    until("packets go on", || {
        number(&ask(&["stats", &socket]), "/chains/monitor/packets_in") > before
    });

    // Others are refused, by the mode and, where that was widened, by name.
    if rustix_is_root() {
        let as_nobody = || {
            let program = env!("CARGO_BIN_EXE_weir");
            let args = ["--reuid=65534", "--clear-groups", program, "stats", &socket];
            let ran = Command::new("setpriv")
                .args(args)
                .output()
                .expect("setpriv is there");
            (
                ran.status.success(),
                String::from_utf8_lossy(&ran.stderr).into_owned(),
            )
        };
        let open = |path: &str, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let (answered, said) = as_nobody();
        assert!(!answered && said.contains("error: "), "{said}");
        open(
            std::path::Path::new(&socket)
                .parent()
                .unwrap()
                .to_str()
                .unwrap(),
            0o777,
        );
        open(&socket, 0o666);
        let (answered, said) = as_nobody();
        assert!(!answered && said.contains("error: "), "{said}");
    }

    // Its place is taken while it lives, and free when it was killed.
    let second = run([
        "run",
        &example("monitor.yaml"),
        "--in",
        "gen:packets=1",
        "--control",
        &socket,
    ]);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("already listens") && second.err.contains("--control"));
    drop(first);
    let dead = run(["stats", &socket]);
    assert_eq!(dead.code, 1);
    assert!(dead.err.contains("can't ask the instance"), "{}", dead.err);
    let third = run([
        "run",
        &example("monitor.yaml"),
        "--in",
        "gen:packets=1",
        "--control",
        &socket,
    ]);
    assert_eq!(third.code, 0, "{}", third.err);
    assert!(
        !std::path::Path::new(&socket).exists(),
        "it goes with its run"
    );
}

fn rustix_is_root() -> bool {
    let ran = Command::new("id").arg("-u").output().expect("id is there");
    ran.stdout == b"0\n"
}

#[test]
fn bad_questions_are_refused_with_what_to_write() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let _weir = Generating::start(&example("monitor.yaml"), &["--control", &socket]);
    until("it can be asked", || run(["stats", &socket]).code == 0);
    for (args, code, part) in [
        (
            &["flows", "-i", &socket, "prt", "80"][..],
            2,
            "`prt` is not understood",
        ),
        (
            &["flows", "-i", &socket, "port", "80x"],
            2,
            "`80x` is no port",
        ),
        (&["flows", "-i", &socket, "end", "("], 2, "here must be"),
        (
            &["flows", "-i", &socket, "show", "999999999"],
            1,
            "no open flow matches",
        ),
        (
            &["flows", "-i", &socket, "show", "tcp or udp"],
            1,
            "several flows match",
        ),
        (
            &[
                "flows", "-i", &socket, "end", "port", "1", "and", "port", "2",
            ],
            1,
            "no open flow matched",
        ),
        (&["stats", "no-such-weir"], 1, "no"),
        (&["top", &socket], 2, "for a terminal"),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}

#[test]
fn flows_of_runs_without_interfaces_are_found_shown_and_ended() {
    let folder = Folder::new();
    for (more, threads) in [
        (&[][..], 1),
        (&["--workers", "2"], 3),
        (&["--runtimes", "2"], 3),
        (&["--runtimes", "2", "--processes"], 3),
        (&["--plan", "pipeline"], 3),
    ] {
        let socket = folder.path("it.sock");
        let args = [&["--control", socket.as_str()], more].concat();
        let _weir = Generating::start(&example("monitor.yaml"), &args);
        until("it has its flows", || {
            let ran = run(["stats", &socket, "--output", "json"]);
            ran.code == 0 && number(&ran.json(), "/chains/monitor/flows/active") >= 900
        });
        let stats = ask(&["stats", &socket]);
        assert_eq!(
            stats["threads"].as_array().unwrap().len(),
            threads,
            "{stats}"
        );
        assert!(number(&stats, "/ports/in/0/packets") > 0, "{stats}");
        if more.contains(&"--runtimes") {
            let of = |place: u64| json!({"place": place, "id": place, "state": "ready", "role": "runtime", "died": 0});
            assert_eq!(stats["runtimes"], json!([of(1), of(2)]), "{stats}");
        }

        let all = ask(&[
            "flows", "-i", &socket, "--sort", "packets", "--limit", "10000",
        ]);
        let flows = all["flows"].as_array().unwrap();
        assert_eq!(number(&all, "/active"), flows.len() as u64);
        let packets: Vec<u64> = flows.iter().map(|flow| number(flow, "/packets")).collect();
        assert!(packets.is_sorted_by(|a, b| a >= b), "{packets:?}");
        let one = &flows[0];
        let client = one["client"]["address"].as_str().unwrap();
        let port = number(one, "/client/port").to_string();
        let words = ["client", client, "and", "client", "port", &port];
        let found = ask(&[&["flows", "-i", &socket][..], &words].concat());
        assert_eq!(number(&found, "/matched"), 1, "{found}");
        assert_eq!(found["flows"][0]["id"], one["id"]);

        let shown = ask(&[&["flows", "-i", &socket, "show"][..], &words].concat());
        let states = shown["states"].as_array().unwrap();
        let mut monitor = states.iter().filter(|state| state["function"] == "monitor");
        let state = monitor.next().expect("it is in the chain");
        assert_eq!(state["opened"], true, "{state}");
        assert!(!state["fields"].as_object().unwrap().is_empty(), "{state}");

        let before = ask(&["flows", "-i", &socket, "end", "all"]);
        assert!(number(&before, "/ended") >= 900, "{before}");
        // Under a switch they end when it has numbered their ends.
        until("all have ended", || {
            let stats = ask(&["stats", &socket]);
            let ended = stats.pointer("/chains/monitor/flows/ended/ended");
            ended == before.get("ended")
        });
    }
}

#[test]
fn stages_in_processes_tell_what_they_count() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let args = ["--plan", "pipeline", "--processes", "--control", &socket];
    let _weir = Generating::start(&example("monitor.yaml"), &args);
    // Each says now and then what it has counted.
    until("all stages have told", || {
        let ran = run(["stats", &socket, "--output", "json"]);
        let packets = |name: &str| format!("/chains/monitor/nfs/{name}/packets");
        let seen = |name: &str| {
            let stats = ran.json();
            let packets = stats.pointer(&packets(name)).and_then(Value::as_u64);
            packets.unwrap_or(0)
        };
        ran.code == 0 && seen("monitor") > 0 && seen("asset-monitor") > 0
    });
    // Each is asked for what it remembers of a flow.
    let flows = ask(&["flows", "-i", &socket, "--limit", "1"]);
    let id = format!("id {}", number(&flows, "/flows/0/id"));
    let shown = ask(&["flows", "-i", &socket, "show", &id]);
    for state in shown["states"].as_array().unwrap() {
        let name = state["function"].as_str().unwrap();
        let fields = state["fields"].as_object().unwrap();
        assert!(name == "size-histogram" || !fields.is_empty(), "{shown}");
    }
    assert_eq!(shown["states"].as_array().unwrap().len(), 3, "{shown}");
    // Each tells its part of a packet, and copies packets.
    let ran = run(["trace", &socket, "udp", "-n", "20", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut seen = std::collections::BTreeMap::<String, u64>::new();
    for line in ran.out.lines() {
        let part: Value = serde_json::from_str(line).unwrap();
        let first = number(&part, "/first_function").to_string();
        *seen.entry(first).or_default() += 1;
    }
    let counts: Vec<u64> = seen.into_values().collect();
    assert_eq!(counts, [20, 20, 20], "{}", ran.out);
    let ran = weir(["tap", &socket, "monitor.out", "-n", "2000"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && said.contains("2000 packets tapped"),
        "{said}"
    );
    // The first stage has the flows, and tells the others of their ends.
    let ended = ask(&["flows", "-i", &socket, "end", "all"]);
    assert!(number(&ended, "/ended") >= 900, "{ended}");
}

/// Whoever looks on and takes nothing away, or is killed, holds up no stage's
/// process.
#[test]
fn who_looks_into_processes_and_is_slow_holds_nothing_up() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let args = ["--plan", "pipeline", "--processes", "--control", &socket];
    let _weir = Generating::start(&example("monitor.yaml"), &args);
    until("it can be asked", || run(["stats", &socket]).code == 0);
    let words = [
        &["tap", socket.as_str(), "monitor"][..],
        &["trace", &socket, "-n", "10000"],
    ];
    let mut slow: Vec<Child> = words
        .iter()
        .map(|words| {
            // Its standard output is never read.
            let mut child = weir(*words);
            child.stdout(Stdio::piped()).stderr(Stdio::null());
            child.spawn().unwrap()
        })
        .collect();
    let packets = || number(&ask(&["stats", &socket]), "/chains/monitor/packets_out");
    for _ in 0..3 {
        let before = packets();
        until("packets go on", || packets() > before + 10_000);
    }
    // A place is free again, and their process asked, when they are killed.
    for child in &mut slow {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ran = run(["trace", &socket, "-n", "1", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("\"asset-monitor\""), "{}", ran.out);
}

/// What a stage that is not trusted would tell is its own word: it is not shown,
/// and the others are.
#[test]
fn a_stage_that_is_not_trusted_is_not_looked_into() {
    let folder = Folder::new();
    let (socket, chain) = (folder.path("it.sock"), folder.path("chain.yaml"));
    let text = "chain: c\nnfs: [ip-check, monitor, asset-monitor]\nplan:\n  mode: pipeline\n  parallel: never\n  untrusted: monitor\n  processes: asset-monitor\n";
    std::fs::write(&chain, text).unwrap();
    let _weir = Generating::start(&chain, &["--control", &socket]);
    until("it can be asked", || run(["stats", &socket]).code == 0);
    for point in ["monitor", "monitor.out", "drops:monitor"] {
        let ran = run(["tap", &socket, point]);
        assert_eq!(
            ran.code,
            if point.contains(':') { 2 } else { 1 },
            "{point}: {}",
            ran.err
        );
        assert!(
            point.contains(':')
                || ran
                    .err
                    .contains("stage 2 (monitor) of chain c is not trusted"),
            "{}",
            ran.err
        );
    }
    let ran = weir(["tap", &socket, "asset-monitor.in", "-n", "5"]).output();
    assert!(ran.unwrap().status.success());
    let ran = run(["trace", &socket, "-n", "5", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("not shown: stage 2 (monitor)"),
        "{}",
        ran.err
    );
    for (name, there) in [
        ("ip-check", true),
        ("monitor", false),
        ("asset-monitor", true),
    ] {
        let told = ran.out.contains(&format!("\"function\":\"{name}\""));
        assert_eq!(told, there, "{name}: {}", ran.out);
    }
}

/// What became of a stage's process is told while the run goes on.
#[test]
fn a_stage_that_died_is_told_at_once() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let args = ["--plan", "pipeline", "--processes", "--control", &socket];
    let args = [&args[..], &["--metrics", &address]].concat();
    let weir = Generating::start(&example("monitor.yaml"), &args);
    let stats = || ask(&["stats", &socket]);
    let at_work = || {
        let stats = stats();
        let processes = stats["processes"].as_array().unwrap();
        let ready = processes.iter().filter(|p| p["state"] == "ready");
        ready.count() == 2 && number(&stats, "/chains/monitor/packets_out") > 0
    };
    until("it can be asked", || run(["stats", &socket]).code == 0);
    until("it is at work", at_work);
    let before = scrape(&address);
    assert_eq!(
        before["weir_stage_deaths_total{chain=\"monitor\",stage=\"2\"}"],
        0.0
    );
    // The last one takes nothing any more, so that the other has its hands full.
    let pids: Vec<u32> = network::process::children(weir.0.id())
        .into_iter()
        .collect();
    let signal = |number: usize, signal| network::process::signal(pids[number], signal);
    signal(1, rustix::process::Signal::STOP);
    let (mut taken, mut looks) = (0, 0);
    until("nothing goes on", || {
        let now = number(&stats(), "/chains/monitor/packets_in");
        looks = if now == taken { looks + 1 } else { 0 };
        taken = now;
        looks > 5
    });
    signal(0, rustix::process::Signal::KILL);
    signal(1, rustix::process::Signal::KILL);
    until("both have died", || {
        let stats = stats();
        (0..2).all(|n| number(&stats, &format!("/processes/{n}/died")) == 1)
    });
    until("others are at work", at_work);
    let after = stats();
    assert_eq!(after["processes"][0]["functions"][0], "monitor");
    assert!(number(&after, "/processes/0/frames_back") > 0, "{after}");
    assert!(number(&after, "/processes/0/flows_lost") > 0, "{after}");
    let died = number(&after, "/chains/monitor/drops/stage_died");
    assert!((1..5_000).contains(&died), "{after}");
    let metrics = scrape(&address);
    for stage in [2, 3] {
        let of = |name: &str| metrics[&format!("{name}{{chain=\"monitor\",stage=\"{stage}\"}}")];
        assert_eq!(of("weir_stage_deaths_total"), 1.0);
        assert_eq!(of("weir_stage_ready"), 1.0);
        assert!(of("weir_stage_lost_flows_total") > 0.0);
    }
    let dropped = "weir_chain_dropped_packets_total{chain=\"monitor\",reason=\"stage_died\"}";
    assert_eq!(metrics[dropped], died as f64);
    let text = run(["stats", &socket]).out;
    assert!(
        text.contains("stage 2 (monitor) of chain monitor, in a process: ready; died 1 times"),
        "{text}"
    );
}

/// Reads the text format, strictly: each metric once, its head first.
fn scrape(address: &str) -> std::collections::BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(address).expect("it answers");
    let request = "GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let mut values = std::collections::BTreeMap::new();
    let (mut current, mut seen) = (String::new(), Vec::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(!seen.contains(&current), "{current} comes twice");
            seen.push(current.clone());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(
                (name, kind == "counter"),
                (&*current, name.ends_with("_total"))
            );
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().unwrap();
        assert_eq!(name, current, "{line}");
        if let Some(labels) = series
            .strip_prefix(name)
            .filter(|labels| !labels.is_empty())
        {
            assert!(labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
        }
        let value: f64 = value.parse().expect("a number");
        assert!(
            values.insert(series.to_owned(), value).is_none(),
            "{series} comes twice"
        );
    }
    values
}

#[test]
fn metrics_are_well_formed_and_never_go_down() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    // A port that is free now: the system gives one that was not used lately.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let args = ["--control", &socket, "--metrics", &address];
    let _weir = Generating::start(&example("edge.yaml"), &args);
    until("it answers", || TcpStream::connect(&address).is_ok());
    let mut before = scrape(&address);
    assert!(before.len() > 20, "{before:?}");
    for _ in 0..5 {
        let now = scrape(&address);
        for (series, value) in &before {
            let counter = series.split('{').next().unwrap().ends_with("_total");
            let later = now
                .get(series)
                .unwrap_or_else(|| panic!("{series} is gone"));
            assert!(
                !counter || later >= value,
                "{series}: {value}, then {later}"
            );
        }
        before = now;
    }
    let taken: f64 = before
        .iter()
        .filter(|(series, _)| series.starts_with("weir_chain_packets_in_total"))
        .map(|(_, value)| value)
        .sum();
    assert!(taken > 0.0);
    // What is no request for metrics is refused, and harms nothing.
    for bytes in [
        &b"\xff\xff\xff\xff"[..],
        b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"G",
    ] {
        let mut stream = TcpStream::connect(&address).unwrap();
        let _ = stream.write_all(bytes);
    }
    scrape(&address);
}

#[test]
fn top_draws_on_a_terminal_and_quits() {
    let folder = Folder::new();
    let socket = folder.path("it.sock");
    let _weir = Generating::start(&example("monitor.yaml"), &["--control", &socket]);
    until("it can be asked", || run(["stats", &socket]).code == 0);
    let command = format!(
        "stty rows 40 cols 120; {} top {socket} --interval 0.2",
        env!("CARGO_BIN_EXE_weir")
    );
    // `script` gives it a terminal.
    let started = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut top = started.expect("script is there");
    let mut screen = top.stdout.take().expect("piped");
    let mut keys = top.stdin.take().expect("piped");
    let (sender, drawn) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut some = [0; 4096];
        while let Ok(read @ 1..) = screen.read(&mut some) {
            text.extend_from_slice(&some[..read]);
            if sender.send(text.clone()).is_err() {
                return;
            }
        }
    });
    until("it has drawn", || {
        let text = drawn.try_iter().last().unwrap_or_default();
        String::from_utf8_lossy(&text).contains("cycles/packet")
    });
    keys.write_all(b"pq").unwrap();
    let mut code = None;
    until("it has ended", || {
        code = top.try_wait().unwrap();
        code.is_some()
    });
    assert!(code.expect("ended").success());
}

const NAT: &str = "\
chain: nat
ports:
  - {name: inside, side: inside}
  - {name: outside, side: outside}
nfs:
  - nat44: {pool: 203.0.113.1, inside: 10.99.0.0/24}
";

#[test]
fn an_ended_flow_gives_its_port_back_and_stats_are_the_summary() {
    if !network::possible() {
        return;
    }
    let network = Network::new(&Cable::default());
    let folder = Folder::new();
    let chain = folder.write("nat.yaml", NAT);
    let (socket, events) = (folder.path("nat.sock"), folder.path("events.json"));
    let args = [
        ["--in", "af-packet:inside"],
        ["--out", "af-packet:outside"],
        ["--control", &socket],
        ["--events", &events],
    ];
    let weir = network.weir(&chain, args.as_flattened());
    let sent = network.spawn("client", || {
        let from = UdpSocket::bind("10.99.0.1:4000").unwrap();
        from.send_to(b"hello", at(SERVER[0], 9)).unwrap();
        let six = UdpSocket::bind("[fd99::1]:4006").unwrap();
        six.send_to(b"hello", at(SERVER[1], 9)).unwrap();
    });
    sent.join().unwrap();
    let flows = |words: &[&str]| ask(&[&["flows", "-i", &socket][..], words].concat());
    until("the flow is there", || {
        number(
            &flows(&["client", "10.99.0.1", "and", "udp", "port", "9"]),
            "/matched",
        ) == 1
    });
    // It is found by its public name as well.
    let found = flows(&["host", "203.0.113.1"]);
    assert_eq!(number(&found, "/matched"), 1, "{found}");
    let flow = &found["flows"][0];
    assert_eq!(number(flow, "/client/port"), 4_000, "{flow}");
    assert!(!flow["aliases"].as_array().unwrap().is_empty(), "{flow}");
    until("the other is there", || {
        number(
            &flows(&["ip6", "and", "client", "port", "4006"]),
            "/matched",
        ) == 1
    });
    let leased = || number(&ask(&["stats", &socket]), "/chains/nat/flows/ports_leased");
    assert_eq!(leased(), 1);
    let shown = ask(&["flows", "-i", &socket, "show", "client", "port", "4000"]);
    assert_eq!(shown["states"][0]["function"], "nat44", "{shown}");
    let id = number(flow, "/id").to_string();
    let ended = ask(&["flows", "-i", &socket, "end", &id]);
    assert_eq!(number(&ended, "/ended"), 1);
    assert_eq!(leased(), 0);
    assert_eq!(number(&flows(&["host", "203.0.113.1"]), "/matched"), 0);

    // The hosts send packets by themselves now and then (IPv6): what was
    // counted at the last look is no more than the summary's.
    let stats = ask(&["stats", &socket]);
    let summary = weir.end("-TERM");
    assert_eq!(summary.code, 0, "{}", summary.err);
    let summary = summary.json();
    conserved(&summary);
    for (field, more) in [
        ("packets_in", 20),
        ("packets_out", 20),
        ("bytes_in", 20 * 200),
    ] {
        let (then, last) = (
            number(&stats, &format!("/chains/nat/{field}")),
            number(&summary, &format!("/chains/nat/{field}")),
        );
        assert!(
            then > 0 && then <= last && last - then < more,
            "{field}: {then}, {last}"
        );
    }
    assert_eq!(
        number(&summary, "/chains/nat/flows/ended/ended"),
        1,
        "{summary}"
    );
}

#[test]
fn a_folder_that_somebody_holds_keeps_no_run_from_a_decision() {
    let folder = Folder::new();
    let held = std::fs::File::open(folder.path("")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    let socket = folder.path("it.sock");
    let mut run = Generating::start(&example("monitor.yaml"), &["--control", &socket]);
    until("it gives up", || run.0.try_wait().unwrap().is_some());
    assert_eq!(run.0.wait().unwrap().code(), Some(1));
}
