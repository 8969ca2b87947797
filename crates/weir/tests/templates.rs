//! The templates that come with weir over captures, and templates of one's own.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{Folder, capture, events, example, number, packets, run, run_json, sum, traces};

/// A chain that is one template with these settings.
fn chain(template: &str, settings: &str) -> String {
    format!("chain: one\nnfs:\n  - {template}: {settings}\n")
}

/// Each template that comes with weir, with what it needs.
const SHIPPED: &[(&str, &str)] = &[
    ("application-firewall", "{form-body: true}"),
    (
        "edge-firewall",
        "{default: accept, blocked: [192.0.2.0/24]}",
    ),
    (
        "load-balancing",
        "{address: 203.0.113.80, port: 80, servers: [{address: 198.51.100.11}], rate: 100Mbit, route: true}",
    ),
    ("monitoring", "{urls: true, sizes: true}"),
    ("wan-optimizer", "{site: clients}"),
];

fn data(path: &str) -> Vec<Vec<u8>> {
    packets(path).0.into_iter().map(|p| p.data).collect()
}

#[test]
fn each_is_listed_and_tried_here() {
    let listed = run(["nf", "list", "--output", "json"]).json();
    let listed: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|nf| nf.get("template").is_some())
        .map(|nf| nf["name"].as_str().unwrap())
        .collect();
    let tried: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, tried);
}

#[test]
fn manuals_name_processors_and_settings() {
    for (name, _) in SHIPPED {
        let page = run(["nf", "show", name]);
        assert_eq!(page.code, 0, "{}", page.err);
        assert!(page.out.starts_with(&format!("{name}: ")), "{}", page.out);
        assert!(page.out.lines().all(|l| !l.ends_with(' ')), "{}", page.out);
        let all = run(["nf", "show", name, "--output", "json"]).json();
        for key in ["summary", "manual"] {
            assert!(!all[key].as_str().unwrap().is_empty(), "{name}: {key}");
        }
        for setting in all["settings"].as_array().unwrap() {
            let (setting, told) = (&setting["name"], &setting["description"]);
            assert!(!told.as_str().unwrap().is_empty(), "{name}: {setting}");
            assert!(
                page.out
                    .contains(&format!("\n  {}: ", setting.as_str().unwrap()))
            );
        }
        for processor in all["processors"].as_array().unwrap() {
            assert!(page.out.contains(processor["name"].as_str().unwrap()));
        }
    }
}

#[test]
fn each_runs_over_real_captures() {
    let folder = Folder::new();
    let mut captures = vec![
        capture("attack.pcap"),
        capture("mixed.pcapng"),
        capture("web.pcap"),
    ];
    if let Some(traces) = traces() {
        for place in ["b-http", "c-malformed", "d-encap", "f-ipv6"] {
            let mut files: Vec<_> = std::fs::read_dir(traces.join("traces").join(place))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.metadata().unwrap().len() < 1 << 20)
                .collect();
            files.sort();
            captures.extend(files.iter().take(12).map(|path| path.display().to_string()));
        }
    }
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    for (name, settings) in SHIPPED {
        let file = folder.write(&format!("{name}.yaml"), chain(name, settings));
        for input in &captures {
            // Some captures are damaged; what was read of them is accounted for.
            let ran = run(["run", &file, "-q", "--output", "json", "--in", input]);
            assert!(
                ran.code == 0 || input.contains("traces"),
                "{input}: {}",
                ran.err
            );
            if ran.out.is_empty() {
                continue;
            }
            let summary = ran.json();
            support::conserved(&summary);
            for (nf, counts) in summary["nfs"].as_object().unwrap() {
                assert!(nf.starts_with(&format!("{name}/")), "{nf}");
                *reached.entry(nf.clone()).or_default() += number(counts, "/packets");
            }
        }
    }
    assert!(reached.len() > 15, "{reached:?}");
    for (nf, packets) in reached {
        assert!(packets > 0, "no packet reached {nf}");
    }
}

/// The chain written by hand of which the office's templates are made.
const BY_HAND: &str = "\
chain: office
nfs:
  - ip-check: {martians: false}
    as: a
  - firewall:
      default: drop
      log-default: true
      rules:
        - drop from 192.0.2.0/24 name blocked-source
        - drop to 192.0.2.0/24 name blocked-destination
        - accept tcp to any port 80,8080 name web
        - accept tcp to any port 443 name tls
        - accept icmp,icmpv6 name ping
  - ip-check: {martians: false}
    as: b
  - classifier: {classes: [{protocol: tcp, to-port: [80, 8080]}, {protocol: tcp, from-port: [80, 8080]}]}
    as: b2
    links: {class-1: to, class-2: from, pass: rest}
  - counter:
    as: to
    links: {pass: urls}
  - counter:
    as: from
    links: {pass: urls}
  - counter:
    as: rest
    links: {pass: monitor}
  - url-counter:
    as: urls
  - monitor: {events: true}
  - ip-check: {martians: false}
    as: c
  - classifier: {classes: [{protocol: tcp, to-port: [80, 8080]}, {protocol: tcp, from-port: [80, 8080]}]}
    as: c2
    links: {class-1: http-classifier, class-2: http-classifier, pass: slow}
  - http-classifier:
    links: {other: slow}
  - url-validator: {action: drop, sql-injection: true, cross-site-scripting: true, path-traversal: true, form-body: true}
    links: {pass: out}
  - policer: {rate: 1Mbit, burst: 64kB}
    as: slow
