//! How fast streams are inspected: HTTP of real captures against 3,000 contents of real rules.
//!
//! `cargo run --release -p weir-signatures --example scan_speed [TRACES]`, where TRACES is the folder of
//! captures and rules (default `../shared/traces`). Prints, for each number of patterns, the median of
//! several runs, in GB/s of one core.

#[path = "../tests/common/capture.rs"]
#[allow(dead_code, unreachable_pub)]
mod capture;

use std::path::Path;
use std::time::Instant;

use weir_signatures::*;

/// Bytes per segment, and old bytes that go with them.
const SEGMENT: usize = 1460;
const BEFORE: usize = 2048;
const RUNS: usize = 7;

/// The longest content of each rule, then the second longest, as rules of their own.
fn rules(folder: &Path, count: usize) -> Vec<Rule> {
    let mut texts: [Vec<String>; 2] = Default::default();
    for file in ["et-core.rules", "et-http.rules"] {
        let all = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for line in all.lines().filter(|line| line.starts_with("alert ")) {
            let mut contents: Vec<&str> = line
                .split("content:\"")
                .skip(1)
                .filter_map(|rest| rest.split("\";").next())
                .collect();
            contents.sort_by_key(|content| std::cmp::Reverse(content.len()));
            for (content, list) in contents.into_iter().zip(&mut texts) {
                list.push(content.to_string());
            }
        }
    }
    let mut rules: Vec<Rule> = Vec::new();
    for content in texts.concat() {
        let sid = rules.len() + 1;
        let text =
            format!("alert tcp any any -> any any (content:\"{content}\"; nocase; sid:{sid};)");
        let Ok(mut parsed) = parse_rules(&text, &Variables::none()) else {
            continue;
        };
        let Some(rule) = parsed.pop() else {
            continue;
        };
        let known = |other: &Rule| {
            other.contents[0]
                .bytes
                .eq_ignore_ascii_case(&rule.contents[0].bytes)
        };
        if rule.contents[0].bytes.len() >= 4 && !rules.iter().any(known) {
            rules.push(rule);
        }
        if rules.len() == count {
            break;
        }
    }
    rules
}

/// The payloads of port 80 of all captures of a folder, one after the other.
fn text(folder: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return text;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        for packet in capture::read(&path) {
            if packet.protocol == 6 {
                text.extend_from_slice(capture::payload(&packet).unwrap_or_default());
            }
        }
    }
    text
}

fn measure(set: &RuleSet, text: &[u8]) -> (f64, usize) {
    let flow = FlowContext {
        source: std::net::Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: std::net::Ipv4Addr::new(192, 0, 2, 1).into(),
        source_port: 50_000,
        destination_port: 80,
        protocol: view::TCP,
        to_server: true,
        established: true,
    };
    let mut scratch = Scratch::new(set.len());
    let (mut state, mut bits) = (StreamState::default(), FlowBits::default());
    let mut alerts = 0;
    let start = Instant::now();
    let mut from = 0;
    while from < text.len() {
        let to = (from + SEGMENT).min(text.len());
        let window = from.saturating_sub(BEFORE);
        let bytes = StreamBytes {
            window: &text[window..to],
            new_from: from - window,
            offset: window as u64,
            last: false,
        };
        set.inspect_stream(
            &flow,
            &mut state,
            &bytes,
            &mut bits,
            &mut scratch,
            &mut |_| alerts += 1,
        );
        from = to;
    }
    (
        text.len() as f64 / start.elapsed().as_secs_f64() / 1e9,
        alerts,
    )
}

fn main() {
    let folder = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "../shared/traces".to_string());
    let folder = Path::new(&folder);
    let mut headers = Vec::new();
    for packet in text(&folder.join("traces/b-http")).split_inclusive(|&byte| byte == b'\n') {
        // Lines without bytes above 0x7f: requests, headers, HTML, script.
        if packet.is_ascii() {
            headers.extend_from_slice(packet);
        }
    }
    let samples = [
        ("HTTP as captured", text(&folder.join("traces/b-http"))),
        ("HTTP, text lines only", headers),
    ];
    for count in [100, 1000, 3000] {
        let rules = rules(&folder.join("ids/et-open"), count);
        let options = CompileOptions::default();
        let started = Instant::now();
        let set = match RuleSet::compile(rules, options) {
            Ok(set) => set,
            Err(error) => {
                eprintln!("{error}");
                return;
            }
        };
        let (patterns, bytes) = set.prefilter_size();
        println!(
            "{} rules, {patterns} patterns, {:.1} MiB of tables, compiled in {:.0} ms",
            set.len(),
            bytes as f64 / f64::from(1 << 20),
            started.elapsed().as_secs_f64() * 1e3
        );
        for (name, text) in &samples {
            if text.is_empty() {
                eprintln!("SKIPPED: no captures under {}", folder.display());
                return;
            }
            let mut runs: Vec<(f64, usize)> = (0..RUNS).map(|_| measure(&set, text)).collect();
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (speed, alerts) = runs[RUNS / 2];
            println!(
                "  {name}: {speed:.2} GB/s ({:.2} to {:.2}), {:.1} MB, {alerts} alerts",
                runs[0].0,
                runs[RUNS - 1].0,
                text.len() as f64 / 1e6
            );
        }
    }
}
