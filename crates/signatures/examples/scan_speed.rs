//! How fast streams are inspected: HTTP of real captures against up to 3,000 real rules.
//!
//! `cargo run --release -p weir-signatures --example scan_speed [TRACES [SET]]`, where TRACES is the folder of
//! captures and rules (default `../shared/traces`) and SET the number of one set of rules, from 0. Prints, for
//! each set, the median of several runs, in GB/s of one core.

#[path = "../tests/common/capture.rs"]
#[allow(dead_code, unreachable_pub)]
mod capture;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use weir_signatures::*;

/// Old bytes that are given with new ones.
const BEFORE: usize = 2048;
const RUNS: usize = 11;

/// The contents of each rule of a folder's files, longest first.
fn contents(folder: &Path) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for file in ["et-core.rules", "et-http.rules"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("alert ")) {
            let mut contents: Vec<String> = line
                .split("content:\"")
                .skip(1)
                .filter_map(|rest| Some(rest.split("\";").next()?.to_string()))
                .collect();
            contents.sort_by_key(|content| std::cmp::Reverse(content.len()));
            all.push(contents);
        }
    }
    all
}

fn parse(contents: &[String], sid: usize) -> Option<Rule> {
    let options: String = contents
        .iter()
        .map(|content| format!("content:\"{content}\"; nocase; "))
        .collect();
    let text = format!("alert tcp any any -> any any ({options} sid:{sid};)");
    parse_rules(&text, &Variables::none()).ok()?.pop()
}

/// Rules with all contents of the real ones, wherever they stand.
fn whole_rules(folder: &Path, count: usize) -> Vec<Rule> {
    let all = contents(folder);
    let rules = all
        .iter()
        .zip(1..)
        .filter_map(|(contents, sid)| parse(contents, sid));
    // In the files, similar rules stand together: take some from everywhere.
    let rules: Vec<Rule> = rules.filter(|rule| !rule.contents.is_empty()).collect();
    let step = (rules.len() / count).max(1);
    rules.into_iter().step_by(step).take(count).collect()
}

/// Contents as rules of their own, the longest of each real rule first. `absent` leaves out those that are
/// found in the traffic, so that the time is that of the scan; otherwise most of it goes into alerts, since
/// many contents of rules are in all traffic.
fn single_contents(folder: &Path, count: usize, absent: Option<&[u8]>) -> Vec<Rule> {
    let all = contents(folder);
    let ranks = (0..8).flat_map(|rank| all.iter().filter_map(move |contents| contents.get(rank)));
    let lower = absent.map(<[u8]>::to_ascii_lowercase);
    let mut known = BTreeSet::new();
    let mut rules: Vec<Rule> = Vec::new();
    for content in ranks {
        let Some(rule) = parse(std::slice::from_ref(content), rules.len() + 1) else {
            continue;
        };
        let bytes = rule.contents[0].bytes.to_ascii_lowercase();
        let found = lower
            .as_ref()
            .is_some_and(|text| memchr::memmem::find(text, &bytes).is_some());
        if bytes.len() >= 4 && !found && known.insert(bytes) {
            rules.push(rule);
        }
        if rules.len() == count {
            break;
        }
    }
    rules
}

/// The rules of a file as they are, with every variable set to `any`; unsupported ones left out.
fn real_rules(folder: &Path) -> Vec<Rule> {
    let text = std::fs::read_to_string(folder.join("et-core.rules")).unwrap_or_default();
    let mut variables = Variables::stock();
    variables
        .set_address("HOME_NET", "any")
        .set_address("EXTERNAL_NET", "any");
    variables.set_port("HTTP_PORTS", "any");
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
        ..ParseOptions::default()
    };
    parse_rules_lossy(&text, &variables, options).0.rules
}

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    flow: Option<FlowContext>,
    bytes: Vec<u8>,
    state: StreamState,
    bits: FlowVars,
}

/// Bytes that a segment adds to a stream, or the end of a message.
struct Step {
    stream: usize,
    from: usize,
    to: usize,
    last: bool,
}

