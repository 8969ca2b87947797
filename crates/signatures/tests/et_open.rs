//! The Emerging Threats rules of the shared folder: every rule loads, or is skipped by the name of what it
//! uses, or has a real fault.

mod common;

use common::traces::traces;
use weir_signatures::*;

#[test]
fn every_rule_loads_or_is_named() {
    let Some(traces) = traces() else {
        return;
    };
    let folder = traces.join("ids/et-open");
    let mut variables = Variables::stock();
    for name in ["HOME_NET", "EXTERNAL_NET"] {
        variables.set_address(name, "any");
    }
    variables.set_port("HTTP_PORTS", "any");
    let refused =
        std::fs::read_to_string(folder.join("not-loaded-by-suricata-7.0.10.txt")).unwrap();
    let mut rules = Vec::new();
    for file in ["et-core.rules", "et-http.rules"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let options = ParseOptions {
            unsupported: Unsupported::Skip,
            ..ParseOptions::default()
        };
        let (parsed, errors) = parse_rules_lossy(&text, &variables, options);
        let lines: Vec<&str> = text.lines().collect();
        let written = lines
            .iter()
            .filter(|line| line.starts_with("alert "))
            .count();
        assert_eq!(
            parsed.rules.len() + parsed.skipped.len() + errors.len(),
            written,
            "{file}"
        );
        eprintln!(
            "{file}: {written} rules, {} loaded, {} skipped {:?}, {} faulty",
            parsed.rules.len(),
            parsed.skipped.len(),
            parsed.skipped_by_name(),
            errors.len(),
        );
        for skipped in &parsed.skipped {
            if skipped.reason == SkipReason::NothingLeft {
                let sid = skipped.sid.unwrap().to_string();
                assert!(refused.lines().any(|known| known == sid), "{skipped:?}");
                continue;
            }
            let SkipReason::Keywords(names) = &skipped.reason else {
                panic!("{skipped:?}");
            };
            let line = lines[skipped.line - 1];
            assert!(!names.is_empty() && skipped.sid.is_some());
            assert!(
                names.iter().all(|name| line.contains(name.as_str())),
                "{skipped:?}"
            );
        }
        for error in &errors {
            // What is faulty for us is faulty for Suricata.
            let line = lines[error.line - 1];
            let sid = line
                .split("sid:")
                .nth(1)
                .and_then(|rest| rest.split(';').next())
                .unwrap();
            assert!(
                refused.lines().any(|known| known == sid),
                "sid {sid}: {error}"
            );
        }
        rules.extend(parsed.rules);
    }
    assert_eq!(with_http(&folder, &variables), (2_582, 5));
    assert!(rules.len() >= 963, "{}", rules.len());
    let set = RuleSet::compile(rules, CompileOptions::default()).unwrap();
    let (patterns, bytes) = set.prefilter_size();
    eprintln!(
        "{} rules, {patterns} patterns, {bytes} bytes of tables",
        set.len()
    );
    let classes = std::fs::read_to_string(folder.join("classification.config")).unwrap();
    let classes = Classifications::parse(&classes).unwrap();
    for rule in set.rules() {
        let name = rule.classtype.as_deref().unwrap();
        let standard = Classifications::standard()
            .get(name)
            .map(|class| class.priority);
        assert_eq!(
            classes.get(name).map(|class| class.priority),
            standard,
            "{name}"
        );
    }
}

/// How many rules of both files load, and how many do not, when HTTP's buffers are handed in.
fn with_http(folder: &std::path::Path, variables: &Variables) -> (usize, usize) {
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
        protocols: AppProtocols::NONE.with(AppProtocol::Http),
    };
    let (mut rules, mut others) = (Vec::new(), 0);
    for file in ["et-core.rules", "et-http.rules"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let (parsed, errors) = parse_rules_lossy(&text, variables, options);
        for skipped in &parsed.skipped {
            eprintln!("{file}: {skipped:?}");
        }
        for error in &errors {
            eprintln!("{file}: {error}");
        }
        others += parsed.skipped.len() + errors.len();
        rules.extend(parsed.rules);
    }
    let set = RuleSet::compile(rules, CompileOptions::default()).unwrap();
    assert!(set.needs_messages());
    (set.len(), others)
}

