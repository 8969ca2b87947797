//! Ports, sides, selectors, overrides, generated traffic, standard output.

mod support;

use std::io::Read;
use std::process::Stdio;

use support::{Folder, capture, events, example, number, packets, run, run_json, sum, weir};

#[test]
fn overrides_reach_settings() {
    let folder = Folder::new();
    let file = folder.path("events.json");
    let run = |set: &[&str]| {
        // Events are appended: those of an earlier run are not this one's.
        let _ = std::fs::remove_file(&file);
        let mut args = vec!["--events", file.as_str()];
        let from = capture("attack.pcap");
        args.extend(["--in", from.as_str()]);
        args.extend(set.iter().flat_map(|set| ["--set", set]));
        let summary = run_json(&example("webedge.yaml"), &args);
        (summary, events(&file).len())
    };
    let (plain, plain_events) = run(&[]);
    assert!(sum(&plain, "/drops") > 100);
    let (open, open_events) = run(&[
        "firewall.default=accept",
        "url-validator.action=alert",
        "monitor.events=false",
    ]);
    assert_eq!(sum(&open, "/drops"), 0, "{open}");
    assert!(open_events < plain_events);
    let (few, _) = run(&["flows.max=5", "flows.when-full=refuse"]);
    assert_eq!(number(&few, "/flows"), 5, "{few}");
    assert!(number(&few, "/drops/flow_table_full") > 0, "{few}");
}

#[test]
fn named_ports_have_sides() {
    let folder = Folder::new();
    // Only what is opened from inside passes.
    let chain = folder.write(
        "sides.yaml",
        "chain: sides\nports:\n  - {name: lan, side: inside}\n  - {name: wan, side: outside}\n\
         nfs:\n  - firewall: {default: drop, rules: [accept out]}\n",
    );
    let from = capture("web.pcap");
    let all = packets(&from).0.len() as u64;
    let passed = |port: &str| {
        let summary = run_json(&chain, &["--in", port]);
        assert_eq!(number(&summary, "/packets_in"), all);
        number(&summary, "/packets_out")
    };
    assert_eq!(passed(&from), all, "the first inside port");
    assert_eq!(passed(&format!("lan={from}")), all);
    assert_eq!(passed(&format!("wan={from}")), 0);
}

#[test]
fn packets_leave_on_the_other_side() {
    let folder = Folder::new();
    let (web, attack) = (capture("web.pcap"), capture("attack.pcap"));
    let (left, right) = (folder.path("left.pcap"), folder.path("right.pcap"));
    run_json(
        &example("bump.yaml"),
        &[
            "--in",
            &format!("inside={web}"),
            "--in",
            &format!("outside={attack}"),
            "--out",
            &format!("inside={left}"),
            "--out",
            &format!("outside={right}"),
        ],
    );
    let data =
        |path: &str| -> Vec<Vec<u8>> { packets(path).0.into_iter().map(|p| p.data).collect() };
    assert_eq!(data(&left), data(&attack));
    assert_eq!(data(&right), data(&web));
}

#[test]
fn several_inputs_are_merged_by_time() {
    let folder = Folder::new();
    let out = folder.path("all.pcapng");
    let names = ["nat-outside.pcap", "nat-inside.pcap", "mixed.pcapng"];
    let inputs: Vec<String> = names.iter().map(|name| capture(name)).collect();
    let mut args = vec!["--out", out.as_str()];
    args.extend(inputs.iter().flat_map(|path| ["--in", path.as_str()]));
    let summary = run_json(&example("bump.yaml"), &args);
    let (merged, _) = packets(&out);
    let mut expected: Vec<(u64, Vec<u8>)> = inputs
        .iter()
        .flat_map(|path| packets(path).0)
        .map(|p| (p.time_ns, p.data))
        .collect();
    // Stable: of equal times, the input named first.
    expected.sort_by_key(|(time, _)| *time);
    assert_eq!(number(&summary, "/packets_out"), expected.len() as u64);
    let merged: Vec<(u64, Vec<u8>)> = merged.into_iter().map(|p| (p.time_ns, p.data)).collect();
    assert!(merged == expected, "another order");
    let ports = summary["ports"]["in"].as_array().unwrap();
    assert_eq!(ports.len(), 3);
}

