//! Tenants that share a run: quotas, and parts of time and room (docs/tenants.md).

#[path = "support/network.rs"]
mod network;
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use network::{Network, possible};
use serde_json::Value;
use support::{Folder, conserved, number, packets, run};

/// The ports of all chain files here.
const PORTS: &str = "\
ports:
  - {name: one, side: inside}
  - {name: two, side: inside}
  - {name: wan, side: outside}
";

/// Two chains of a tenant each. `slow` takes far longer for a packet than the port gives it.
const CHAINS: &str = "\
chains:
  - chain: slow
    tenant: acme
    match: [{protocol: tcp}]
    nfs: [http, payload-compressor, payload-decompressor, payload-compressor, payload-decompressor,
          payload-compressor, payload-decompressor, monitor]
  - chain: quick
    tenant: bolt
    match: [{protocol: udp}]
    nfs: [counter]
";

/// Both so slow that the runtime is what all wait for.
const SLOW: &str = "\
chains:
  - chain: slow
    tenant: acme
    match: [{protocol: tcp, port: 80}]
    nfs: [http, payload-compressor, payload-decompressor, payload-compressor, payload-decompressor, monitor]
  - chain: slower
    tenant: bolt
    match: [{protocol: tcp, port: 8080}]
    nfs: [http, payload-compressor, payload-decompressor, payload-compressor, payload-decompressor,
          payload-compressor, payload-decompressor, payload-compressor, payload-decompressor, monitor]
";

/// More than a runtime can do of it.
const FLOOD: &str = "gen:flows=500,rate=600k,packets=1200k,proto=tcp,payload=http,size=600,seed=1";

/// One at a time: what is measured is a runtime that has a core.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of(summary: &Value, chain: &str, what: &str) -> u64 {
    number(summary, &format!("/chains/{chain}/{what}"))
}

/// What the chain and its functions took.
fn cycles(summary: &Value, chain: &str) -> f64 {
    let functions = summary["nfs"].as_object().unwrap().iter();
    let its = functions.filter(|(name, _)| name.split('.').next() == Some(chain));
    let of_functions: u64 = its.map(|(_, counts)| number(counts, "/cycles")).sum();
    (of_functions + of(summary, chain, "engine_cycles")) as f64
}

fn dropped(summary: &Value, chain: &str, why: &str) -> u64 {
    let drops = &summary["chains"][chain]["drops"];
    drops[why].as_u64().unwrap_or(0)
}

/// A run with generated traffic that is played, of a namespace of its own.
fn played(network: &Network, folder: &Folder, chains: &str, args: &[&str]) -> Value {
    let chain = folder.write("chains.yaml", format!("{PORTS}{chains}"));
    let events = folder.path("events.json");
    let more = ["--runtimes", "1", "--seed", "1", "--events", &events];
    let more = [&more, args, &["--out", "wan=tap:out"]].concat();
    let ran = network.weir(&chain, &more).wait();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    summary
}

/// What a bucket of 1,000 packets per second, with a burst of 20 ms, lets through of packets at
/// these times, in microseconds.
fn bucket(times: impl Iterator<Item = u64>) -> u64 {
    const RATE: u64 = 1_000;
    const MOST: u64 = 20_000 * RATE;
    let (mut has, mut before, mut passed) = (MOST, None, 0);
    for time in times {
        has = (has + (time - before.unwrap_or(time)) * RATE).min(MOST);
        before = Some(time);
        if has >= 1_000_000 {
            has -= 1_000_000;
            passed += 1;
        }
    }
    passed
}

/// By a bucket of the test's own, over the times of the capture, and the same each time.
#[test]
fn a_quota_is_kept_to_the_packet() {
    let folder = Folder::new();
    let [first, second] = ["one.pcap", "two.pcap"].map(|name| folder.path(name));
    for (path, proto) in [(&first, "tcp"), (&second, "udp")] {
        let what = format!("flows=50,rate=5k,packets=20k,proto={proto},seed=3");
        assert_eq!(run(["gen", "--out", path, &what]).code, 0);
    }
    let (records, cut) = packets(&first);
    assert!(cut.is_none());
    let passed = bucket(records.iter().map(|record| record.time_ns / 1_000));
    assert!((4_000..4_100).contains(&passed), "{passed}");
    let chains = folder.write("chains.yaml", format!("{PORTS}{CHAINS}"));
    let composition = "\
composition: one
chain: chains.yaml
hosts: [{name: alpha, runtimes: 2}]
switch: alpha
ports: {in: [one=one.pcap, two=two.pcap], out: wan=null}
tenants:
  - {name: acme, packets: 1000, burst: 20ms}
";
    let composition = folder.write("cluster.yaml", composition);
    let (first, second) = (format!("one={first}"), format!("two={second}"));
    let ran = [
        run([
            "run",
            &chains,
            "--in",
            &first,
            "--in",
            &second,
            "--out",
            "wan=null",
            "--runtimes",
            "1",
            "--tenant",
            "acme:packets=1000,burst=20ms",
            "--output",
            "json",
        ]),
        run(["up", &composition, "--output", "json"]),
    ];
    for ran in ran {
        assert_eq!(ran.code, 0, "{}", ran.err);
        let summary = ran.json();
        conserved(&summary);
        assert_eq!(of(&summary, "slow", "packets_out"), passed);
        assert_eq!(dropped(&summary, "slow", "over_quota"), 20_000 - passed);
        assert_eq!(of(&summary, "quick", "packets_out"), 20_000);
    }
}

