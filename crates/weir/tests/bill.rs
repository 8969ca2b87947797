//! `weir bill`: what is billed is what left, whoever is killed meanwhile.

#[path = "support/coordinated.rs"]
mod coordinated;
#[path = "support/network.rs"]
mod network;
mod support;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coordinated::Coordinated;
use network::process;
use network::process::{children, signal, wait_for};
use network::{Cable, Network};
use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, example, number, run, run_json, weir};
use weir_io::capture::CaptureReader;

/// Three hosts with a runtime each, and prices.
const COMPOSITION: &str = "\
hosts:
  - {name: alpha, runtimes: 1}
  - {name: beta, runtimes: 1}
  - {name: gamma, runtimes: 1}
switch: alpha
replication: each-burst
heartbeat: 250ms
tenant: acme
prices: {currency: EUR, packets: 0.50, bytes: 2, compute: 1}
";

/// A cluster that is ended with this.
struct Cluster {
    child: Option<Child>,
    folder: Folder,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    /// `weir up` with these ports, a ledger and a control socket; `before` comes before its words.
    fn up(chain: &str, ports: &str, before: &[&str]) -> Cluster {
        let folder = Folder::new();
        let text = format!("composition: one\nchain: {chain}\n{COMPOSITION}ports:\n{ports}\n");
        let file = folder.write("cluster.yaml", text);
        let (ledger, socket) = (folder.path("ledger"), folder.path("it.sock"));
        let words = [
            "up",
            &file,
            "--ledger",
            &ledger,
            "--control",
            &socket,
            "--quiet",
            "--output",
            "json",
        ];
        let mut command = match before.split_first() {
            None => weir(words),
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(env!("CARGO_BIN_EXE_weir"));
                command.args(words).stdin(Stdio::null());
                command
            }
        };
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Cluster {
            child: Some(child.unwrap()),
            folder,
        }
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().unwrap();
        child.try_wait().unwrap().is_some()
    }

    fn get(&self, what: &str) -> Option<Value> {
        let ran = run([
            "get",
            what,
            &self.folder.path("it.sock"),
            "--output",
            "json",
        ]);
        (ran.code == 0).then(|| ran.json())
    }

    /// Processes of runtimes on other hosts, and how many have died, once all is protected.
    fn whole(&self) -> Option<(Vec<u64>, u64)> {
        let runtimes = self.get("runtimes")?;
        let all = runtimes.as_array()?;
        let sound = |row: &&Value| row["state"] == "ready" && row["unprotected"] == 0;
        let units: u64 = all.iter().filter_map(|row| row["units"].as_u64()).sum();
        if all.iter().filter(sound).count() < 3 || units == 0 {
            return None;
        }
        // One that has died owns no flow any more.
        let owns = |row: &&Value| row["site"] == "agent" && row["units"].as_u64() > Some(0);
        let agents = all.iter().filter(owns);
        let processes = agents.filter_map(|row| row["process"].as_u64());
        let died = all.iter().filter_map(|row| row["died"].as_u64()).sum();
        Some((processes.collect(), died))
    }

    /// The process of the switch.
    fn switch(&self) -> Option<u64> {
        let hosts = self.get("hosts")?;
        let mut hosts = hosts.as_array()?.iter();
        hosts.find(|row| row["agent"].is_null())?["process"].as_u64()
    }

    /// Waits for its end: the summary.
    fn summary(&mut self) -> Value {
        let done = self.child.take().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// The bill of its folder, as the run left it.
    fn bill(&self) -> Bill {
        let (ledger, prices) = (self.folder.path("ledger"), self.folder.path("cluster.yaml"));
        Bill::of(run([
            "bill", "--ledger", &ledger, "--prices", &prices, "--output", "json",
        ]))
    }
}

#[derive(Debug)]
struct Bill(Value);

impl Bill {
    #[track_caller]
    fn of(ran: support::Ran) -> Bill {
        assert_eq!(ran.code, 0, "{ran:?}");
        Bill(ran.json())
    }

