//! A token bucket per flow.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::checksum::Change;
use weir_nf::prelude::*;

use crate::length::LENGTH;

/// Settings of [`Policer`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Rate per flow: bits (`10Mbit`), bytes (`1.5MB`) or packets (`1000pps`)
    /// a second; `k`, `M` and `G` are powers of 1,000.
    pub rate: String,
    /// Burst: bytes or packets that a flow may send at once after a pause: `64kB`, `1Mbit`,
    /// `100packets`; a plain number has the unit of the rate. If missing, as much as the rate
    /// gives in 100 ms, and at least one packet or 2,000 bytes.
    pub burst: Option<String>,
    /// Which packets count: `both` directions out of one bucket (the default),
    /// those `to-server`, or those `to-client`; the others pass.
    pub direction: Which,
    /// Action on packets beyond the rate: `drop` (the default), `mark` with `dscp`, or `label`:
    /// they leave by the link `exceeded`.
    pub action: Beyond,
    /// The DSCP that `mark` writes (RFC 2474), 0 to 63; 0 (best effort) if
    /// missing.
    pub dscp: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rate: "10Mbit".to_owned(),
            burst: None,
            direction: Which::Both,
            action: Beyond::Drop,
            dscp: 0,
        }
    }
}

/// Which packets of a flow count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// All.
    #[default]
    Both,
    /// Those from the client.
    ToServer,
    /// Those from the server.
    ToClient,
}

/// Action on packets beyond the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// They are dropped.
    #[default]
    Drop,
    /// They pass with another DSCP.
    Mark,
    /// They leave by the link `exceeded`.
    Label,
}

/// Unit that a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bits,
    Packets,
}

/// Token parts per token: a rate of n a second gives n parts a nanosecond, so
/// nothing is rounded.
const PARTS: u64 = 1_000_000_000;

/// The bucket of a flow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Bucket {
    /// Tokens (bits or packets) times 10⁹.
    parts: u64,
    /// Time up to which tokens were added, in nanoseconds.
    filled: u64,
}

impl State for Bucket {}

/// The function.
#[derive(Debug)]
pub struct Policer {
    unit: Unit,
    /// Tokens a second.
    rate: u64,
    /// Most parts in a bucket.
    most: u64,
    direction: Which,
    action: Beyond,
    dscp: u8,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its flow sends more than its rate and burst allow.
        Exceeded = "exceeded",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets beyond the rate that were marked.
        Marked = "marked",
        /// Packets beyond the rate.
        Exceeded = "exceeded",
    }
}

/// Reads `10Mbit`, `1.5MB`, `1000pps`: a number, a multiple and a unit.
fn amount(text: &str, plain: Option<Unit>) -> Result<(u64, Unit), String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let wrong = || format!("`{text}` is no amount such as `10Mbit`, `64kB` or `1000pps`");
    let suffix = suffix.trim();
    let suffix = suffix
        .strip_suffix("/s")
        .or_else(|| suffix.strip_suffix("ps").filter(|s| *s != "p"))
        .unwrap_or(suffix);
    let (multiple, unit) = match suffix.chars().next() {
        Some('k' | 'K') => (1_000, &suffix[1..]),
        Some('M') => (1_000_000, &suffix[1..]),
        Some('G') => (1_000_000_000, &suffix[1..]),
        _ => (1, suffix),
    };
    let (size, unit) = match unit {
        "" => match plain {
            Some(Unit::Packets) => (1, Unit::Packets),
            Some(Unit::Bits) => (8, Unit::Bits),
            None => return Err(format!("`{text}` has no unit (Mbit, MB, pps)")),
        },
        "bit" | "bits" | "b" => (1, Unit::Bits),
        "B" | "byte" | "bytes" => (8, Unit::Bits),
        "pps" | "p" | "packet" | "packets" => (1, Unit::Packets),
        _ => return Err(wrong()),
    };
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return Err(wrong());
    }
    let whole: u128 = whole.parse().map_err(|_| wrong())?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| wrong())?
    };
    let value = whole
        .checked_mul(scale)
        .and_then(|value| value.checked_add(part))
        .and_then(|value| value.checked_mul(multiple * size))
        .ok_or_else(wrong)?;
    if value % scale != 0 {
        return Err(format!("`{text}` is no whole number of bits or packets"));
    }
    let value = u64::try_from(value / scale).map_err(|_| wrong())?;
    Ok((value, unit))
}

/// Parts of tokens that a packet takes.
#[inline]
fn cost(unit: Unit, wire_len: u32) -> u64 {
    match unit {
        Unit::Packets => PARTS,
        // A capture may say that a packet had 4 GiB: no bucket holds as much.
        Unit::Bits => (u64::from(wire_len) * 8).saturating_mul(PARTS),
    }
}

impl Policer {
    #[inline]
    fn fill(&self, bucket: &mut Bucket, now: Time) {
        let gained = u128::from(now.since(Time(bucket.filled))) * u128::from(self.rate);
        let parts = (u128::from(bucket.parts) + gained).min(u128::from(self.most));
        bucket.parts = parts as u64;
        bucket.filled = bucket.filled.max(now.0);
    }

