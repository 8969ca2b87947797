//! What is wrong is said once, clearly: file, line, column, what to do, and an exit code.

mod support;

use support::{Folder, capture, conserved, example, number, packets, run};

/// Checks a chain file; its only complaint must begin so and contain all of `parts`.
#[track_caller]
fn refused(content: &str, place: &str, parts: &[&str]) {
    let folder = Folder::new();
    let file = folder.write("bad.yaml", content);
    for command in ["check", "run"] {
        let mut args = vec![command, file.as_str()];
        if command == "run" {
            args.extend(["--in", "null"]);
        }
        let ran = run(&args);
        assert_eq!(ran.code, 3, "{content}: {}", ran.err);
        let start = format!("{file}:{place}: error: ");
        assert!(
            ran.err.starts_with(&start),
            "not at {place}: {}\n{content}",
            ran.err
        );
        assert_eq!(ran.err.matches("error: ").count(), 1, "{}", ran.err);
        for part in parts {
            assert!(ran.err.contains(part), "no `{part}`: {}", ran.err);
        }
        assert_eq!(ran.out, "", "nothing ran");
    }
}

#[test]
fn two_functions_never_share_an_address_and_port() {
    let nat = |settings: &str| format!("nat44: {{{settings}}}");
    let one_chain = |first: &str, second: &str| {
        format!("chain: a\nnfs:\n  - {first}\n  - {second}\n    as: second\n")
    };
    let wide = nat("pool: 192.0.2.0/28");
    for second in ["pool: 192.0.2.5", "pool: 192.0.2.15, ports: 2000-2999"] {
        refused(
            &one_chain(&wide, &nat(second)),
            "4:19",
            &[
                "`nat44` and `second` both have ports",
                "of 192.0.2.",
                "bad.yaml:3",
            ],
        );
    }
    // Of two chains, whatever packets they take.
    let two = "chains:\n  - chain: a\n    match: [{vlan: 1}]\n    nfs:\n      - nat44: {pool: 192.0.2.1}\n  \
               - chain: b\n    match: [{vlan: 2}]\n    nfs:\n      - nat44: {pool: 192.0.2.1}\n";
    refused(
        two,
        "9:23",
        &[
            "`nat44` of the chain `a` and `nat44` of the chain `b`",
            "each leases ports without knowing the other's, in other VLANs, too",
            "bad.yaml:5",
        ],
    );
    // A virtual service among the ports that clients get.
    let service = "load-balancer: {services: [{vip: 192.0.2.3, port: 8080, backends: [{address: 10.0.0.1}]}]}";
    refused(
        &one_chain(&wide, service),
        "4:5",
        &["both have port 8080 of 192.0.2.3"],
    );
    // Ports that are apart are no clash.
    let folder = Folder::new();
    let apart = one_chain(
        &nat("pool: 192.0.2.3, ports: 1024-32767"),
        &nat("pool: 192.0.2.3, ports: 32768-65535"),
    );
    let ran = run(["check", &folder.write("good.yaml", &apart)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let web = service.replace("8080", "80");
    let ran = run(["check", &folder.write("good.yaml", one_chain(&wide, &web))]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn all_bad_rules_of_a_firewall_are_told_and_rules_that_decide_nothing_warned_of() {
    let folder = Folder::new();
    let file = |rules: &[&str]| {
        let rules: String = rules
            .iter()
            .map(|rule| format!("        - {rule}\n"))
            .collect();
        let text = format!("chain: a\nnfs:\n  - firewall:\n      rules:\n{rules}");
        folder.write("rules.yaml", &text)
    };
    let bad = file(&[
        "acept tcp",
        "accept udp",
        "drop from 10.0.0.1/8",
        "drop tcp to any port x",
    ]);
    let ran = run(["check", &bad]);
    assert_eq!(ran.code, 3);
    for line in [5, 7, 8] {
        let place = format!("{bad}:{line}:");
        assert!(ran.err.contains(&place), "{place}: {}", ran.err);
    }
    assert_eq!(ran.err.matches("error: ").count(), 3, "{}", ran.err);

    let odd = file(&[
        "drop tcp",
        "accept tcp to any port 80",
        "accept udp name a",
        "drop icmp name a",
    ]);
    let ran = run(["check", &odd, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json = ran.json();
    let warnings = json["warnings"].as_array().unwrap();
    let lines: Vec<u64> = warnings.iter().map(|w| number(w, "/line")).collect();
    assert_eq!(lines, [6, 8], "{json}");
    assert!(
        warnings[0]["message"]
            .as_str()
            .unwrap()
            .contains("decides nothing"),
        "{json}"
    );
    assert!(
        warnings[1]["message"]
            .as_str()
            .unwrap()
            .contains("`a` as well"),
        "{json}"
    );
}

#[test]
fn chain_files() {
    refused(
        "chain: a\nnfs:\n  - monitor:\n      evnts: true\n",
        "4:7",
        &["unknown key `evnts`", "did you mean `events`?"],
    );
    refused(
        "chain: a\nflow: {max: 5}\nnfs: [monitor]\n",
        "2:1",
        &["unknown key `flow`", "did you mean `flows`?"],
    );
    refused(
        "chain: a\nnfs:\n  - monitor:\n      events: 7\n",
        "4:15",
        &["expected `true` or `false`, found `7`"],
    );
    refused(
        "chain: a\nnfs: [monitr]\n",
        "2:7",
        &["monitr", "did you mean `monitor`?"],
    );
    refused(
        "chain: a\nnfs:\n  - http-classifier:\n    as: one\n  - monitor:\n    links: {pass: one}\n",
        "6:19",
        &["a loop: `one` → `monitor` → `one`", "a later entry"],
    );
    refused(
        "chain: a\nnfs:\n  - monitor:\n    links: {pass: nowhere}\n",
        "4:19",
        &["there is no instance `nowhere`"],
    );
    refused(
        "chain: a\nnfs: [monitor\n",
        "2:6",
        &["not YAML", "unclosed bracket"],
    );
    refused(
        "chain: a\nports:\n  - {name: x}\nnfs: [monitor]\n",
        "3:5",
        &["side"],
    );
    refused(
        "chain: a\nnfs:\n  - firewall:\n      rules:\n        - accept tcp\n        - acept udp\n",
        "6:11",
        &["acept"],
    );
    refused(
        "chain: a\nnfs:\n  - nat44: {}\n",
        "3:5",
        &["no external address", "pool: 192.0.2.0/28"],
    );
}

#[test]
fn rules_of_the_ids() {
    // In the chain file.
    let rule = "alert tcp any any -> any any (msg:\"x\"; content:\"a\"; sid:1;)";
    let bad = "alert tcp any any -> any any (msg:\"y\"; lua:a.lua; sid:2;)";
    refused(
        &format!("chain: a\nnfs:\n  - ids:\n      rules: |\n        {rule}\n        {bad}\n"),
        "6:48",
        &["unsupported keyword `lua`", "unsupported: skip"],
    );
    // In a file beside it.
    let folder = Folder::new();
    folder.write("web.rules", format!("# rules\n{rule}\n\n{bad}\n"));
    let chain = folder.write(
        "ids.yaml",
        "chain: a\nnfs:\n  - ids: {rule-files: [web.rules]}\n",
    );
    let ran = run(["check", &chain]);
    assert_eq!(ran.code, 3);
    for part in [
        "web.rules:4:40: error: unsupported keyword `lua`",
        bad,
        "ids.yaml:3",
    ] {
        assert!(ran.err.contains(part), "no `{part}`: {}", ran.err);
    }
    // A file that is not there.
    let chain = folder.write(
        "none.yaml",
        "chain: a\nnfs:\n  - ids: {rule-files: [none.rules]}\n",
    );
    let ran = run(["check", &chain]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains(":3:24: error: "), "{}", ran.err);
    assert!(ran.err.contains("none.rules"), "{}", ran.err);
}

#[test]
fn every_mistake_is_told_at_once() {
    let folder = Folder::new();
    let file = folder.write(
        "bad.yaml",
        "chain: a\nflows: {max: none}\nnfs:\n  - monitr\n  - monitor: {events: 7}\n",
    );
    let ran = run(["check", &file]);
    assert_eq!(ran.code, 3);
    for place in [":2:14: ", ":4:5: ", ":5:23: "] {
        assert!(ran.err.contains(place), "nothing at {place}: {}", ran.err);
    }
}

#[test]
fn files_that_are_no_text() {
    let folder = Folder::new();
    let file = folder.write("bad.yaml", b"chain: a\nnfs: [\xff\xfe]\n");
    let ran = run(["check", &file]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains(&format!("{file}:2: error: ")) && ran.err.contains("UTF-8"));
    let ran = run(["check", &folder.path("none.yaml")]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("none.yaml"), "{}", ran.err);
}

/// A run of `bump.yaml` that must fail: what it says.
#[track_caller]
fn fails(code: i32, args: &[&str], parts: &[&str]) {
    let chain = example("bump.yaml");
    let ran = run(["run", chain.as_str()].iter().chain(args));
    assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    for part in parts {
        assert!(
            ran.err.contains(part),
            "{args:?}: no `{part}` in {}",
            ran.err
        );
    }
}

#[test]
fn command_lines() {
    let web = capture("web.pcap");
    fails(2, &[], &["--in"]);
    fails(2, &["--in", "null", "--nonsense"], &["--nonsense"]);
    fails(
        2,
        &["--in", &format!("dmz={web}")],
        &["no port dmz", "inside (inside), outside (outside)"],
    );
    fails(
        2,
        &["--in", "gen:flws=1"],
        &["`flws=1`", "flows, packets, duration"],
    );
    fails(2, &["--in", ""], &["PATH.pcap"]);
    fails(
        3,
        &["--in", "null", "--set", "nup.x=1"],
        &["no instance `nup`", "did you mean `nop`?"],
    );
    fails(2, &["--in", "null", "--set", "nonsense"], &["nonsense"]);
    fails(
        3,
        &["--in", "null", "--set", "flows.max=many"],
        &["a whole number"],
    );
    let ran = run(["nf", "show", "nothing"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = run(["gen", "foo=1", "--out", "null"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = run(["--help"]);
    assert_eq!(ran.code, 0);
    for code in ["0  done", "1  ", "2  ", "3  "] {
        assert!(ran.out.contains(code), "exit code {code} of {}", ran.out);
    }
}

/// A chain with no port on the side that `--in` means.
#[test]
fn a_missing_port() {
    let folder = Folder::new();
    let file = folder.write(
        "one.yaml",
        "chain: a\nports: [{name: wan, side: outside}]\nnfs: [nop]\n",
    );
    let web = capture("web.pcap");
    let ran = run(["run", &file, "--in", &web]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("no port on the inside side") && ran.err.contains("wan (outside)"),
        "{}",
        ran.err
    );
    let ran = run(["run", &file, "--in", &format!("wan={web}")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn captures_that_can_not_be_read() {
    let folder = Folder::new();
    fails(
        1,
        &["--in", &folder.path("none.pcap")],
        &["none.pcap", "No such file"],
    );
    fails(
        1,
        &["--in", &example("bump.yaml")],
        &["bump.yaml", "neither a pcap nor a pcapng file"],
    );
    let empty = folder.write("empty.pcap", "");
    fails(1, &["--in", &empty], &["empty.pcap"]);
    fails(1, &["--in", &folder.path("")], &[&folder.path("")]);
}

#[test]
fn captures_that_end_too_early_are_processed_up_to_there() {
    let folder = Folder::new();
    for name in ["web.pcap", "mixed.pcapng"] {
        let whole = std::fs::read(capture(name)).unwrap();
        for part in [2, 3, 7] {
            // In the middle of a record's bytes, somewhere.
            let cut = folder.write(name, &whole[..whole.len() / part + 3]);
            let (expected, why) = packets(&cut);
            let why = why.unwrap_or_else(|| panic!("{name}/{part} ends between records"));
            let out = folder.path("out.pcapng");
            let chain = example("bump.yaml");
            let ran = run([
                "run", &chain, "--in", &cut, "--out", &out, "--output", "json",
            ]);
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert!(
                ran.err.contains(&format!("warning: {cut}: {why}")),
                "{}",
                ran.err
            );
            let summary = ran.json();
            conserved(&summary);
            assert_eq!(number(&summary, "/packets_out"), expected.len() as u64);
            assert!(
                summary["ports"]["in"][0]["cut_short"].is_string() && summary["warnings"][0] != "",
                "{summary}"
            );
            assert_eq!(packets(&out).0.len(), expected.len());
        }
    }
}

/// `/dev/full` takes no byte.
#[test]
#[cfg(target_os = "linux")]
fn full_disks() {
    let folder = Folder::new();
    let web = capture("web.pcap");
    for ending in ["pcap", "pcapng"] {
        let full = folder.path(&format!("full.{ending}"));
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        // Few packets, which fail when the file is closed, and many, which fail before.
        for from in [web.as_str(), "gen:packets=5000,size=1000"] {
            fails(
                1,
                &["--in", from, "--out", &full],
                &[&full, "No space left", "free some space"],
            );
        }
        let ran = run(["gen", "packets=10", "--out", &full]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("No space left"), "{}", ran.err);
    }
    fails(
        1,
        &["--in", "gen:packets=5000", "--out", "/nowhere/x.pcap"],
        &["/nowhere/x.pcap", "No such file"],
    );
    fails(1, &["--in", &web, "--out", "x.txt"], &[".pcap or .pcapng"]);
    let chain = example("monitor.yaml");
    let ran = run(["run", &chain, "--in", &web, "--events", "/dev/full"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("/dev/full: No space left"), "{}", ran.err);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = support::weir(["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let folder = Folder::new();
    let content = std::fs::read(capture("web.pcap")).unwrap();
    let input = folder.write("in.pcap", &content);
    let chain = folder.write("chain.yaml", "chain: a\nnfs: [monitor]\n");
    let linked = folder.path("linked.pcap");
    std::fs::hard_link(&input, &linked).unwrap();
    let base = ["run", &chain, "--in", &input];
    for (more, part) in [
        (["--events", &input, "-q", "-q"], "an input"),
        (["--events", &linked, "-q", "-q"], "an input"),
        (["--events", &chain, "-q", "-q"], "an input"),
        (["--out", &linked, "-q", "-q"], "an input"),
        (["--out", "o.pcap", "--events", "o.pcap"], "same file"),
        (["--out", "-", "--events", "-"], "standard output"),
        (["--in", "-", "--in", "-"], "standard input"),
    ] {
        let more = more.iter().filter(|arg| **arg != "-q");
        let ran = run(base.iter().chain(more));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(part), "{}", ran.err);
        assert_eq!(std::fs::read(&input).unwrap(), content);
        assert!(
            std::fs::read_to_string(&chain)
                .unwrap()
                .starts_with("chain")
        );
    }
    // Nor is anything emptied by a run that can't begin.
    let events = folder.write("events.json", "old\n");
    let ran = run(["run", &chain, "--in", "none.pcap", "--events", &events]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&events).unwrap(), "old\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_refused() {
    let folder = Folder::new();
    let rules = folder.write(
        "rules.yaml",
        "chain: a\nnfs:\n  - ids: {rule-files: [/dev/zero]}\n",
    );
    for (file, code) in [("/dev/zero", 1), (rules.as_str(), 3)] {
        let ran = run(["check", file]);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(ran.err.contains("MiB"), "{}", ran.err);
    }
}
