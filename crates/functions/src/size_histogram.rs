//! How large packets are.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::frame_flags;
use weir_nf::prelude::*;

use crate::length::LENGTH;

/// Settings: the measure of a packet's size.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Add the four bytes of Ethernet's check sequence, which captures leave out, so that the
    /// counters are those of RFC 2819 (its smallest frame has 64 bytes with them, 60 without).
    pub check_sequence: bool,
}

/// Counts packets by size.
#[derive(Debug)]
pub struct SizeHistogram {
    extra: u32,
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets of at most 64 bytes.
        SizeTo64 = "size_to_64",
        /// Packets of 65 to 127 bytes.
        Size65To127 = "size_65_to_127",
        /// Packets of 128 to 255 bytes.
        Size128To255 = "size_128_to_255",
        /// Packets of 256 to 511 bytes.
        Size256To511 = "size_256_to_511",
        /// Packets of 512 to 1,023 bytes.
        Size512To1023 = "size_512_to_1023",
        /// Packets of 1,024 to 1,518 bytes.
        Size1024To1518 = "size_1024_to_1518",
        /// Packets of 1,519 to 9,216 bytes.
        Size1519To9216 = "size_1519_to_9216",
        /// Packets of more than 9,216 bytes.
        SizeOver9216 = "size_over_9216",
    }
}

impl NetworkFunction for SizeHistogram {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Counts packets by their size on the wire (not by what a capture kept of them) in \
                 the buckets of RFC 2819 (RMON): up to 64 bytes, 65 to 127, 128 to 255, 256 to \
                 511, 512 to 1,023, 1,024 to 1,518, and beyond these 1,519 to 9,216 and more \
                 (jumbo frames, and segments that a network card has merged).",
        reads: LENGTH,
        counters: Count::TABLE,
        cycles: 5,
        ..Descriptor::new("size-histogram", "counts packets by size")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<SizeHistogram, SettingsError> {
        Ok(SizeHistogram {
            extra: if settings.check_sequence { 4 } else { 0 },
        })
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        cx.count(bucket(packet.wire_len().saturating_add(self.extra)), 1);
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
            let counted = packet.meta().flags & frame_flags::NO_OUTPUT == 0;
            let bucket = bucket(packet.wire_len().saturating_add(self.extra));
            counts.add_many(bucket, u64::from(counted));
        }
        burst.pass_all();
        cx.count_all(&counts);
    }
}

/// The bucket of a packet of this size.
#[inline(always)]
fn bucket(size: u32) -> Count {
    match size {
        0..=64 => Count::SizeTo64,
        65..=127 => Count::Size65To127,
        128..=255 => Count::Size128To255,
        256..=511 => Count::Size256To511,
        512..=1_023 => Count::Size512To1023,
        1_024..=1_518 => Count::Size1024To1518,
        1_519..=9_216 => Count::Size1519To9216,
        _ => Count::SizeOver9216,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_their_names_say() {
        for &number in Count::ALL {
            let name = number.name();
            let numbers: Vec<u32> = name.split('_').filter_map(|n| n.parse().ok()).collect();
            let (first, last) = match (name.starts_with("size_over"), numbers.as_slice()) {
                (true, &[above]) => (above + 1, u32::MAX),
                (false, &[last]) => (0, last),
                (false, &[first, last]) => (first, last),
                _ => panic!("{name} names its sizes"),
            };
            assert_eq!((bucket(first), bucket(last)), (number, number), "{name}");
        }
    }
}