    #[inline]
    fn cost(&self, packet: &Packet<'_>) -> u64 {
        cost(self.unit, packet.wire_len())
    }

    #[cold]
    fn beyond(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        cx.count(Count::Exceeded, 1);
        match self.action {
            Beyond::Drop => Verdict::Drop(Reason::Exceeded.into()),
            Beyond::Label => Verdict::Label(1),
            Beyond::Mark => {
                if mark(packet, self.dscp).is_some() {
                    cx.count(Count::Marked, 1);
                }
                Verdict::Pass
            }
        }
    }
}

/// Writes the DSCP (RFC 2474) and leaves ECN (RFC 3168) as it is.
fn mark(packet: &mut Packet<'_>, dscp: u8) -> Option<()> {
    let ipv4 = packet.headers().is_ipv4();
    let network = packet.network_mut();
    let old = u16::from_be_bytes(*network.first_chunk::<2>()?);
    let new = if ipv4 {
        old & 0xff03 | u16::from(dscp) << 2
    } else {
        old & 0xf03f | u16::from(dscp) << 6
    };
    *network.first_chunk_mut::<2>()? = new.to_be_bytes();
    if ipv4 {
        let sum = network.get_mut(10..12)?.first_chunk_mut::<2>()?;
        let checksum = Change::new().word(old, new).apply(u16::from_be_bytes(*sum));
        *sum = checksum.to_be_bytes();
    }
    Some(())
}

impl NetworkFunction for Policer {
    type Settings = Settings;
    type State = Bucket;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Lets each flow send at a rate, with bursts, by a token bucket (the committed part
of RFC 2697). A flow starts with a full bucket; a packet takes its bytes on the
wire (frame header included), or one token where the rate is in packets. A packet
for which there are not enough tokens takes none: it is dropped as `exceeded`,
marked with a DSCP, or sent out by the link `exceeded`.

Tokens are counted exactly (10⁻⁹ of a bit), by the packets' own times; time that
runs backwards adds none. Packets of no flow pass.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(LENGTH),
        writes: Parts::NETWORK,
        drops: Reason::TABLE,
        labels: &["exceeded"],
        counters: Count::TABLE,
        cycles: 15,
        ..Descriptor::new("policer", "A rate and a burst for each flow (token bucket)")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Policer, SettingsError> {
        let (rate, unit) =
            amount(&settings.rate, None).map_err(|message| SettingsError::new("rate", message))?;
        if rate == 0 || rate > 4_000_000_000_000 {
            return Err(SettingsError::new(
                "rate",
                "a rate is more than 0 and at most 4,000 Gbit/s",
            ));
        }
        let burst = match &settings.burst {
            None => (rate / 10).max(match unit {
                Unit::Packets => 1,
                Unit::Bits => 16_000,
            }),
            Some(text) => {
                let (burst, of) = amount(text, Some(unit))
                    .map_err(|message| SettingsError::new("burst", message))?;
                if of != unit {
                    return Err(SettingsError::new(
                        "burst",
                        "the burst counts other things than the rate",
                    )
                    .help("give both in bits or bytes, or both in packets"));
                }
                burst
            }
        };
        let most = burst
            .checked_mul(PARTS)
            .filter(|&most| most > 0)
            .ok_or_else(|| {
                SettingsError::new(
                    "burst",
                    "a burst is more than 0 and at most 2.3 GB (18 thousand million packets)",
                )
            })?;
        if settings.dscp > 63 {
            return Err(SettingsError::new("dscp", "a DSCP is 0 to 63"));
        }
        Ok(Policer {
            unit,
            rate,
            most,
            direction: settings.direction,
            action: settings.action,
            dscp: settings.dscp,
        })
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        _: &FlowInfo<'_>,
        _: &mut Context<'_>,
    ) -> Result<Bucket, DropReason> {
        Ok(Bucket {
            parts: self.most,
            filled: packet.time().0,
        })
    }

