//! Alerts of `ids` against those of Suricata, test by test, and again after
//! the streams of every capture were cut into other segments.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_functions::ids::{Ids, Settings};
use weir_io::capture::{OwnedRecord, ResegmentOptions, resegment};
use weir_nf::host::Stage;

use weir_runtime::harness::Harness;

/// Alerts per signature.
type Counts = BTreeMap<u64, u64>;

/// Rules whose count is one of packets, so that it changes when packets are
/// cut; `None` stands for all rules of the test.
const COUNT_PACKETS: [(&str, Option<u64>); 6] = [
    // No handshake was seen: the content is looked for in single packets.
    ("alert-testmyids-not-established", None),
    // As before, and most of its rules hold for every packet.
    ("detect-flowbits", None),
    // No content: every packet that is established counts.
    ("like-ip-only-01", None),
    // `tcp-pkt`.
    ("tcp-fastopen-07", Some(4)),
    ("tcp-fastopen-08", Some(4)),
    ("tcp-split-handshake-02-5whs", Some(3)),
];

/// Tests that do not agree, and why.
const MISSES: [(&str, &str); 3] = [
    (
        "detect-bytetest-02",
        "Suricata reports the same bytes in the packet and in the stream",
    ),
    ("output-eve-tftp-01", "TFTP is not parsed"),
    ("smb-eicar-padding", "SMB is not parsed"),
];

/// Two parts of EICAR's test file, as Suricata's own tests of these captures look for them: one in the middle of the
/// body, one at its start.
const EICAR: &str = r#"
alert http any any -> any any (file_data; content:"EICAR-STANDARD-ANTIVIRUS-TEST-FILE"; sid:1;)
alert http any any -> any any (file_data; content:"X5O!P%@AP[4"; sid:2;)
"#;

struct Case {
    name: String,
    /// Of INDEX.tsv: `A-core`, `B-core-appproto`, `C-extended`, `D-events`.
    class: String,
    settings: Settings,
    packets: Vec<OwnedRecord>,
    expected: Counts,
}

fn cases() -> Option<Vec<Case>> {
    let folder = support::traces()?.join("ids/suricata-verify");
    let Ok(index) = std::fs::read_to_string(folder.join("INDEX.tsv")) else {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("SKIPPED: no {}\n", folder.display()).as_bytes(),
        );
        return None;
    };
    let mut cases = Vec::new();
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [name, class, ..] = columns[..] else {
            panic!("INDEX.tsv: {row:?}");
        };
        cases.push(case(&folder.join(name), name, class));
    }
    Some(cases)
}

fn case(folder: &Path, name: &str, class: &str) -> Case {
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let arguments = expected["suricata_args"].to_string();
    let rules = std::fs::read_to_string(folder.join("test.rules")).unwrap();
    Case {
        name: name.to_owned(),
        class: class.to_owned(),
        settings: Settings {
            rules,
            midstream: arguments.contains("stream.midstream=true"),
            ..Settings::default()
        },
        packets: support::load(&input(folder)),
        expected: expected["observed_suricata_7_0_10"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(sid, count)| (sid.parse().unwrap(), count.as_u64().unwrap()))
            .collect(),
    }
}

fn input(folder: &Path) -> PathBuf {
    ["input.pcap", "input.pcapng"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no capture in {}", folder.display()))
}

/// The alerts, or why the rules don't load.
fn alerts(settings: &Settings, packets: &[OwnedRecord]) -> Result<Counts, String> {
    let mut harness = Harness::builder()
        .with::<Ids>(settings.clone())
        .map_err(|error| error.to_string())?
        .flows(support::inner_flows())
        .build();
    let mut counts = Counts::new();
    for event in support::run(&mut harness, packets) {
        assert_eq!(event["event_type"], "alert");
        let sid = event["alert"]["signature_id"].as_u64().unwrap();
        *counts.entry(sid).or_default() += 1;
    }
    assert_eq!(
        harness.counter("ids", "alerts"),
        counts.values().sum::<u64>()
    );
    Ok(counts)
}

#[test]
fn alerts_are_those_of_suricata() {
    let Some(cases) = cases() else { return };
    let mut by_class: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let found = alerts(&case.settings, &case.packets);
        let right = found.as_ref() == Ok(&case.expected);
        let class = by_class.entry(&case.class).or_default();
        class.0 += usize::from(right);
        class.1 += 1;
        let miss = MISSES.iter().find(|(name, _)| *name == case.name);
        if right == miss.is_some() {
            wrong.push(format!(
                "{} ({}): {found:?}, Suricata: {:?}, listed: {miss:?}",
                case.name, case.class, case.expected
            ));
        }
    }
    for (class, (right, all)) in by_class {
        println!("{class}: {right} of {all} tests agree");
    }
    println!("{wrong:#?}");
    assert!(wrong.is_empty());
}

