//! What the tests share: captures as flows, flows as messages.
#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../../../signatures/tests/common/capture.rs"]
pub mod capture;
#[path = "../../../signatures/tests/common/traces.rs"]
pub mod traces;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use traces::skipped;
use weir_dissect::{Dissector, Limits, Message, Phase, Scratch};

/// All captures, in order.
pub fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(captures(&path));
        } else if path
            .extension()
            .is_some_and(|e| e == "pcap" || e == "cap" || e == "trace")
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Lines of tshark, or `None` with a note where it is not installed.
pub fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let Ok(output) = command.output() else {
        skipped("tshark is not installed: fields are not compared with its");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(
        text.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect(),
    )
}

/// What one side sent at a time; a datagram, or bytes of a stream in order.
pub type Piece = (bool, Vec<u8>);

#[derive(Default)]
pub struct Flow {
    pub tcp: bool,
    pub pieces: Vec<Piece>,
    pub ports: (u16, u16),
    pub client: Option<(IpAddr, u16)>,
    pub next: [Option<u32>; 2],
    pub waiting: [Vec<(u32, Vec<u8>)>; 2],
}

impl Flow {
    /// Takes what waits and is next.
    fn in_order(&mut self, to_server: bool) {
        let side = usize::from(to_server);
        while let Some(next) = self.next[side] {
            let is_next = |(sequence, payload): &(u32, Vec<u8>)| {
                let old = next.wrapping_sub(*sequence) as i32;
                old >= 0 && (old as usize) < payload.len()
            };
            let Some(at) = self.waiting[side].iter().position(is_next) else {
                return;
            };
            let (sequence, payload) = self.waiting[side].remove(at);
            self.pieces.push((
                to_server,
                payload[next.wrapping_sub(sequence) as usize..].to_vec(),
            ));
            self.next[side] = Some(sequence.wrapping_add(payload.len() as u32));
        }
    }
}

/// The flows of a capture. Of TCP the first copy of each byte, up to the first hole that is never filled.
pub fn flows(file: &Path) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::new();
    let mut known = BTreeMap::new();
    for packet in capture::read(file) {
        let bytes = &packet.transport;
        if !matches!(packet.protocol, 6 | 17) || bytes.len() < 8 {
            continue;
        }
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (from, to) = ((packet.source, port(0)), (packet.destination, port(2)));
        let syn = packet.protocol == 6 && bytes.get(13).is_some_and(|flags| flags & 0x12 == 2);
        let key = (packet.protocol, from.min(to), from.max(to));
        let fresh = syn
            && known
                .get(&key)
                .is_some_and(|&at: &usize| !flows[at].pieces.is_empty());
        if fresh || !known.contains_key(&key) {
            known.insert(key, flows.len());
            flows.push(Flow {
                tcp: packet.protocol == 6,
                ..Flow::default()
            });
        }
        let flow = &mut flows[known[&key]];
        let answer = packet.protocol == 6 && bytes.get(13).is_some_and(|f| f & 0x12 == 0x12);
        let client = *flow
            .client
            .get_or_insert(if answer || from.1 == 53 { to } else { from });
        flow.ports = if client == from {
            (from.1, to.1)
        } else {
            (to.1, from.1)
        };
        let to_server = client == from;
        let Some(payload) = capture::payload(&packet) else {
            continue;
        };
        if packet.protocol == 17 {
            flow.pieces.push((to_server, payload.to_vec()));
            continue;
        }
        let sequence = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        let side = usize::from(to_server);
        if bytes[13] & 2 != 0 {
            flow.next[side] = Some(sequence.wrapping_add(1));
        } else if !payload.is_empty() {
            flow.next[side].get_or_insert(sequence);
            flow.waiting[side].push((sequence, payload.to_vec()));
            flow.in_order(to_server);
        }
    }
    flows
}

/// A message as text: all of it that must not depend on cuts.
pub fn text(message: &Message<'_>) -> Option<String> {
    if message.phase == Phase::Body && !message.last {
        return None;
    }
    let mut text = format!(
        "{:?} {} {:?}",
        message.protocol, message.to_server, message.phase
    );
    for value in message.values() {
        let bytes = value.bytes.escape_ascii();
        text += &format!("\n  {} {} {bytes}", value.field.name(), value.complete);
    }
    text += &format!("\n  {:?} {:?}", message.numbers(), message.notices());
    Some(text)
}

/// What a run does beside handing pieces in.
pub struct Run {
    pub limits: Limits,
    /// Cuts pieces at random and saves and loads the state between them.
    pub seed: Option<u64>,
}

pub fn random(seed: &mut u64, below: usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) as usize % below.max(1)
}

/// The messages of one flow.
pub fn messages(flow: &Flow, mut run: Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |message: &Message<'_>| found.extend(text(message));
    let (mut dissector, mut scratch) = (Dissector::new(), Scratch::default());
    for (to_server, bytes) in &flow.pieces {
        if !flow.tcp {
            dissector.datagram(*to_server, bytes, &mut scratch, &mut take);
            continue;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = match &mut run.seed {
                Some(seed) => {
                    let most = [1, 7, 80, 1500][random(seed, 4)];
                    1 + random(seed, most)
                }
                None => rest.len(),
            };
            let (piece, behind) = rest.split_at(count.min(rest.len()));
            dissector.stream(*to_server, piece, &run.limits, &mut scratch, &mut take);
            rest = behind;
            if let Some(seed) = &mut run.seed
                && random(seed, 8) == 0
            {
                let mut saved = Vec::new();
                dissector.save(&mut saved);
                assert!(saved.len() <= run.limits.snapshot_bytes());
                let loaded = Dissector::load(&saved, &run.limits, &mut scratch).unwrap();
                assert_eq!(loaded, dissector);
                dissector = loaded;
            }
        }
    }
    for to_server in [true, false] {
        dissector.end(to_server, &run.limits, &mut scratch, &mut take);
    }
    found
}