";

#[test]
fn templates_do_what_their_processors_do() {
    let folder = Folder::new();
    let by_hand = folder.write("hand.yaml", BY_HAND);
    let mut inputs = vec![capture("attack.pcap"), capture("mixed.pcapng")];
    inputs.extend(traces().map(|traces| {
        let path = traces.join("traces/b-http/zeek__cooper-grill-dvwa.pcapng");
        path.display().to_string()
    }));
    for input in inputs {
        let go = |chain: &str, name: &str| {
            let (out, told) = (folder.path(&format!("{name}.pcapng")), folder.path(name));
            // Events are appended: those of an earlier run are not this one's.
            let _ = std::fs::remove_file(&told);
            let args = [
                "--in", &input, "--out", &out, "--events", &told, "--seed", "5",
            ];
            let summary = run_json(chain, &args);
            let events: Vec<Value> = events(&told);
            (summary, data(&out), events)
        };
        let (one, packets_one, events_one) = go(&example("office.yaml"), "one");
        let (two, packets_two, events_two) = go(&by_hand, "two");
        assert!(packets_one == packets_two, "{input}: other packets");
        assert_eq!(events_one, events_two, "{input}");
        assert_eq!(sum(&one, "/drops"), sum(&two, "/drops"), "{one}");
        let counts = |summary: &Value| -> Vec<Value> {
            let nfs = summary["nfs"].as_object().unwrap().values();
            nfs.map(|nf| nf["counters"].clone()).collect()
        };
        assert_eq!(counts(&one), counts(&two), "{input}");
        assert!(!packets_one.is_empty());
    }
}

#[test]
fn the_application_firewall_ends_the_attacks_and_sends_the_rest_by_its_label() {
    let folder = Folder::new();
    let file = folder.write(
        "waf.yaml",
        "chain: waf\nnfs:\n  - application-firewall:\n    as: waf\n    links: {pass: out, other: rest}\n  - counter:\n    as: rest\n",
    );
    let args = [
        "--in",
        &capture("attack.pcap"),
        "--events",
        &folder.path("e"),
    ];
    let summary = run_json(&file, &args);
    let alerts = events(&folder.path("e"))
        .iter()
        .filter(|event| event["event_type"] == "alert")
        .count();
    assert_eq!(alerts, 7, "{summary}");
    assert!(
        number(&summary, "/drops/waf~1url-validator.blocked") > 0,
        "{summary}"
    );
    let through = number(&summary, "/nfs/waf~1url-validator/packets");
    let rest = number(&summary, "/nfs/rest/packets");
    assert!(
        rest > 0 && through + rest == number(&summary, "/packets_in"),
        "{summary}"
    );
    // Alerts only: nothing is dropped.
    let args = ["--in", &capture("attack.pcap"), "--set", "waf.action=alert"];
    assert_eq!(sum(&run_json(&file, &args), "/drops"), 0);
}

#[test]
fn a_pair_of_wan_optimizers_gives_the_bytes_back() {
    let folder = Folder::new();
    let both = folder.write(
        "both.yaml",
        "chain: both\nnfs:\n  - wan-optimizer: {site: clients}\n    as: near\n  - wan-optimizer: {site: servers}\n    as: far\n",
    );
    let one = folder.write("one.yaml", chain("wan-optimizer", "{site: clients}"));
    let mut compressed = 0;
    let mut inputs = vec![capture("web.pcap"), capture("attack.pcap")];
    if let Some(traces) = traces() {
        for name in [
            "zeek__post.pcap",
            "zeek__methods.pcap",
            "pcapplusplus__4KHttpRequests.pcap",
        ] {
            inputs.push(
                traces
                    .join("traces/b-http")
                    .join(name)
                    .display()
                    .to_string(),
            );
        }
    }
    for input in inputs {
        let (out, link) = (folder.path("out.pcapng"), folder.path("link.pcapng"));
        let summary = run_json(&both, &["--in", &input, "--out", &out]);
        let before = data(&input);
        // In one chain responses meet `near` first, which has nothing to give back
        // yet: they leave as `far` sends them over the link, and come to `near` now.
        run_json(&one, &["--in", &out, "--out", &link]);
        let (between, after) = (data(&out), data(&link));
        assert_eq!((between.len(), after.len()), (before.len(), before.len()));
        for (number, packet) in before.iter().enumerate() {
            // Requests were given back by `far`, responses by `near`.
            let back = [&between[number], &after[number]].contains(&packet);
            assert!(back, "{input}: packet {number} is another");
        }
        assert_eq!(sum(&summary, "/drops"), 0, "{summary}");
        let count = |at: &str| number(&summary, &format!("/nfs/{at}/counters/compressed"));
        compressed += count("near~1compress-requests") + count("far~1compress-responses");
        assert_eq!(
            count("near~1compress-requests"),
            number(
                &summary,
                "/nfs/far~1decompress-requests/counters/decompressed"
            ),
        );
    }
    assert!(compressed > 20, "{compressed}");
}

