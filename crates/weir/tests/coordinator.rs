//! `weir coordinator`, its agents and `weir apply`: real processes, some of which are killed.

#[path = "support/coordinated.rs"]
mod coordinated;
#[path = "support/process.rs"]
mod process;
mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use coordinated::{Coordinated, HOSTS};
use process::{signal, wait_for};
use rustix::process::Signal;
use support::number;

/// More packets than a test lasts: the generator does not wait.
const INPUT: &str = "gen:flows=60,packets=1G,proto=tcp,payload=http,both=yes";

/// No state was lost, and no packet but those that a death of a switch took.
#[track_caller]
fn nothing_is_lost(cluster: &Coordinated) {
    let stats = cluster.stats();
    let switches = stats["switches"].as_array().unwrap();
    assert!(!switches.is_empty(), "{stats}");
    for switch in switches {
        assert_eq!(number(switch, "/lost"), 0, "{switch}");
    }
    let drops = stats
        .pointer("/chains/webedge/drops")
        .expect("drops of a chain");
    assert!(!drops.to_string().contains("owner_lost"), "{drops}");
}

#[test]
fn a_composition_starts_changes_under_traffic_and_ends() {
    let cluster = Coordinated::new(1);
    let file = cluster.composition(INPUT, "");
    let apply = |words: &[&str]| apply_json(&cluster, &file, words);
    let given = cluster.run(["apply", &support::example("hosts.yaml"), "--dry-run"]);
    assert_eq!(given.code, 0, "{given:?}");
    // What it would do changes nothing.
    let dry = apply(&["--dry-run"]);
    assert_eq!(
        (dry.code, &dry.json()["takes"]),
        (0, &"start".into()),
        "{dry:?}"
    );
    assert_eq!(cluster.stands(), None);
    let first = apply(&[]);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(first.json()["stands"]["state"], "ready");
    assert_eq!(cluster.get("runtimes").as_array().unwrap().len(), 3);
    assert_eq!(apply(&[]).json()["takes"], "nothing");
    let before = cluster.processes();

    // The chain's files change under traffic.
    let chain = cluster.folder.path("webedge.yaml");
    let text = std::fs::read_to_string(&chain).unwrap();
    cluster.folder.write(
        "webedge.yaml",
        text.replace("to-port: 53\n", "to-port: 5353\n"),
    );
    let reload = apply(&[]);
    assert_eq!(reload.code, 0, "{reload:?}");
    let told = reload.json();
    assert_eq!(
        (&told["takes"], &told["taken"]),
        (&"reload".into(), &true.into()),
        "{told}"
    );
    assert_eq!(told["reload"]["changes"][0]["function"], "firewall");
    assert_eq!(number(&told, "/stands/running"), number(&told, "/revision"));
    assert_eq!(cluster.processes(), before, "a process was started anew");
    let name = cluster.name();
    let changes = cluster.run(["get", "changes", &name]).out;
    assert!(changes.contains("reloaded"), "{changes}");
    nothing_is_lost(&cluster);

    end(&cluster);
}

/// `weir apply` of the composition, with its answer as JSON.
fn apply_json(cluster: &Coordinated, file: &str, words: &[&str]) -> support::Ran {
    let fixed = ["apply", file, "--quiet", "--output", "json"];
    cluster.run(fixed.into_iter().chain(words.iter().copied()))
}

/// Deletes the composition: nothing of it is left on any host.
#[track_caller]
fn end(cluster: &Coordinated) {
    let name = cluster.name();
    let deleted = cluster.run_as("op", ["delete", &name]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    for host in HOSTS {
        let left = std::fs::read_dir(cluster.folder.path(&format!("state/{host}"))).unwrap();
        let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".lock"], "{host}");
    }
    assert_eq!(cluster.run_as("op", ["delete", &name]).code, 1);
}

