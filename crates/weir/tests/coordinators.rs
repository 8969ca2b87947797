//! Several coordinators with a real etcd: the one that leads is killed and stopped, and loses its etcd,
//! and what runs does not notice.

#[path = "support/coordinated.rs"]
mod coordinated;
#[path = "../../coordinator/tests/support/etcd.rs"]
mod etcd;
#[path = "support/process.rs"]
mod process;
mod support;

use coordinated::{Coordinated, HOSTS};
use etcd::Members;
use process::wait_for;
use rustix::process::Signal;
use support::number;

/// More packets than a test lasts: the generator does not wait.
const INPUT: &str = "gen:flows=60,packets=1G,proto=tcp,payload=http,both=yes";

/// Coordinators with one etcd of three members, and agents; the composition runs.
fn started(net: u8, port: u16) -> (Members, Coordinated, String) {
    let members = Members::start(3);
    let names = members.names().join(",");
    let mut cluster = Coordinated::several(net, port, 3, Some(names));
    for number in 1..=3 {
        cluster.start_one(number);
    }
    for host in HOSTS {
        cluster.start_agent(host);
    }
    cluster.wait_for_machines(HOSTS.len());
    let file = cluster.composition(INPUT, "");
    let applied = cluster.run_as("op", ["apply", &file, "--quiet"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    (members, cluster, file)
}

/// What a coordinator has said.
fn said(cluster: &Coordinated, number: u16) -> String {
    cluster.said(&match number {
        1 => "coordinator.log".to_owned(),
        _ => format!("coordinator{number}.log"),
    })
}

/// The coordinators whose last word is that they lead.
fn leaders(cluster: &Coordinated) -> Vec<u16> {
    let leads = |number: &u16| {
        let said = said(cluster, *number);
        let words = said.lines().rev();
        let mut words = words.filter(|line| {
            ["coordinator on", "leads no longer", "stands by"]
                .iter()
                .any(|word| line.contains(word))
        });
        words
            .next()
            .is_some_and(|line| line.contains("coordinator on"))
    };
    (1..=3).filter(leads).collect()
}

/// Changes the port of a rule, and applies it: a reload under traffic.
#[track_caller]
fn reload(cluster: &Coordinated, file: &str, port: u16) {
    let chain = cluster.folder.path("webedge.yaml");
    let text = std::fs::read_to_string(&chain).unwrap();
    let lines = text.lines().map(|line| match line.split_once("to-port: ") {
        Some((before, _)) => format!("{before}to-port: {port}\n"),
        None => format!("{line}\n"),
    });
    cluster
        .folder
        .write("webedge.yaml", lines.collect::<String>());
    let ran = cluster.run_as("op", ["apply", file, "--quiet", "--output", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["takes"], "reload", "{ran:?}");
}

/// Nothing was started anew, and no packet was lost.
#[track_caller]
fn undisturbed(cluster: &Coordinated, processes: &[u64]) {
    assert_eq!(cluster.processes(), processes);
    let stats = cluster.stats();
    for switch in stats["switches"].as_array().unwrap() {
        assert_eq!(number(switch, "/lost"), 0, "{switch}");
    }
    let drops = &stats["chains"]["webedge"]["drops"];
    assert!(!drops.to_string().contains("owner_lost"), "{drops}");
}

#[test]
fn another_one_leads_when_the_leader_is_killed() {
    let (mut members, mut cluster, file) = started(11, 4810);
    let processes = cluster.processes();
    let leader = leaders(&cluster)[0];
    for number in (1..=3).filter(|number| *number != leader) {
        let said = said(&cluster, number);
        assert!(
            said.contains(&format!("stands by: c{leader} at ")),
            "{said}"
        );
    }
    let get = ["get", "coordinators", "--output", "json"];
    let listed = cluster.run_as("op", get);
    assert_eq!(listed.code, 0, "{listed:?}");
    for (it, number) in listed.json().as_array().unwrap().iter().zip(1..) {
        assert_eq!(it["state"] == "leads", number == leader, "{it}");
    }
    cluster.kill_one(leader);
    let next = wait_for("another leader", || {
        leaders(&cluster).into_iter().find(|next| *next != leader)
    });
    cluster.wait_for_machines(HOSTS.len());
    cluster.wait_until("ready");
    reload(&cluster, &file, 5353);
    // The one that was killed comes back, and stands by; one that is told to end makes room at once.
    cluster.start_one(leader);
    wait_for("one that stands by", || {
        said(&cluster, leader).contains("stands by").then_some(())
    });
    cluster.signal_one(next, Signal::TERM);
    wait_for("a third leader", || {
        leaders(&cluster).into_iter().find(|it| *it != next)
    });
    // So does a member of etcd.
    let member = wait_for("the leader of etcd", || members.leader());
    members.kill(member);
    cluster.wait_for_machines(HOSTS.len());
    cluster.wait_until("ready");
    reload(&cluster, &file, 5354);
    assert_eq!(number(&cluster.stands().unwrap(), "/revision"), 3);
    undisturbed(&cluster, &processes);
    let name = cluster.name();
    let deleted = cluster.run_as("op", ["delete", &name]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
}

/// One that was stopped for a while believes that it leads when it goes on: it changes nothing.
#[test]
fn one_that_was_stopped_leads_no_longer() {
    let (_members, cluster, file) = started(12, 4820);
    let processes = cluster.processes();
    let leader = leaders(&cluster)[0];
    cluster.signal_one(leader, Signal::STOP);
    wait_for("another leader", || {
        leaders(&cluster).into_iter().find(|next| *next != leader)
    });
    cluster.wait_for_machines(HOSTS.len());
    cluster.wait_until("ready");
    reload(&cluster, &file, 5353);
    cluster.signal_one(leader, Signal::CONT);
    wait_for("one that stands by", || {
        (leaders(&cluster).len() == 1 && !leaders(&cluster).contains(&leader)).then_some(())
    });
    let said = said(&cluster, leader);
    assert!(said.contains("leads no longer"), "{said}");
    cluster.wait_for_machines(HOSTS.len());
    let stands = cluster.wait_until("ready");
    assert_eq!(number(&stands, "/revision"), 2);
    undisturbed(&cluster, &processes);
}

/// Without its etcd nobody leads and nothing can be changed; what runs goes on, and an agent that starts
/// runs what it has.
#[test]
fn without_etcd_what_runs_goes_on() {
    let (mut members, mut cluster, file) = started(13, 4830);
    let processes = cluster.processes();
    for member in 0..3 {
        members.kill(member);
    }
    wait_for("no leader", || leaders(&cluster).is_empty().then_some(()));
    let refused = cluster.run_as("op", ["apply", &file, "--quiet"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("127.7.13.1:4832"), "{refused:?}");
    assert_eq!(cluster.run_as("op", ["get", "coordinators"]).code, 1);
    cluster.kill_agent("beta");
    cluster.start_agent("beta");
    for member in 0..3 {
        members.run(member);
    }
    cluster.wait_for_machines(HOSTS.len());
    cluster.wait_until("ready");
    reload(&cluster, &file, 5353);
    undisturbed(&cluster, &processes);
}
