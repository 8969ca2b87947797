//! `weir trace` and `weir tap`: of captures, through every way of running, and of a weir that runs.
//!
//! The live ones need root; they say SKIPPED without. tshark reads what taps write.

#[path = "support/network.rs"]
mod network;
mod support;
#[path = "support/tshark.rs"]
mod tshark;
#[path = "support/web.rs"]
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use network::process::{children, signal, wait_for};
use network::{Cable, Network, SERVER, at};
use serde_json::Value;
use support::{Folder, capture, conserved, example, number, root, run, run_json, weir};
use tshark::{has_tshark, tshark};
use weir_packet::Craft;

/// Both captures of the edge example.
fn edge() -> [String; 4] {
    [
        "--in".to_owned(),
        format!("lan={}", capture("edge-inside.pcap")),
        "--in".to_owned(),
        format!("wan={}", capture("edge-outside.pcap")),
    ]
}

/// `weir trace … --output json`, which must succeed.
#[track_caller]
fn traced(chain: &str, words: &[&str]) -> Vec<Value> {
    let args = ["trace", chain, "--output", "json", "--seed", "1"];
    let ran = run(args.iter().chain(words));
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
    let lines = ran.out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the documents show, and the commands that print it.
#[test]
fn the_documents_show_what_is_printed() {
    let text = std::fs::read_to_string(root().join("docs/tracing.md")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut compared = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let mut lines = block.lines().peekable();
        let mut command = lines.next().unwrap().strip_prefix("$ ").unwrap().to_owned();
        while command.ends_with('\\') {
            command.push('\n');
            command.push_str(lines.next().unwrap());
        }
        let expected: String = lines.map(|line| format!("{line}\n")).collect();
        let takes_root_or_instance = expected.is_empty();
        if takes_root_or_instance || command.contains("tshark") && !has_tshark() {
            continue;
        }
        let ran = Command::new("sh")
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(root())
            .output()
            .unwrap();
        let printed = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(
            printed,
            expected,
            "{command}\n{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        compared += 1;
    }
    assert!(
        compared >= 2,
        "{compared} commands with output in the documents"
    );
}

#[test]
fn a_flow_is_followed_through_nat_both_ways() {
    let edge = edge();
    let words: Vec<&str> = edge.iter().map(String::as_str).collect();
    let more = ["tcp port 80", "--flow", "-n", "1000"];
    let parts = traced(&example("edge.yaml"), &[&words[..], &more].concat());
    let keys: BTreeSet<_> = parts
        .iter()
        .map(|part| part["flow"]["key"].to_string())
        .collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let from = |port: &str| parts.iter().filter(|part| part["port"] == port).count();
    assert!(from("lan") > 3 && from("wan") > 3);
    // What comes back has the public address and leaves with the client's.
    let back = parts.iter().find(|part| part["port"] == "wan").unwrap();
    let nat = &back["functions"][1]["changed"]["ipv4.dst"];
    assert_eq!(nat["before"], "203.0.113.1", "{back}");
    assert!(nat["after"].as_str().unwrap().starts_with("10.0."));
    // A filter of the client's own address matches it too.
    let client = nat["after"].as_str().unwrap();
    let filter = format!("host {client}");
    let by_host = traced(
        &example("edge.yaml"),
        &[&words[..], &[&filter, "-n", "1000"]].concat(),
    );
    assert!(by_host.iter().any(|part| part["port"] == "wan"));
}

/// What became of each packet: functions with what they did, and its end.
fn ways(parts: &[Value]) -> BTreeMap<(u64, u64), (Vec<Value>, Value)> {
    type Way = (Vec<(u64, Value)>, Value);
    let mut ways: BTreeMap<(u64, u64), Way> = BTreeMap::new();
    for part in parts {
        let name = (number(part, "/port_number"), number(part, "/packet"));
        let way = ways.entry(name).or_default();
        for function in part["functions"].as_array().unwrap() {
            let mut function = function.clone();
            // Cycles differ, and so does what a function knows of what comes next.
            for field in ["cycles", "verdict"] {
                function.as_object_mut().unwrap().remove(field);
            }
            way.0.push((number(part, "/first_function"), function));
        }
        if part["disposition"].get("later").is_none() {
            way.1 = part["disposition"].clone();
        }
    }
    let ways = ways
        .into_iter()
        .map(|(name, (mut functions, disposition))| {
            functions.sort_by_key(|(first, _)| *first);
            (
                name,
                (functions.into_iter().map(|(_, f)| f).collect(), disposition),
            )
        });
    ways.collect()
}

#[test]
fn stages_workers_and_runtimes_tell_the_same() {
    let folder = Folder::new();
    let chain = folder.path("chain.yaml");
    std::fs::write(
        &chain,
        "chain: c\nflows: {max: 1000}\nnfs:\n  - firewall:\n      default: drop\n      rules: [accept out tcp to any port 80]\n  - http\n  - monitor\n",
    )
    .unwrap();
    let input = format!("inside={}", capture("edge-inside.pcap"));
    let words = ["--in", input.as_str(), "-n", "1000"];
    let alone = ways(&traced(&chain, &words));
    assert!(alone.len() > 30 && alone.values().any(|way| way.1.get("dropped").is_some()));
    // Processes of a chain file are threads here; others' stages are not run.
    let apart = |plan: &str| {
        let file = folder.path("apart.yaml");
        let text = std::fs::read_to_string(&chain).unwrap();
        std::fs::write(&file, format!("{text}plan: {{mode: pipeline, {plan}}}\n")).unwrap();
        file
    };
    let others = ways(&traced(&apart("processes: http"), &words));
    assert_eq!(others, alone);
    let file = apart("untrusted: http");
    let ran = run([&["trace", file.as_str()][..], &words].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("not trusted"), "{}", ran.err);
    for more in [
        &["--plan", "pipeline"][..],
        &["--workers", "2"],
        &["--runtimes", "2"],
    ] {
        let parts = traced(&chain, &[&words[..], more].concat());
        let others = ways(&parts);
        assert_eq!(others.len(), alone.len(), "{more:?}");
        for (name, way) in &alone {
            assert_eq!(&others[name], way, "{more:?}: packet {name:?}");
        }
    }
}

/// A weir that is fed a capture as it runs: packets of nobody's (`udp port 9`)
/// until somebody looks on, then those of the capture.
struct Fed {
    weir: Child,
    go: Sender<()>,
    feeder: Option<JoinHandle<()>>,
    socket: String,
    folder: Folder,
}

/// Between two of nobody's packets.
const PAUSE: Duration = Duration::from_millis(1);

impl Fed {
    fn start(chain: &str, input: &str, more: &[&str]) -> Fed {
        let folder = Folder::new();
        let file = folder.path("chain.yaml");
        std::fs::write(&file, chain).unwrap();
        let socket = folder.path("control.sock");
        let args = ["run", &file, "--in", "inside=-", "--seed", "1", "--quiet"];
        let args = [&args[..], &["--control", &socket], more].concat();
        let mut weir = weir(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let bytes = std::fs::read(capture(input)).unwrap();
        let mut pipe = weir.stdin.take().unwrap();
        let (go, may_go) = channel();
        let feeder = std::thread::spawn(move || {
            let (head, packets) = bytes.split_at(24);
            let mut nobodys = packets[..8].to_vec();
            let frame = Craft::udp("192.0.2.1:9", "192.0.2.2:9").build();
            let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
            nobodys.extend([length, length].concat());
            nobodys.extend(frame);
            // As many as are read at a time, or what is asked would wait.
            let nobodys = nobodys.repeat(256);
            pipe.write_all(head).unwrap();
            // Packets are read by batches, so that there are to be more behind
            // those of the capture.
            for packets in [packets, &[]] {
                while let Err(RecvTimeoutError::Timeout) = may_go.recv_timeout(PAUSE) {
                    // Nothing is to go where it has ended.
                    if pipe.write_all(&nobodys).is_err() {
                        return;
                    }
                }
                let _ = pipe.write_all(packets);
            }
        });
        until("it can be asked", || run(["stats", &socket]).code == 0);
        Fed {
            weir,
            go,
            feeder: Some(feeder),
            socket,
            folder,
        }
    }

    /// What a trace of so many packets of the capture tells. It looks on before
    /// they come, and before `before` is called.
    fn traced(&mut self, packets: usize, before: impl FnOnce()) -> Vec<Value> {
        let count = packets.to_string();
        let args = ["trace", &self.socket, "not port 9", "-n", &count];
        let mut trace = weir(args.iter().chain(&["--output", "json"]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        looks_on(&mut trace);
        before();
        self.go.send(()).unwrap();
        let done = trace.wait_with_output().unwrap();
        assert!(done.status.success());
        let text = String::from_utf8(done.stdout).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Its summary.
    fn end(mut self) -> Value {
        drop(self.go);
        self.feeder.take().unwrap().join().unwrap();
        let mut text = String::new();
        let mut out = self.weir.stdout.take().unwrap();
        out.read_to_string(&mut text).unwrap();
        assert!(self.weir.wait().unwrap().success());
        drop(self.folder);
        serde_json::from_str(&text).unwrap()
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const CHAIN: &str = "\
chain: c
flows: {max: 1000}
nfs:
  - firewall:
      default: drop
      rules: [accept out tcp to any port 80]
  - http
  - monitor
";

/// Ways by the place of the packet among those that were traced: what came
/// before them is not the same each time.
fn ways_in_order(parts: &[Value]) -> Vec<(Vec<Value>, Value)> {
    let mut parts = parts.to_vec();
    for function in parts
        .iter_mut()
        .flat_map(|part| part["functions"].as_array_mut().unwrap())
    {
        for event in function["events"].as_array_mut().into_iter().flatten() {
            let text = event.to_string();
            assert!(text.contains("event_type"), "{text}");
            *event = Value::Null;
        }
    }
    ways(&parts).into_values().collect()
}

/// Three processes tell of each packet what three threads do, and one thread that
/// takes the capture alone.
#[test]
fn stages_in_processes_tell_what_stages_on_threads_do() {
    let folder = Folder::new();
    let file = folder.path("chain.yaml");
    std::fs::write(&file, CHAIN).unwrap();
    let input = format!("inside={}", capture("edge-inside.pcap"));
    let alone = ways_in_order(&traced(&file, &["--in", &input, "-n", "1000"]));
    let later = alone.iter().filter(|(functions, _)| functions.len() == 3);
    assert!(later.count() > 10 && alone.iter().any(|way| way.0.len() == 1));
    let ran = |more: &[&str]| {
        let mut fed = Fed::start(CHAIN, "edge-inside.pcap", more);
        let parts = fed.traced(alone.len(), || {});
        let summary = fed.end();
        conserved(&summary);
        (parts, summary)
    };
    let (threads, _) = ran(&["--plan", "pipeline", "--output", "json"]);
    let (processes, summary) = ran(&["--plan", "pipeline", "--processes", "--output", "json"]);
    assert_eq!(summary["processes"].as_array().unwrap().len(), 2);
    assert_eq!(ways_in_order(&threads), alone);
    assert_eq!(ways_in_order(&processes), alone);
    // Flows, verdicts, and the packet as it leaves, too.
    let told = |parts: &[Value]| -> BTreeSet<String> {
        let first = parts.iter().map(|part| number(part, "/packet")).min();
        let told = parts.iter().map(|part| {
            let mut part = part.clone();
            part["packet"] = (number(&part, "/packet") - first.unwrap()).into();
            part["cycles"] = Value::Null;
            for function in part["functions"].as_array_mut().unwrap() {
                function["cycles"] = Value::Null;
                function["events"] = Value::Null;
            }
            part.to_string()
        });
        told.collect()
    };
    assert_eq!(told(&processes), told(&threads));
}

/// One that takes the place of a process that was killed tells as well.
#[test]
fn a_process_that_was_killed_is_watched_again() {
    let more = ["--plan", "pipeline", "--processes", "--output", "json"];
    let mut fed = Fed::start(CHAIN, "edge-inside.pcap", &more);
    let (pid, socket) = (fed.weir.id(), fed.socket.clone());
    let parts = fed.traced(62, || {
        let old = children(pid);
        for pid in &old {
            signal(*pid, rustix::process::Signal::KILL);
        }
        wait_for("other processes", || {
            let new = children(pid);
            (new.len() == 2 && new.is_disjoint(&old)).then_some(())
        });
        // They are told of another trace behind that one.
        let another = run(["trace", &socket, "port 1", "--timeout", "0.1"]);
        assert_eq!(another.code, 0, "{}", another.err);
    });
    let told = |name: &str| {
        let functions = parts
            .iter()
            .flat_map(|p| p["functions"].as_array().unwrap());
        functions.filter(|f| f["function"] == name).count()
    };
    assert_eq!(told("firewall"), 62);
    assert!(told("http") > 10 && told("http") == told("monitor"));
    assert_eq!(fed.end()["processes"][0]["died"], 1);
}

#[test]
fn every_drop_is_tapped_with_its_reason() {
    if !has_tshark() {
        return;
    }
    let edge = edge();
    let words: Vec<&str> = edge.iter().map(String::as_str).collect();
    let summary = run_json(
        &example("edge.yaml"),
        &[&words[..], &["--seed", "1"]].concat(),
    );
    let counted = summary["drops"].as_object().unwrap().clone();
    let folder = Folder::new();
    let tap = |point: &str, more: &[&str]| -> (String, String) {
        let path = folder.path(&format!("{}.pcapng", point.replace(':', "-")));
        let chain = example("edge.yaml");
        let all = [
            &["tap", chain.as_str(), point, "--seed", "1"],
            &words[..],
            more,
        ]
        .concat();
        let out = std::fs::File::create(&path).unwrap();
        let ran = weir(&all).stdout(out).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{point}: {said}");
        (path, said)
    };
    let (path, said) = tap("drops", &[]);
    let fields = ["frame.interface_name", "frame.comment", "frame.time_epoch"];
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for packet in tshark(&path, &fields) {
        assert_eq!(packet[0], "drops");
        let reason = packet[1].strip_prefix("dropped: ").unwrap();
        *seen.entry(reason.to_owned()).or_default() += 1;
        // The time is that of the capture that it came from.
        assert!(
            packet[2].starts_with("17") || packet[2].starts_with("2026"),
            "{packet:?}"
        );
    }
    assert!(!seen.is_empty());
    for (reason, count) in &counted {
        assert_eq!(seen.get(reason).copied(), count.as_u64(), "{reason}");
    }
    assert_eq!(seen.values().sum::<u64>(), support::sum(&summary, "/drops"));
    assert!(said.contains(&format!("{} packets tapped", seen.values().sum::<u64>())));
    // One reason; a function; a port; and a limit.
    let (path, _) = tap("drops:firewall", &[]);
    let of_firewall = counted
        .iter()
        .filter(|(reason, _)| reason.starts_with("firewall."));
    let of_firewall: u64 = of_firewall.map(|(_, n)| n.as_u64().unwrap()).sum();
    assert_eq!(tshark(&path, &["frame.number"]).len() as u64, of_firewall);
    let (path, _) = tap("nat44", &[]);
    let mut points: BTreeMap<String, u64> = BTreeMap::new();
    for packet in tshark(&path, &["frame.interface_name"]) {
        *points.entry(packet[0].clone()).or_default() += 1;
    }
    let nat = number(&summary, "/nfs/nat44/packets");
    assert_eq!(points["nat44.in"], nat, "{points:?}");
    assert_eq!(
        points["nat44.out"],
        nat - number(&summary, "/nfs/nat44/dropped")
    );
    let (path, _) = tap("lan.in", &["-n", "7", "--snap-len", "60"]);
    let cut = tshark(&path, &["frame.cap_len", "frame.len"]);
    assert_eq!(cut.len(), 7);
    assert!(cut.iter().all(|packet| packet[0] == "60"), "{cut:?}");
    let (path, _) = tap("lan", &[]);
    let ports: BTreeSet<String> = tshark(&path, &["frame.interface_name"])
        .into_iter()
        .map(|packet| packet[0].clone())
        .collect();
    assert_eq!(ports.len(), 2, "{ports:?}");
}

#[test]
fn what_is_not_there_is_refused_with_what_there_is() {
    let edge = edge();
    let chain = example("edge.yaml");
    for (words, code, said) in [
        (vec!["trace", &chain, "port"], 2, "filter, column"),
        (vec!["tap", &chain, "nowhere"], 2, "lan, wan"),
        (vec!["tap", &chain, "nowhere"], 2, "firewall, nat44"),
        (vec!["tap", &chain, "drops:rain"], 2, "firewall.denied"),
        (vec!["tap", &chain], 2, "POINT"),
        (vec!["trace", &chain, "--plan", "no-such"], 2, "no-such"),
        (vec!["trace", "no-such.yaml"], 1, "no-such.yaml"),
    ] {
        let ran = run(words.iter().copied().chain(edge.iter().map(String::as_str)));
        assert_eq!(ran.code, code, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{words:?}: {}", ran.err);
    }
    // One word with a slash is a filter, where there is no such socket; of what is
    // neither both is said.
    let ran = run(["trace", "net 10.0.0.0/8", "--timeout", "0.1"]);
    assert!(!ran.err.contains("net 10"), "{}", ran.err);
    let ran = run(["trace", "no/such.sock"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    for said in ["filter, column", "no socket no/such.sock"] {
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    let ran = run(["trace", &chain, "--in", "af-packet:lo"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("weir run"), "{}", ran.err);
}

/// A chain whose firewall lets in what clients open, and a weir that runs it.
struct Running {
    network: Network,
    weir: network::Weir,
    socket: String,
    folder: Folder,
}

impl Running {
    fn start(more: &[&str]) -> Running {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let chain = folder.path("live.yaml");
        std::fs::write(
            &chain,
            "chain: live\nports: [{name: lan, side: inside}, {name: wan, side: outside}]\nflows: {max: 10000}\nnfs:\n  - firewall:\n      default: drop\n      rules: [accept out tcp to any port 80 name web, accept icmp, accept icmpv6]\n  - http\n",
        )
        .unwrap();
        let socket = folder.path("control.sock");
        let (ready, is_ready) = std::sync::mpsc::channel();
        network.spawn("server", move || {
            let listener = TcpListener::bind("[::]:80").expect("the port is free");
            ready.send(()).expect("the test waits");
            web::serve(&listener);
        });
        is_ready.recv().expect("the server starts");
        let args = [
            "--in",
            "af-packet:inside",
            "--out",
            "af-packet:outside",
            "--control",
            &socket,
        ];
        let weir = network.weir(&chain, &[&args, more].concat());
        network.ping(1);
        Running {
            network,
            weir,
            socket,
            folder,
        }
    }

    /// A command that asks it, begun.
    fn asked(&self, words: &[&str], out: Stdio) -> Child {
        let (command, rest) = words.split_first().unwrap();
        weir([&[*command, self.socket.as_str()], rest].concat())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn fetch(&self, seed: u64, length: usize) {
        let client = self.network.spawn("client", move || {
            web::fetch(at(SERVER[0], 80), false, seed, length)
        });
        client.join().unwrap().unwrap();
    }

    /// Fetches until a command has ended.
    fn fetch_until_done(&self, child: &mut Child) {
        let end = Instant::now() + Duration::from_secs(40);
        let mut seed = 0;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the command does not end");
            self.fetch(seed, 1_000);
            seed += 1;
        }
    }
}

/// Waits until a trace looks on: all of the next connection is for it.
fn looks_on(trace: &mut Child) {
    let mut said = BufReader::new(trace.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("looking on") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
}

#[test]
fn a_running_weir_is_traced_and_tapped() {
    if network::possible() && has_tshark() {
        traced_and_tapped(&[]);
    }
}

#[test]
fn stages_on_threads_and_runtimes_are_traced_and_tapped() {
    if network::possible() && has_tshark() {
        traced_and_tapped(&["--plan", "pipeline"]);
        traced_and_tapped(&["--plan", "pipeline", "--processes"]);
        traced_and_tapped(&["--runtimes", "2"]);
        traced_and_tapped(&["--runtimes", "2", "--processes"]);
    }
}

fn traced_and_tapped(more: &[&str]) {
    let running = Running::start(more);
    let mut trace = running.asked(
        &[
            "trace",
            "tcp port 80",
            "--flow",
            "-n",
            "6",
            "--output",
            "json",
        ],
        Stdio::piped(),
    );
    looks_on(&mut trace);
    running.fetch_until_done(&mut trace);
    let mut text = String::new();
    trace
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let parts: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Each stage tells its part of a packet.
    let firsts = |part: &&Value| number(part, "/first_function") == 0;
    let later = parts.iter().filter(|part| !firsts(part)).count();
    assert_eq!(parts.iter().filter(firsts).count(), 6, "{text}");
    assert_eq!(later > 0, more.contains(&"pipeline"), "{text}");
    let keys: BTreeSet<_> = parts.iter().map(|p| p["flow"]["key"].to_string()).collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let ports: BTreeSet<_> = parts.iter().map(|p| p["port"].to_string()).collect();
    assert_eq!(ports.len(), 2, "both ways: {ports:?}");
    assert!(
        parts
            .iter()
            .filter(firsts)
            .all(|p| p["functions"][0]["function"] == "firewall")
    );

    // A tap with a filter and a limit.
    let path = running.folder.path("http.pcapng");
    let file = std::fs::File::create(&path).unwrap();
    let mut tap = running.asked(&["tap", "http.out", "tcp port 80", "-n", "10"], file.into());
    running.fetch_until_done(&mut tap);
    assert_eq!(tshark(&path, &["tcp.port"]).len(), 10);

    // What is dropped, until a signal ends it.
    let path = running.folder.path("drops.pcapng");
    let file = std::fs::File::create(&path).unwrap();
    let mut tap = running.asked(&["tap", "drops:firewall"], file.into());
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let refused = running.network.spawn("server", || {
            let to = at("10.99.0.1", 80);
            std::net::TcpStream::connect_timeout(&to, Duration::from_millis(100)).is_err()
        });
        assert!(refused.join().unwrap());
        if std::fs::metadata(&path).unwrap().len() > 300 {
            break;
        }
        assert!(Instant::now() < until, "nothing is tapped");
    }
    network::must("kill", &["-INT", &tap.id().to_string()]);
    assert!(tap.wait().unwrap().success());
    let comments = tshark(&path, &["frame.comment"]);
    assert!(!comments.is_empty());
    assert!(
        comments.iter().all(|c| c[0] == "dropped: firewall.denied"),
        "{comments:?}"
    );

    let ran = running.weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}

#[test]
fn who_is_slow_or_gone_holds_nothing_up() {
    if !network::possible() {
        return;
    }
    let running = Running::start(&[]);
    // One that reads nothing, and one that is killed in the middle.
    let mut slow = running.asked(&["tap", "lan"], Stdio::piped());
    let mut killed = running.asked(&["tap", "http"], Stdio::piped());
    let mut trace = running.asked(&["trace", "tcp", "-n", "10000"], Stdio::piped());
    for seed in 0..12 {
        running.fetch(seed, 1 << 20);
    }
    for child in [&mut killed, &mut trace] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A hundred at once: some are refused, none stops the others.
    let mut many: Vec<Child> = (0..100)
        .map(|_| running.asked(&["tap", "drops"], Stdio::null()))
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    running.fetch(99, 100_000);
    let refused = many
        .iter_mut()
        .filter_map(|child| child.try_wait().unwrap());
    let refused = refused.filter(|status| !status.success()).count();
    assert!(refused >= 80, "{refused} of 100 were refused");
    for child in &mut many {
        let _ = child.kill();
        child.wait().unwrap();
    }
    // The slow one is told what it has missed.
    network::must("kill", &["-INT", &slow.id().to_string()]);
    let mut capture = Vec::new();
    slow.stdout
        .take()
        .unwrap()
        .read_to_end(&mut capture)
        .unwrap();
    let mut said = String::new();
    slow.stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    slow.wait().unwrap();
    assert!(said.contains("packets tapped"), "{said}");
    assert!(said.contains(" lost: the reader was too slow"), "{said}");
    // The places are free again.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut tap = running.asked(&["tap", "lan", "-n", "3"], Stdio::null());
        let end = Instant::now() + Duration::from_secs(5);
        let mut ended = None;
        while ended.is_none() && Instant::now() < end {
            running.fetch(7, 1_000);
            ended = tap.try_wait().unwrap();
        }
        let _ = tap.kill();
        if tap.wait().unwrap().success() || ended.is_some_and(|status| status.success()) {
            break;
        }
        assert!(Instant::now() < deadline, "no place for a tap any more");
    }
    running.fetch(5, 1 << 20);
    let ran = running.weir.end("-TERM");
    assert_eq!(ran.code, 0, "{}", ran.err);
    conserved(&ran.json());
}
