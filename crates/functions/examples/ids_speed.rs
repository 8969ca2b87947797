//! How fast a chain with `ids` takes HTTP: payloads of real captures in TCP
//! segments of 1,460 bytes, over many flows in turn, against contents of real
//! rules.
//!
//! `cargo run --release -p weir-functions --example ids_speed [TRACES]`, where
//! TRACES is the folder of captures and rules (default `../shared/traces`).
//! Prints GB/s of payload through the whole chain (parse, flow table, streams,
//! rules) on one core: the median of several runs and their spread. The same
//! chain with `flow-nop` instead shows what the engine takes of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_functions::ids::{Ids, Settings};
use weir_functions::nop::FlowNop;
use weir_io::capture::CaptureReader;
use weir_nf::host::{FlowOptions, Stage};
use weir_packet::parse::parse;
use weir_packet::{Frame, FrameMeta, FramePool, LinkType, ParseOptions, Time};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

const SEGMENT: usize = 1460;
const RUNS: usize = 7;
/// Payload bytes of one run.
const VOLUME: usize = 64 << 20;
const BURST: usize = 64;

fn main() {
    let folder = std::env::args()
        .nth(1)
        .map_or_else(|| PathBuf::from("../shared/traces"), PathBuf::from);
    let text = payloads(&folder.join("traces/b-http"));
    if text.is_empty() {
        eprintln!("SKIPPED: no captures in {}", folder.display());
        return;
    }
    let mut lines = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        // Lines without bytes above 0x7f: requests, headers, HTML, script.
        if line.is_ascii() {
            lines.extend_from_slice(line);
        }
    }
    for (name, text) in [("as captured", &text), ("text lines", &lines)] {
        println!("HTTP, {name}: {:.1} MB", text.len() as f64 / 1e6);
        for flows in [1, 64, 1_000] {
            let nop = Harness::builder().with::<FlowNop>(Default::default());
            report("flow-nop", flows, &nop.expect("no settings").stage(), text);
            for count in [100, 1_000, 3_000] {
                let settings = Settings {
                    rules: rules(&folder.join("ids/et-open"), count),
                    ..Settings::default()
                };
                let chain = Harness::builder()
                    .with::<Ids>(settings)
                    .unwrap_or_else(|error| panic!("{error}"));
                report(&format!("ids, {count} rules"), flows, &chain.stage(), text);
            }
        }
    }
}

fn report(name: &str, flows: usize, stage: &Stage, text: &[u8]) {
    let mut runs: Vec<(f64, u64)> = (0..RUNS).map(|_| run(flows, stage, text)).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!(
        "  {flows:>5} flows, {name}: {:.2} GB/s ({:.2} to {:.2}), {} events",
        runs[RUNS / 2].0,
        runs[0].0,
        runs[RUNS - 1].0,
        runs[0].1
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

/// One rule for each of `count` contents, the longest ones of real rules
/// first.
fn rules(folder: &Path, count: usize) -> String {
    let mut contents: [Vec<String>; 2] = Default::default();
    for file in ["et-core.rules", "et-http.rules"] {
        let all = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        for line in all.lines().filter(|line| line.starts_with("alert ")) {
            let mut own: Vec<&str> = line
                .split("content:\"")
                .skip(1)
                .filter_map(|rest| rest.split("\";").next())
                .collect();
            own.sort_by_key(|content| core::cmp::Reverse(content.len()));
            for (content, list) in own.into_iter().zip(&mut contents) {
                list.push(content.to_owned());
            }
        }
    }
    let mut known = BTreeSet::new();
    let mut text = String::new();
    for content in contents.concat() {
        let rule = |sid| {
            format!("alert tcp any any -> any any (content:\"{content}\"; nocase; sid:{sid};)\n")
        };
        let none = weir_signatures::Variables::none();
        let Ok(parsed) = weir_signatures::parse_rules(&rule(1), &none) else {
            continue;
        };
        let bytes = parsed[0].contents[0].bytes.to_ascii_lowercase();
        if bytes.len() >= 4 && known.insert(bytes) {
            text.push_str(&rule(known.len()));
        }
        if known.len() == count {
            break;
        }
    }
    text
}

/// One connection of the run.
struct Connection {
    client: String,
    next: u32,
}

const SERVER: &str = "192.0.2.1:80";

/// GB/s of payload, and events.
fn run(flows: usize, stage: &Stage, text: &[u8]) -> (f64, u64) {
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
    let mut spent = Duration::ZERO;
    let mut burst = |packets: &[Vec<u8>], runtime: &mut Runtime| {
        for packet in packets {
            let meta = FrameMeta::received(Time::from_secs(1), packet.len() as u32);
            input.push(pool.copy(packet, meta).expect("frames are free"));
        }
        let start = Instant::now();
        runtime.process(&mut pool, &mut input, &mut output);
        spent += start.elapsed();
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
    (volume as f64 / spent.as_secs_f64() / 1e9, events)
}
