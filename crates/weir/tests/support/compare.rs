//! What two runs have in common: packets of flows, events, counts.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_packet::{
    FlowKey, Headers, IcmpKey, KeyOptions, KeyOutcome, LinkType, ParseOptions, classify,
};

use super::{Folder, events, packets, run_json};

/// A flow as seen from outside tunnels and from inside, with ICMP errors in the
/// flows that they quote and apart from them: as any chain may see it.
pub(crate) type Seen = [Option<FlowKey>; 4];

fn key(data: &[u8], link: LinkType, inner: bool, icmp: IcmpKey) -> Option<FlowKey> {
    let options = ParseOptions {
        inner,
        lenient: true,
        ..ParseOptions::default()
    };
    let keys = KeyOptions {
        icmp,
        zone: true,
        ..KeyOptions::default()
    };
    let mut headers = Headers::default();
    match classify(data, link, &options, &keys, &mut headers) {
        Ok(KeyOutcome::Flow(key, _)) => Some(key),
        _ => None,
    }
}

/// The flows that a packet may be taken for.
pub(crate) fn seen_of(data: &[u8], link: LinkType) -> Seen {
    let ways = [
        (false, IcmpKey::Conversation),
        (false, IcmpKey::Addresses),
        (true, IcmpKey::Conversation),
        (true, IcmpKey::Addresses),
    ];
    ways.map(|(inner, icmp)| key(data, link, inner, icmp))
}

/// Packets of each flow, in order; those of none, which have no order among
/// runtimes, are sorted.
pub(crate) fn flows(path: &str) -> BTreeMap<Seen, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
    for record in packets(path).0 {
        let seen = seen_of(&record.data, LinkType::from_dlt(record.dlt));
        flows.entry(seen).or_default().push(record.data);
    }
    for (seen, packets) in &mut flows {
        if seen.contains(&None) {
            packets.sort();
        }
    }
    flows
}

/// Events as a sorted list, without what depends on who applied a packet: flow
/// ids, and when an end was noticed that no packet caused. What a function
/// knows for a whole runtime (of hosts: `asset`) each of them finds out.
pub(crate) fn sorted(path: &str) -> Vec<String> {
    let mut all: Vec<String> = events(path)
        .into_iter()
        .filter(|event| event["event_type"] != "asset")
        .map(|mut event| {
            let by_packet = event.get("pcap_cnt").is_some();
            if let Some(object) = event.as_object_mut() {
                object.remove("flow_id");
                object.remove("unit_id");
                if !by_packet {
                    object.remove("timestamp");
                }
            }
            event.to_string()
        })
        .collect();
    all.sort();
    all
}

/// Lines of events, sorted: all that they say.
pub(crate) fn event_lines(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text.lines().map(str::to_owned).collect();
    all.sort();
    all
}

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) summary: Value,
    pub(crate) out: BTreeMap<Seen, Vec<Vec<u8>>>,
    pub(crate) events: Vec<String>,
}

impl Run {
    /// A flow, closed or open, whose time-out passes while the input ends is ended
    /// by the one or the other: with a switch a time-out is noticed later.
    pub(crate) fn whenever_noticed(mut self) -> Run {
        for event in &mut self.events {
            for reason in ["finished", "reset", "timeout", "shutdown"] {
                let text = format!("\"reason\":\"{reason}\"");
                *event = event.replace(&text, "\"reason\":\"silence\"");
            }
        }
        self.events.sort();
        self
    }
}

pub(crate) fn through(chain: &str, input: &str, more: &[&str]) -> Run {
    through_all(chain, &[input], more)
}

/// The same with several inputs; with two of them, outputs are of both sides.
pub(crate) fn through_all(chain: &str, inputs: &[&str], more: &[&str]) -> Run {
    let folder = Folder::new();
    let (out, log) = (folder.path("out.pcapng"), folder.path("events.json"));
    let mut args = vec!["--out", &out, "--events", &log, "--seed", "1"];
    for input in inputs {
        args.extend(["--in", input]);
    }
    // Flow tables of a size that many runs may have in turn.
    args.extend(["--set", "flows.max=60000"]);
    args.extend(more);
    let summary = run_json(chain, &args);
    Run {
        summary,
        out: flows(&out),
        events: sorted(&log),
    }
}

/// What must be the same whoever applied the packets.
#[track_caller]
pub(crate) fn same(plain: &Run, other: &Run, about: &str) {
    for field in [
        "packets_in",
        "packets_out",
        "bytes_out",
        "emitted",
        "drops",
        "held",
        "flows",
        "malformed",
    ] {
        assert_eq!(
            plain.summary[field], other.summary[field],
            "{about}: {field}"
        );
    }
    assert!(plain.out == other.out, "{about}: packets of flows differ");
    let differ = |a: &Run, b: &Run| {
        let odd = a.events.iter().find(|event| !b.events.contains(event));
        odd.cloned()
    };
    assert_eq!(
        (differ(plain, other), differ(other, plain)),
        (None, None),
        "{about}"
    );
    assert_eq!(plain.events.len(), other.events.len(), "{about}");
}