/// The TCP payloads of all captures of a folder as streams, and the order in which they came.
fn traffic(folder: &Path) -> (Vec<Stream>, Vec<Step>) {
    let (mut streams, mut steps) = (Vec::<Stream>::new(), Vec::new());
    let Ok(entries) = std::fs::read_dir(folder) else {
        return (streams, steps);
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        // Ends of a connection → its two streams, and which of them spoke last.
        let mut known = BTreeMap::new();
        for packet in capture::read(&path) {
            let (Some(ports), Some(payload)) = (
                packet.transport.first_chunk::<4>(),
                capture::payload(&packet),
            ) else {
                continue;
            };
            if packet.protocol != view::TCP || payload.is_empty() {
                continue;
            }
            let source_port = u16::from_be_bytes([ports[0], ports[1]]);
            let destination_port = u16::from_be_bytes([ports[2], ports[3]]);
            let (a, b) = (
                (packet.source, source_port),
                (packet.destination, destination_port),
            );
            let first = streams.len();
            let (first, spoke) = known.entry((a.min(b), a.max(b))).or_insert((first, 2));
            if *first == streams.len() {
                streams.extend([Stream::default(), Stream::default()]);
            }
            let side = usize::from(a > b);
            if *spoke == 1 - side {
                let stream = *first + *spoke;
                let end = streams[stream].bytes.len();
                steps.push(Step {
                    stream,
                    from: end,
                    to: end,
                    last: true,
                });
            }
            *spoke = side;
            let stream = &mut streams[*first + side];
            stream.flow = Some(FlowContext {
                source: packet.source,
                destination: packet.destination,
                source_port,
                destination_port,
                protocol: view::TCP,
                to_server: source_port > destination_port,
                established: true,
                application: Application::Undecided,
            });
            let from = stream.bytes.len();
            stream.bytes.extend_from_slice(payload);
            steps.push(Step {
                stream: *first + side,
                from,
                to: stream.bytes.len(),
                last: false,
            });
        }
    }
    (streams, steps)
}

/// GB/s and alerts of one pass over the traffic.
fn measure(set: &RuleSet, streams: &mut [Stream], steps: &[Step]) -> (f64, usize) {
    for stream in streams.iter_mut() {
        (stream.state, stream.bits) = Default::default();
    }
    let mut scratch = Scratch::new(set.len());
    let (mut alerts, mut bytes) = (0, 0);
    let start = Instant::now();
    for step in steps {
        let stream = &mut streams[step.stream];
        let Some(flow) = &stream.flow else {
            continue;
        };
        let window = step.from.saturating_sub(BEFORE);
        bytes += step.to - step.from;
        let new = StreamBytes {
            window: &stream.bytes[window..step.to],
            new_from: step.from - window,
            offset: window as u64,
            last: step.last,
        };
        set.inspect_stream(
            flow,
            &mut stream.state,
            &new,
            &mut stream.bits,
            &mut scratch,
            &mut |_| alerts += 1,
        );
    }
    (bytes as f64 / start.elapsed().as_secs_f64() / 1e9, alerts)
}

fn main() {
    let folder = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "../shared/traces".to_string());
    let folder = Path::new(&folder);
    let only: Option<usize> = std::env::args()
        .nth(2)
        .and_then(|number| number.parse().ok());
    let (mut streams, steps) = traffic(&folder.join("traces/b-http"));
    let total: usize = streams.iter().map(|stream| stream.bytes.len()).sum();
    if total == 0 {
        eprintln!("SKIPPED: no captures under {}", folder.display());
        return;
    }
    println!(
        "{:.1} MB of HTTP in {} segments and ends of messages",
        total as f64 / 1e6,
        steps.len()
    );
    let ids = folder.join("ids/et-open");
    let text: Vec<u8> = streams
        .iter()
        .flat_map(|stream| stream.bytes.iter().copied())
        .collect();
    let sets: [(&str, Sets); 5] = [
        ("real rules", |ids, _| real_rules(ids)),
        ("contents that are not in the traffic", |ids, text| {
            single_contents(ids, 3000, Some(text))
        }),
        ("contents, some in all traffic", |ids, _| {
            single_contents(ids, 3000, None)
        }),
        ("rules, each of several contents anywhere", |ids, _| {
            whole_rules(ids, 1000)
        }),
        ("rules, each of several contents anywhere", |ids, _| {
            whole_rules(ids, 3000)
        }),
    ];
    for (number, (kind, rules)) in sets.into_iter().enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let rules = rules(&ids, &text);
        let started = Instant::now();
        let set = match RuleSet::compile(rules, CompileOptions::default()) {
            Ok(set) => set,
            Err(error) => {
                eprintln!("{error}");
                return;
            }
        };
        let (patterns, bytes) = set.prefilter_size();
        let compiled = started.elapsed().as_secs_f64() * 1e3;
        let mut runs: Vec<(f64, usize)> = (0..RUNS)
            .map(|_| measure(&set, &mut streams, &steps))
            .collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (speed, alerts) = runs[RUNS / 2];
        println!(
            "{} {kind}: {speed:.2} GB/s ({:.2} to {:.2}), {alerts} alerts; {patterns} patterns, {:.1} MiB of \
             tables, compiled in {compiled:.0} ms",
            set.len(),
            runs[0].0,
            runs[RUNS - 1].0,
            bytes as f64 / f64::from(1 << 20),
        );
    }
}

/// Makes a set of rules from the files of a folder, given the traffic.
type Sets = fn(&Path, &[u8]) -> Vec<Rule>;
