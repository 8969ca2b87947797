//! The Emerging Threats rules of the shared folder: every rule loads, or is skipped by the name of what it
//! uses, or has a real fault.

mod common;

use common::traces;
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

/// Alerts on real traffic are those of Suricata, by capture and rule.
#[test]
fn alerts_on_real_traffic() {
    let Some(traces) = traces() else {
        return;
    };
    let folder = traces.join("ids/et-open");
    let mut variables = Variables::stock();
    for name in ["HOME_NET", "EXTERNAL_NET"] {
        variables.set_address(name, "any");
    }
    variables.set_port("HTTP_PORTS", "any");
    let text = std::fs::read_to_string(folder.join("et-core.rules")).unwrap();
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
    };
    let rules = parse_rules_lossy(&text, &variables, options).0.rules;
    let options = CompileOptions {
        report_packet_and_stream: true,
        ..CompileOptions::default()
    };
    let set = RuleSet::compile(rules, options).unwrap();
    let loaded: Vec<u32> = set.rules().map(|rule| rule.sid).collect();
    let counts = std::fs::read_to_string(folder.join("expected-counts.json")).unwrap();
    let (mut run, mut alerts, mut trace) = (0, 0, None);
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
            && let Some((name, expected)) = trace.take()
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
            run += 1;
            alerts += expected.values().sum::<usize>();
            assert_eq!(state.alerts, expected, "{name}");
        }
    }
    eprintln!("{run} captures, {alerts} alerts");
    assert!(run > 80 && alerts >= 30);
}
