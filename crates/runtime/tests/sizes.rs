//! Bytes that a function is shown are those that the packets have then.

use weir_nf::prelude::*;
use weir_runtime::harness::{Craft, Harness};

/// Makes each packet longer.
#[derive(Debug)]
struct Longer;

impl NetworkFunction for Longer {
    type Settings = ();
    type State = ();
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Link,
        writes: Parts::PAYLOAD,
        ..Descriptor::new("longer", "Makes packets longer")
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Longer)
    }

    fn without_flow(&self, packet: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        if let Some(room) = packet.append(10) {
            room.fill(0);
        }
        Verdict::Pass
    }
}

#[test]
fn functions_behind_one_that_makes_packets_longer_count_more_bytes() {
    let builder = Harness::builder();
    let builder = builder.with::<Longer>(()).unwrap();
    let builder = builder.with::<Longer>(()).unwrap();
    let mut harness = builder.with::<Longer>(()).unwrap().build();
    let packet = Craft::udp("10.0.0.1:1", "10.0.0.2:2")
        .payload(&[7; 60])
        .build();
    let len = packet.len() as u64;
    for _ in 0..3 {
        harness.send(&packet);
    }
    let report = harness.report();
    let bytes: Vec<u64> = report.functions.iter().map(|f| f.bytes).collect();
    assert_eq!(bytes, [3 * len, 3 * (len + 10), 3 * (len + 20)]);
    assert_eq!(report.bytes_out, 3 * (len + 30));
}
