//! How fast a chain with `ids` takes HTTP: payloads of real captures in TCP
//! segments of 1,460 bytes, over many flows in turn, against real rules and
//! contents of real rules.
//!
//! `cargo run --release -p weir-functions --example ids_speed [TRACES]`, where
//! TRACES is the folder of captures and rules (default `../shared/traces`).
//! Prints GB/s of payload through the whole chain (parse, flow table, streams,
//! rules) on one core: the median run, the slowest and the fastest, and what
//! is left when of every burst the fastest of all runs counts, which other
//! programs on the same core disturb least. The same chain with `flow-nop`
//! instead shows what the engine takes of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_functions::ids::{Ids, OnUnsupported, Settings};
use weir_functions::nop::FlowNop;
use weir_io::capture::CaptureReader;
use weir_nf::host::{FlowOptions, Stage};
use weir_packet::{Frame, FrameMeta, FramePool, LinkType, ParseOptions, Time, parse};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

const SEGMENT: usize = 1460;
const RUNS: usize = 9;
/// Payload bytes of one run.
const VOLUME: usize = 16 << 20;
const BURST: usize = 64;

fn main() {
    let folder = std::env::args()
        .nth(1)
        .map_or_else(|| PathBuf::from("../shared/traces"), PathBuf::from);
    let text = payloads(&folder.join("traces/b-http"));
    let rules = folder.join("ids/et-open");
    if text.is_empty() || !rules.is_dir() {
        eprintln!("SKIPPED: no captures or rules in {}", folder.display());
        return;
    }
    println!("{:.1} MB of HTTP", text.len() as f64 / 1e6);
    let contents = contents(&rules);
    let present = present(&contents, &text);
    let absent = contents
        .iter()
        .enumerate()
        .filter(|(i, _)| !present.contains(&(*i as u64 + 1)))
        .map(|(_, content)| content);
    let absent: Vec<&String> = absent.take(3_000).collect();
    let any: Vec<&String> = contents.iter().take(3_000).collect();
    let sets = [
        ("contents that are not in the traffic", as_rules(&absent)),
        ("contents, some in all traffic", as_rules(&any)),
        ("real rules", real(&rules)),
    ];
    for flows in [1, 64, 1_000] {
        let nop = Harness::builder().with::<FlowNop>(Default::default());
        report("flow-nop", flows, &nop.expect("no settings").stage(), &text);
        for (name, rules) in &sets {
            let count = rules.lines().count();
            report(&format!("ids, {count} {name}"), flows, &stage(rules), &text);
        }
    }
}

fn stage(rules: &str) -> Stage {
    let settings = Settings {
        rules: rules.to_owned(),
        vars: [("HTTP_PORTS".to_owned(), "any".to_owned())].into(),
        unsupported: OnUnsupported::Skip,
        ..Settings::default()
    };
    Harness::builder()
        .with::<Ids>(settings)
        .unwrap_or_else(|error| panic!("{error}"))
        .stage()
}

fn report(name: &str, flows: usize, stage: &Stage, text: &[u8]) {
    let runs: Vec<Run> = (0..RUNS).map(|_| run(flows, stage, text)).collect();
    let speed = |time: Duration| runs[0].volume as f64 / time.as_secs_f64() / 1e9;
    let mut times: Vec<Duration> = runs.iter().map(|run| run.bursts.iter().sum()).collect();
    times.sort();
    let quiet: Duration = (0..runs[0].bursts.len())
        .filter_map(|burst| runs.iter().map(|run| run.bursts[burst]).min())
        .sum();
    println!(
        "{flows:>5} flows, {name}: {:.2} GB/s ({:.2} to {:.2}), undisturbed {:.2}; {} alerts",
        speed(times[RUNS / 2]),
        speed(times[RUNS - 1]),
        speed(times[0]),
        speed(quiet),
        runs[0].events,
    );
}

/// The payloads of TCP packets of all captures of a folder, one after the
/// other.
fn payloads(folder: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.sort();
    for path in paths {
        let Ok(mut reader) = File::open(&path)
            .map_err(drop)
            .and_then(|file| CaptureReader::open(file).map_err(drop))
        else {
            continue;
        };
        while let Ok(Some(record)) = reader.next() {
            let link = LinkType::from_dlt(record.dlt);
            if let Ok(headers) = parse(record.data, link, &ParseOptions::default())
                && headers.is_tcp()
                && let Some(payload) = record
                    .data
                    .get(usize::from(headers.payload)..headers.end as usize)
            {
                text.extend_from_slice(payload);
            }
        }
    }
    text
}

/// Contents of real rules of at least four bytes, the longest of each rule
/// first, each once.
fn contents(folder: &Path) -> Vec<String> {
    let mut by_rank: [Vec<String>; 4] = Default::default();
    for file in ["et-core.rules", "et-http.rules"] {
        let all = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for line in all.lines().filter(|line| line.starts_with("alert ")) {
            let mut own: Vec<&str> = line
                .split("content:\"")
                .skip(1)
                .filter_map(|rest| rest.split("\";").next())
                .collect();
            own.sort_by_key(|content| core::cmp::Reverse(content.len()));
            for (content, list) in own.into_iter().zip(&mut by_rank) {
                list.push(content.to_owned());
            }
        }
    }
    let mut known = BTreeSet::new();
    let mut contents = by_rank.concat();
    contents.retain(|content| {
        let none = weir_signatures::Variables::none();
        let parsed = weir_signatures::parse_rules(&as_rules(&[content]), &none);
        parsed.is_ok_and(|rules| {
            let bytes = rules[0].contents[0].bytes.to_ascii_lowercase();
            bytes.len() >= 4 && known.insert(bytes)
        })
    });
    contents
}

