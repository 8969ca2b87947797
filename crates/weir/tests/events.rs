//! `weir events`: what has happened to a cluster of real processes.

#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use long::{HOSTS, Long, REPLICATED};
use process::{signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{number, root, run, weir};

/// One who follows the events.
struct Follower {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl Follower {
    fn start(socket: &str) -> Follower {
        let mut child = weir(["events", socket, "--follow", "--output", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines() {
                let event = serde_json::from_str(&line.unwrap()).unwrap();
                let _ = sender.send(event);
            }
        });
        let seen = Vec::new();
        Follower { child, lines, seen }
    }

    /// The next event that is so; others are passed over. Their numbers leave none out.
    #[track_caller]
    fn next(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let late = Instant::now() + Duration::from_secs(60);
        loop {
            let left = late.saturating_duration_since(Instant::now());
            let Ok(event) = self.lines.recv_timeout(left) else {
                panic!("never: {what}; {:?}", self.seen);
            };
            self.seen.push(event.clone());
            assert_eq!(event["number"], self.seen.len(), "{event}");
            if is_so(&event) {
                return event;
            }
        }
    }

    #[track_caller]
    fn kind(&mut self, kind: &str) -> Value {
        self.next(kind, |event| event["kind"] == kind)
    }
}

/// The row of `weir get` of a host.
fn row(what: &str, host: &str, socket: &str) -> Option<Value> {
    let ran = run(["get", what, socket, "--output", "json"]);
    let rows = (ran.code == 0).then(|| ran.json())?;
    let mut rows = rows.as_array()?.iter();
    rows.find(|row| row["host"] == host).cloned()
}

fn kill(row: &Value) {
    signal(number(row, "/process") as u32, Signal::KILL);
}

/// What an operator asks for is told.
#[track_caller]
fn moves_and_drain(follower: &mut Follower, socket: &str) {
    // The successor gives away what it gets.
    let alpha = row("runtimes", "alpha", socket).unwrap();
    let beta = row("runtimes", "beta", socket).unwrap();
    let id = |row: &Value| row["runtime"].to_string();
    let moved = run([
        "move",
        &id(&alpha),
        &id(&beta),
        "--count",
        "5",
        "--instance",
        socket,
    ]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    let moves = follower.kind("units_move");
    assert_eq!(
        (&moves["runtime"], &moves["units"]),
        (&alpha["runtime"], &Value::from(5))
    );
    let drained = run(["drain", &id(&beta), "--instance", socket]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    assert!(number(&follower.kind("runtime_drains"), "/units") > 0);
    assert_eq!(follower.kind("runtime_ended")["runtime"], beta["runtime"]);
}

/// For people, and without those that one has seen.
#[track_caller]
fn text(follower: &Follower, socket: &str) {
    let all = run(["events", socket]);
    let lines: Vec<&str> = all.out.lines().collect();
    assert!(lines.len() >= follower.seen.len(), "{}", all.out);
    for (line, event) in lines.iter().zip(&follower.seen) {
        let message = event["message"].as_str().unwrap();
        assert!(line.ends_with(message), "{line}: {event}");
        let start = format!(
            "{:>5}  {}",
            number(event, "/number"),
            event["time"].as_str().unwrap()
        );
        assert!(line.starts_with(&start), "{line}");
    }
    let after = follower.seen.len().to_string();
    let newer = run(["events", socket, "--after", &after]);
    assert_eq!(newer.out.lines().count(), lines.len() - follower.seen.len());
    let none = run(["events", socket, "--after", "1000000"]);
    assert!(
        none.code == 1 && none.err.contains("newest"),
        "{}",
        none.err
    );
}

#[test]
fn who_follows_sees_what_happens() {
    let mut cluster = Long::up("webedge.yaml", "200M", HOSTS, REPLICATED);
    wait_for("protection", || cluster.whole());
    let socket = cluster.socket();
    let mut follower = Follower::start(&socket);
    // What was before is told, too.
    follower.kind("host_ready");
    for _ in 0..3 {
        follower.kind("runtime_ready");
    }
    let hosts: Vec<&Value> = follower.seen.iter().map(|event| &event["host"]).collect();
    for host in ["alpha", "beta", "gamma"] {
        assert!(hosts.iter().any(|of| *of == host), "{hosts:?}");
    }

    let beta = wait_for("its process", || {
        row("runtimes", "beta", &socket).filter(|row| row["process"].is_u64())
    });
    kill(&beta);
    let died = follower.kind("runtime_died");
    assert_eq!(
        (&died["runtime"], &died["host"]),
        (&beta["runtime"], &beta["host"])
    );
    assert_eq!(number(&died, "/other"), number(&beta, "/runtime") + 3);
    let recovered = follower.kind("recovered");
    let stats = run(["stats", &socket, "--output", "json"]).json();
    assert_eq!(stats["switches"][0]["unprotected"], 0, "{stats}");
    assert_eq!(recovered["units"], 0, "{recovered}");
    let took = recovered["took_s"].as_f64().unwrap();
    assert!(took > 0.0 && took < 60.0, "{recovered}");
    wait_for("protection", || cluster.whole());

    kill(&row("hosts", "gamma", &socket).unwrap());
    let died = follower.kind("host_died");
    assert_eq!(died["host"], "gamma");
    assert_eq!(follower.kind("host_ready")["host"], "gamma");
    wait_for("protection", || cluster.whole());

    moves_and_drain(&mut follower, &socket);
    text(&follower, &socket);

    // The end of the instance is the end of those who follow.
    signal(cluster.child().id(), Signal::KILL);
    cluster.child().wait().unwrap();
    assert_eq!(follower.child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    let mut err = follower.child.stderr.take().unwrap();
    err.read_to_string(&mut said).unwrap();
    assert!(said.contains("the instance has ended"), "{said}");
}

/// Without replication the units of one that dies are lost, and that is told.
#[test]
fn lost_units_are_told() {
    let more = ["--runtimes", "2", "--processes"];
    let mut long = Long::start("http.yaml", "200M", &more);
    let socket = long.socket();
    let victim = wait_for("its units", || {
        let local = row("runtimes", "local", &socket)?;
        let is_busy = local["process"].is_u64() && number(&local, "/units") > 0;
        is_busy.then_some(local)
    });
    let mut follower = Follower::start(&socket);
    kill(&victim);
    follower.kind("runtime_died");
    let recovered = follower.kind("recovered");
    assert!(number(&recovered, "/units") > 0, "{recovered}");
    long.child().kill().unwrap();
    let _ = follower.child.wait();
}

/// The last events come before the end.
#[test]
fn the_end_of_a_run_is_told() {
    let more = ["--runtimes", "2"];
    let mut long = Long::start("http.yaml", "200M", &more);
    let mut follower = wait_for("the instance", || {
        let there = run(["events", &long.socket()]).code == 0;
        there.then(|| Follower::start(&long.socket()))
    });
    follower.kind("runtime_ready");
    signal(long.child().id(), Signal::TERM);
    let ended = [
        follower.kind("runtime_ended"),
        follower.kind("runtime_ended"),
    ];
    assert_ne!(ended[0]["runtime"], ended[1]["runtime"]);
    assert_eq!(follower.child.wait().unwrap().code(), Some(1));
}

#[test]
fn without_a_switch_there_are_none() {
    let mut long = Long::start("http.yaml", "200M", &[]);
    let ran = wait_for("its answer", || {
        let ran = run(["events", &long.socket()]);
        ran.err.contains("behind a switch").then_some(ran)
    });
    assert_eq!(ran.code, 1);
    long.child().kill().unwrap();
}

#[test]
fn each_kind_is_in_the_manual() {
    let manual = std::fs::read_to_string(root().join("docs/hosts.md")).unwrap();
    for kind in weir_ctl::events::What::KINDS {
        assert!(manual.contains(&format!("`{kind}`")), "{kind}");
    }
}
