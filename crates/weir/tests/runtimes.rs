//! `weir run --runtimes`: the same as without, whatever moves meanwhile.

mod support;

use serde_json::Value;
use support::compare::{Run, same, through};
use support::{Folder, capture, example, number, run, run_json, traces};

#[track_caller]
fn nothing_lost(run: &Run) {
    let hand_overs = &run.summary["hand_overs"];
    for what in ["lost", "reordered", "unfinished"] {
        assert_eq!(hand_overs[what], 0, "{hand_overs}");
    }
}

/// Captures in which time never goes back (much): where it does, when a flow
/// is idle depends on which packets have come before.
const CAPTURES: [&str; 6] = [
    "a-mixed/pcapplusplus__example.pcap",
    "a-mixed/try-zeek__sumstat.pcap",
    "a-mixed/zeek__wikipedia.pcap",
    "a-mixed/ndpi__reddit.pcap",
    "b-http/zeek__206_example_c.pcap",
    "b-http/zeek__methods.pcap",
];

#[test]
fn captures_come_out_as_they_do_without_a_switch() {
    let Some(traces) = traces() else { return };
    for name in CAPTURES {
        let input = traces.join("traces").join(name).display().to_string();
        for chain in ["http.yaml", "monitor.yaml", "count.yaml", "bump.yaml"] {
            let chain = example(chain);
            let plain = through(&chain, &input, &[]).whenever_noticed();
            for runtimes in ["1", "3"] {
                let args = ["--runtimes", runtimes];
                let with = through(&chain, &input, &args).whenever_noticed();
                same(&plain, &with, &format!("{name} {chain} {runtimes}"));
                nothing_lost(&with);
            }
        }
    }
}

#[test]
fn flows_that_move_all_the_time_come_out_the_same() {
    let Some(traces) = traces() else { return };
    let folder = Folder::new();
    // Reprocessing copies packets that change a state. What the monitor counts
    // of a flow changes none, so it is missing for those that are not copied.
    let works: [(&str, &[&str]); 2] = [
        ("http.yaml", &["push", "pull", "reprocess"]),
        ("monitor.yaml", &["push", "pull"]),
    ];
    for (chain, modes) in works {
        let mut script = String::new();
        for (number, mode) in modes.iter().cycle().take(30).enumerate() {
            let (from, to) = (1 + number % 3, 1 + (number + 1) % 3);
            let at = (number + 1) * 130;
            script += &format!(
                "- {{at: {{packet: {at}}}, move: {{from: {from}, to: {to}, mode: {mode}}}}}\n"
            );
        }
        let script = folder.write("moves.yaml", script);
        let chain = example(chain);
        for name in CAPTURES.iter().take(2) {
            let input = traces.join("traces").join(name).display().to_string();
            let plain = through(&chain, &input, &[]).whenever_noticed();
            let args = ["--runtimes", "3", "--script", &script];
            let moved = through(&chain, &input, &args).whenever_noticed();
            same(&plain, &moved, &format!("{name} {chain}"));
            nothing_lost(&moved);
            let count = number(&moved.summary, "/hand_overs/count");
            assert!(count > 30, "{name} {chain}: {count}");
        }
    }
}

#[test]
fn a_runtime_is_added_drained_and_removed_under_traffic() {
    let folder = Folder::new();
    let script = folder.write(
        "script.yaml",
        "- {at: {packet: 5000}, add: 1}\n\
         - {at: {packet: 9000}, drain: 1}\n\
         - {at: {packet: 9000}, remove: 1}\n\
         - {at: {packet: 20000}, move: {from: 2, to: 3, count: 50}}\n\
         - {at: {packet: 90000}, add: 1}\n",
    );
    let traffic = "gen:flows=500,packets=40000,proto=tcp,payload=http,size=400,seed=5";
    let chain = example("http.yaml");
    let plain = through(&chain, traffic, &[]);
    let with = through(&chain, traffic, &["--runtimes", "2", "--script", &script]);
    same(&plain, &with, "drained");
    nothing_lost(&with);
    let runtimes = with.summary["runtimes"].as_array().unwrap();
    let units: Vec<u64> = runtimes.iter().map(|r| number(r, "/units")).collect();
    assert_eq!((units.len(), units[0]), (3, 0), "{units:?}");
    assert!(
        units[2] > 0,
        "the added one owns what it was given: {units:?}"
    );
    let warnings = with.summary["warnings"].as_array().unwrap();
    assert_eq!(
        warnings.as_slice(),
        ["line 5 of the script was not carried out: the input ended before"]
    );
}

#[test]
fn a_selection_moves_what_it_says() {
    let folder = Folder::new();
    let traffic = "gen:flows=200,packets=6000,proto=tcp:50/udp:50,seed=2";
    for (what, least, most) in [
        ("count: 7", 7, 7),
        ("flows: {protocol: udp}", 20, 80),
        ("flows: {prefix: 192.0.2.0/24}", 0, 0),
    ] {
        let text = format!("- {{at: {{packet: 3000}}, move: {{from: 1, to: 2, {what}}}}}\n");
        let script = folder.write("move.yaml", text);
        let with = through(
            &example("http.yaml"),
            traffic,
            &["--runtimes", "2", "--script", &script],
        );
        nothing_lost(&with);
        let count = number(&with.summary, "/hand_overs/count");
        assert!((least..=most).contains(&count), "{what}: {count}");
    }
}

#[test]
fn chains_side_by_side_have_a_switch_each() {
    let chain = example("two-chains.yaml");
    let input = format!("lan={}", capture("mixed.pcapng"));
    let plain = through_ports(&chain, &input, &[]);
    let with = through_ports(&chain, &input, &["--runtimes", "2"]);
    for field in ["packets_in", "packets_out", "drops", "flows"] {
        assert_eq!(plain[field], with[field], "{field}");
    }
    let chains = |summary: &Value| summary["chains"].as_object().unwrap().len();
    assert_eq!(chains(&plain), chains(&with));
}

fn through_ports(chain: &str, input: &str, more: &[&str]) -> Value {
    let mut args = vec!["--in", input, "--seed", "1"];
    args.extend(more);
    run_json(chain, &args)
}

#[test]
fn a_script_with_an_error_is_refused_with_its_line() {
    let folder = Folder::new();
    let chain = example("http.yaml");
    let run_with = |text: &str| {
        let script = folder.write("script.yaml", text);
        let input = capture("web.pcap");
        run([
            "run",
            &chain,
            "--in",
            &input,
            "--runtimes",
            "2",
            "--script",
            &script,
        ])
    };
    let good = "- {at: 0, move: {from: 1, to: 2}}\n- {at: 1s, add: 1}\n";
    for (line, message) in [
        ("- {at: 2s, mvoe: {from: 1, to: 2}}", "unknown key `mvoe`"),
        (
            "- {at: 2s, move: {from: 1, to: 9}}",
            "there is no runtime 9",
        ),
        (
            "- {at: 2s, move: {from: 3, to: 3}}",
            "runtime 3 is the source of this move, too",
        ),
    ] {
        let ran = run_with(&format!("{good}{line}\n"));
        assert_eq!(ran.code, 3, "{line}: {ran:?}");
        assert!(ran.err.contains("script.yaml:3:"), "{}", ran.err);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
    let ran = run([
        "run",
        &chain,
        "--in",
        &capture("web.pcap"),
        "--script",
        "x.yaml",
    ]);
    assert_eq!(ran.code, 2, "a script needs runtimes: {ran:?}");
}

#[test]
fn the_schema_of_scripts_is_printed() {
    let ran = run(["schema", "script"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.json()["title"], "weir script");
}
