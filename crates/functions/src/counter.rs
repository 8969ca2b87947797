//! Packets and bytes, and nothing else.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{Side, frame_flags};
use weir_nf::prelude::*;

use crate::length::LENGTH;

/// No settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {}

/// Counts packets and bytes from each side.
#[derive(Debug)]
pub struct PacketCounter;

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets that came in on the inside.
        PacketsFromInside = "packets_from_inside",
        /// Their bytes on the wire.
        BytesFromInside = "bytes_from_inside": Counter<Bytes>,
        /// Packets that came in on the outside.
        PacketsFromOutside = "packets_from_outside",
        /// Their bytes on the wire.
        BytesFromOutside = "bytes_from_outside": Counter<Bytes>,
    }
}

impl NetworkFunction for PacketCounter {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Counts packets and bytes (on the wire), by the side on which they came in. It \
                 keeps no state, looks at no header and needs no flow: put one on each link of a \
                 classifier to know how much each class has (`counter: {}`, `as: web-traffic`). \
                 `monitor` counts by protocol and flow as well.",
        reads: LENGTH,
        counters: Count::TABLE,
        cycles: 5,
        ..Descriptor::new("counter", "counts packets and bytes")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<PacketCounter, SettingsError> {
        Ok(PacketCounter)
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let (packets, bytes) = counters_of(packet.side());
        cx.count(packets, 1);
        cx.count(bytes, u64::from(packet.wire_len()));
        Verdict::Pass
    }

    /// Counts in registers' reach, and touches the shared counters once a burst.
    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        let mut counts = Counts::<Count>::default();
        let mut left = burst.mask();
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let packet = burst.packet(i);
            if packet.meta().flags & frame_flags::NO_OUTPUT == 0 {
                let (packets, bytes) = counters_of(packet.side());
                counts.add(packets);
                counts.add_many(bytes, u64::from(packet.wire_len()));
            }
        }
        burst.pass_all();
        cx.count_all(&counts);
    }
}

/// Packets and bytes of a side.
#[inline(always)]
fn counters_of(side: Side) -> (Count, Count) {
    match side {
        Side::Inside => (Count::PacketsFromInside, Count::BytesFromInside),
        Side::Outside => (Count::PacketsFromOutside, Count::BytesFromOutside),
    }
}