/// A rule for each content; the first has number 1.
fn as_rules(contents: &[&String]) -> String {
    let rules = contents.iter().zip(1..).map(|(content, sid)| {
        format!("alert tcp any any -> any any (content:\"{content}\"; nocase; sid:{sid};)\n")
    });
    rules.collect()
}

/// Numbers of the contents that are in the text.
fn present(contents: &[String], text: &[u8]) -> BTreeSet<u64> {
    let mut present = BTreeSet::new();
    let mut harness = Harness::of_stage(&stage(&as_rules(&contents.iter().collect::<Vec<_>>())));
    // Each piece for itself: the alerts of a packet are not limited to one
    // per stretch of a stream.
    for piece in text.windows(1_400).step_by(1_000) {
        harness.send(
            &Craft::tcp("10.0.0.1:1", SERVER)
                .flags("A")
                .payload(piece)
                .build(),
        );
        for event in harness.events() {
            let sid = event.split("\"signature_id\":").nth(1);
            let sid = sid.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
            present.extend(sid);
        }
    }
    present
}

/// The rules of a file, without those that have faults.
fn real(folder: &Path) -> String {
    let refused = folder.join("not-loaded-by-suricata-7.0.10.txt");
    let refused = std::fs::read_to_string(refused).unwrap_or_default();
    let text = std::fs::read_to_string(folder.join("et-core.rules")).unwrap_or_default();
    let sound = |line: &&str| {
        line.starts_with("alert ")
            && !refused
                .lines()
                .any(|sid| line.contains(&format!("sid:{sid};")))
    };
    let options = weir_signatures::ParseOptions {
        unsupported: weir_signatures::Unsupported::Refuse,
        ..weir_signatures::ParseOptions::default()
    };
    let supported = |line: &&str| {
        let mut variables = weir_signatures::Variables::stock();
        variables.set_address("HOME_NET", "any");
        variables.set_address("EXTERNAL_NET", "any");
        weir_signatures::parse_rules_with(line, &variables, options).is_ok()
    };
    let lines = text.lines().filter(sound).filter(supported);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// One connection of the run.
struct Connection {
    client: String,
    next: u32,
}

const SERVER: &str = "192.0.2.1:80";

/// What one run took.
struct Run {
    /// Payload bytes.
    volume: usize,
    events: u64,
    bursts: Vec<Duration>,
}

fn run(flows: usize, stage: &Stage, text: &[u8]) -> Run {
    let mut stage = stage.clone();
    stage.flows = FlowOptions {
        max: 1 << 16,
        buffer_bytes: 64 << 20,
        ..FlowOptions::default()
    };
    let config = RuntimeConfig {
        event_bytes: 8 << 20,
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(&stage, config).expect("a chain of one function");
    let mut pool = FramePool::with_layout(Default::default());
    let (mut input, mut output): (Vec<Frame>, Vec<Frame>) = (Vec::new(), Vec::new());
    let mut connections: Vec<Connection> = (0..flows)
        .map(|i| Connection {
            client: format!("10.0.{}.{}:{}", i / 250, i % 250 + 1, 1024 + i),
            next: 1,
        })
        .collect();
    let mut bursts = Vec::with_capacity(VOLUME / SEGMENT / BURST + flows + 2);
    let mut burst = |packets: &[Vec<u8>], runtime: &mut Runtime| {
        for packet in packets {
            let meta = FrameMeta::received(Time::from_secs(1), packet.len() as u32);
            input.push(pool.copy(packet, meta).expect("frames are free"));
        }
        let start = Instant::now();
        runtime.process(&mut pool, &mut input, &mut output);
        bursts.push(start.elapsed());
        output.drain(..).for_each(|frame| pool.give(frame));
        runtime.events().clear();
    };
    for connection in &connections {
        let up = Craft::tcp(&connection.client, SERVER);
        let down = Craft::tcp(SERVER, &connection.client);
        let packets = [
            up.clone().flags("S").seq(0).build(),
            down.flags("SA").seq(0).ack(1).build(),
            up.flags("A").seq(1).ack(1).build(),
        ];
        burst(&packets, &mut runtime);
    }
    let (mut volume, mut number) = (0, 0);
    let mut packets = Vec::with_capacity(BURST);
    let mut at = 0;
    while volume < VOLUME {
        packets.clear();
        while packets.len() < BURST {
            let connection = &mut connections[number % flows];
            let end = (at + SEGMENT).min(text.len());
            let packet = Craft::tcp(&connection.client, SERVER)
                .flags("A")
                .seq(connection.next)
                .ack(1)
                .payload(&text[at..end]);
            packets.push(packet.build());
            connection.next = connection.next.wrapping_add((end - at) as u32);
            volume += end - at;
            at = if end == text.len() { 0 } else { end };
            number += 1;
        }
        burst(&packets, &mut runtime);
    }
    let events = runtime.report().events;
    bursts.drain(..flows);
    Run {
        volume,
        events,
        bursts,
    }
}
