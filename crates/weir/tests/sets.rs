//! `weir set`: sets of addresses that change under traffic, in every way of running.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/instance.rs"]
mod instance;
#[path = "support/process.rs"]
mod process;
mod support;

use agents::{Agent, KEY};
use instance::{FLOWS, INPUT, Instance};
use process::{signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, Ran, run};

/// All clients of the generator, and some of them.
const ALL: &str = "10.0.0.0/8";
const SOME: &str = "10.0.0.0/25";

const CUT: &str = "on-reload: drop";

/// A firewall that drops what is of a set, and the counter behind it. TCP that was open before is
/// looked at from both ends.
fn chain(more: &str) -> String {
    chain_of("sets: [{name: blocked, most: 2000}]", more)
}

fn chain_of(sets: &str, more: &str) -> String {
    let rules = "drop from @blocked, drop to @blocked";
    format!("{sets}\nchain: edge\nnfs:\n  - firewall: {{rules: [{rules}], {more}}}\n  - counter\n")
}

fn ask(instance: &Instance, words: &[&str]) -> Ran {
    run([&["set"], words, &["-i", &instance.socket()]].concat())
}

/// Changes a set: the answer.
#[track_caller]
fn set(instance: &Instance, words: &[&str]) -> Value {
    let ran = ask(instance, &[words, &["--output", "json"]].concat());
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
    let answer = ran.json();
    assert!(answer["warnings"].is_null(), "{answer:#}");
    answer
}