#[test]
fn alerts_do_not_depend_on_segments() {
    let Some(cases) = cases() else { return };
    let (mut judged, mut wrong) = (0, 0);
    for case in &cases {
        let excluded = |sid: Option<u64>| COUNT_PACKETS.contains(&(case.name.as_str(), sid));
        // Headers are those of packets, whose number changes.
        let headers = case.name.contains("hdr") || case.name.contains("ipv6-");
        let missed = MISSES.iter().any(|(name, _)| *name == case.name);
        if excluded(None) || headers || missed {
            continue;
        }
        let mut expected = case.expected.clone();
        expected.retain(|&sid, _| !excluded(Some(sid)));
        for seed in 0..20 {
            let options = ResegmentOptions::default();
            let packets = resegment(&case.packets, &options, seed);
            let mut found = alerts(&case.settings, &packets).unwrap();
            found.retain(|&sid, _| !excluded(Some(sid)));
            judged += 1;
            if found != expected {
                wrong += 1;
                println!(
                    "{}, seed {seed}: {found:?} instead of {expected:?}",
                    case.name
                );
            }
        }
    }
    println!("{} of {judged} re-segmented captures agree", judged - wrong);
    assert_eq!(wrong, 0);
}

/// Each capture hides the same file from those who read HTTP another way than browsers do: in odd line ends, chunks,
/// codings and heads. Suricata finds both parts in each of them.
#[test]
fn evasions_are_seen_through() {
    let Some(traces) = support::traces() else {
        return;
    };
    let settings = Settings {
        rules: EICAR.to_owned(),
        ..Settings::default()
    };
    let (mut captures, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(traces.join("traces/c-malformed")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("http-evader") {
            continue;
        }
        captures += 1;
        let whole = support::load(&path);
        let expected = Ok(Counts::from([(1, 1), (2, 1)]));
        for seed in 0..4 {
            let packets = match seed {
                0 => whole.clone(),
                seed => resegment(&whole, &ResegmentOptions::default(), seed),
            };
            let found = alerts(&settings, &packets);
            if found != expected {
                wrong.push(format!("{name}, seed {seed}: {found:?}"));
            }
        }
    }
    println!("{captures} captures with evasions, each in 4 forms");
    assert!(captures >= 250, "{captures}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Texts of a folder, without the rules that Suricata refuses.
struct Folder(PathBuf);

impl Folder {
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn rules(&self, name: &str) -> String {
        let refused = self.read("not-loaded-by-suricata-7.0.10.txt");
        let refused: Vec<&str> = refused.lines().collect();
        let sid = |line: &str| Some(line.split_once("sid:")?.1.split_once(';')?.0.to_owned());
        self.read(name)
            .lines()
            .filter(|line| !sid(line).is_some_and(|sid| refused.contains(&sid.as_str())))
            .fold(String::new(), |text, line| text + line + "\n")
    }
}

impl weir_nf::Sources for Folder {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Ok(self.rules(name))
    }
}

/// (trace, sid) → alerts.
type Pairs = BTreeMap<(String, u64), u64>;

/// Pairs that Suricata does not have: it opens neither GRE within UDP nor the link type of NFLOG.
const NOT_THERE: [(&str, u64); 2] = [
    ("d-encap/zeek__gre-over-udp-4754.pcap", 2_013_028),
    ("d-encap/zeek__nflog-http.pcap", 2_013_028),
];

/// Rules of Emerging Threats, and Suricata's alerts over captures.
struct Subset {
    stage: Stage,
    /// Rules that load, with messages parsed.
    rules: usize,
    captures: Vec<(String, Vec<OwnedRecord>)>,
    expected: Pairs,
}

fn skipped(what: &str) {
    // Straight to standard error: the harness keeps what a passed test prints.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED: {what}\n").as_bytes(),
    );
}

impl Subset {
    fn load() -> Option<Subset> {
        let traces = support::traces()?;
        let mut folder = Folder(traces.join("ids/et-open"));
        let counts = folder.read("expected-counts.json");
        if counts.is_empty() {
            skipped(&format!("no alerts in {}", folder.0.display()));
            return None;
        }
        let all = ["HOME_NET", "EXTERNAL_NET", "HTTP_PORTS"];
        let settings = Settings {
            rule_files: vec!["et-core.rules".into(), "et-http.rules".into()],
            classification_file: Some("classification.config".into()),
            unsupported: weir_functions::ids::OnUnsupported::Skip,
            vars: all.map(|name| (name.to_owned(), "any".to_owned())).into(),
            ..Settings::default()
        };
        let builder = Harness::builder()
            .with_sources::<Ids>(settings, &mut folder)
            .unwrap_or_else(|error| panic!("{error}"))
            .flows(support::inner_flows());
        let warnings = format!("{:?}", builder.warnings());
        assert!(warnings.contains("1 of 1607 rules"), "{warnings}");
        let loaded = loaded(&(folder.rules("et-core.rules") + &folder.rules("et-http.rules")));
        let counts: BTreeMap<String, BTreeMap<String, u64>> =
            serde_json::from_str(&counts).unwrap();
        let mut subset = Subset {
            stage: builder.stage(),
            rules: loaded.len(),
            captures: Vec::new(),
            expected: Pairs::new(),
        };
        for (name, by_sid) in counts {
            let path = traces.join("traces").join(&name);
            if !path.exists() {
                skipped(&format!("{name} is not there"));
                continue;
            }
            for (sid, count) in by_sid {
                let sid: u64 = sid.parse().unwrap();
                if loaded.contains(&sid) {
                    subset.expected.insert((name.clone(), sid), count);
                }
            }
            subset.captures.push((name, support::load(&path)));
        }
        Some(subset)
    }

    /// Alerts of a way to run captures, against those of Suricata.
    fn judge(&self, what: &str, run: impl Fn(&[OwnedRecord]) -> Vec<serde_json::Value>) {
        let mut found = Pairs::new();
        for (name, packets) in &self.captures {
            for event in run(packets) {
                let sid = event["alert"]["signature_id"].as_u64().unwrap();
                *found.entry((name.clone(), sid)).or_default() += 1;
            }
        }
        let (mut pairs, mut same, mut missing) = (0, 0, Vec::new());
        for (pair, count) in &self.expected {
            let here = found.remove(pair).unwrap_or(0);
            pairs += usize::from(here > 0);
            same += usize::from(here == *count);
            if here != *count {
                println!("{what}: {pair:?}: {here} alerts instead of {count}");
            }
            if here == 0 {
                missing.push((pair.0.as_str(), pair.1));
            }
        }
        println!(
            "{what}: {} rules: {pairs} of {} pairs agree, {same} also in the number of alerts; {} more: {found:?}",
            self.rules,
            self.expected.len(),
            found.len()
        );
        found.retain(|(name, sid), _| !NOT_THERE.contains(&(name.as_str(), *sid)));
        assert!(
            missing.is_empty() && found.is_empty(),
            "{missing:?} {found:?}"
        );
    }
}

#[test]
fn emerging_threats_rules_find_what_suricata_finds() {
    let Some(subset) = Subset::load() else { return };
    assert!(subset.rules >= 2_576, "{}", subset.rules);
    assert!(subset.expected.len() > 20, "{}", subset.expected.len());
    subset.judge("as captured", |packets| {
        support::run(&mut Harness::of_stage(&subset.stage), packets)
    });
}

#[test]
fn emerging_threats_alerts_do_not_depend_on_segments() {
    let Some(subset) = Subset::load() else { return };
    for seed in [1, 2] {
        subset.judge(&format!("seed {seed}"), |packets| {
            let packets = resegment(packets, &ResegmentOptions::default(), seed);
            support::run(&mut Harness::of_stage(&subset.stage), &packets)
        });
    }
}

#[test]
fn emerging_threats_alerts_do_not_depend_on_moves() {
    let Some(mut subset) = Subset::load() else {
        return;
    };
    // Many flows move slowly: captures without an alert are left out.
    let expected = &subset.expected;
    subset
        .captures
        .retain(|(name, _)| expected.keys().any(|(other, _)| other == name));
    subset.judge("moved", |packets| {
        support::run_moving(&subset.stage, packets)
    });
}

/// Numbers of the rules that are not left out.
fn loaded(text: &str) -> Vec<u64> {
    let all = weir_signatures::AppProtocol::ALL.into_iter();
    let options = weir_signatures::ParseOptions {
        unsupported: weir_signatures::Unsupported::Skip,
        protocols: all.fold(
            weir_signatures::AppProtocols::NONE,
            weir_signatures::AppProtocols::with,
        ),
    };
    let mut variables = weir_signatures::Variables::stock();
    variables.set_address("HOME_NET", "any");
    variables.set_address("EXTERNAL_NET", "any");
    variables.set_port("HTTP_PORTS", "any");
    weir_signatures::parse_rules_with(text, &variables, options)
        .unwrap_or_else(|errors| panic!("{}", errors[0]))
        .rules
        .iter()
        .map(|rule| u64::from(rule.sid))
        .collect()
}
