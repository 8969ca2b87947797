//! A chain that does nothing gives back what it got: every packet, whole, with its time, in order.

mod support;

use support::{Folder, capture, example, number, packets, run, run_json, traces};
use weir_io::capture::OwnedRecord;

/// What must not change: time, length on the wire, link type, bytes. (A length on the wire below
/// that of the bytes is a slip of the file.)
fn essence(packets: &[OwnedRecord]) -> Vec<(u64, u32, u32, &[u8])> {
    let of = |p: &OwnedRecord| (p.time_ns, p.wire_len.max(p.data.len() as u32), p.dlt);
    packets
        .iter()
        .map(|p| {
            let (time, length, dlt) = of(p);
            (time, length, dlt, p.data.as_slice())
        })
        .collect()
}

#[test]
fn own_captures_come_out_as_they_went_in() {
    let folder = Folder::new();
    let mut seen = 0;
    for name in ["web.pcap", "attack.pcap", "nat-inside.pcap", "mixed.pcapng"] {
        for ending in ["pcap", "pcapng"] {
            let (from, to) = (capture(name), folder.path(&format!("out.{ending}")));
            let summary = run_json(&example("bump.yaml"), &["--in", &from, "--out", &to]);
            let (before, after) = (packets(&from), packets(&to));
            assert_eq!((&before.1, &after.1), (&None, &None));
            assert_eq!(number(&summary, "/packets_out"), before.0.len() as u64);
            assert!(
                essence(&before.0) == essence(&after.0),
                "{name} as {ending}"
            );
            seen += before.0.len();
        }
    }
    assert!(seen > 500, "{seen} packets");
}

#[test]
fn real_captures_come_out_as_they_went_in() {
    let Some(traces) = traces() else { return };
    let folder = Folder::new();
    let mut links = std::collections::BTreeSet::new();
    let (mut captures, mut total) = (0, 0);
    for row in support::summary(&traces) {
        let name = &row["trace"];
        let from = traces.join("traces").join(name).display().to_string();
        let (before, cut) = packets(&from);
        // One file may have several link types; pcapng can hold them.
        let to = folder.path("out.pcapng");
        let args = ["run", &example("bump.yaml"), "--in", &from, "--out", &to];
        let set = ["--set", "flows.max=50000", "--quiet", "--output", "json"];
        let ran = run(args.iter().chain(&set));
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let summary = ran.json();
        assert_eq!(
            (
                number(&summary, "/packets_in"),
                number(&summary, "/packets_out")
            ),
            (before.len() as u64, before.len() as u64),
            "{name}: {summary}"
        );
        assert_eq!(cut.is_some(), ran.err.contains("warning: "), "{name}");
        let (after, fault) = packets(&to);
        assert_eq!(fault, None, "{name}");
        assert!(essence(&before) == essence(&after), "{name} has changed");
        links.extend(before.iter().map(|p| p.dlt));
        captures += 1;
        total += before.len();
    }
    println!("{captures} captures, {total} packets, link types {links:?}");
    assert!(captures > 500 && total > 60_000);
    // Ethernet, raw IP, Linux cooked.
    for link in [1, 101, 113] {
        assert!(links.contains(&link), "no capture of link type {link}");
    }
}

#[test]
fn a_pcap_file_has_one_link_type_and_says_what_did_not_fit() {
    let Some(traces) = traces() else { return };
    let folder = Folder::new();
    let to = folder.path("out.pcap");
    let mut mixed = 0;
    for row in support::summary(&traces) {
        if !row["trace"].ends_with(".pcapng") {
            continue;
        }
        let from = traces.join("traces").join(&row["trace"]);
        let from = from.display().to_string();
        let (before, _) = packets(&from);
        let first = before.first().map(|p| p.dlt);
        let others = before.iter().filter(|p| Some(p.dlt) != first).count() as u64;
        if others == 0 {
            continue;
        }
        let summary = run_json(
            &example("bump.yaml"),
            &["--in", &from, "--out", &to, "--set", "flows.max=50000"],
        );
        assert_eq!(number(&summary, "/drops/output_link_type"), others);
        mixed += 1;
    }
    println!("{mixed} captures with several link types");
    assert!(mixed > 0);
}
