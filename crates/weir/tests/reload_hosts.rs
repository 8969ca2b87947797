//! A changed chain file in processes and on hosts that die meanwhile: what starts again has the texts
//! that run, and what lives goes on.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/instance.rs"]
mod instance;
#[path = "support/process.rs"]
mod process;
mod support;

use agents::{Agent, KEY};
use instance::{FLOWS, INPUT, Instance, chain, passed};
use process::{signal, wait_for};
use rustix::process::Signal;
use support::{Folder, run};

const CUT: &str = "on-reload: drop";

/// The runtimes once a place has another one than `id`.
fn after(instance: &Instance, place: u64, id: u64) -> Vec<(u64, u64, u32)> {
    wait_for("a successor", || {
        let ready = instance.runtimes();
        let is_there = ready.iter().any(|at| at.0 == place && at.1 != id);
        is_there.then_some(ready)
    })
}

#[test]
fn a_file_that_was_edited_and_not_reloaded_is_not_in_force() {
    let more = [
        "--runtimes",
        "2",
        "--processes",
        "--replication",
        "each-burst",
    ];
    let instance = Instance::run(&chain("accept tcp", ""), &more);
    for (text, round) in [(chain("drop tcp", CUT), 0), ("nonsense: [".to_owned(), 1)] {
        instance.put(text);
        let (place, id, process) = instance.runtimes()[round];
        signal(process, Signal::KILL);
        after(&instance, place, id);
        wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
        assert_eq!(instance.dropped(), 0);
    }
    // Once it is reloaded it is, for those as well.
    instance.put(chain("drop tcp", CUT));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(2));
    instance.counts("cut", FLOWS);
}

#[test]
fn a_file_goes_forth_and_back() {
    let more = ["--runtimes", "2", "--processes"];
    let instance = Instance::run(&chain("accept tcp", CUT), &more);
    for (round, rules) in ["drop tcp", "accept tcp", "drop tcp"]
        .into_iter()
        .enumerate()
    {
        instance.put(chain(rules, CUT));
        assert_eq!(instance.reload()["engines"].as_u64(), Some(2), "{rules}");
        let (was, dropped) = (passed(&instance), instance.dropped());
        let moves_on = || match round % 2 {
            0 => instance.dropped() > dropped + 1_000,
            _ => passed(&instance) > was + 1_000,
        };
        wait_for(rules, || moves_on().then_some(()));
    }
}

/// Rules in a file of their own, read by each process.
#[test]
fn processes_read_changed_texts() {
    let folder = Folder::new();
    let rules = |sids: std::ops::Range<u32>| -> String {
        let rule = |sid| {
            format!("alert tcp any any -> any any (msg:\"m\"; content:\"GET\"; sid:{sid};)\n")
        };
        sids.map(rule).collect()
    };
    folder.write("local.rules", rules(1..2));
    let path = folder.write(
        "chain.yaml",
        "chain: edge\nnfs:\n  - ids: {rule-files: [local.rules]}\n",
    );
    let input = "gen:flows=300,packets=100000000000,proto=tcp,payload=http,both=yes";
    let args = [
        "run",
        &path,
        "--in",
        input,
        "--quiet",
        "--runtimes",
        "2",
        "--processes",
    ];
    let instance = Instance::start(folder, &args);
    // More rules than there were: what an engine works in grows with them.
    instance.folder.write("local.rules", rules(10..60));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(2));
    wait_for("an alert of the last new rule", || {
        instance.has_alerted(59).then_some(())
    });
    assert_eq!(instance.flows(), Some(FLOWS));
}

#[test]
fn hosts_whose_files_say_something_else_refuse_and_nothing_changes() {
    let folder = Folder::new();
    let path = folder.write("chain.yaml", chain("accept tcp", ""));
    let there = folder.write("there.yaml", chain("accept tcp", ""));
    let key = agents::key(&folder, "key", KEY);
    let agent = Agent::start(&there, "127.0.7.9:0", &key, &[]);
    let hosts = format!("local,{}", agent.at);
    let args = [
        "run",
        &path,
        "--in",
        INPUT,
        "--quiet",
        "--runtimes",
        "2",
        "--hosts",
        &hosts,
        "--key",
        &key,
    ];
    let instance = Instance::start(folder, &[&args[..], &["--heartbeat", "500"]].concat());
    let refused = |what: &str| {
        let (code, answer) = instance.asked(what, &[]);
        assert_eq!(code, 3, "{answer:#}");
        let why = answer["refused"].to_string();
        assert!(
            why.contains("runtime 2") && why.contains("another one"),
            "{why}"
        );
    };
    instance.put(chain("drop tcp", CUT));
    refused("diff");
    refused("reload");
    assert_eq!((instance.flows(), instance.dropped()), (Some(FLOWS), 0));
    instance.folder.write("there.yaml", chain("drop tcp", CUT));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(2));
    instance.counts("cut", FLOWS);
    // One that has changed there alone is told of as well.
    instance.folder.write("there.yaml", chain("drop udp", CUT));
    refused("reload");
}

#[test]
fn runtimes_of_hosts_outlive_the_switch_and_their_successors_have_the_file() {
    let instance = Instance::up(&chain("accept tcp", ""));
    instance.put(chain("drop tcp", CUT));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(3));
    instance.counts("cut", FLOWS);
    // Edited, and not in force.
    instance.put("nonsense: [");

    let before = instance.runtimes();
    signal(before[0].2, Signal::KILL);
    let taken = wait_for("the next switch", || {
        let ready = run(["get", "runtimes", &instance.socket(), "--output", "json"]);
        let ready = (ready.code == 0).then(|| instance.runtimes())?;
        (ready.len() == 3 && ready[0].2 != before[0].2).then_some(ready)
    });
    // Those on the other hosts are the same, with their states.
    assert_eq!(taken[1..], before[1..]);
    wait_for("the flows", || (instance.flows()? == FLOWS).then_some(()));
    let dropped = instance.dropped();
    wait_for("packets", || {
        (instance.dropped() > dropped + 1_000).then_some(())
    });

    let was = passed(&instance);
    let (place, id, process) = taken[2];
    signal(process, Signal::KILL);
    after(&instance, place, id);
    wait_for("its flows", || (instance.flows()? == FLOWS).then_some(()));
    // What the dead one had counted may be gone.
    assert!(passed(&instance) <= was, "a flow was let through");
    instance.put(chain("drop icmp, drop tcp", CUT));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(3));
}
