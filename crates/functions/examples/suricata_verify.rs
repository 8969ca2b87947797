//! How many of Suricata's own tests of rules `ids` passes.
//!
//! `git clone https://github.com/OISF/suricata-verify`, then `cargo run --release -p weir-functions --example
//! suricata_verify -- suricata-verify [PART-OF-A-NAME]`. A test counts where it is for Suricata 7.0.10, has rules, a
//! capture and a check of alerts. Of a check with fields that weir's alerts do not have, or that count otherwise
//! (`pcap_cnt`, the packet that acknowledges), the alerts of its rule are counted: there must be at least as many, and
//! the test agrees in part. Tests with a `suricata.yaml` of their own are counted apart, since their settings are not
//! read.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};
use weir_functions::ids::{Act, Ids, Settings};
use weir_nf::Sources;
use weir_runtime::harness::Harness;

/// The release whose checks count.
const VERSION: [u64; 3] = [7, 0, 10];
/// Fields of alerts that are compared.
const COMPARED: [&str; 8] = [
    "event_type",
    "alert.signature_id",
    "alert.gid",
    "alert.signature",
    "src_ip",
    "dest_ip",
    "src_port",
    "dest_port",
];

/// The outcome of a test.
enum Outcome {
    Agrees,
    /// As far as it can be compared.
    AgreesInPart,
    Differs(String),
    /// Why the rules don't load.
    NotLoaded(String),
    /// Why the test does not count.
    LeftOut(&'static str),
}

fn main() {
    let mut words = std::env::args().skip(1);
    let Some(folder) = words.next().map(|folder| Path::new(&folder).join("tests")) else {
        eprintln!("give the folder of suricata-verify");
        std::process::exit(2);
    };
    let part = words.next().unwrap_or_default();
    let mut tests = Vec::new();
    find(&folder, &mut tests);
    tests.sort();
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    for test in tests {
        let name = test
            .strip_prefix(&folder)
            .unwrap_or(&test)
            .display()
            .to_string();
        if !name.contains(&part) {
            continue;
        }
        let own = test.join("suricata.yaml").exists();
        let of = if own { " (settings of its own)" } else { "" };
        let word = match run(&test) {
            Outcome::Agrees => format!("agrees{of}"),
            Outcome::AgreesInPart => format!("agrees in part{of}"),
            Outcome::Differs(how) => {
                println!("{name}{of}: {how}");
                format!("differs{of}")
            }
            Outcome::NotLoaded(why) => {
                println!("{name}{of}: {why}");
                format!("rules don't load{of}")
            }
            Outcome::LeftOut(why) => format!("left out: {why}"),
        };
        *sums.entry(word).or_default() += 1;
    }
    println!();
    for (word, count) in sums {
        println!("{count:>5} {word}");
    }
}

/// Folders with a `test.yaml`.
fn find(folder: &Path, tests: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().is_dir()) {
        if entry.path().join("test.yaml").exists() {
            tests.push(entry.path());
        }
        find(&entry.path(), tests);
    }
}

fn run(test: &Path) -> Outcome {
    let text = std::fs::read_to_string(test.join("test.yaml")).unwrap_or_default();
    let Some(yaml) = yaml(&text) else {
        return Outcome::LeftOut("its test.yaml can't be read");
    };
    if !fits(&yaml["requires"]) {
        return Outcome::LeftOut("for another release");
    }
    let arguments = arguments(&yaml);
    let Some(rules) = rules(test, &arguments) else {
        return Outcome::LeftOut("no rules");
    };
    let Some(capture) = capture(test, &yaml) else {
        return Outcome::LeftOut("no capture");
    };
    let checks: Vec<&Value> = checks(&yaml).collect();
    if checks.is_empty() {
        return Outcome::LeftOut("no check of alerts");
    }
    let text = std::fs::read_to_string(&rules).unwrap_or_default();
    let blocks = arguments.contains("simulate-ips") || text.contains("drop ");
    let settings = Settings {
        rule_files: vec![rules.display().to_string()],
        midstream: arguments.contains("midstream=true"),
        action: if blocks { Act::Rule } else { Act::Alert },
        ..Settings::default()
    };
    match alerts(settings, &capture) {
        Err(why) => Outcome::NotLoaded(why),
        Ok(alerts) => judge(&checks, &alerts),
    }
}

fn arguments(yaml: &Value) -> String {
    let all = yaml["args"].as_array().into_iter().flatten();
    let all: Vec<&str> = all.filter_map(Value::as_str).collect();
    all.join(" ")
}

/// True where the release is one that these requirements name.
fn fits(requires: &Value) -> bool {
    let listed = requires.as_array().into_iter().flatten();
    let all = listed.chain([requires]).filter_map(Value::as_object);
    let mut conditions = all.flatten();
    conditions.all(|(name, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let numbers = value.split(|c: char| !c.is_ascii_digit());
        let wanted: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        match name.as_str() {
            "min-version" => VERSION[..] >= wanted[..],
            "lt-version" => VERSION[..] < wanted[..],
            "version" => VERSION.starts_with(&wanted),
            "features" => !value.contains("LUA"),
            _ => true,
        }
    })
}