#[test]
fn what_is_no_reload_takes_a_word_and_begins_anew() {
    let cluster = Coordinated::new(6);
    let file = cluster.composition(INPUT, "");
    let apply = |words: &[&str]| apply_json(&cluster, &file, words);
    assert_eq!(apply(&[]).code, 0);
    let before = cluster.processes();
    let chain = cluster.folder.path("webedge.yaml");
    let text = std::fs::read_to_string(&chain).unwrap();
    // A wrong file is refused with its line, by the coordinator, too: the command asks it with files
    // that were right when it read them.
    cluster.folder.write(
        "webedge.yaml",
        text.replace("- accept tcp to any port 443", "- accpt"),
    );
    let wrong = apply(&[]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.err.contains("webedge.yaml:21"), "{wrong:?}");
    // What is no reload takes a word.
    cluster.folder.write(
        "webedge.yaml",
        text.replace("  - monitor\n", "  - monitor\n  - ttl\n"),
    );
    let anew = apply(&[]);
    assert_eq!(
        (anew.code, &anew.json()["takes"]),
        (3, &"anew".into()),
        "{anew:?}"
    );
    assert_eq!(anew.json()["taken"], false);
    assert_eq!(cluster.processes(), before);
    let begun = apply(&["--anew"]);
    assert_eq!(
        (begun.code, &begun.json()["taken"]),
        (0, &true.into()),
        "{begun:?}"
    );
    assert!(
        cluster
            .processes()
            .iter()
            .all(|process| !before.contains(process))
    );

    let name = cluster.name();
    let described = cluster.run(["describe", &name]);
    assert!(described.out.contains("webedge.yaml"), "{described:?}");
    let changes = cluster
        .run(["get", "changes", &name, "--output", "json"])
        .json();
    let kinds: Vec<&str> = (changes.as_array().unwrap().iter())
        .filter_map(|change| change["kind"].as_str())
        .collect();
    for kind in ["applied", "share_ready", "switch_runs"] {
        assert!(kinds.contains(&kind), "{kind} is not among {kinds:?}");
    }
    end(&cluster);
}