#[track_caller]
fn entries(instance: &Instance) -> Vec<String> {
    let answer = set(instance, &["list", "blocked"]);
    let entries = answer["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["prefix"].as_str().unwrap().to_owned())
        .collect()
}

/// Packets that the firewall has let through; those of processes that have died may be gone.
fn passed(instance: &Instance) -> u64 {
    wait_for("counts", || {
        let stats = instance.stats()?;
        let firewall = stats.pointer("/chains/edge/nfs/firewall")?;
        let (all, dropped) = (firewall["packets"].as_u64()?, firewall["dropped"].as_u64()?);
        all.checked_sub(dropped)
    })
}

/// Waits until packets go on, and none passes.
#[track_caller]
fn all_are_dropped(instance: &Instance) {
    // What was on its way is over.
    wait_for("nothing on its way", || {
        let before = (passed(instance), instance.dropped());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let after = (passed(instance), instance.dropped());
        (after.0 == before.0 && after.1 > before.1).then_some(())
    });
}

#[track_caller]
fn all_pass(instance: &Instance) {
    wait_for("nothing dropped", || {
        let before = (passed(instance), instance.dropped());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let after = (passed(instance), instance.dropped());
        (after.1 == before.1 && after.0 > before.0).then_some(())
    });
}

/// All engines judge open flows by what commands make of the set.
fn follows_changes(instance: &Instance) {
    all_pass(instance);
    let answer = set(
        instance,
        &["add", "blocked", ALL, "192.0.2.7", "2001:db8::/32"],
    );
    assert_eq!(
        (&answer["added"], &answer["entries"]),
        (&3.into(), &3.into()),
        "{answer:#}"
    );
    all_are_dropped(instance);
    instance.counts("cut", FLOWS);
    assert_eq!(instance.flows(), Some(FLOWS));
    assert_eq!(entries(instance), [ALL, "192.0.2.7", "2001:db8::/32"]);

    let answer = set(instance, &["remove", "blocked", ALL, "192.0.2.8"]);
    assert_eq!(
        (&answer["removed"], &answer["absent"]),
        (&1.into(), &1.into())
    );
    all_pass(instance);
    set(instance, &["add", "blocked", "0.0.0.0/0"]);
    all_are_dropped(instance);
    let answer = set(instance, &["flush", "blocked"]);
    assert_eq!(
        (&answer["removed"], &answer["entries"]),
        (&3.into(), &0.into())
    );
    all_pass(instance);
    // The clients one by one, which are no prefix.
    let hosts: String = (0..2_000)
        .map(|n| format!("10.0.{}.{}\n", n / 250, n % 250))
        .collect();
    let file = instance
        .folder
        .write("hosts.txt", format!("# clients\n{hosts}"));
    set(instance, &["add", "blocked", "--file", &file]);
    wait_for("flows of some", || {
        (instance.firewall("counters/cut") > 2 * FLOWS).then_some(())
    });
    set(instance, &["flush", "blocked"]);
    all_pass(instance);
}

#[test]
fn one_thread_follows() {
    follows_changes(&Instance::run(&chain(CUT), &[]));
}

#[test]
fn workers_follow() {
    follows_changes(&Instance::run(&chain(CUT), &["--workers", "2"]));
}

#[test]
fn stages_on_threads_follow() {
    follows_changes(&Instance::run(&chain(CUT), &["--plan", "pipeline"]));
}

/// The firewall's stage is a process.
#[test]
fn stages_in_processes_follow_and_so_do_their_successors() {
    let text = chain(CUT).replace("nfs:\n", "nfs:\n  - monitor\n");
    let instance = Instance::run(&text, &["--plan", "pipeline", "--processes"]);
    follows_changes(&instance);
    set(&instance, &["add", "blocked", ALL]);
    all_are_dropped(&instance);
    let was = passed(&instance);
    let stages = process::children(instance.child.id());
    for stage in &stages {
        signal(*stage, Signal::KILL);
    }
    wait_for("successors", || {
        let now = process::children(instance.child.id());
        (now.len() == stages.len() && now.is_disjoint(&stages)).then_some(())
    });
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
}

#[test]
fn runtimes_on_threads_follow() {
    let more = ["--runtimes", "2", "--most-runtimes", "3"];
    let instance = Instance::run(&chain(CUT), &more);
    follows_changes(&instance);
    set(&instance, &["add", "blocked", ALL]);
    all_are_dropped(&instance);
    later_ones_too(&instance);
}

/// A runtime that starts now has what is in the set.
fn later_ones_too(instance: &Instance) {
    instance.do_it(&["scale", "3"]);
    let ready = instance.runtimes();
    let was = passed(instance);
    let to = ready[2].1.to_string();
    instance.do_it(&["move", &ready[0].1.to_string(), &to]);
    all_are_dropped(instance);
    assert_eq!(passed(instance), was, "a moved flow was let through");
}

/// The runtimes once a place has another one than `id`.
fn after(instance: &Instance, place: u64, id: u64) -> Vec<(u64, u64, u32)> {
    wait_for("a successor", || {
        let ready = instance.runtimes();
        let is_there = ready.iter().any(|at| at.0 == place && at.1 != id);
        is_there.then_some(ready)
    })
}

#[test]
fn runtimes_in_processes_follow_and_so_do_their_successors() {
    let more = ["--runtimes", "2", "--most-runtimes", "3", "--processes"];
    let instance = Instance::run(&chain(CUT), &more);
    follows_changes(&instance);
    set(&instance, &["add", "blocked", ALL]);
    all_are_dropped(&instance);
    let was = passed(&instance);
    for round in 0..2 {
        // Without a replica a successor knows no flow: each is new to it.
        let (place, id, process) = instance.runtimes()[round];
        signal(process, Signal::KILL);
        after(&instance, place, id);
        wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
    }
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
    later_ones_too(&instance);
}

/// A host that is started by an agent with files of its own.
#[test]
fn runtimes_on_hosts_follow() {
    let folder = Folder::new();
    let path = folder.write("chain.yaml", chain(CUT));
    let there = folder.write("there.yaml", chain(CUT));
    let key = agents::key(&folder, "key", KEY);
    let agent = Agent::start(&there, "127.0.7.29:0", &key, &[]);
    let hosts = format!("local,{}", agent.at);
    let args = ["run", &path, "--in", INPUT, "--quiet", "--runtimes", "2"];
    let more = ["--hosts", &hosts, "--key", &key, "--heartbeat", "500"];
    let instance = Instance::start(folder, &[&args[..], &more[..]].concat());
    follows_changes(&instance);
    set(&instance, &["add", "blocked", ALL]);
    all_are_dropped(&instance);
    let was = passed(&instance);
    let (place, id, process) = instance.runtimes()[1];
    signal(process, Signal::KILL);
    after(&instance, place, id);
    wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
}

#[test]
fn a_cluster_follows_and_so_does_its_next_switch() {
    let instance = Instance::up(&chain(CUT));
    follows_changes(&instance);
    set(&instance, &["add", "blocked", ALL]);
    set(
        &instance,
        &["add", "blocked", "192.0.2.9", "--timeout", "1h"],
    );
    all_are_dropped(&instance);
    let was = passed(&instance);

    let before = instance.runtimes();
    signal(before[0].2, Signal::KILL);
    let taken = wait_for("the next switch", || {
        let ready = run(["get", "runtimes", &instance.socket(), "--output", "json"]);
        let ready = (ready.code == 0).then(|| instance.runtimes())?;
        (ready.len() == 3 && ready[0].2 != before[0].2).then_some(ready)
    });
    // Those on the other hosts have outlived it.
    assert_eq!(taken[1..], before[1..]);
    wait_for("the flows", || (instance.flows()? == FLOWS).then_some(()));
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
    assert_eq!(entries(&instance), [ALL, "192.0.2.9"]);
    let listed = set(&instance, &["list", "blocked"]);
    let left = listed["entries"][1]["expires_s"].as_f64().unwrap();
    assert!((3_000.0..3_600.0).contains(&left), "{left}");

    // It follows what comes now, and so does a successor.
    set(&instance, &["flush", "blocked"]);
    all_pass(&instance);
    set(&instance, &["add", "blocked", ALL]);
    all_are_dropped(&instance);
    let was = passed(&instance);
    let (place, id, process) = taken[2];
    signal(process, Signal::KILL);
    after(&instance, place, id);
    wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
}

#[test]
fn open_flows_go_on_unless_the_file_says_otherwise() {
    let instance = Instance::run(&chain(""), &["--runtimes", "2", "--processes"]);
    set(&instance, &["add", "blocked", ALL]);
    let was = passed(&instance);
    wait_for("packets", || {
        (passed(&instance) > was + 10_000).then_some(())
    });
    assert_eq!(
        (instance.dropped(), instance.firewall("counters/renewed")),
        (0, 0)
    );
    // New ones are judged by it.
    instance.do_it(&["flows", "end", "all"]);
    all_are_dropped(&instance);
    // Those that are refused look again at once.
    set(&instance, &["flush", "blocked"]);
    all_pass(&instance);
}

#[test]
fn entries_go_when_their_time_is_over() {
    let sets = "sets: [{name: blocked, timeout: 2s, entries: 192.0.2.0/24}]";
    let more = ["--runtimes", "2", "--processes"];
    let instance = Instance::run(&chain_of(sets, CUT), &more);
    set(&instance, &["add", "blocked", ALL]);
    set(
        &instance,
        &["add", "blocked", "192.0.2.1", "--timeout", "never"],
    );
    set(&instance, &["add", "blocked", "192.0.2.0/24"]);
    all_are_dropped(&instance);
    all_pass(&instance);
    // The file has one of those whose time is over.
    assert_eq!(entries(&instance), ["192.0.2.0/24", "192.0.2.1"]);
    let sets = set_list(&instance);
    assert_eq!(
        (&sets["expired"], &sets["timed"]),
        (&2.into(), &0.into()),
        "{sets:#}"
    );
    // One that is added again stays longer.
    set(&instance, &["add", "blocked", ALL, "--timeout", "1s"]);
    let answer = set(&instance, &["add", "blocked", ALL, "--timeout", "1h"]);
    assert_eq!(answer["known"], 1);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    all_are_dropped(&instance);
}

fn set_list(instance: &Instance) -> Value {
    let ran = ask(instance, &["list", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.json()[0].clone()
}

#[test]
fn what_can_not_be_is_refused_and_changes_nothing() {
    let sets = "sets: [{name: blocked, most: 3}]";
    let instance = Instance::run(&chain_of(sets, CUT), &[]);
    let refused = |words: &[&str], code: i32, part: &str| {
        let ran = ask(&instance, words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{words:?}: {}", ran.err);
    };
    refused(
        &["add", "blocekd", "192.0.2.7"],
        1,
        "the chain file has blocked",
    );
    refused(&["list", "blocekd"], 1, "the chain file has blocked");
    refused(&["add", "blocked", "192.0.2.7/8"], 2, "write `192.0.0.0/8`");
    refused(&["add", "blocked", "nonsense"], 2, "is not a prefix");
    refused(&["add", "blocked"], 2, "<ENTRY>");
    refused(&["add", "blocked", "::1", "--timeout", "soon"], 2, "soon");
    let file = instance
        .folder
        .write("some.txt", "192.0.2.1\n192.0.2.2 # fine\n\n192.0.2.300\n");
    refused(
        &["add", "blocked", "--file", &file],
        2,
        "some.txt:4: `192.0.2.300`",
    );
    refused(
        &["add", "blocked", "--file", "nowhere.txt"],
        1,
        "nowhere.txt",
    );
    set(&instance, &["add", "blocked", "192.0.2.1", "192.0.2.2"]);
    refused(
        &["add", "blocked", "192.0.2.3", "192.0.2.4"],
        1,
        "may have 3",
    );
    set(&instance, &["add", "blocked", "192.0.2.1", "192.0.2.3"]);
    assert_eq!(entries(&instance), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    assert_eq!(set_list(&instance)["refused"], 2);
}

#[test]
fn a_reload_keeps_what_commands_have_said() {
    let text = |most: u32| {
        chain_of(
            &format!("sets: [{{name: blocked, file: blocked.txt, most: {most}}}]"),
            CUT,
        )
    };
    let folder = Folder::new();
    let path = folder.write("chain.yaml", text(6));
    folder.write("blocked.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n");
    let args = [
        "run",
        &path,
        "--in",
        INPUT,
        "--quiet",
        "--runtimes",
        "2",
        "--processes",
    ];
    let instance = Instance::start(folder, &args);
    set(&instance, &["add", "blocked", "192.0.2.9", "192.0.2.2"]);
    set(&instance, &["remove", "blocked", "192.0.2.1"]);
    // The file loses two entries, and gets one.
    let new = format!("192.0.2.1\n{ALL}\n");
    instance.folder.write("blocked.txt", new);
    let (_, would) = instance.asked("diff", &[]);
    assert_eq!(
        (&would["sets"][0]["added"], &would["sets"][0]["removed"]),
        (&1.into(), &2.into()),
        "{would:#}"
    );
    assert_eq!(entries(&instance), ["192.0.2.2", "192.0.2.3", "192.0.2.9"]);
    let taken = instance.reload();
    assert_eq!(taken["taken"], true, "{taken:#}");
    assert_eq!(entries(&instance), [ALL, "192.0.2.2", "192.0.2.9"]);
    all_are_dropped(&instance);
    assert_eq!(instance.reload()["sets"].as_array().map(Vec::len), Some(0));
    // A successor has all of it.
    let was = passed(&instance);
    let (place, id, process) = instance.runtimes()[0];
    signal(process, Signal::KILL);
    after(&instance, place, id);
    wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
    all_are_dropped(&instance);
    assert!(passed(&instance) <= was, "a flow was let through");
    // More than there may be.
    let many: String = (0..6).map(|n| format!("198.51.100.{n}\n")).collect();
    instance.folder.write("blocked.txt", many);
    let (code, answer) = instance.asked("reload", &[]);
    assert_eq!(code, 3);
    assert!(
        answer["refused"].to_string().contains("may have 6"),
        "{answer:#}"
    );
    // A set of another size is another set.
    instance.folder.write("blocked.txt", "192.0.2.1\n");
    instance.put(text(7));
    let (code, answer) = instance.asked("reload", &[]);
    assert_eq!(code, 3);
    assert!(
        answer["refused"].to_string().contains("restart"),
        "{answer:#}"
    );
}

/// What a stage looks into that takes no commands is what it was.
#[test]
fn a_set_of_a_stage_that_is_not_trusted_can_not_change() {
    let text = "sets: [{name: blocked}, {name: free}]\nchain: edge\nplan: {mode: pipeline, untrusted: firewall}\n\
                nfs:\n  - counter\n  - firewall: {rules: [drop from @blocked]}\n";
    let folder = Folder::new();
    let path = folder.write("chain.yaml", text);
    let checked = run(["check", &path]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let instance = Instance::start(folder, &["run", &path, "--in", INPUT, "--quiet"]);
    let ran = ask(&instance, &["add", "blocked", ALL]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("not trusted"), "{}", ran.err);
    assert_eq!(set(&instance, &["add", "free", SOME])["added"], 1);
}