/// The file of rules: `test.rules`, or that of `-s` or `-S`.
fn rules(test: &Path, arguments: &str) -> Option<PathBuf> {
    let mut words = arguments.split_whitespace();
    let named = words
        .find(|word| matches!(*word, "-s" | "-S"))
        .and_then(|_| words.next());
    let file = match named {
        Some(name) => test.join(name.replace("${TEST_DIR}/", "")),
        None => test.join("test.rules"),
    };
    file.is_file().then_some(file)
}

fn capture(test: &Path, yaml: &Value) -> Option<PathBuf> {
    if let Some(name) = yaml["pcap"].as_str() {
        return Some(test.join(name)).filter(|file| file.is_file());
    }
    let entries = std::fs::read_dir(test)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let is_capture = |file: &PathBuf| {
        let end = file.extension().and_then(|end| end.to_str());
        matches!(end, Some("pcap" | "pcapng" | "cap"))
    };
    let mut files: Vec<PathBuf> = entries.filter(is_capture).collect();
    files.sort();
    files
        .into_iter()
        .next()
        .filter(|_| yaml["pcap"] != Value::Bool(false))
}

/// The filters that count alerts.
fn checks(yaml: &Value) -> impl Iterator<Item = &Value> {
    let all = yaml["checks"].as_array().into_iter().flatten();
    all.filter_map(|check| {
        let filter = check.get("filter")?;
        let counts = filter["match"]["event_type"] == "alert" && filter["count"].is_u64();
        let of_release = [check, filter]
            .into_iter()
            .all(|at| fits(&at["requires"]) && fits(at));
        (counts && of_release).then_some(filter)
    })
}

/// The alerts of a capture, or why the rules don't load.
fn alerts(settings: Settings, capture: &Path) -> Result<Vec<Value>, String> {
    let builder = Harness::builder().with_sources::<Ids>(settings, &mut Files);
    let builder = builder.map_err(|why| why.message)?;
    let mut harness = builder.flows(support::inner_flows()).build();
    Ok(support::run(&mut harness, &support::load(capture)))
}

/// Files as rules name them.
struct Files;

impl Sources for Files {
    fn text(&mut self, name: &str) -> Result<String, String> {
        std::fs::read_to_string(name).map_err(|why| format!("{name}: {why}"))
    }
}

fn judge(checks: &[&Value], alerts: &[Value]) -> Outcome {
    let mut wrong = Vec::new();
    // Counts of checks with other fields, by what of them is compared.
    let mut others: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for check in checks {
        let fields = check["match"].as_object().into_iter().flatten();
        let (compared, other): (Vec<_>, Vec<_>) =
            fields.partition(|(name, _)| COMPARED.contains(&name.as_str()));
        let fits = |alert: &&Value| {
            compared
                .iter()
                .all(|(name, value)| at(alert, name) == Some(value))
        };
        let found = alerts.iter().filter(fits).count() as u64;
        let wanted = check["count"].as_u64().unwrap_or(0);
        let name = compared
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let name = name
            .filter(|name| !name.starts_with("event_type"))
            .collect::<Vec<_>>()
            .join(", ");
        if other.is_empty() {
            if found != wanted {
                wrong.push(format!("{name}: {found} for {wanted}"));
            }
        } else {
            let sum = others.entry(name).or_default();
            *sum = (sum.0 + wanted, found);
        }
    }
    let missing = others.iter().filter(|(_, (wanted, found))| found < wanted);
    wrong.extend(missing.map(|(name, (wanted, found))| format!("{name}: {found} for {wanted}")));
    match (wrong.is_empty(), others.is_empty()) {
        (true, true) => Outcome::Agrees,
        (true, false) => Outcome::AgreesInPart,
        (false, _) => Outcome::Differs(wrong.join("; ")),
    }
}

/// A field by its path.
fn at<'v>(event: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(event, |value, name| value.get(name))
}

/// The value of a YAML document; `None` where it can't be read.
fn yaml(text: &str) -> Option<Value> {
    /// A list, or a mapping with the key that waits for its value.
    enum Open {
        List(Vec<Value>),
        Map(Map<String, Value>, Option<String>),
    }
    let mut stack: Vec<Open> = Vec::new();
    for next in Parser::new_from_str(text) {
        let (event, _) = next.ok()?;
        let done = match event {
            Event::Scalar(text, style, ..) => match style == ScalarStyle::Plain {
                true => {
                    serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))
                }
                false => Value::String(text.into_owned()),
            },
            Event::SequenceStart(..) => {
                stack.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                stack.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop()? {
                Open::List(list) => Value::Array(list),
                Open::Map(map, _) => Value::Object(map),
            },
            _ => continue,
        };
        match stack.last_mut() {
            None => return Some(done),
            Some(Open::List(list)) => list.push(done),
            Some(Open::Map(map, key)) => match key.take() {
                Some(key) => drop(map.insert(key, done)),
                None => {
                    *key = Some(
                        done.as_str()
                            .map_or_else(|| done.to_string(), str::to_owned),
                    )
                }
            },
        }
    }
    None
}