    fn row(&self, function: Option<&str>) -> &Value {
        let mut rows = self.0["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["function"].as_str() == function);
        row.unwrap_or_else(|| panic!("{function:?} is not in {self:?}"))
    }

    fn number(&self, function: Option<&str>, what: &str) -> u64 {
        self.row(function)[what].as_u64().unwrap()
    }
}

/// Packets of a capture, and their bytes.
fn captured(path: &str) -> (u64, u64) {
    let mut reader = CaptureReader::open(File::open(path).unwrap()).unwrap();
    let (mut packets, mut bytes) = (0, 0);
    while let Some(record) = reader.next().unwrap() {
        packets += 1;
        bytes += record.data.len() as u64;
    }
    (packets, bytes)
}

/// HTTP, and what the firewall drops, and what goes past the validator: packets of several paths.
fn traffic(packets: &str, both: &str) -> String {
    format!("gen:flows=300,packets={packets},proto=mix,payload=http,size=400,both={both},seed=7")
}

/// Runtimes die, and others apply their packets again: each packet is billed once, with all functions
/// that it has passed.
#[test]
fn what_a_killed_runtime_repeats_is_billed_once() {
    let ports = format!("  in: {}\n  out: out.pcap", traffic("1M", "yes"));
    let mut cluster = Cluster::up(&example("webedge.yaml"), &ports, &[]);
    let (mut killed, mut noticed) = (0, None);
    while !cluster.has_ended() {
        if killed < 4
            && let Some((processes, died)) = cluster.whole()
            && noticed.is_none_or(|before| before < died)
            && let Some(victim) = processes.get(killed % processes.len().max(1))
        {
            signal(*victim as u32, Signal::KILL);
            (killed, noticed) = (killed + 1, Some(died));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(killed > 0, "none was killed");
    let summary = cluster.summary();
    let bill = cluster.bill();
    let (packets, bytes) = captured(&cluster.folder.path("out.pcap"));
    assert_eq!(bill.number(None, "packets"), packets, "{bill:?}\n{summary}");
    assert_eq!(bill.number(None, "bytes"), bytes);
    let count = |what: &str| number(&summary, what);
    // What came in left, or a function dropped it: nothing was lost on the way.
    let came = count("/packets_in") + count("/emitted");
    assert_eq!(packets + bill.number(None, "dropped"), came, "{summary}");
    // Each function is billed what it does where nobody dies.
    let plain = run_json(&example("webedge.yaml"), &["--in", &traffic("1M", "yes")]);
    let functions = plain["nfs"].as_object().unwrap();
    for (name, function) in functions {
        let billed = bill.number(Some(name), "packets");
        assert_eq!(billed, number(function, "/packets"), "{name}: {bill:?}");
    }
    let of = |name: &str| number(&functions[name], "/packets");
    assert!(
        of("firewall") > of("monitor") && of("monitor") > of("url-validator"),
        "{plain}"
    );
    assert!(bill.number(None, "dropped") > 0, "{bill:?}");
    assert!(bill.number(None, "compute_ns") > 0, "{bill:?}");
    assert!(bill.number(Some("firewall"), "compute_ns") > 0, "{bill:?}");
    assert_eq!(bill.row(None)["tenant"], "acme");
    assert_eq!(bill.0["currency"], "EUR");
    let total: f64 = bill.0["totals"]["acme"].as_str().unwrap().parse().unwrap();
    let least = 0.5 * came as f64 / 1e6 + 2.0 * bytes as f64 / 1e9;
    assert!(total > least, "{total} {least}");
}

/// The kernel counts what leaves; runtimes and switches are killed. A switch that dies between a packet's
/// way out and its line in the ledger leaves at most the packets of a round unbilled.
#[test]
fn the_bill_is_what_the_kernel_saw_leave_though_switches_die() {
    if !network::possible() {
        return;
    }
    const ROUND: u64 = 256;
    let network = Network::new(&Cable::default());
    // Nobody else is to say anything on the cable.
    for place in ["weir", "server"] {
        for of in ["all", "default"] {
            let off = format!("net.ipv6.conf.{of}.disable_ipv6=1");
            network.run(place, "sysctl", &["-q", "-w", &off]);
        }
    }
    let seen = || -> u64 {
        let file = "/sys/class/net/eth0/statistics/rx_packets";
        network
            .run("server", "cat", &[file])
            .trim()
            .parse()
            .unwrap()
    };
    let before = seen();
    let name = network.name("weir");
    let ports = format!(
        "  in: {},rate=20k\n  out: af-packet:outside",
        traffic("100G", "no")
    );
    let mut cluster = Cluster::up(
        &example("webedge.yaml"),
        &ports,
        &["ip", "netns", "exec", &name],
    );
    let mut former = 0;
    let mut kills = 0;
    for turn in 0..4 {
        let (processes, switch) = wait_for("all to be protected", || {
            assert!(!cluster.has_ended(), "it has ended");
            let (processes, _) = cluster.whole()?;
            let switch = cluster.switch().filter(|switch| *switch != former)?;
            Some((processes, switch))
        });
        std::thread::sleep(Duration::from_millis(300));
        match turn % 2 {
            0 => signal(processes[0] as u32, Signal::KILL),
            _ => {
                signal(switch as u32, Signal::KILL);
                (former, kills) = (switch, kills + 1);
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    wait_for("all to be protected", || cluster.whole());
    let up = cluster.child.as_ref().unwrap().id();
    signal(up, Signal::TERM);
    cluster.summary();
    let left = seen() - before;
    let bill = cluster.bill();
    let billed = bill.number(None, "packets");
    assert!(left > 10_000, "{left}");
    assert!(billed <= left, "{billed} of {left} were billed");
    assert!(
        left - billed <= kills * ROUND,
        "{billed} of {left} were billed"
    );
}

/// The coordinator's ledger has what those of its hosts have, though it was killed, and the switch, and
/// when the composition is gone.
#[test]
fn a_coordinator_bills_what_its_hosts_have_counted() {
    let mut cluster = Coordinated::new(11);
    let input = "gen:flows=60,packets=10M,proto=tcp,payload=http,both=yes,rate=2k";
    let more = "tenant: acme\nprices: {currency: EUR, packets: 3}";
    let file = cluster.composition(input, more);
    let applied = cluster.run(["apply", &file, "--quiet"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let name = cluster.name();
    let billed = |cluster: &Coordinated| {
        let ran = cluster.run_as("op", ["bill", &name, "--output", "json"]);
        let bill = (ran.code == 0).then(|| Bill(ran.json()))?;
        let any = bill.0["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty());
        any.then(|| bill.number(None, "packets"))
    };
    let more_than = |cluster: &Coordinated, least: u64| {
        wait_for("a bill", || {
            billed(cluster).filter(|packets| *packets > least)
        })
    };
    let first = more_than(&cluster, 0);
    let share = cluster.processes()[0] as u32;
    cluster.kill_coordinator();
    // The switch dies while nobody listens.
    let switch = wait_for("the switch", || {
        let is_switch = |process: &u32| {
            let words = std::fs::read_to_string(format!("/proc/{process}/cmdline"));
            words.is_ok_and(|words| words.contains("--switch"))
        };
        children(share).into_iter().find(is_switch)
    });
    signal(switch, Signal::KILL);
    cluster.start_coordinator();
    let second = more_than(&cluster, first);
    cluster.kill_agent("alpha");
    cluster.start_agent("alpha");
    more_than(&cluster, second);
    // Prices change without a restart.
    let processes = cluster.processes();
    cluster.composition(input, "tenant: acme\nprices: {currency: CHF, packets: 4}");
    let applied = cluster.run(["apply", &file, "--quiet"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(cluster.processes(), processes);
    let deleted = cluster.run_as("op", ["delete", &name]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    let ledgers = cluster.folder.path(&format!("state/alpha.ledgers/{name}"));
    let of_host = Bill::of(cluster.run(["bill", "--ledger", &ledgers, "--output", "json"]));
    let all = of_host.number(None, "packets");
    wait_for("the last report", || {
        (billed(&cluster)? == all).then_some(())
    });
    let last = Bill::of(cluster.run_as("op", ["bill", &name, "--output", "json"]));
    assert_eq!(last.0["currency"], "CHF");
    let amounts = |bill: &Bill| -> Vec<(u64, u64)> {
        let rows = bill.0["rows"].as_array().unwrap().iter();
        rows.map(|row| (number(row, "/packets"), number(row, "/bytes")))
            .collect()
    };
    assert_eq!(amounts(&last), amounts(&of_host));
    let of_other = cluster.run_as(
        "op",
        ["bill", &name, "--tenant", "nobody", "--output", "json"],
    );
    assert_eq!(of_other.json()["rows"], Value::Array(vec![]));
    let unknown = cluster.run_as("op", ["bill", "unknown"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(
        unknown.err.contains("nothing was ever reported"),
        "{unknown:?}"
    );
}

/// Of one host without a coordinator, asked while it runs, by hour and as CSV.
#[test]
fn a_run_with_runtimes_has_a_bill() {
    let folder = Folder::new();
    let chain = "chains:\n  - {chain: web, tenant: acme, match: [{protocol: tcp}], nfs: [monitor, counter]}\n  \
                 - {chain: rest, nfs: [monitor]}\n";
    let chain = folder.write("two.yaml", chain);
    let socket = folder.path("it.sock");
    let input = "gen:flows=50,packets=100G,proto=tcp,rate=5k";
    let words = [
        "run",
        &chain,
        "--in",
        input,
        "--runtimes",
        "2",
        "--control",
        &socket,
        "--quiet",
    ];
    let _killed = Killed(weir(words).stdout(Stdio::null()).spawn().unwrap());
    let asked = |more: &[&str]| {
        let words = ["bill", socket.as_str()];
        run(words.iter().chain(more))
    };
    let bill = wait_for("a bill", || {
        let ran = asked(&["--output", "json"]);
        let bill = (ran.code == 0).then(|| Bill(ran.json()))?;
        let sampled = bill.0["rows"]
            .as_array()?
            .iter()
            .any(|row| row["compute_ns"].as_u64() > Some(0));
        sampled.then_some(bill)
    });
    assert_eq!(bill.row(None)["tenant"], "acme");
    assert_eq!(bill.row(None)["amount"], Value::Null, "there are no prices");
    let csv = asked(&["--by-hour", "--output", "csv"]);
    let line = csv
        .out
        .lines()
        .find(|line| line.starts_with("acme,web,counter,"));
    assert!(line.is_some_and(|line| line.contains("T")), "{csv:?}");
    let later = asked(&["--from", "2100-01-01"]);
    assert_eq!(later.code, 0);
    assert!(!later.out.contains("acme"), "{later:?}");
    let wrong = asked(&["--from", "yesterday"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("write `2026-11-01`"), "{wrong:?}");
}

/// A process that ends with its test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
