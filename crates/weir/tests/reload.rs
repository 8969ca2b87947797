//! `weir diff`, `weir reload` and SIGHUP: a changed chain file under traffic, in every way of
//! running.
//!
//! Where interfaces are needed it needs root; says SKIPPED without.

#[path = "support/agents.rs"]
mod agents;
#[path = "support/bed.rs"]
mod bed;
#[path = "support/network.rs"]
mod network;
mod support;

use std::process::{Child, Stdio};

use agents::{Agent, KEY};
use bed::{Bed, Downloads, Files, Kind};
use network::process::{children, signal, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use support::dice::Dice;
use support::{Folder, example, number, run, sum, weir};

/// Flows of the generator, all TCP.
const FLOWS: u64 = 300;
const INPUT: &str = "gen:flows=300,packets=100000000000,proto=tcp";

/// A firewall with these rules in front of a counter.
fn chain(rules: &str, more: &str) -> String {
    format!("chain: edge\nnfs:\n  - firewall: {{rules: [{rules}], {more}}}\n  - counter\n")
}

/// The same with the firewall behind the counter, in a stage of its own.
fn chain_behind(rules: &str, more: &str) -> String {
    format!("chain: edge\nnfs:\n  - counter\n  - firewall: {{rules: [{rules}], {more}}}\n")
}

/// An instance in a folder of its own, which lasts until it is dropped.
struct Instance {
    folder: Folder,
    child: Child,
}

impl Instance {
    /// `weir run` of this chain, with the generator.
    fn run(chain: &str, more: &[&str]) -> Instance {
        let folder = Folder::new();
        let path = folder.write("chain.yaml", chain);
        let args = ["run", path.as_str(), "--in", INPUT, "--quiet"];
        Instance::start(folder, &[&args, more].concat())
    }

    /// `weir up` of this chain on three hosts.
    fn up(chain: &str) -> Instance {
        let folder = Folder::new();
        folder.write("chain.yaml", chain);
        let hosts = "hosts:\n  - {name: alpha, runtimes: 1}\n  - {name: beta, runtimes: 1}\n  - {name: gamma, runtimes: 1}\n";
        let composition = format!(
            "composition: edge\nchain: chain.yaml\nswitch: alpha\nreplication: each-burst\nheartbeat: 500ms\n\
             most_runtimes: 4\nports: {{in: '{INPUT}'}}\n{hosts}"
        );
        let path = folder.write("cluster.yaml", composition);
        Instance::start(folder, &["up", &path, "--quiet"])
    }

    fn start(folder: Folder, args: &[&str]) -> Instance {
        let said = std::fs::File::create(folder.path("said")).expect("a file can be made");
        let events = folder.path("events.json");
        let mut command = weir(args);
        command.args(["--control", &folder.path("it.sock"), "--events", &events]);
        let child = command.stdout(Stdio::null()).stderr(said).spawn();
        let instance = Instance {
            folder,
            child: child.expect("weir starts"),
        };
        wait_for("all flows", || (instance.flows()? == FLOWS).then_some(()));
        instance
    }

    fn socket(&self) -> String {
        self.folder.path("it.sock")
    }

    fn put(&self, chain: impl AsRef<[u8]>) {
        self.folder.write("chain.yaml", chain);
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path("said")).expect("it was made")
    }

    /// Asks it, and gives the exit code and the answer.
    fn asked(&self, what: &str, more: &[&str]) -> (i32, Value) {
        let socket = self.socket();
        let args = [what, "-i", socket.as_str(), "--output", "json"];
        let ran = run([&args, more].concat());
        assert!(ran.code == 0 || ran.code == 3, "{what}: {}", ran.err);
        (ran.code, ran.json())
    }

    #[track_caller]
    fn reload(&self) -> Value {
        let (code, answer) = self.asked("reload", &[]);
        assert_eq!(code, 0, "{answer:#}");
        answer
    }

    fn stats(&self) -> Option<Value> {
        let ran = run(["stats", &self.socket(), "--output", "json"]);
        (ran.code == 0).then(|| ran.json())
    }

    fn flows(&self) -> Option<u64> {
        Some(number(&self.stats()?, "/chains/edge/flows/active"))
    }

    /// A stage's process tells its counts some moments after its start.
    fn firewall(&self, what: &str) -> u64 {
        let pointer = format!("/chains/edge/nfs/firewall/{what}");
        wait_for("counts", || self.stats()?.pointer(&pointer)?.as_u64())
    }

    fn dropped(&self) -> u64 {
        self.firewall("dropped")
    }

    /// Waits until a counter of the firewall stands so.
    #[track_caller]
    fn counts(&self, what: &str, wanted: u64) {
        let what = format!("counters/{what}");
        wait_for(&what, || (self.firewall(&what) >= wanted).then_some(()));
        assert_eq!(self.firewall(&what), wanted, "{what}");
    }

    /// The runtimes that are ready: numbers of places, ids and processes.
    fn runtimes(&self) -> Vec<(u64, u64, u32)> {
        let rows = wait_for("runtimes", || {
            let ran = run(["get", "runtimes", &self.socket(), "--output", "json"]);
            (ran.code == 0).then(|| ran.json())
        });
        let rows = rows.as_array().expect("a list").clone();
        let ready = rows.iter().filter(|row| row["state"] == "ready");
        let of = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
        ready
            .map(|row| {
                (
                    of(row, "place"),
                    of(row, "runtime"),
                    of(row, "process") as u32,
                )
            })
            .collect()
    }

    fn do_it(&self, args: &[&str]) {
        let ran = run([args, &["-i", &self.socket()]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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

/// What left the chain since; nothing where all is dropped.
fn passed(instance: &Instance) -> u64 {
    let stats = wait_for("counts", || instance.stats());
    let nfs = "/chains/edge/nfs";
    number(&stats, &format!("{nfs}/counter/packets"))
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
    assert_eq!(
        instance.flows(),
        Some(FLOWS),
        "its flows are at their replicas"
    );
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
    let alerts = |sid: u32| {
        let events = std::fs::read_to_string(instance.folder.path("events.json")).unwrap();
        events.contains(&format!("\"signature_id\":{sid},"))
    };
    wait_for("an alert", || alerts(1).then_some(()));
    instance.folder.write("local.rules", rule(2));
    let taken = instance.reload();
    assert_eq!(taken["changes"][0]["texts"][0], "local.rules", "{taken:#}");
    wait_for("an alert of the new rule", || alerts(2).then_some(()));
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
    let count = if bed::nightly() { 10_000 } else { 500 };
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