/// A tenant floods a chain whose functions are slow; the other one gets all that it wants, in time.
/// Needs root: live ports are in a namespace.
#[test]
fn a_slow_tenant_holds_no_other_one_up() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let (network, folder) = (Network::bare(), Folder::new());
    let light = "two=gen:flows=100,rate=5k,packets=10k,proto=udp,size=100,seed=2";
    let flood = format!("one={FLOOD}");
    for processes in [&[][..], &["--processes"]] {
        let args = [
            &["--in", &flood, "--in", light, "--tenant", "acme:weight=1"],
            processes,
        ];
        let summary = played(&network, &folder, CHAINS, &args.concat());
        // Where the runtime's thread was away for half a second, its own part was full.
        assert!(of(&summary, "quick", "packets_out") > 9_900, "{summary}");
        assert!(summary["elapsed_s"].as_f64().unwrap() < 30.0, "{summary}");
        assert!(
            dropped(&summary, "slow", "over_share") > 100_000,
            "{summary}"
        );
        // One that is over its part still gets what the other one leaves.
        assert!(of(&summary, "slow", "packets_out") > 5_000, "{summary}");
        assert_eq!(number(&summary, "/hand_overs/reordered"), 0);
    }
}

/// Parts of a runtime's time, by what the functions took. Needs root.
#[test]
fn time_is_shared_by_weight() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let (network, folder) = (Network::bare(), Folder::new());
    let (one, two) = (
        format!("one={FLOOD},dport=80"),
        format!("two={FLOOD},dport=8080"),
    );
    let inputs = ["--in", &one, "--in", &two, "--tenant"];
    let parts = |weight: &str| {
        let args = [&inputs[..], &[weight]].concat();
        let summary = played(&network, &folder, SLOW, &args);
        let (slow, slower) = (cycles(&summary, "slow"), cycles(&summary, "slower"));
        (slow / slower, of(&summary, "slow", "packets_out"))
    };
    let (even, _) = parts("acme:weight=1");
    let (uneven, _) = parts("acme:weight=4");
    println!("time of `acme` as a part of that of `bolt`: {even}, with weight 4 {uneven}");
    assert!((0.75..1.33).contains(&even), "{even}");
    assert!((3.0..5.0).contains(&uneven), "{uneven}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new();
    let chains = folder.write("chains.yaml", format!("{PORTS}{CHAINS}"));
    let words = ["run", &chains, "--in", "gen:packets=1", "--runtimes", "1"];
    for (limits, part) in [
        (
            &["acne:weight=2"][..],
            "no chain is of the tenant `acne`: the chains are of `acme`, `bolt`",
        ),
        (&["acme:weight=2", "acme:weight=3"], "is given twice"),
        (&["acme:weight=0"], "a weight is 1 to 1000"),
    ] {
        let limits = limits.iter().flat_map(|text| ["--tenant", text]);
        let refused = run(words.into_iter().chain(limits));
        assert!(
            refused.code == 2 && refused.err.contains(part),
            "{}",
            refused.err
        );
    }
    let without = run([
        "run",
        &chains,
        "--in",
        "gen:packets=1",
        "--tenant",
        "acme:weight=1",
    ]);
    assert!(
        without.code == 2 && without.err.contains("--runtimes"),
        "{}",
        without.err
    );
    for (tenant, part) in [
        (
            "{name: acne}",
            "7:11: error: no chain is of the tenant `acne`",
        ),
        ("{name: acme, burst: 1h}", "a burst is `1ms` to `10s`"),
        (
            "{name: acme, rate: 2000Gbit}",
            "a rate is at most `1000Gbit`",
        ),
        ("{weight: 2}", "give the tenant's name"),
        ("{name: acme}, {name: acme}", "`acme` is there already"),
    ] {
        let text = format!(
            "composition: one\nchain: chains.yaml\nhosts: [{{name: alpha, runtimes: 1}}]\n\
             switch: alpha\nports: {{in: 'one=gen:packets=1', out: wan=null}}\ntenants:\n  [{tenant}]\n"
        );
        let refused = run(["check", &folder.write("cluster.yaml", text)]);
        assert!(
            refused.code != 0 && refused.err.contains(part),
            "{tenant}: {}",
            refused.err
        );
    }
}