/// Neither the coordinator nor an agent is needed by what runs, nor for a fail-over: killed, they take
/// nothing along, and go on where they were.
#[test]
fn a_killed_coordinator_and_killed_agents_disturb_nothing() {
    let mut cluster = Coordinated::new(2);
    let file = cluster.composition(INPUT, "");
    let applied = cluster.run(["apply", &file, "--quiet"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let shares = cluster.processes();
    let socket = cluster
        .folder
        .path(&format!("run/weir/{}.sock", cluster.name()));
    let runtimes = |cluster: &Coordinated| {
        let ran = cluster.run(["get", "runtimes", &socket, "--output", "json"]);
        (ran.code == 0).then(|| ran.json())
    };
    cluster.kill_coordinator();
    for host in HOSTS {
        cluster.kill_agent(host);
    }
    // A runtime dies meanwhile: its flows go on at their replicas, and another one takes its place.
    let victim = wait_for("units", || {
        let all = runtimes(&cluster)?;
        let settled = all
            .as_array()?
            .iter()
            .all(|runtime| runtime["units"].as_u64() > Some(0) && runtime["unprotected"] == 0);
        settled.then(|| number(&all, "/1/process"))
    });
    signal(victim as u32, Signal::KILL);
    wait_for("a successor", || {
        let all = runtimes(&cluster)?;
        let second = &all[1];
        let process = second["process"].as_u64()?;
        (second["state"] == "ready" && process != victim && second["died"] == 1).then_some(())
    });
    // The agents find their shares, also without a coordinator.
    for host in HOSTS {
        cluster.start_agent(host);
    }
    wait_for("agents", || {
        let adopted = |host: &&str| cluster.said(&format!("{host}.log")).contains("goes on");
        HOSTS.iter().all(adopted).then_some(())
    });
    cluster.start_coordinator();
    cluster.wait_until("ready");
    assert_eq!(cluster.processes(), shares);
    nothing_is_lost(&cluster);
    // Whoever adopts a share looks after it: one that dies starts again, and one that is not wanted ends.
    signal(shares[2] as u32, Signal::KILL);
    wait_for("another share", || {
        let stands = cluster.stands()?;
        let third = &stands["hosts"][2];
        let process = third["process"].as_u64()?;
        (third["state"] == "ready" && process != shares[2]).then_some(())
    });
    end(&cluster);
}

/// A host that was away gets what has changed meanwhile.
#[test]
fn a_host_that_was_away_catches_up() {
    let mut cluster = Coordinated::new(3);
    let file = cluster.composition(INPUT, "");
    assert_eq!(cluster.run(["apply", &file, "--quiet"]).code, 0);
    cluster.kill_agent("gamma");
    let degraded = cluster.wait_until("degraded");
    assert_eq!(degraded["why"], "host gamma is not connected");
    let chain = cluster.folder.path("webedge.yaml");
    let text = std::fs::read_to_string(&chain).unwrap();
    cluster.folder.write(
        "webedge.yaml",
        text.replace("to-port: 53\n", "to-port: 54\n"),
    );
    let applied = cluster.run(["apply", &file, "--quiet", "--timeout", "0"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    // No switch takes files that another host does not have.
    std::thread::sleep(Duration::from_secs(1));
    let waits = cluster.stands().unwrap();
    assert_eq!(
        (number(&waits, "/running"), number(&waits, "/revision")),
        (1, 2)
    );
    cluster.start_agent("gamma");
    let stands = cluster.wait_until("ready");
    assert_eq!(number(&stands, "/running"), 2);
    end(&cluster);
}

/// A coordinator with another store ends nothing that it has not started.
#[test]
fn another_coordinator_ends_nothing() {
    let mut cluster = Coordinated::new(4);
    let file = cluster.composition(INPUT, "");
    assert_eq!(cluster.run(["apply", &file, "--quiet"]).code, 0);
    let shares = cluster.processes();
    cluster.kill_coordinator();
    std::fs::rename(cluster.folder.path("store"), cluster.folder.path("lost")).unwrap();
    cluster.start_coordinator();
    cluster.wait_for_machines(3);
    let applied = cluster.run(["apply", &file, "--quiet", "--timeout", "1"]);
    assert_eq!(applied.code, 1, "{applied:?}");
    wait_for("a refusal", || {
        cluster
            .said("alpha.log")
            .contains("another coordinator")
            .then_some(())
    });
    for process in &shares {
        assert!(std::path::Path::new(&format!("/proc/{process}")).exists());
    }
    cluster.kill_coordinator();
    std::fs::rename(cluster.folder.path("store"), cluster.folder.path("other")).unwrap();
    std::fs::rename(cluster.folder.path("lost"), cluster.folder.path("store")).unwrap();
    cluster.start_coordinator();
    cluster.wait_until("ready");
    assert_eq!(cluster.processes(), shares);
    end(&cluster);
}

/// Roles bound what a certificate may do; who has none, or one of another cluster, is not heard.
#[test]
fn certificates_say_who_may_do_what() {
    let cluster = secured(5, 4780);
    let file = cluster.composition(INPUT, "");
    let name = cluster.name();
    let refused = |who: &str, words: &[&str], why: &str| refused(&cluster, who, words, why);
    let apply = ["apply", &file, "--quiet"];
    for who in ["vi", "alpha"] {
        refused(who, &apply, "it takes the certificate of an operator");
    }
    let applied = cluster.run_as("op", apply);
    assert_eq!(applied.code, 0, "{applied:?}");
    // Instances are asked through it, by their names.
    assert_eq!(cluster.run_as("vi", ["get", "runtimes", &name]).code, 0);
    let delete = ["delete", &name];
    refused(
        "vi",
        &["move", "1", "2", "--instance", &name],
        "of an operator",
    );
    refused("vi", &delete, "of an operator");
    refused(
        "beta",
        &["get", "compositions"],
        "of an operator or a viewer",
    );
    refused("beta", &["stats", &name], "of an operator or a viewer");
    let at = cluster.address();
    let moved = format!("{name}@{at}");
    let moved = ["move", "1", "2", "--count", "3", "--instance", &moved];
    assert_eq!(cluster.run_as("op", moved).code, 0);

    end(&cluster);
}

/// Starts all with certificates.
fn secured(net: u8, port: u16) -> Coordinated {
    let mut cluster = Coordinated::secured(net, port);
    cluster.start_coordinator();
    for host in HOSTS {
        cluster.start_agent(host);
    }
    cluster.wait_for_machines(3);
    cluster
}

#[track_caller]
fn refused(cluster: &Coordinated, who: &str, words: &[&str], why: &str) {
    let ran = cluster.run_as(who, words.iter().copied());
    assert_eq!(ran.code, 1, "{who} {words:?}: {ran:?}");
    assert!(ran.err.contains(why), "{who} {words:?}: {ran:?}");
}

/// Who has no certificate, or one of another cluster, is not heard, and what is no TLS harms nobody.
#[test]
fn strangers_are_not_heard() {
    let cluster = secured(7, 4780);
    let (name, at) = (cluster.name(), cluster.address());
    let end = ["delete", &name];
    // Another cluster's operator, and nobody.
    let (other, evil) = (cluster.folder.path("other-ca"), cluster.folder.path("evil"));
    assert_eq!(
        cluster
            .run(["pki", "init", "other", "--folder", &other])
            .code,
        0
    );
    let issue = [
        "pki", "issue", "operator", "x", "--ca", &other, "--folder", &evil,
    ];
    assert_eq!(cluster.run(issue).code, 0);
    refused(&cluster, "evil", &end, "no coordinator");
    let plain = cluster.run(["delete", &name, "--coordinator", &at]);
    assert!(plain.err.contains("wants a certificate"), "{plain:?}");
    // An agent speaks for its own host alone.
    let (state, own) = (cluster.folder.path("state-2"), cluster.folder.path("alpha"));
    let wrong = [
        "agent",
        "--coordinator",
        &at,
        "--host",
        "beta",
        "--identity",
        &own,
        "--state",
        &state,
    ];
    assert!(
        cluster
            .run(wrong)
            .err
            .contains("no certificate of host `beta`")
    );
    // What is no TLS is cut off, and harms nobody.
    for octets in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 4_096],
        &[22, 3, 1, 255, 255],
    ] {
        let mut peer = TcpStream::connect(&at).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let _ = peer.write_all(octets);
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        assert!(answer.len() < 64, "{answer:?}");
    }
    // New certificates are taken without a restart.
    let (ca, own) = (cluster.folder.path("ca"), cluster.folder.path("c1"));
    let renew = [
        "pki",
        "issue",
        "coordinator",
        "c1",
        "--ca",
        &ca,
        "--folder",
        &own,
    ];
    assert_eq!(cluster.run(renew).code, 0);
    wait_for("new certificates", || {
        cluster
            .said("coordinator.log")
            .contains("new certificates are taken")
            .then_some(())
    });
    refused(&cluster, "op", &end, "there is no composition");
}

/// What becomes of a share while nobody looks on is found by the next agent: another switch runs.
#[test]
fn a_switch_that_takes_over_without_an_agent_is_found() {
    let mut cluster = Coordinated::new(8);
    let file = cluster.composition(INPUT, "standby: beta");
    let applied = cluster.run(["apply", &file, "--quiet"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let stands = wait_for("one that stands by", || {
        let stands = cluster.stands()?;
        let hosts = stands["hosts"].as_array()?;
        hosts
            .iter()
            .any(|host| host["switch"] == "stands by")
            .then_some(stands.clone())
    });
    let (runs, other) = match stands["switch"].as_str().unwrap() {
        "alpha" => ("alpha", "beta"),
        _ => ("beta", "alpha"),
    };
    let process = |stands: &serde_json::Value, host: &str| {
        let hosts = stands["hosts"].as_array().unwrap();
        let its = hosts.iter().find(|it| it["host"] == host).unwrap();
        its["process"].as_u64().unwrap()
    };
    for host in HOSTS {
        cluster.kill_agent(host);
    }
    signal(process(&stands, runs) as u32, Signal::KILL);
    let socket = cluster
        .folder
        .path(&format!("run/weir/{}.sock", cluster.name()));
    wait_for("the other switch", || {
        let ran = cluster.run(["get", "hosts", &socket, "--output", "json"]);
        let hosts = (ran.code == 0).then(|| ran.json())?;
        let its = hosts
            .as_array()?
            .iter()
            .find(|it| it["host"] == other)?
            .clone();
        (its["switch"] == "runs").then_some(())
    });
    for host in HOSTS {
        cluster.start_agent(host);
    }
    let stands = wait_for("the other host", || {
        let stands = cluster.wait_until("ready");
        (stands["switch"] == other).then_some(stands)
    });
    assert_eq!(number(&stands, "/running"), 1);
    // With one that stands by, another chain takes a word.
    let chain = cluster.folder.path("webedge.yaml");
    let text = std::fs::read_to_string(&chain).unwrap();
    cluster.folder.write(
        "webedge.yaml",
        text.replace("to-port: 53\n", "to-port: 54\n"),
    );
    let refused = apply_json(&cluster, &file, &[]);
    assert_eq!(
        (refused.code, &refused.json()["takes"]),
        (3, &"anew".into()),
        "{refused:?}"
    );
    let begun = apply_json(&cluster, &file, &["--anew"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    end(&cluster);
}