#[test]
fn selectors_take_both_directions() {
    let folder = Folder::new();
    let chain = folder.write(
        "two.yaml",
        "chains:\n  - chain: web\n    match: [{port: 80}]\n    nfs: [monitor]\n  - chain: v6\n    \
         match: [{prefix: '2001:db8::/32'}]\n    nfs: [monitor]\n",
    );
    let summary = run_json(&chain, &["--in", &capture("mixed.pcapng")]);
    let of = |pointer: &str| number(&summary, pointer);
    assert_eq!(of("/chains/web/packets_in"), 28, "{summary}");
    assert_eq!(of("/chains/web/flows/seen"), 2);
    assert!(of("/chains/v6/packets_in") > 10);
    assert_eq!(
        of("/drops/no_chain"),
        of("/packets_in") - of("/chains/web/packets_in") - of("/chains/v6/packets_in")
    );
}

#[test]
fn generated_traffic_can_be_kept_and_run_again() {
    let folder = Folder::new();
    let spec = "flows=50,packets=3000,size=imix,proto=mix,ip=mix,seed=7";
    let file = folder.path("gen.pcap");
    let ran = run(["gen", spec, "--out", &file, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(number(&ran.json(), "/packets"), 3_000);
    let chain = example("monitor.yaml");
    let from_file = run_json(&chain, &["--in", &file]);
    let live = run_json(&chain, &["--in", &format!("gen:{spec}")]);
    for key in [
        "packets_in",
        "packets_out",
        "bytes_in",
        "bytes_out",
        "flows",
        "drops",
        "malformed",
    ] {
        assert_eq!(from_file[key], live[key], "{key}");
    }
    assert_eq!(
        (
            number(&live, "/packets_out"),
            number(&live, "/flows"),
            sum(&live, "/malformed")
        ),
        (3_000, 50, 0)
    );
    assert_eq!(
        from_file["nfs"]["size-histogram"]["counters"],
        live["nfs"]["size-histogram"]["counters"]
    );
}

#[test]
fn null_takes_everything_and_gives_nothing() {
    let summary = run_json(&example("bump.yaml"), &["--in", "null", "--out", "null"]);
    assert_eq!(number(&summary, "/packets_in"), 0);
    let summary = run_json(
        &example("bump.yaml"),
        &["--in", &capture("web.pcap"), "--out", "null"],
    );
    assert!(number(&summary, "/packets_out") > 100);
}

#[test]
fn packets_go_through_a_pipe() {
    let folder = Folder::new();
    let chain = example("bump.yaml");
    let from = capture("mixed.pcapng");
    // `-` is standard output; the summary must not be in the middle of the packets.
    let output = weir(["run", &chain, "--in", &from, "--out", "-", "--quiet"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("packets in"));
    let middle = folder.write("middle.pcapng", &output.stdout);
    let (kept, fault) = packets(&middle);
    assert_eq!((kept.len(), fault), (packets(&from).0.len(), None));
    let output = weir(["run", &chain, "--in", "-", "--output", "json"])
        .stdin(std::fs::File::open(&middle).unwrap())
        .output()
        .unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&summary, "/packets_out"), kept.len() as u64);
}

#[test]
fn events_go_through_a_pipe() {
    let ran = run([
        "run",
        &example("http.yaml"),
        "--in",
        &capture("web.pcap"),
        "--events",
        "-",
        "--output",
        "json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<serde_json::Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 14);
    assert!(lines.iter().all(|line| line["event_type"] == "http"));
    let summary: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(number(&summary, "/nfs/http/counters/requests"), 14);
}

/// As `weir … | head -c 10`: the reader goes away.
#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let (chain, from) = (example("bump.yaml"), "gen:packets=200000,flows=10");
    let commands: [&[&str]; 6] = [
        &["nf", "list"],
        &["nf", "show", "firewall"],
        &["schema"],
        &["run", &chain, "--in", from, "--quiet"],
        &["run", &chain, "--in", from, "--out", "-", "--quiet"],
        &["completion", "bash"],
    ];
    for command in commands {
        let mut child = weir(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("panicked"), "{command:?}: {err}");
        assert!(output.status.code().is_some(), "{command:?} was killed");
    }
}

#[test]
fn text_summaries_say_what_happened() {
    let ran = run([
        "run",
        &example("webedge.yaml"),
        "--in",
        &capture("attack.pcap"),
    ]);
    assert_eq!(ran.code, 0);
    for part in [
        "chain webedge",
        "attack.pcap",
        "firewall.denied",
        "url-validator.blocked",
        "flows",
        "ns per packet",
    ] {
        assert!(ran.out.contains(part), "no `{part}` in {}", ran.out);
    }
}