/// Alerts on real traffic are those of Suricata, by capture and rule.
#[test]
fn alerts_on_real_traffic() {
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
        ..ParseOptions::default()
    };
    compare(&["et-core.rules"], options, true);
}

/// The same with the rules on HTTP, whose buffers the parsers of `weir-dissect` give: by capture and rule,
/// but not how often.
#[test]
fn alerts_on_real_http() {
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
        protocols: AppProtocols::NONE.with(AppProtocol::Http),
    };
    compare(&["et-core.rules", "et-http.rules"], options, false);
}

/// What is needed of other crates: a stream that goes on behind lost bytes, and opening Geneve.
const NOT_HERE: [(&str, u32); 2] = [
    (
        "b-http/zeek__1000-requests-one-dropped-response.pcap",
        2_023_668,
    ),
    ("d-encap/zeek__geneve-many-options.pcap", 2_013_028),
];

/// Takes out of `expected` what is not for these tests; that it is not there is checked.
fn leave_out(name: &str, alerts: &Counts, expected: &mut Counts) {
    for (_, sid) in NOT_HERE.iter().filter(|known| known.0 == name) {
        if expected.remove(sid).is_some() {
            assert_eq!(alerts.get(sid), None, "{name} needs no exception");
        }
    }
}

type Counts = std::collections::BTreeMap<u32, usize>;

fn compiled(folder: &std::path::Path, files: &[&str], options: ParseOptions) -> RuleSet {
    let mut variables = Variables::stock();
    for name in ["HOME_NET", "EXTERNAL_NET"] {
        variables.set_address(name, "any");
    }
    variables.set_port("HTTP_PORTS", "any");
    let mut rules = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        rules.extend(parse_rules_lossy(&text, &variables, options).0.rules);
    }
    let options = CompileOptions {
        report_packet_and_stream: true,
        ..CompileOptions::default()
    };
    RuleSet::compile(rules, options).unwrap()
}

fn compare(files: &[&str], options: ParseOptions, counted: bool) {
    let Some(traces) = traces() else {
        return;
    };
    let folder = traces.join("ids/et-open");
    let set = compiled(&folder, files, options);
    let loaded: Vec<u32> = set.rules().map(|rule| rule.sid).collect();
    let counts = std::fs::read_to_string(folder.join("expected-counts.json")).unwrap();
    let (mut run, mut alerts, mut trace) = (0, 0, None);
    let mut wrong = Vec::new();
    for line in counts.lines() {
        let fields: Vec<&str> = line.split('"').collect();
        if let &[_, name, rest] = fields.as_slice() {
            if rest.contains('{') {
                trace = Some((name, std::collections::BTreeMap::new()));
            } else if let (Some((_, expected)), Ok(sid)) = (&mut trace, name.parse::<u32>()) {
                let count: usize = rest.trim_matches([':', ' ', ',']).parse().unwrap();
                if loaded.contains(&sid) {
                    expected.insert(sid, count);
                }
            }
            if !rest.contains('}') && rest.contains('{') {
                continue;
            }
        }
        if line.contains('}')
            && let Some((name, mut expected)) = trace.take()
        {
            let path = traces.join("traces").join(name);
            let packets = if path.is_file() {
                common::capture::read(&path)
            } else {
                Vec::new()
            };
            if packets.is_empty() {
                continue;
            }
            let mut state = common::session::Run::new(&set, false, usize::MAX);
            for packet in &packets {
                state.packet(packet);
            }
            state.finish();
            run += 1;
            alerts += expected.values().sum::<usize>();
            if !counted {
                expected.values_mut().for_each(|count| *count = 1);
                state.alerts.values_mut().for_each(|count| *count = 1);
            }
            leave_out(name, &state.alerts, &mut expected);
            if state.alerts != expected {
                wrong.push(format!(
                    "{name}: {:?} instead of {expected:?}",
                    state.alerts
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    eprintln!("{run} captures, {alerts} alerts");
    assert!(run > 80 && alerts >= 30);
}
