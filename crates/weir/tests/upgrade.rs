//! `weir upgrade`: all processes of a cluster become another program, while packets flow.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/instance.rs"]
mod instance;
#[path = "support/long.rs"]
mod long;
#[path = "support/process.rs"]
mod process;
#[path = "support/program.rs"]
mod program;
mod support;

use std::collections::BTreeSet;
use std::process::Stdio;

use agents::{Agent, KEY, key};
use instance::{INPUT, Instance, chain};
use long::{HOSTS, Long, findings};
use process::{signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, number, run, weir};

/// Nobody dies here: a busy machine is not to make anybody suspect.
const CALM: &str = "replication: each-burst\nheartbeat: 2s";

#[track_caller]
fn upgraded(words: &[&str], socket: &str) -> Value {
    let more = ["-i", socket, "--output", "json", "--timeout", "120"];
    let ran = run([&["upgrade"], words, &more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let answer = ran.json();
    assert_eq!(answer["done"], true, "{answer:#}");
    answer
}

/// What was refused, in words.
#[track_caller]
fn refused(words: &[&str], socket: &str) -> String {
    let ran = run([&["upgrade"], words, &["-i", socket]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    ran.err
}

fn kinds(answer: &Value) -> Vec<&str> {
    let steps = answer["steps"].as_array().unwrap().iter();
    steps
        .map(|step| step["process"].as_str().unwrap())
        .collect()
}

fn agents_of(socket: &str) -> Vec<u64> {
    let listed = wait_for("hosts", || {
        let ran = run(["get", "hosts", socket, "--output", "json"]);
        (ran.code == 0).then(|| ran.json())
    });
    let rows = listed.as_array().unwrap().iter();
    let agents = rows.filter(|row| row["agent"].is_string());
    agents
        .map(|row| row["process"].as_u64().unwrap_or(0))
        .collect()
}

/// Each request is found once, as on one thread: no flow forgets what it has read, none begins anew.
#[test]
fn a_cluster_is_upgraded_and_back_and_every_request_is_found_once() {
    let packets = "4M";
    let plain = Long::start("webedge.yaml", packets, &[]).ended();
    let folder = Folder::new();
    let next = program::next(&folder);
    let digests = [
        program::digest(&next),
        program::digest(env!("CARGO_BIN_EXE_weir")),
    ];
    assert_ne!(digests[0], digests[1]);
    let cluster = Long::up_to_nowhere(packets, HOSTS, CALM);
    let socket = cluster.socket();
    wait_for("three runtimes", || cluster.whole());
    let agents = agents_of(&socket);
    assert_eq!(agents.len(), 2);
    for (words, digest) in [
        (&["--to", next.as_str()][..], &digests[0]),
        (&["--rollback"][..], &digests[1]),
    ] {
        let answer = upgraded(words, &socket);
        assert_eq!(answer["program"]["digest"], **digest);
        let expected = ["agent", "agent", "runtime", "runtime", "switch"];
        assert_eq!(kinds(&answer), expected, "{answer:#}");
        let running = program::running(&socket).unwrap();
        assert_eq!(running.len(), 5);
        assert!(running.iter().all(|of| of == digest), "{running:?}");
        // They have become it, and were not started anew.
        assert_eq!(agents_of(&socket), agents);
    }
    let again = upgraded(&["--to", env!("CARGO_BIN_EXE_weir")], &socket);
    assert!(kinds(&again).is_empty(), "{again:#}");
    let events = run(["events", &socket]).out;
    assert!(events.contains("upgraded"), "{events}");
    let cluster = cluster.ended_without_capture();
    let count = |what| number(&cluster.summary, what);
    let packets = count("/packets_before") + count("/packets_in");
    assert_eq!(packets, 4_000_000);
    for none in ["/switch/first_opened", "/switch/unit_lost"] {
        assert_eq!(cluster.summary.pointer(none), None, "{none}");
    }
    assert!(
        findings(&plain) == findings(&cluster),
        "other events: {} and {}",
        findings(&plain).len(),
        findings(&cluster).len()
    );
}

/// An operator goes home in the middle of it, and an agent dies: the command goes on where it was.
#[test]
fn an_upgrade_that_was_broken_off_goes_on() {
    let folder = Folder::new();
    let next = program::next(&folder);
    let digest = program::digest(&next);
    let instance = Instance::up(&chain("accept tcp", ""));
    let socket = instance.socket();
    let mut leading = weir(["upgrade", "--to", &next, "-i", &socket])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("an agent that is the next program", || {
        program::running(&socket)?.contains(&digest).then_some(())
    });
    leading.kill().unwrap();
    leading.wait().unwrap();
    let before = program::running(&socket).unwrap();
    assert!(before.iter().any(|of| *of != digest), "{before:?}");
    let dry = run(["upgrade", "--to", &next, "-i", &socket, "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert!(
        dry.out.contains("TARGET") && dry.out.contains(&digest),
        "{}",
        dry.out
    );
    // What starts it has the program before: it is upgraded again.
    let agents = agents_of(&socket);
    signal(agents[0] as u32, Signal::KILL);
    wait_for("another agent", || {
        let now: BTreeSet<u64> = agents_of(&socket).into_iter().collect();
        (now.len() == 2 && !now.contains(&agents[0]) && !now.contains(&0)).then_some(())
    });
    wait_for("its runtime", || {
        (instance.runtimes().len() == 3).then_some(())
    });
    upgraded(&["--to", &next], &socket);
    let running = program::running(&socket).unwrap();
    assert!(running.iter().all(|of| *of == digest), "{running:?}");
    // From now on a successor is the next program, too.
    let agents = agents_of(&socket);
    signal(agents[1] as u32, Signal::KILL);
    wait_for("its successor", || {
        let running = program::running(&socket)?;
        (agents_of(&socket)[1] != agents[1] && running.len() == 5).then_some(running)
    })
    .iter()
    .for_each(|of| assert_eq!(*of, digest));
}

/// One that stands by takes over, and those that stand by with the program before are started anew.
#[test]
fn switches_that_stand_by_are_upgraded_too() {
    let folder = Folder::new();
    let next = program::next(&folder);
    let digest = program::digest(&next);
    let more = format!("{CALM}\nstandby: beta");
    let mut cluster = Long::up_to_nowhere("100000M", HOSTS, &more);
    let socket = cluster.socket();
    wait_for("three runtimes", || cluster.whole());
    upgraded(&["--to", &next], &socket);
    let running = program::running(&socket).unwrap();
    assert!(running.iter().all(|of| *of == digest), "{running:?}");
    let rows = wait_for("both switches", || {
        let ran = run(["get", "hosts", &socket, "--output", "json"]);
        let rows = (ran.code == 0).then(|| ran.json())?;
        let there = rows.as_array()?.iter();
        let there = there.filter(|row| row["switch_process"].is_u64()).count();
        (there == 2).then_some(rows)
    });
    for row in rows.as_array().unwrap() {
        let Some(process) = row["switch_process"].as_u64() else {
            continue;
        };
        let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap();
        assert_eq!(program, std::path::Path::new(&next), "{rows:#}");
    }
    let units = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| number(row, "/units"));
    assert_eq!(units.sum::<u64>(), 300);
    cluster.child().kill().unwrap();
}

/// Where it was begun and has not reached the switch, the way back is to what the switch is.
#[test]
fn what_was_begun_is_taken_back() {
    let folder = Folder::new();
    let next = program::next(&folder);
    let digest = program::digest(&next);
    let instance = Instance::up(&chain("accept tcp", ""));
    let socket = instance.socket();
    let own = program::digest(env!("CARGO_BIN_EXE_weir"));
    let mut leading = weir(["upgrade", "--to", &next, "-i", &socket, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("a runtime that is the next program", || {
        let running = program::running(&socket)?;
        let of_runtimes = [running.get(2)?, running.get(4)?];
        of_runtimes.contains(&&digest).then_some(())
    });
    leading.kill().unwrap();
    leading.wait().unwrap();
    let answer = upgraded(&["--rollback"], &socket);
    assert!(!kinds(&answer).contains(&"switch"), "{answer:#}");
    // A runtime that was drained may not have ended yet.
    let running = wait_for("five processes", || {
        program::running(&socket).filter(|all| all.len() == 5)
    });
    assert!(running.iter().all(|of| *of == own), "{running:?}");
    assert!(refused(&["--rollback"], &socket).contains("no other program before"));
}

/// A way back that was broken off is gone on, and not taken back.
#[test]
fn a_rollback_that_was_broken_off_goes_on() {
    let folder = Folder::new();
    let next = program::next(&folder);
    let instance = Instance::up(&chain("accept tcp", ""));
    let socket = instance.socket();
    let own = program::digest(env!("CARGO_BIN_EXE_weir"));
    upgraded(&["--to", &next], &socket);
    let mut leading = weir(["upgrade", "--rollback", "-i", &socket, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("an agent that is what it was", || {
        program::running(&socket)?.contains(&own).then_some(())
    });
    leading.kill().unwrap();
    leading.wait().unwrap();
    let answer = upgraded(&["--rollback"], &socket);
    assert_eq!(answer["program"]["digest"], *own, "{answer:#}");
    assert!(kinds(&answer).contains(&"switch"), "{answer:#}");
    let running = program::running(&socket).unwrap();
    assert!(running.iter().all(|of| *of == own), "{running:?}");
}

#[test]
fn what_is_no_program_changes_nothing() {
    let instance = Instance::up(&chain("accept tcp", ""));
    let socket = instance.socket();
    let before = program::running(&socket).unwrap();
    let folder = Folder::new();
    let script = folder.write("script", "#!/bin/sh\necho '{}'\n");
    std::fs::set_permissions(
        &script,
        <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755),
    )
    .unwrap();
    for (path, why) in [
        ("/nowhere/weir", "No such file"),
        ("/bin/true", "no weir"),
        (script.as_str(), "no weir"),
        (folder.path(".").as_str(), "no program"),
    ] {
        let said = refused(&["--to", path], &socket);
        assert!(said.contains(why), "{path}: {said}");
    }
    assert_eq!(program::running(&socket).unwrap(), before);
    // One runtime's flows have nowhere to go.
    instance.do_it(&["scale", "1"]);
    let next = program::next(&folder);
    assert!(refused(&["--to", &next], &socket).contains("1 runtime is ready"));
}

#[test]
fn flows_that_nobody_could_go_on_with_stay() {
    let folder = Folder::new();
    let next = program::next(&folder);
    let threads = Instance::run(&chain("accept tcp", ""), &["--runtimes", "2"]);
    let said = refused(&["--to", &next], &threads.socket());
    assert!(said.contains("its runtimes end with its process"), "{said}");
    // `weir get programs` tells what they are all the same.
    assert_eq!(program::running(&threads.socket()).unwrap().len(), 1);

    let path = folder.write("chain.yaml", chain("accept tcp", ""));
    let key = key(&folder, "key", KEY);
    let agents = [
        Agent::start(&path, "127.0.8.9:0", &key, &[]),
        Agent::start(&path, "127.0.8.10:0", &key, &[]),
    ];
    let hosts = format!("{},{}", agents[0].at, agents[1].at);
    let words = ["run", &path, "--in", INPUT, "--quiet", "--runtimes", "2"];
    let more = ["--hosts", &hosts, "--key", &key, "--heartbeat", "500"];
    let played = Instance::start(Folder::new(), &[&words[..], &more].concat());
    let said = refused(&["--to", &next], &played.socket());
    assert!(said.contains("from its start again"), "{said}");
    let running = program::running(&played.socket()).unwrap();
    assert_eq!(running.len(), 5);
}