    #[inline]
    fn show(&self, state: &Bucket, (): &(), shown: &mut Shown) {
        let unit = match self.unit {
            Unit::Bits => "tokens_bits",
            Unit::Packets => "tokens_packets",
        };
        shown
            .number(unit, state.parts / PARTS)
            .text("filled", Time(state.filled));
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let counts = match self.direction {
            Which::Both => true,
            Which::ToServer => flow.info.to_server(),
            Which::ToClient => !flow.info.to_server(),
        };
        if !counts {
            return Verdict::Pass;
        }
        let cost = self.cost(packet);
        let bucket = &mut *flow.state;
        self.fill(bucket, packet.time());
        match bucket.parts.checked_sub(cost) {
            Some(left) => {
                bucket.parts = left;
                Verdict::Pass
            }
            None => self.beyond(packet, cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_nf::host::Target;
    use weir_runtime::harness::{Craft, Harness};

    fn settings(rate: &str, burst: &str) -> Settings {
        Settings {
            rate: rate.to_owned(),
            burst: Some(burst.to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn amounts_are_read_exactly() {
        for (text, value, unit) in [
            ("10Mbit", 10_000_000, Unit::Bits),
            ("10Mbit/s", 10_000_000, Unit::Bits),
            ("10Mbps", 10_000_000, Unit::Bits),
            ("1.5MB", 12_000_000, Unit::Bits),
            ("64kB", 512_000, Unit::Bits),
            ("1000pps", 1_000, Unit::Packets),
            ("2kpps", 2_000, Unit::Packets),
            ("100 packets", 100, Unit::Packets),
        ] {
            assert_eq!(amount(text, None), Ok((value, unit)), "{text}");
        }
        for text in [
            "",
            "10",
            "Mbit",
            "10Mfoo",
            "1.2.3MB",
            "0.1bit",
            "99999999999999999999Gbit",
            // Overflow of each step.
            "34028236692093846346337460743176821145.9bit",
            "340282366920938463463374607431768211455bit",
            "340282366920938463463374607431768211455.5bit",
        ] {
            assert!(amount(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn a_packet_that_claims_4_gib_costs_more_than_any_bucket_holds() {
        assert_eq!(cost(Unit::Bits, 1_500), 12_000 * PARTS);
        assert_eq!(cost(Unit::Bits, u32::MAX), u64::MAX);
        assert_eq!(cost(Unit::Packets, u32::MAX), PARTS);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for (settings, path) in [
            (settings("0pps", "1"), "rate"),
            (settings("1Mbit", "10packets"), "burst"),
            (settings("1Mbit", "0"), "burst"),
            (settings("1Mbit", "9GB"), "burst"),
            (
                Settings {
                    dscp: 64,
                    ..Settings::default()
                },
                "dscp",
            ),
        ] {
            let error = Harness::builder().with::<Policer>(settings).unwrap_err();
            assert_eq!(error.path, path, "{error}");
        }
    }

    #[test]
    fn a_flow_gets_its_burst_and_then_its_rate() {
        let mut harness = Harness::of::<Policer>(settings("10pps", "5packets"));
        let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:2").build();
        let passed = |harness: &mut Harness, n: usize| {
            (0..n).map(|_| harness.send(&packet).len()).sum::<usize>()
        };
        assert_eq!(passed(&mut harness, 20), 5);
        harness.advance_ms(99);
        assert_eq!(passed(&mut harness, 3), 0);
        harness.advance_ms(1);
        assert_eq!(passed(&mut harness, 3), 1);
        harness.advance_ms(60_000);
        assert_eq!(passed(&mut harness, 20), 5);
        let report = harness.finish();
        assert_eq!(report.drops, [("policer.exceeded".to_owned(), 35)]);
    }

    #[test]
    fn flows_have_buckets_of_their_own_of_both_families() {
        let mut harness = Harness::of::<Policer>(settings("10pps", "1packets"));
        for (source, target) in [
            ("10.0.0.1:1", "192.0.2.1:2"),
            ("10.0.0.2:1", "192.0.2.1:2"),
            ("[2001:db8::1]:1", "[2001:db8::2]:2"),
        ] {
            let packet = Craft::udp(source, target).build();
            assert_eq!(harness.send(&packet).len(), 1);
            assert_eq!(harness.send(&packet).len(), 0);
        }
    }

    #[test]
    fn what_exceeds_is_marked_with_right_checksums() {
        let mut harness = Harness::of::<Policer>(Settings {
            action: Beyond::Mark,
            dscp: 10,
            ..settings("8bit", "100B")
        });
        for (source, target, at) in [
            ("10.0.0.1:1", "192.0.2.1:2", 15),
            ("[2001:db8::1]:1", "[2001:db8::2]:2", 14),
        ] {
            let packet = Craft::udp(source, target).payload(&[7; 30]).build();
            assert_eq!(harness.send(&packet), std::slice::from_ref(&packet));
            let marked = harness.send(&packet).remove(0);
            let word = u16::from_be_bytes([marked[14], marked[15]]);
            let dscp = if at == 15 {
                word >> 2 & 63
            } else {
                word >> 6 & 63
            };
            assert_eq!(dscp, 10);
            crate::rewrite::tests::assert_right(&marked);
        }
    }

    #[test]
    fn a_label_leads_elsewhere() {
        let mut harness = Harness::builder()
            .with::<Policer>(Settings {
                action: Beyond::Label,
                ..settings("1pps", "1")
            })
            .unwrap()
            .links(vec![Target::Out, Target::Drop])
            .build();
        let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:2").build();
        assert_eq!(harness.send(&packet).len() + harness.send(&packet).len(), 1);
        assert_eq!(harness.finish().drops, [("policer.exceeded".to_owned(), 1)]);
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate(
            rate in 1u64..5_000,
            burst in 1u64..50,
            gaps in prop::collection::vec(0u64..20, 1..200),
        ) {
            let mut harness = Harness::of::<Policer>(
                settings(&format!("{rate}pps"), &format!("{burst}packets")));
            let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:2").build();
            let (mut passed, mut elapsed) = (0u64, 0u64);
            for gap in gaps {
                harness.advance_ms(gap);
                elapsed += gap;
                passed += harness.send(&packet).len() as u64;
                prop_assert!(passed * 1_000 <= burst * 1_000 + rate * elapsed);
            }
        }
    }
}
