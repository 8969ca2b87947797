//! `weir run --plan`: the command line of plans.

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use support::compare::{same, through, through_all};
use support::{Folder, capture, example, number, run, run_json, weir};

const TRAFFIC: &str =
    "gen:flows=300,packets=20000,proto=tcp:70/udp:30,payload=http,size=400,seed=5";

fn stages(summary: &serde_json::Value, chain: &str) -> usize {
    let steps = summary["plan"][chain]["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|s| s["stages"].as_array().unwrap().len())
        .sum()
}

#[test]
fn a_pipeline_comes_out_as_one_core_does() {
    for (name, chain) in [
        ("http.yaml", "http"),
        ("webedge.yaml", "webedge"),
        ("edge.yaml", "edge"),
    ] {
        let file = example(name);
        let rtc = through(&file, TRAFFIC, &["--plan", "rtc", "--passes", "none"]);
        assert_eq!(stages(&rtc.summary, chain), 1);
        for more in [
            &[][..],
            &["--passes", "none"],
            &["--passes", "consolidate,hoist"],
            &["--cores", "0"],
            &["--cores", "0,0"],
            &["--yield-after", "0", "--prefetch", "0"],
            &["--yield-after", "1", "--prefetch", "64"],
        ] {
            let args = [&["--plan", "pipeline"][..], more].concat();
            let with = through(&file, TRAFFIC, &args);
            same(&rtc, &with, &format!("{name} {more:?}"));
            let one_core = more.first() == Some(&"--cores");
            assert!(
                one_core || stages(&with.summary, chain) > 1,
                "{name} {more:?}"
            );
        }
    }
}

#[test]
fn chains_of_two_sides_and_several_chains_have_pipelines_too() {
    let inputs = [
        format!("lan={}", capture("edge-inside.pcap")),
        format!("wan={}", capture("edge-outside.pcap")),
    ];
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let edge = example("edge.yaml");
    let rtc = through_all(&edge, &inputs, &["--plan", "rtc"]);
    let with = through_all(&edge, &inputs, &["--plan", "pipeline"]);
    same(&rtc, &with, "edge");

    let chains = example("two-chains.yaml");
    let input = format!("lan={}", capture("mixed.pcapng"));
    let args = |plan| run_json(&chains, &["--in", &input, "--seed", "1", "--plan", plan]);
    let (rtc, with) = (args("rtc"), args("pipeline"));
    for field in ["packets_in", "packets_out", "drops", "flows", "malformed"] {
        assert_eq!(rtc[field], with[field], "{field}");
    }
    let names = |summary: &serde_json::Value| -> Vec<String> {
        summary["nfs"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(names(&rtc), names(&with));
}

#[test]
fn the_summary_says_what_ran() {
    let args = ["--in", TRAFFIC, "--plan", "pipeline"];
    let summary = run_json(&example("http.yaml"), &args);
    let steps = summary["plan"]["http"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{summary}");
    assert_eq!(steps[1]["stages"][0]["functions"][0], "url-counter");
    for step in steps {
        assert!(step["stages"][0]["busy_s"].as_f64().unwrap() > 0.0);
        assert!(step["stages"][0]["refused_packets"].is_u64());
    }
    let chain = example("http.yaml");
    let text = run([
        "run", &chain, "--in", TRAFFIC, "--plan", "pipeline", "--quiet",
    ]);
    assert!(text.out.contains("stages of http"), "{}", text.out);
    let text = run(["run", &chain, "--in", TRAFFIC, "--quiet"]);
    assert!(!text.out.contains("stages of http"), "{}", text.out);
}

#[test]
fn runtimes_and_workers_take_a_plan_of_one_stage_only() {
    let chain = example("http.yaml");
    for way in ["--runtimes", "--workers"] {
        for plan in ["rtc", "auto"] {
            let args = ["--in", TRAFFIC, way, "2", "--plan", plan];
            assert_eq!(number(&run_json(&chain, &args), "/packets_in"), 20_000);
        }
        let args = [
            "run", &chain, "--in", TRAFFIC, way, "2", "--plan", "pipeline",
        ];
        let ran = run(args);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(
            ran.err.contains(way) && ran.err.contains("pipeline"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn costs_come_from_a_summary() {
    let folder = Folder::new();
    let chain = example("http.yaml");
    let ran = run([
        "run", &chain, "--in", TRAFFIC, "--quiet", "--output", "json",
    ]);
    let costs = folder.write("costs.json", &ran.out);
    let args = ["--in", TRAFFIC, "--plan", "pipeline", "--costs", &costs];
    let summary = run_json(&chain, &args);
    let measured = ran.json()["nfs"]["url-counter"]["cycles_per_packet"]
        .as_f64()
        .unwrap();
    let stage = &summary["plan"]["http"]["steps"][1]["stages"][0];
    // With what the stage itself costs.
    assert!(
        number(stage, "/cycles") as f64 >= measured.floor(),
        "{stage} {measured}"
    );
    for (text, part) in [
        ("", "costs.json"),
        ("{}", "`nfs`"),
        ("{\"nfs\": {\"a\": 1}}", "`a`"),
    ] {
        let costs = folder.write("costs.json", text);
        let ran = run(["run", &chain, "--in", TRAFFIC, "--costs", &costs]);
        assert_eq!(ran.code, 3, "{}", ran.err);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let ran = run(["run", &chain, "--in", TRAFFIC, "--costs", "nowhere.json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
}

#[test]
fn what_can_not_be_is_an_error() {
    let chain = example("http.yaml");
    for (code, args, part) in [
        (2, &["--plan", "nonsense"][..], "nonsense"),
        (2, &["--passes", "hoits"], "hoist"),
        (2, &["--cores", "x"], "such as 0,1,2"),
        (2, &["--yield-after", "x"], "--yield-after"),
        (2, &["--prefetch", "1000"], "--prefetch"),
        (2, &["--plan", "pipeline", "--cores", "0,1000"], "core 1000"),
        (2, &["--plan", "pipeline", "--cores", "1000,0"], "core 1000"),
        (2, &["--plan", "rtc", "--cores", "1000"], "core 1000"),
    ] {
        let all = ["run", &chain, "--in", "gen:packets=10", "--quiet"];
        let ran = run(all.iter().chain(args));
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}

#[test]
fn an_audit_finds_no_lies_in_the_stock() {
    let ways = [
        ["--plan", "rtc"],
        ["--plan", "pipeline"],
        ["--workers", "2"],
        ["--runtimes", "2"],
    ];
    for way in ways {
        for name in ["webedge.yaml", "monitor.yaml", "http.yaml"] {
            let input = capture("attack.pcap");
            let args = ["--in", &input, way[0], way[1], "--audit"];
            let summary = run_json(&example(name), &args);
            assert_eq!(summary["audit"].as_array().unwrap().len(), 0, "{summary}");
        }
    }
}

/// The summary of a run that a signal ended when packets had come.
fn interrupted(signal: &str, input: &str, args: &[&str], folder: &Folder) -> serde_json::Value {
    let chain = example("monitor.yaml");
    let (events, control) = (folder.path("events.json"), folder.path("control.sock"));
    let all = ["run", &chain, "--in", input, "--quiet", "--output", "json"];
    let paths = ["--events", &events, "--control", &control];
    let all = all.iter().chain(args).chain(&paths);
    let mut child = weir(all).stdout(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let came = || {
        let asked = weir(["stats", control.as_str(), "--output", "json"])
            .output()
            .unwrap();
        let stats: Option<serde_json::Value> = serde_json::from_slice(&asked.stdout).ok();
        stats.is_some_and(|stats| number(&stats, "/chains/monitor/packets_in") > 0)
    };
    while !came() {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{args:?}: nothing comes"
        );
        assert_eq!(child.try_wait().unwrap(), None, "{args:?}: it runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = std::process::Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{args:?}: it hangs"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{args:?}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[test]
fn a_signal_ends_the_input_of_a_run() {
    let folder = Folder::new();
    let without_end = "gen:flows=10,packets=100000000000,payload=http";
    // Much is on its way when the signal comes.
    let link = format!("emu(delay=50ms,limit=5000):{without_end}");
    for (signal, input, args) in [
        ("-INT", without_end, &["--plan", "rtc"][..]),
        ("-TERM", without_end, &["--plan", "pipeline"]),
        ("-INT", &link, &["--plan", "rtc"]),
        ("-INT", without_end, &["--workers", "2"]),
        ("-TERM", &link, &["--workers", "2", "--in", without_end]),
        ("-TERM", &link, &["--runtimes", "2"]),
    ] {
        let summary = interrupted(signal, input, args, &folder);
        support::conserved(&summary);
        assert!(number(&summary, "/packets_in") > 0, "{args:?}: {summary}");
        assert_eq!(number(&summary, "/held"), 0, "{args:?}: {summary}");
        assert_eq!(
            summary["warnings"].as_array().map(Vec::len),
            Some(0),
            "{summary}"
        );
        // Whole lines, those of the flows that were open included.
        let log = folder.path("events.json");
        assert!(!support::events(&log).is_empty(), "{args:?}");
    }
}

/// A pipe to which nobody writes: the run can't notice, and must end.
#[test]
fn a_signal_ends_a_run_that_waits() {
    let chain = example("http.yaml");
    let mut child = weir(["run", &chain, "--in", "-", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "it waits");
    let pid = child.id().to_string();
    // Not INT, which a shell's background jobs are born to ignore.
    let kill = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(kill.unwrap().success());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(120), "it hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_chain_file_says_how_it_is_cut() {
    let folder = Folder::new();
    let chain = |plan: &str| {
        let nfs = "nfs: [size-histogram, monitor, http-classifier]\n";
        folder.write("c.yaml", format!("chain: c\n{nfs}{plan}"))
    };
    let plain = chain("");
    let written = through(&plain, TRAFFIC, &["--passes", "none"]);
    let cut = "plan:\n  mode: pipeline\n  stages: [monitor]\n  instances: {monitor: 2}\n";
    let planned = chain(cut);
    let with = through(&planned, TRAFFIC, &[]);
    same(&written, &with, cut);
    let stage = &with.summary["plan"]["c"]["steps"][1]["stages"][0];
    assert_eq!(stages(&with.summary, "c"), 2, "{stage}");
    assert_eq!(
        (
            number(stage, "/instances"),
            stage["functions"].as_array().unwrap().len()
        ),
        (2, 2)
    );
    // The command line goes before it.
    let rtc = through(&planned, TRAFFIC, &["--plan", "rtc"]);
    assert_eq!(stages(&rtc.summary, "c"), 1);
    let ran = run(["run", &planned, "--in", TRAFFIC, "--workers", "2"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("`--plan rtc`"), "{}", ran.err);
}

#[test]
fn the_summary_says_what_ports_copied() {
    let folder = Folder::new();
    let chain = folder.write(
        "c.yaml",
        "chain: c\nnfs: [monitor, size-histogram, mac-swap, http-classifier, ip-check]\n\
         plan:\n  mode: pipeline\n  parallel: always\n  instances: {http-classifier: 2, ip-check: 2}\n",
    );
    let summary = run_json(&chain, &["--in", TRAFFIC]);
    let steps = summary["plan"]["c"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4, "{summary}");
    assert!(steps[0].get("ports").is_none(), "{}", steps[0]);
    let packets = number(&summary, "/packets_in");

    // Each packet once, and what the first stage says of flows.
    let side = &steps[1];
    assert_eq!(side["parallel"], true, "{side}");
    assert_eq!(number(side, "/ports/branched"), packets);
    assert_eq!(number(side, "/ports/joined"), packets);
    assert!(number(side, "/ports/copies") > packets);
    assert!(number(side, "/ports/copied_bytes") > 60 * packets);
    for none in [
        "uncopied",
        "branch_lost",
        "branch_dropped",
        "length_changed",
        "stray",
        "foreign",
    ] {
        assert_eq!(number(side, &format!("/ports/{none}")), 0, "{none}");
    }

    let (flows, turns) = (&steps[2], &steps[3]);
    assert_eq!(flows["stages"][0]["balance"], "flow");
    let notices = number(flows, "/ports/copies");
    assert!((1..packets / 2).contains(&notices), "{flows}");
    assert_eq!(notices, number(side, "/ports/copies") - packets);
    assert!(number(flows, "/ports/copied_bytes") >= 8 * notices);
    assert_eq!(turns["stages"][0]["balance"], "round-robin");
    assert_eq!(number(turns, "/ports/copies"), notices);
    assert!(number(turns, "/ports/turns") >= packets / 64);
    for step in [flows, turns] {
        assert_eq!(number(step, "/ports/lost"), 0);
    }

    let text = run(["run", &chain, "--in", TRAFFIC, "--quiet"]).out;
    assert!(text.contains("ports: copies "), "{text}");
}

#[test]
fn runtimes_under_a_switch_take_what_equal_functions_said() {
    let office = example("office.yaml");
    let none = through(&office, TRAFFIC, &["--passes", "none"]).whenever_noticed();
    let all = run_json(&office, &["--in", TRAFFIC, "--passes", "all"]);
    let merges = |summary| merged(summary, "office");
    assert_eq!((merges(&none.summary), merges(&all)), (0, 3));
    for runtimes in ["1", "3"] {
        let args = ["--runtimes", runtimes, "--passes", "all"];
        let with = through(&office, TRAFFIC, &args).whenever_noticed();
        same(&none, &with, &format!("{runtimes} runtimes"));
    }
}

fn merged(summary: &serde_json::Value, chain: &str) -> usize {
    let same_as = &summary["plan"][chain]["same_as"];
    same_as.as_object().map_or(0, serde_json::Map::len)
}

/// A tunnel whose inside is not IP: what stands before a function in its stage
/// must not decide whether it is open.
#[test]
fn later_stages_open_tunnels_as_the_first_does() {
    let folder = Folder::new();
    let chain = "chain: c\nflows:\n  inner: true\nnfs: [flow-nop, ttl, nop]\n";
    let chain = folder.write("c.yaml", chain);
    // Ethernet, IPv4 and GRE (RFC 2784) around an Ethernet frame with ARP.
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = 20 + 4 + 14 + 28;
    let network = [
        0x45, 0, 0, length, 0, 1, 0, 0, 64, 47, 0x66, 0x87, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    packet.extend(network);
    packet.extend([0, 0, 0x65, 0x58]);
    packet.extend([255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 3, 8, 6]);
    packet.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    packet.extend([0; 20]);
    let pcap = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 1, 0];
    let lengths = [packet.len() as u32; 2];
    let head = pcap.iter().chain(&lengths).flat_map(|n| n.to_le_bytes());
    let file: Vec<u8> = head.chain(packet).collect();
    let file = folder.write("gre.pcap", file);
    let rtc = through(&chain, &file, &["--plan", "rtc", "--passes", "none"]);
    let with = through(&chain, &file, &["--plan", "pipeline", "--passes", "none"]);
    assert!(stages(&with.summary, "c") > 1);
    same(&rtc, &with, "a tunnel");
}

#[test]
fn a_stage_may_have_as_many_instances_as_the_compiler_allows() {
    let folder = Folder::new();
    let chain = |plan: &str| {
        let nfs = "nfs: [flow-nop, counter]\n";
        folder.write("c.yaml", format!("chain: c\n{nfs}{plan}"))
    };
    let written = through(&chain(""), TRAFFIC, &["--passes", "none"]);
    for instances in [17, 24, 64] {
        let cut = format!("plan: {{mode: pipeline, instances: {{counter: {instances}}}}}\n");
        let with = through(&chain(&cut), TRAFFIC, &[]);
        same(&written, &with, &cut);
        let stage = &with.summary["plan"]["c"]["steps"][1]["stages"][0];
        assert_eq!(number(stage, "/instances"), instances);
    }
}
