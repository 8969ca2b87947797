//! `weir diff`, `weir reload` and SIGHUP: a changed chain file under traffic, in every way of
//! running.
//!
//! Where interfaces are needed it needs root; says SKIPPED without.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/bed.rs"]
mod bed;
#[path = "support/instance.rs"]
mod instance;
#[path = "support/network.rs"]
mod network;
mod support;

use agents::{Agent, KEY};
use bed::{Bed, Downloads, Files, Kind};
use instance::{FLOWS, INPUT, Instance, chain, chain_behind, passed};
use network::process::{self, children, signal, wait_for};
use rustix::process::Signal;
use support::dice::Dice;
use support::{Folder, example, number, run, sum};

/// Open flows go on under rules that refuse them; with `on-reload: drop` each is cut, once. So many
/// engines took it.
fn takes_changed_rules(instance: &Instance, engines: u64) {
    takes_rules_of(instance, engines, chain);
}

/// The same in a file that `chain` makes.
fn takes_rules_of(instance: &Instance, engines: u64, chain: fn(&str, &str) -> String) {
    instance.put(chain("drop tcp", ""));
    let (code, would) = instance.asked("diff", &[]);
    assert_eq!(
        (code, would["taken"].as_bool()),
        (0, Some(false)),
        "{would:#}"
    );
    let change = &would["changes"][0];
    assert_eq!(change["function"], "firewall");
    assert_eq!(change["open_flows"].as_u64(), Some(FLOWS));
    let setting = |at: usize, what: &str| change["settings"][at][what].as_str();
    assert_eq!(setting(0, "before"), Some("\"accept tcp\""), "{change:#}");
    assert_eq!(setting(1, "after"), Some("\"drop tcp\""), "{change:#}");
    assert_eq!(
        instance.firewall("counters/renewed"),
        0,
        "diff changes nothing"
    );

    let taken = instance.reload();
    assert_eq!(taken["engines"].as_u64(), Some(engines), "{taken:#}");
    instance.counts("kept", FLOWS);
    assert_eq!((instance.dropped(), instance.flows()), (0, Some(FLOWS)));
    assert!(
        instance.reload()["changes"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );

    instance.put(chain("drop udp, drop tcp", "on-reload: drop"));
    instance.reload();
    instance.counts("cut", FLOWS);
    assert_eq!(instance.flows(), Some(FLOWS));
    assert!(instance.dropped() > 0);
}

#[test]
fn one_thread_takes_a_changed_file() {
    takes_changed_rules(&Instance::run(&chain("accept tcp", ""), &[]), 1);
}

#[test]
fn workers_take_a_changed_file() {
    let more = ["--workers", "2"];
    takes_changed_rules(&Instance::run(&chain("accept tcp", ""), &more), 2);
}

#[test]
fn the_stages_of_a_plan_take_a_changed_file() {
    let more = ["--plan", "pipeline"];
    takes_changed_rules(&Instance::run(&chain("accept tcp", ""), &more), 1);
}

/// Runtimes that start later, and successors of dead ones, run by the file as well: flows that are
/// moved there stay cut, and nothing is looked up again.
fn later_runtimes_too(instance: &Instance) {
    instance.do_it(&["scale", "3"]);
    let ready = instance.runtimes();
    let (first, last) = (ready[0], ready[2]);
    wait_for("the switch has nothing on its way", || {
        let (before, after) = (passed(instance), passed(instance));
        (before == after).then_some(())
    });
    let was = passed(instance);
    let to = last.1.to_string();
    instance.do_it(&["move", &first.1.to_string(), &to]);
    let dropped = instance.dropped();
    wait_for("packets of the flows", || {
        (instance.dropped() > dropped + 10_000).then_some(())
    });
    assert_eq!(passed(instance), was, "a moved flow was let through");
    instance.counts("cut", FLOWS);
}

#[test]
fn runtimes_on_threads_take_a_changed_file() {
    let more = ["--runtimes", "2", "--most-runtimes", "3"];
    let instance = Instance::run(&chain("accept tcp", ""), &more);
    takes_changed_rules(&instance, 2);
    later_runtimes_too(&instance);
}

#[test]
fn runtimes_in_processes_take_a_changed_file() {
    let more = [
        "--runtimes",
        "2",
        "--most-runtimes",
        "3",
        "--processes",
        "--replication",
        "each-burst",
    ];
    let instance = Instance::run(&chain("accept tcp", ""), &more);
    takes_changed_rules(&instance, 2);
    let was = passed(&instance);
    let (place, id, process) = instance.runtimes()[1];
    signal(process, Signal::KILL);
    wait_for("a successor", || {
        let mut ready = instance.runtimes().into_iter();
        ready
            .any(|(at, now, _)| at == place && now != id)
            .then_some(())
    });
    // A flow that goes over is with neither for a moment.
    wait_for("its flows, at their replicas", || {
        (instance.flows()? == FLOWS).then_some(())
    });
    assert_eq!(passed(&instance), was, "a flow was let through");
    later_runtimes_too(&instance);
}

#[test]
fn a_process_whose_file_is_another_one_refuses_and_nothing_changes() {
    let more = ["--runtimes", "1", "--processes"];
    let instance = Instance::run(&chain("accept tcp", ""), &more);
    let socket = instance.socket();
    let other = instance.folder.write("other.yaml", chain("drop tcp", ""));
    // What would change is told of any file; only the own one is taken.
    let ran = run(["diff", &other, "-i", &socket]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("+ rules[0]: \"drop tcp\""), "{}", ran.out);
    assert!(
        instance.reload()["changes"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}

#[test]
fn runtimes_on_hosts_take_a_changed_file_and_so_does_the_next_switch() {
    let instance = Instance::up(&chain("accept tcp", ""));
    takes_changed_rules(&instance, 3);
    let was = passed(&instance);
    let switch = instance.runtimes()[0].2;
    signal(switch, Signal::KILL);
    wait_for("the next switch", || {
        let ready = run(["get", "runtimes", &instance.socket(), "--output", "json"]);
        let ready = (ready.code == 0).then(|| instance.runtimes())?;
        (ready.len() == 3 && ready.iter().all(|at| at.2 != switch)).then_some(())
    });
    wait_for("the flows", || (instance.flows()? == FLOWS).then_some(()));
    // Its counters begin anew; the runtimes that it has taken over go on by the file.
    instance.do_it(&["scale", "4"]);
    let dropped = instance.dropped();
    wait_for("packets", || {
        (instance.dropped() > dropped + 1_000).then_some(())
    });
    assert!(passed(&instance) <= was, "a flow was let through");
    instance.put(chain("drop udp, drop icmp, drop tcp", "on-reload: drop"));
    assert_eq!(instance.reload()["engines"].as_u64(), Some(4));
}

const BEFORE: &str = "chain: edge\nmatch: [{protocol: tcp}]\nnfs:\n  - firewall: {rules: [accept tcp]}\n  \
                  - nat44: {pool: 192.0.2.1}\n  - counter\n";

/// Files that differ from [`BEFORE`], with what is said of each and where.
fn refusals() -> Vec<(String, &'static str, &'static str)> {
    let changed = |from: &str, to: &str| {
        assert!(BEFORE.contains(from), "{from}");
        BEFORE.replace(from, to)
    };
    let restart = "takes a restart";
    vec![
        (changed("- counter", "- nop"), restart, "functions"),
        (changed("  - counter\n", ""), restart, "functions"),
        (changed("chain: edge", "chain: other"), restart, "chains"),
        (
            changed("protocol: tcp", "protocol: udp"),
            restart,
            "`match`",
        ),
        (
            changed("nfs:", "flows: {max: 1000}\nnfs:"),
            restart,
            "`flows`",
        ),
        (
            changed("nfs:", "network: {mode: tap}\nnfs:"),
            restart,
            "`network`",
        ),
        (changed("192.0.2.1", "192.0.2.2"), restart, "`nat44`"),
        (
            changed(
                "192.0.2.1",
                "192.0.2.1, mapping: address-and-port-dependent",
            ),
            restart,
            "`nat44`",
        ),
        (changed("accept tcp", "acept tcp"), "a rule begins", ":4:"),
        (changed("nfs:", "nfs"), "error", "chain.yaml:"),
        (
            changed("- counter", "- conter"),
            "no function `conter`",
            ":6:",
        ),
        (String::new(), "no chain", "chain.yaml"),
    ]
}

#[test]
fn what_takes_a_restart_is_refused_and_leaves_all_as_it_was() {
    let instance = Instance::run(BEFORE, &[]);
    for (after, part, place) in refusals() {
        instance.put(&after);
        for what in ["diff", "reload"] {
            let (code, answer) = instance.asked(what, &[]);
            assert_eq!(code, 3, "{after}: {answer:#}");
            let why = format!("{} {}", answer["wrong"], answer["refused"]);
            assert!(why.contains(part) && why.contains(place), "{after}: {why}");
            assert_eq!(answer["taken"], false);
            let ran = run([what, "-i", &instance.socket()]);
            assert!(ran.code == 3 && ran.err.contains(part), "{}", ran.err);
        }
    }
    std::fs::remove_file(instance.folder.path("chain.yaml")).unwrap();
    let (code, answer) = instance.asked("reload", &[]);
    assert!(
        code == 3 && answer["wrong"].to_string().contains("can't read"),
        "{answer:#}"
    );
    instance.put(BEFORE);
    assert!(
        instance.reload()["changes"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    assert_eq!(instance.flows(), Some(FLOWS));
    assert_eq!(instance.firewall("counters/renewed"), 0);
}

#[test]
fn stages_in_processes_take_a_changed_file_and_so_do_their_successors() {
    let more = ["--plan", "pipeline", "--processes"];
    let instance = Instance::run(&chain_behind("accept tcp", ""), &more);
    takes_rules_of(&instance, 1, chain_behind);
    let stages = children(instance.child.id());
    let stage = *stages.first().expect("the firewall's");
    signal(stage, Signal::KILL);
    wait_for("a successor", || {
        let now = children(instance.child.id());
        (!now.is_empty() && !now.contains(&stage)).then_some(())
    });
    // All states of the stage are lost with it, and new flows are judged by the file.
    let dropped = instance.dropped();
    wait_for("packets", || {
        (instance.dropped() > dropped + 1_000).then_some(())
    });
    assert!(
        instance.reload()["changes"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}

#[test]
fn a_stage_that_is_not_trusted_takes_no_other_settings() {
    let plan = "plan: {mode: pipeline, untrusted: firewall}\n";
    let instance = Instance::run(&(chain_behind("accept tcp", "") + plan), &[]);
    instance.put(chain_behind("drop tcp", "") + plan);
    let (code, answer) = instance.asked("reload", &[]);
    assert_eq!(code, 3, "{answer:#}");
    assert!(
        answer["refused"].to_string().contains("not trusted"),
        "{answer:#}"
    );
}

#[test]
fn switches_that_stand_by_take_no_other_file() {
    let folder = Folder::new();
    let path = folder.write("chain.yaml", chain("accept tcp", ""));
    let key = agents::key(&folder, "key", KEY);
    // A host has one vote.
    let agents = [1, 2, 3].map(|host| Agent::start(&path, &format!("127.0.7.{host}:0"), &key, &[]));
    let hosts = agents.each_ref().map(|agent| agent.at.as_str()).join(",");
    let args = [
        "run",
        &path,
        "--in",
        INPUT,
        "--quiet",
        "--runtimes",
        "3",
        "--hosts",
        &hosts,
    ];
    let args = [&args[..], &["--key", &key, "--standby"]].concat();
    let instance = Instance::start(folder, &args);
    let ran = run(["reload", "-i", &instance.socket()]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("stand by"), "{}", ran.err);
}

#[test]
fn a_hangup_reloads_and_says_what_came_of_it() {
    let instance = Instance::run(&chain("accept tcp", ""), &[]);
    let says = |part: &str| {
        signal(instance.child.id(), Signal::HUP);
        wait_for(part, || instance.said().contains(part).then_some(()));
    };
    says("SIGHUP: the chain file says what runs already");
    instance.put(chain("drop tcp", ""));
    says("\nreloaded: firewall");
    instance.counts("kept", FLOWS);
    instance.put(chain("drop tcpp", ""));
    says("SIGHUP: not reloaded, all is as it was:");
    wait_for("the line", || {
        instance.said().contains("chain.yaml:3:").then_some(())
    });
    instance.put("chain: edge\nnfs: [counter]\n");
    says("its functions, their names or links have changed");
    assert_eq!(instance.flows(), Some(FLOWS));
}

/// A text that the file names is read again; flows that are open are matched by the new rules.
#[test]
fn rules_in_a_file_of_their_own_are_taken() {
    let folder = Folder::new();
    let rule = |sid: u32| {
        format!("alert tcp any any -> any any (msg:\"m\"; content:\"GET\"; sid:{sid};)\n")
    };
    folder.write("local.rules", rule(1));
    let chain = "chain: edge\nnfs:\n  - ids: {rule-files: [local.rules]}\n";
    let path = folder.write("chain.yaml", chain);
    let input = "gen:flows=300,packets=100000000000,proto=tcp,payload=http,both=yes";
    let instance = Instance::start(folder, &["run", &path, "--in", input, "--quiet"]);
    wait_for("an alert", || instance.has_alerted(1).then_some(()));
    instance.folder.write("local.rules", rule(2));
    let taken = instance.reload();
    assert_eq!(taken["changes"][0]["texts"][0], "local.rules", "{taken:#}");
    wait_for("an alert of the new rule", || {
        instance.has_alerted(2).then_some(())
    });
    assert_eq!(instance.flows(), Some(FLOWS));
    instance.folder.write("local.rules", "alert tcp any (\n");
    let (code, answer) = instance.asked("reload", &[]);
    assert!(
        code == 3 && answer["wrong"].to_string().contains("local.rules:1"),
        "{answer:#}"
    );
}

/// Words that a mutation puts in.
const WORDS: [&str; 29] = [
    "drop",
    "accept",
    "reject",
    "tcp",
    "udp",
    "port",
    "443",
    "0",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "-",
    "\n",
    "  ",
    "default",
    "rules",
    "firewall",
    "counter",
    "chain",
    "\u{fc}",
    "\0",
    "&a",
    "*a",
    "keep",
    "on-reload",
    "10.0.0.0/8",
];

/// The file with other rules, and with some octets changed, added and taken out.
fn mutated(text: &str, dice: &mut Dice) -> Vec<u8> {
    let ports: Vec<String> = (0..dice.roll(4))
        .map(|_| dice.roll(70_000).to_string())
        .collect();
    let rules = ports
        .iter()
        .map(|port| format!("drop tcp to any port {port}, "));
    let rules = rules.collect::<String>() + "accept tcp to any port 80";
    let mut bytes = text
        .replace("accept tcp to any port 80", &rules)
        .into_bytes();
    for _ in 0..dice.roll(4) {
        let at = dice.roll(bytes.len());
        match dice.roll(4) {
            0 => bytes[at] = dice.next() as u8,
            1 => drop(bytes.drain(at..(at + 1 + dice.roll(8)).min(bytes.len()))),
            _ => drop(
                bytes
                    .splice(at..at, dice.pick(&WORDS).bytes())
                    .collect::<Vec<_>>(),
            ),
        }
    }
    bytes
}

/// Files that are mutated at random: each is refused with its place, or taken. Packets flow on.
#[test]
fn files_changed_at_random_are_taken_or_refused_with_a_place() {
    let text = chain(
        "accept tcp to any port 80, drop udp, accept icmp",
        "default: accept",
    );
    let instance = Instance::run(&text, &["--workers", "2"]);
    let mut dice = Dice::new(20_261_127);
    let (mut taken, mut refused) = (0, 0);
    let mut packets = 0;
    for round in 0..if bed::nightly() { 10_000 } else { 200 } {
        let bytes = mutated(&text, &mut dice);
        instance.put(&bytes);
        let (code, answer) = instance.asked("reload", &[]);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        if code == 0 {
            taken += 1;
        } else {
            refused += 1;
            let wrong = answer["wrong"].as_str().unwrap_or("");
            let refused = answer["refused"].to_string();
            let places = wrong.contains("chain.yaml:") || refused.contains('`');
            assert!(places, "round {round}: {shown}: {answer:#}");
        }
        if round % 50 == 0 {
            let now = number(
                &wait_for("counts", || instance.stats()),
                "/chains/edge/packets_in",
            );
            assert!(now > packets, "packets flow no more after {shown}");
            packets = now;
        }
    }
    assert!(
        taken > 10 && refused > 10,
        "{taken} taken, {refused} refused"
    );
    assert_eq!(instance.flows(), Some(FLOWS));
}

/// Curl fetches through a firewall with 1,000 rules and a balancer that change ten times a second.
#[test]
fn downloads_go_on_while_rules_change() {
    if !bed::possible(&["curl", "nginx", "ss"]) {
        return;
    }
    let mut bed = Bed::bump(Kind::Packet);
    let count = if bed::nightly() { 10_000 } else { 1_000 };
    let files = Files::new(&bed, 1 << 20);
    bed.serve();
    let folder = Folder::new();
    let text = std::fs::read_to_string(example("edge.yaml")).unwrap();
    let begin = "      rules:\n";
    assert!(text.contains(begin), "{text}");
    let put = |round: u64| {
        let mut rules = begin.to_owned();
        for number in 0..1_000u64 {
            let (a, b) = ((number + round) % 250, number / 250);
            rules.push_str(&format!(
                "        - drop tcp from 203.0.{b}.{a} to any port {}\n",
                round % 60_000 + 1
            ));
        }
        folder.write("edge.yaml", text.replacen(begin, &rules, 1))
    };
    std::fs::create_dir(folder.path("rules")).unwrap();
    let rules = std::fs::read(example("rules/web.rules")).unwrap();
    folder.write("rules/web.rules", rules);
    let path = put(0);
    let socket = folder.path("it.sock");
    let before = bed.counts();
    let weir = bed.weir(&path, &["--control", &socket]);
    let downloads = Downloads::start(&bed, &files, count);
    let done = std::sync::atomic::AtomicBool::new(false);
    let (wrong, rounds) = std::thread::scope(|scope| {
        let reloads = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                rounds += 1;
                put(rounds);
                let ran = run(["reload", "-i", &socket]);
                assert_eq!(ran.code, 0, "{}", ran.err);
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            rounds
        });
        let wrong = downloads.wait();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        (wrong, reloads.join().expect("each was taken"))
    });
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert!(rounds > 5, "{rounds}");
    let after = bed.counts();
    let ran = weir.end("-TERM");
    let summary = bed::assert_balanced(&ran, before, after, 20);
    assert_eq!(
        number(&summary, "/nfs/firewall/counters/cut"),
        0,
        "{summary:#}"
    );
    assert!(
        number(&summary, "/nfs/firewall/counters/renewed") > 0,
        "{summary:#}"
    );
    assert!(sum(&summary, "/chains/edge/drops") < 20, "{summary:#}");
}

/// A file with two chains: the second one's firewall is the one that changes.
#[test]
fn the_function_of_another_chain_is_left_alone() {
    let text = |rules: &str| {
        let firewall = "chain: web\nmatch: [{protocol: udp}]\nnfs:\n  - firewall: {rules: [accept udp]}\n---\n";
        let chains = firewall.replace("---\n", "");
        let edge = chain(rules, "on-reload: drop");
        let indented = |text: &str| {
            let lines = text.lines().enumerate();
            let lines = lines
                .map(|(at, line)| format!("{}{line}\n", if at == 0 { "  - " } else { "    " }));
            lines.collect::<String>()
        };
        format!("chains:\n{}{}", indented(&chains), indented(&edge))
    };
    let instance = Instance::run(&text("accept tcp"), &[]);
    instance.put(text("drop tcp"));
    let taken = instance.reload();
    assert_eq!(
        taken["changes"].as_array().map(Vec::len),
        Some(1),
        "{taken:#}"
    );
    assert_eq!(taken["changes"][0]["chain"], "edge");
    instance.counts("cut", FLOWS);
}

/// Settings of the command line win over those of the changed file, too.
#[test]
fn what_the_command_line_sets_stays_set() {
    let more = ["--set", "firewall.on-reload=drop"];
    let instance = Instance::run(&chain("accept tcp", ""), &more);
    instance.put(chain("drop tcp", "on-reload: keep"));
    instance.reload();
    instance.counts("cut", FLOWS);
}

/// The compiler has put one classifier before the point where packets part, in the place of two.
#[test]
fn a_function_that_was_hoisted_changes_as_well() {
    let text = |protocol: &str| {
        let classes = format!("classifier: {{classes: [{{protocol: {protocol}}}]}}");
        format!(
            "chain: edge\nflows: {{track: always}}\nnfs:\n  - classifier: {{classes: [{{to-port: 1-2000}}]}}\n    \
             as: p\n    links: {{class-1: b}}\n  - {classes}\n    as: a\n    links: {{class-1: y}}\n  - counter:\n    \
             as: x\n    links: {{pass: out}}\n  - {classes}\n    as: b\n    links: {{class-1: y}}\n  - counter:\n    \
             as: z\n    links: {{pass: out}}\n  - counter:\n    as: y\n"
        )
    };
    let instance = Instance::run(&text("tcp"), &["--passes", "consolidate,hoist"]);
    let count = |names: [&str; 2]| {
        let stats = wait_for("counts", || instance.stats());
        let of = |name| number(&stats, &format!("/chains/edge/nfs/{name}/packets"));
        names.map(of).iter().sum::<u64>()
    };
    let path = instance.folder.path("chain.yaml");
    let planned = run(["plan", &path, "--passes", "consolidate,hoist"]);
    assert!(planned.out.contains("a@p"), "{}", planned.out);
    assert_eq!(count(["x", "z"]), 0, "all are TCP");
    instance.put(text("udp"));
    instance.reload();
    // Counts are those of some moment ago.
    let goes_on = |most: u64| {
        wait_for("packets that are not UDP", || {
            (count(["x", "z"]) > most).then_some(())
        });
    };
    goes_on(10_000);
    let (before, so_far) = (count(["y", "y"]), count(["x", "z"]));
    goes_on(so_far + 10_000);
    assert_eq!(count(["y", "y"]), before, "none goes the way of UDP");
}

/// Two functions with equal settings run as one; they can't part while packets flow.
#[test]
fn settings_that_make_another_plan_take_a_restart() {
    let text = |second: u32| {
        format!(
            "chain: edge\nflows: {{track: always}}\nnfs:\n  - ip-check\n  - classifier: {{classes: [{{to-port: 1}}]}}\n    as: one\n  - classifier: {{classes: [{{to-port: {second}}}]}}\n    as: two\n"
        )
    };
    let instance = Instance::run(&text(1), &["--passes", "consolidate"]);
    instance.put(text(2));
    let (code, answer) = instance.asked("reload", &[]);
    assert_eq!(code, 3, "{answer:#}");
    assert!(
        answer["refused"].to_string().contains("another plan"),
        "{answer:#}"
    );
}
