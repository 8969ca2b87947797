//! All captures through `payload-compressor` and `payload-decompressor`: each packet comes back
//! with the very same bytes.

mod support;

use std::fs;

use support::{load, traces};
use weir_functions::compression::{
    CompressorSettings, DecompressorSettings, PayloadCompressor, PayloadDecompressor,
};
use weir_nf::host::{FlowOptions, OnMalformed};
use weir_nf::packet::checksum::Verdict::Bad;
use weir_nf::packet::{LinkType, ParseOptions, Side, Time, checksum, parse};
use weir_runtime::harness::{Harness, HarnessBuilder};

fn build(builder: HarnessBuilder) -> Harness {
    let flows = FlowOptions {
        malformed: OnMalformed::Pass,
        ..FlowOptions::default()
    };
    builder.flows(flows).build()
}

/// Of frames with checksums of IPv4 and TCP that are right: how many have wrong ones now.
fn spoiled(link: LinkType, before: &[u8], after: &[u8]) -> bool {
    let bad = |bytes: &[u8]| {
        parse(bytes, link, &ParseOptions::default()).is_ok_and(|headers| {
            checksum::check_ipv4(bytes, &headers) == Bad
                || checksum::check_transport(bytes, &headers) == Bad
        })
    };
    !bad(before) && bad(after)
}

#[test]
fn every_packet_comes_back() {
    let Some(folder) = traces() else { return };
    let table = fs::read_to_string(folder.join("truth/summary.tsv")).unwrap();
    let (mut packets, mut shorter, mut saved) = (0u64, 0u64, 0u64);
    let (mut of_http, mut between_http) = (0u64, 0u64);
    for line in table.lines().skip(1) {
        let trace = line.split('\t').next().unwrap();
        let records = load(&folder.join("traces").join(trace));
        // Every port, so that every segment is looked at, and the ports of HTTP.
        for every in [true, false] {
            let mut near = CompressorSettings::default();
            let mut far = DecompressorSettings::default();
            if every {
                near.ports = (0..=u16::MAX).collect();
                // What the frames of the other end have room for.
                near.largest = 1_700;
                near.smallest = 0;
                far.ports.clone_from(&near.ports);
            }
            let mut near = build(Harness::builder().with::<PayloadCompressor>(near).unwrap());
            let mut far = build(Harness::builder().with::<PayloadDecompressor>(far).unwrap());
            for record in &records {
                let link = LinkType::from_dlt(record.dlt);
                let through = |harness: &mut Harness, bytes: &[u8]| {
                    harness.set_time(Time(record.time_ns));
                    harness.queue_link(Side::Inside, link, bytes);
                    let mut out = harness.flush();
                    assert_eq!(out.len(), 1, "{trace}: {:?}", harness.report().drops);
                    out.remove(0).bytes
                };
                let between = through(&mut near, &record.data);
                assert!(between.len() <= record.data.len(), "{trace}");
                assert!(!spoiled(link, &record.data, &between), "{trace}");
                let back = through(&mut far, &between);
                assert!(back == record.data, "{trace}: a packet changed");
                packets += 1;
                shorter += u64::from(between.len() < record.data.len());
                saved += (record.data.len() - between.len()) as u64;
            }
            if !every {
                of_http += near.counter("payload-compressor", "bytes_in");
                between_http += near.counter("payload-compressor", "bytes_out");
            }
            near.finish();
            far.finish();
        }
    }
    println!(
        "{packets} packets, {shorter} of them shorter, {saved} bytes saved; \
         HTTP payloads {of_http} -> {between_http} bytes"
    );
    assert!(packets > 100_000 && shorter > 10_000);
    assert!(
        between_http * 10 < of_http * 9,
        "HTTP gets shorter by a tenth"
    );
}
