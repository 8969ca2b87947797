//! Swaps the addresses of Ethernet frames.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{LinkType, frame_flags};
use weir_nf::prelude::*;

/// No settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {}

/// Swaps source and destination of the outermost Ethernet header.
#[derive(Debug)]
pub struct MacSwap;

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets that passed as they are: they have no Ethernet header.
        NotEthernet = "not_ethernet",
    }
}

impl NetworkFunction for MacSwap {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Swaps source and destination address of the outermost Ethernet header, as a \
                 loopback test set does. Nothing else is looked at. Packets of another link type \
                 (raw IP, Linux cooked) and frames of less than 12 bytes pass untouched and are \
                 counted as not_ethernet.",
        writes: Parts::LINK,
        reads: Parts::LINK,
        counters: Count::TABLE,
        cycles: 6,
        ..Descriptor::new("mac-swap", "swaps the Ethernet addresses")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<MacSwap, SettingsError> {
        Ok(MacSwap)
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        if !swap(packet) {
            cx.count(Count::NotEthernet, 1);
        }
        Verdict::Pass
    }

    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        let mut left = burst.mask();
        let mut others = 0;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let mut packet = burst.packet(i);
            if !swap(&mut packet) && packet.meta().flags & frame_flags::NO_OUTPUT == 0 {
                others += 1;
            }
        }
        burst.pass_all();
        if others != 0 {
            cx.count(Count::NotEthernet, others);
        }
    }
}

/// True where the packet has Ethernet addresses, which are swapped then.
#[inline(always)]
fn swap(packet: &mut Packet<'_>) -> bool {
    if packet.meta().link != LinkType::Ethernet {
        return false;
    }
    let Some(addresses) = packet.bytes_mut().first_chunk_mut::<12>() else {
        return false;
    };
    // Twelve bytes in two registers: dddddd ss and ssss become ssssss dd and dddd.
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *addresses;
    let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let high = u32::from_le_bytes([i, j, k, l]);
    let source_first = low >> 48 | u64::from(high) << 16 | low << 48;
    let (front, back) = addresses.split_at_mut(8);
    front.copy_from_slice(&source_first.to_le_bytes());
    back.copy_from_slice(&((low >> 16) as u32).to_le_bytes());
    true
}
