//! Selectors on real captures: whatever a packet looks like, its flow goes to
//! one chain, with its key or without, in both directions.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::read;
use weir_packet::{
    HeaderFlags, Headers, KeyOptions, KeyOutcome, LinkType, ParseOptions, flow_key, parse,
};

fn traces() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let given = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    [Some(beside), given]
        .into_iter()
        .flatten()
        .find(|path| path.join("traces").is_dir())
}

/// Frames of a classic capture file; none of any other file.
fn frames(file: &[u8]) -> (LinkType, Vec<&[u8]>) {
    let little = match file.first_chunk::<4>() {
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => true,
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => false,
        _ => return (LinkType::Opaque, Vec::new()),
    };
    let number = |at: usize| -> Option<u32> {
        let four = *file.get(at..)?.first_chunk::<4>()?;
        Some(match little {
            true => u32::from_le_bytes(four),
            false => u32::from_be_bytes(four),
        })
    };
    let link = LinkType::from_dlt(number(20).unwrap_or(0) & 0xffff);
    let (mut at, mut out) = (24, Vec::new());
    while let Some(length) = number(at + 8) {
        let Some(frame) = file.get(at + 16..at + 16 + length as usize) else {
            break;
        };
        out.push(frame);
        at += 16 + length as usize;
    }
    (link, out)
}

/// What an entry that asks for this port should say, read from the transport
/// header and not from a key.
fn has_port(frame: &[u8], headers: &Headers, port: u16) -> Option<bool> {
    if headers
        .flags
        .intersects(HeaderFlags::ICMP_ERROR | HeaderFlags::DAMAGED)
    {
        return None;
    }
    let ports = headers.ports(frame);
    Some(ports.is_some_and(|(a, b)| a == port || b == port))
}

#[test]
fn flows_of_real_captures_are_not_torn() {
    let Some(folder) = traces() else {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: no ../shared/traces beside the project, and WEIR_TRACES is not set\n",
        );
        return;
    };
    let file = read(
        "chains:\n  - chain: web\n    match: [{port: 80}]\n    nfs: [monitor]\n  - chain: dns\n    \
         match: [{protocol: udp, port: [53, 5353]}]\n    nfs: [monitor]\n  - chain: private\n    \
         match:\n      - {prefix: [10.0.0.0/8, 192.168.0.0/16, \"fe80::/10\"], protocol: [tcp, udp]}\n    \
         nfs: [monitor]\n  - chain: rest\n    nfs: [monitor]\n",
    )
    .unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
    let (mut packets, mut files) = (0u64, 0);
    let mut taken = [0u64; 4];
    for inner in [false, true] {
        let options = ParseOptions {
            inner,
            lenient: true,
            ..ParseOptions::default()
        };
        for kind in ["a-mixed", "c-malformed", "d-encap", "f-ipv6"] {
            let Ok(list) = fs::read_dir(folder.join("traces").join(kind)) else {
                continue;
            };
            for entry in list.flatten() {
                let Ok(bytes) = fs::read(entry.path()) else {
                    continue;
                };
                let (link, frames) = frames(&bytes);
                files += 1;
                let mut chains: BTreeMap<_, usize> = BTreeMap::new();
                for frame in frames {
                    let Ok(headers) = parse(frame, link, &options) else {
                        continue;
                    };
                    packets += 1;
                    let chain = file
                        .chain_of(frame, &headers, None)
                        .expect("the last takes all");
                    taken[chain] += 1;
                    if let Some(expected) = has_port(frame, &headers, 80) {
                        assert_eq!(chain == 0, expected, "{:?}: {headers:?}", entry.path());
                    }
                    let outcome = flow_key(frame, &headers, &KeyOptions::default());
                    let KeyOutcome::Flow(key, _) = outcome else {
                        continue;
                    };
                    assert_eq!(file.chain_of(frame, &headers, Some(&key)), Some(chain));
                    let first = *chains.entry(key.to_words()).or_insert(chain);
                    assert_eq!(first, chain, "{:?}: {key}", entry.path());
                }
            }
        }
    }
    eprintln!("{packets} packets of {files} files; to each chain: {taken:?}");
    assert!(packets > 50_000, "only {packets} packets were read");
    assert!(taken.iter().all(|taken| *taken > 100), "{taken:?}");
}
