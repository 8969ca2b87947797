//! `weir run --workers`: the same as one runtime, whoever gets a packet.

mod support;

use std::path::Path;

use support::compare::{Run, same, through, through_all};
use support::{Folder, capture, example, number, run, run_json, traces};

/// Inputs that a run may have.
const PORTS: usize = 64;

/// All captures under a folder, in the order of their names.
fn captures(folder: &Path, into: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    entries.sort_by_key(|entry| entry.as_ref().unwrap().path());
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            captures(&path, into);
        } else if std::fs::File::open(&path)
            .is_ok_and(|file| weir_io::capture::CaptureReader::open(file).is_ok())
        {
            into.push(path.display().to_string());
        }
    }
}

fn workers(run: &Run) -> usize {
    run.summary["workers"]["each"].as_array().unwrap().len()
}

#[test]
fn all_captures_come_out_as_of_one_runtime() {
    let Some(traces) = traces() else { return };
    let mut all = Vec::new();
    captures(&traces.join("traces"), &mut all);
    assert!(all.len() > 100, "{}", all.len());
    for batch in all.chunks(PORTS) {
        let inputs: Vec<&str> = batch.iter().map(String::as_str).collect();
        for name in ["count.yaml", "http.yaml", "bump.yaml"] {
            let chain = example(name);
            let plain = through_all(&chain, &inputs, &[]).whenever_noticed();
            let with = through_all(&chain, &inputs, &["--workers", "3"]).whenever_noticed();
            assert_eq!(workers(&with), 3);
            same(&plain, &with, &format!("{name} {}", inputs[0]));
        }
    }
}

#[test]
fn examples_come_out_as_of_one_runtime() {
    for (name, inputs) in [
        ("monitor.yaml", vec!["mixed.pcapng"]),
        ("ids.yaml", vec!["attack.pcap"]),
        ("webedge.yaml", vec!["attack.pcap"]),
        ("http.yaml", vec!["web.pcap"]),
        // One side only: the answers that were recorded know the ports that one
        // runtime gives.
        ("nat.yaml", vec!["inside=nat-inside.pcap"]),
        ("edge.yaml", vec!["lan=edge-inside.pcap"]),
    ] {
        let inputs: Vec<String> = inputs
            .iter()
            .map(|input| match input.split_once('=') {
                Some((port, file)) => format!("{port}={}", capture(file)),
                None => capture(input),
            })
            .collect();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let chain = example(name);
        let plain = through_all(&chain, &inputs, &[]).whenever_noticed();
        let with = through_all(&chain, &inputs, &["--workers", "2"]).whenever_noticed();
        let by = &with.summary["workers"]["steered_by"];
        let by_switch = matches!(name, "nat.yaml" | "edge.yaml");
        assert_eq!(by, if by_switch { "switch" } else { "hosts" }, "{name}");
        if by_switch {
            // Which port a flow gets depends on whose block it is of.
            for field in ["packets_in", "packets_out", "drops", "flows", "emitted"] {
                assert_eq!(plain.summary[field], with.summary[field], "{name} {field}");
            }
        } else {
            same(&plain, &with, name);
        }
    }
}

#[test]
fn what_flows_share_is_steered_by_a_switch_and_that_is_said() {
    let folder = Folder::new();
    // The policer keeps a state per flow, the whitelist one per client.
    let chains = [
        ("policer: {rate: 100kbit, burst: 4kB}", "policer", "hosts"),
        ("udp-whitelist", "udp-whitelist", "switch"),
    ];
    let traffic = "gen:flows=40,packets=20000,seed=4,size=300,proto=tcp:50/udp:50";
    for (function, name, by) in chains {
        let text = format!("chain: c\nnfs:\n  - {function}\n");
        let chain = folder.write("c.yaml", text);
        let plain = through(&chain, traffic, &[]);
        let with = through(&chain, traffic, &["--workers", "3"]);
        let dropped = format!("/nfs/{name}/dropped");
        assert!(number(&plain.summary, &dropped) > 0, "{}", plain.summary);
        same(&plain, &with, name);
        assert_eq!(with.summary["workers"]["steered_by"], by);
        let args = ["run", &chain, "--in", traffic, "--workers", "3", "--quiet"];
        let ran = run(args);
        assert_eq!(
            ran.err.contains("note: udp-whitelist"),
            by == "switch",
            "{}",
            ran.err
        );
        assert!(ran.out.contains("workers"), "{}", ran.out);
    }
}