const MINE: &str = "\
template: mine
settings:
  sort: {type: boolean, default: false}
processors:
  - size-histogram
  - http-classifier:
    when: $sort
";

#[test]
fn templates_of_ones_own() {
    let folder = Folder::new();
    let file = folder.write("chain.yaml", "chain: a\nnfs: [mine, monitor]\n");
    let input = capture("web.pcap");
    // Nowhere yet.
    let ran = run(["check", &file]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.err
            .contains("chain.yaml:2:7: error: there is no function `mine`"),
        "{}",
        ran.err
    );
    // In a folder that is named.
    let more = Folder::new();
    more.write("mine.yaml", MINE);
    more.write("README.md", "no template");
    let place = more.path("");
    let summary = run_json(
        &file,
        &[
            "--in",
            &input,
            "--templates",
            &place,
            "--set",
            "mine.sort=true",
        ],
    );
    let names: Vec<&String> = summary["nfs"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["mine/size-histogram", "mine/http-classifier", "monitor"]
    );
    let list = run(["nf", "list", "--templates", &place]);
    assert!(list.out.contains("\nmine "), "{}", list.out);
    let show = run(["nf", "show", "mine", "--templates", &place]);
    assert!(show.out.contains("if sort is given"), "{}", show.out);
    let schema = run(["schema", "--templates", &place]).json();
    assert!(schema.to_string().contains("\"const\":\"mine\""));
    // Beside the chain file; and the same folder named as well is read once.
    std::fs::create_dir(folder.path("templates")).unwrap();
    folder.write("templates/mine.yml", MINE);
    let beside = folder.path("templates");
    for extra in [&[][..], &["--templates", beside.as_str()][..]] {
        let ran = run(["check", file.as_str()].iter().chain(extra));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let line = "  mine is mine/size-histogram; left out: mine/http-classifier\n";
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    // Both: one name, two templates.
    let ran = run(["check", &file, "--templates", &place]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.err.contains("error: the template `mine` is here twice"),
        "{}",
        ran.err
    );
    // A folder that isn't there.
    let ran = run(["check", &file, "--templates", "/nonexistent"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("can't read /nonexistent"), "{}", ran.err);
    // Names that are taken.
    for (name, what) in [
        ("monitor", "`monitor` is the name of a function"),
        (
            "monitoring",
            "`monitoring` is a template that comes with weir",
        ),
    ] {
        folder.write(
            "templates/mine.yml",
            MINE.replace(": mine", &format!(": {name}")),
        );
        let ran = run(["check", &file]);
        assert_eq!(ran.code, 3);
        assert!(
            ran.err.contains(&format!("mine.yml:1:11: error: {what}")),
            "{}",
            ran.err
        );
    }
}

/// The YAML blocks of a document.
fn blocks(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(support::root().join("docs").join(name)).unwrap();
    let mut blocks = Vec::new();
    for part in text.split("```yaml\n").skip(1) {
        blocks.push(part.split("```").next().unwrap().to_owned());
    }
    blocks
}

#[test]
fn what_the_documents_show_works() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("templates")).unwrap();
    let guard = blocks("templates.md")
        .into_iter()
        .find(|b| b.starts_with("template: guard"));
    folder.write("templates/guard.yaml", guard.unwrap());
    let mut chains = blocks("templates.md");
    chains.extend(blocks("chain-file.md"));
    chains.retain(|block| !block.starts_with("template: "));
    chains.push("nfs: [{guard: {trusted: 10.0.0.0/8}, links: {other: out}}]\n".to_owned());
    assert!(chains.len() >= 5);
    for chain in chains {
        // Parts of a file, made whole.
        let named = if chain.starts_with("nfs:") {
            format!("chain: part\n{chain}")
        } else if chain.starts_with("network:") || chain.starts_with("threads:") {
            let ports = match chain.contains("lan:") {
                true => "ports: [{name: lan, side: inside}, {name: wan, side: outside}]\n",
                false => "",
            };
            format!("chain: part\nnfs: [nop]\n{ports}{chain}")
        } else {
            chain
        };
        let file = folder.write("chain.yaml", &named);
        let ran = run(["check", &file]);
        assert_eq!(ran.code, 0, "{}\n{named}", ran.err);
    }
}