#[test]
fn limits_are_shared_out_and_said() {
    let args = ["--in", "gen:flows=50,packets=500", "--workers", "4"];
    let args = [&args[..], &["--set", "flows.max=1001"]].concat();
    let summary = run_json(&example("monitor.yaml"), &args);
    assert_eq!(summary["workers"]["limits"]["monitor"]["flows_max"], 251);
    let each = summary["workers"]["each"].as_array().unwrap();
    let packets: u64 = each.iter().map(|worker| number(worker, "/packets")).sum();
    assert_eq!((each.len(), packets), (4, 500));
}

#[test]
fn ids_of_flows_differ_between_workers() {
    let folder = Folder::new();
    let log = folder.path("events.json");
    let args = ["--in", "gen:flows=300,packets=3000", "--workers", "3"];
    let args = [&args[..], &["--events", &log]].concat();
    run_json(&example("monitor.yaml"), &args);
    let events = support::events(&log);
    let mut ids: Vec<u64> = events
        .iter()
        .filter(|event| event["event_type"] == "flow")
        .map(|event| number(event, "/flow_id"))
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((all, ids.len()), (300, 300));
}

#[test]
fn chains_side_by_side_are_each_steered() {
    let chain = example("two-chains.yaml");
    let input = format!("lan={}", capture("mixed.pcapng"));
    let plain = run_json(&chain, &["--in", &input, "--seed", "1"]);
    let with = run_json(&chain, &["--in", &input, "--seed", "1", "--workers", "2"]);
    for field in ["packets_in", "packets_out", "drops", "flows"] {
        assert_eq!(plain[field], with[field], "{field}");
    }
}

#[test]
fn what_can_not_be_is_an_error() {
    let chain = example("monitor.yaml");
    let fails = |code: i32, args: &[&str], part: &str| {
        let all = ["run", &chain, "--in", "gen:packets=10", "--quiet"];
        let ran = run(all.iter().chain(args));
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    };
    fails(2, &["--workers", "0"], "--workers");
    fails(2, &["--workers", "65"], "--workers");
    fails(2, &["--workers", "2", "--runtimes", "2"], "--runtimes");
    fails(2, &["--workers", "2", "--cores", "4000"], "core 4000");
    fails(2, &["--workers", "2", "--cores", "0,4000"], "core 4000");
}

#[test]
fn the_chain_file_names_cores_and_the_command_line_others() {
    let folder = Folder::new();
    let text = "chain: a\nnfs: [monitor]\nthreads: {cores: 1000, busy-poll: true}\n";
    let chain = folder.write("far.yaml", text);
    let all = ["run", &chain, "--in", "gen:packets=10", "--quiet"];
    for way in [&["--workers", "2"][..], &["--runtimes", "1"], &[]] {
        let ran = run(all.iter().chain(way));
        assert_eq!(ran.code, 3, "{way:?}: {}", ran.err);
        for part in ["far.yaml", "`threads`", "core 1000", "--cores"] {
            assert!(ran.err.contains(part), "{way:?}: {}", ran.err);
        }
        let with = ["--cores", "0", "--busy-poll=false"];
        let ran = run(all.iter().chain(way).chain(&with));
        assert_eq!(ran.code, 0, "{way:?}: {}", ran.err);
    }
    // The file is right, for a machine with more cores than this.
    let checked = run(["check", &chain]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let said = "threads on cores 1000 never sleep";
    assert!(checked.out.contains(said), "{}", checked.out);
    assert_eq!(run(["doctor", &chain]).code, 3);
    assert_ne!(run(["doctor", &chain, "--cores", "0"]).code, 3);
}
