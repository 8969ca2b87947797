//! Flow records and traffic counters.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{HeaderFlags, LinkType, frame_flags, protocol::ethertype};
use weir_nf::prelude::*;

use crate::length::LENGTH;
use crate::name::Name;

/// Settings: facts to record besides the counters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Write a `flow` event when a flow ends.
    pub events: bool,
    /// Write a `flow` event of a flow that goes on as well, each time it has lasted this many
    /// seconds longer; 0 for never. Such a record counts from the flow's start, not from the
    /// record before it.
    pub active_timeout: u32,
    /// Count VLAN tags by id, as `vlan.ID`: each tag of a packet once.
    pub vlans: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            events: true,
            active_timeout: 1_800,
            vlans: true,
        }
    }
}

/// Counts packets and bytes, of all traffic and per flow.
#[derive(Debug)]
pub struct Monitor {
    events: bool,
    active_ns: u64,
    vlans: bool,
}

/// Counts of one flow, in 32 bytes: behind the head of its block (112 bytes) they lie in the
/// second cache line and the third. Index 0 is towards the server, 1 towards the client.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FlowStats {
    /// Time of the first packet.
    first: u64,
    /// From the bottom: 48 bits of bytes on the wire, 8 of TCP flags seen, 8 of the number of
    /// interim records (the low ones at index 0).
    octets: [u64; 2],
    /// Packets; stays at its largest value.
    packets: [u32; 2],
}

impl Stats for FlowStats {}

const _: () = assert!(core::mem::size_of::<FlowStats>() == 32);

const BYTES: u64 = (1 << 48) - 1;
const FLAGS_AT: u32 = 48;
const RECORDS_AT: u32 = 56;

impl FlowStats {
    fn bytes(&self, way: usize) -> u64 {
        self.octets[way] & BYTES
    }

    fn flags(&self, way: usize) -> u8 {
        (self.octets[way] >> FLAGS_AT) as u8
    }

    fn records(&self) -> u64 {
        self.octets[0] >> RECORDS_AT | (self.octets[1] >> RECORDS_AT) << 8
    }

    fn set_records(&mut self, records: u64) {
        let rest = (1 << RECORDS_AT) - 1;
        self.octets[0] = self.octets[0] & rest | (records & 0xff) << RECORDS_AT;
        self.octets[1] = self.octets[1] & rest | (records >> 8 & 0xff) << RECORDS_AT;
    }

    #[inline(always)]
    fn add(&mut self, way: usize, now: u64, wire_len: u32, tcp_flags: u8) {
        let (Some(octets), Some(packets)) = (self.octets.get_mut(way), self.packets.get_mut(way))
        else {
            return;
        };
        let bytes = ((*octets & BYTES) + u64::from(wire_len)).min(BYTES);
        *octets = *octets & !BYTES | bytes | u64::from(tcp_flags) << FLAGS_AT;
        *packets = packets.saturating_add(1);
        if self.first == 0 {
            self.first = now;
        }
    }
}

weir_nf::labels! {
    /// Counts over all traffic.
    enum Count: Counter<Packets> {
        /// Packets that came by.
        Packets = "packets",
        /// Their bytes on the wire.
        Bytes = "bytes": Counter<Bytes>,
        /// Packets of IPv4.
        Ipv4 = "ipv4",
        /// Packets of IPv6.
        Ipv6 = "ipv6",
        /// Packets of ARP.
        Arp = "arp",
        /// Packets of another network protocol.
        OtherNetwork = "other_network",
        /// Packets of TCP.
        Tcp = "tcp",
        /// Packets of UDP.
        Udp = "udp",
        /// Packets of SCTP.
        Sctp = "sctp",
        /// Packets of ICMP.
        Icmp = "icmp",
        /// Packets of ICMPv6.
        Icmpv6 = "icmpv6",
        /// Packets of IP with another transport protocol.
        OtherTransport = "other_transport",
        /// Packets that are fragments.
        Fragments = "fragments",
        /// Packets in a tunnel that was opened.
        Tunnelled = "tunnelled",
        /// VLAN tags that packets carried.
        VlanTags = "vlan_tags": Counter<Times>,
    }
}

/// Counter of each header flag that has one.
const FLAG_COUNTERS: [(HeaderFlags, Count); 9] = [
    (HeaderFlags::IPV4, Count::Ipv4),
    (HeaderFlags::IPV6, Count::Ipv6),
    (HeaderFlags::ARP, Count::Arp),
    (HeaderFlags::TCP, Count::Tcp),
    (HeaderFlags::UDP, Count::Udp),
    (HeaderFlags::SCTP, Count::Sctp),
    (HeaderFlags::ICMP, Count::Icmp),
    (HeaderFlags::ICMPV6, Count::Icmpv6),
    (HeaderFlags::FRAGMENT, Count::Fragments),
];
/// How often each of the 16 header flags was set in a burst: one byte each, which 64 packets don't
/// fill. All are counted at once, since most packets set few of them and which ones is hard to
/// foretell.
#[derive(Clone, Copy, Default)]
struct FlagCounts([u64; 2]);

impl FlagCounts {
    #[inline(always)]
    fn add(&mut self, flags: HeaderFlags) {
        let [low, high] = flags.bits().to_le_bytes();
        self.0[0] += spread(low);
        self.0[1] += spread(high);
    }

    /// Of one flag.
    fn of(&self, flag: HeaderFlags) -> u64 {
        let bit = flag.bits().trailing_zeros() as usize;
        self.0
            .get(bit / 8)
            .map_or(0, |counts| counts >> (bit % 8 * 8) & 0xff)
    }
}

/// Bit n of `bits` as byte n, 0 or 1.
#[inline(always)]
fn spread(bits: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    // Each byte keeps its own bit; adding 0x7f carries any of them to the top, and none further.
    let own = u64::from(bits).wrapping_mul(LOW) & 0x8040_2010_0804_0201;
    (own + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & LOW
}

impl NetworkFunction for Monitor {
    type Settings = Settings;
    type State = ();
    type Stats = FlowStats;
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Counts packets and bytes (on the wire): in all, by IP version and transport \
                 protocol, by VLAN id, and per flow and direction. When a flow ends, and if asked \
                 every so often while it lasts, a `flow` event says what was counted, from when \
                 to when, why it ended (reason: finished, reset, timeout, evicted, ended, reused, \
                 shutdown; active for a flow that goes on) and which TCP flags were seen.\n\n\
                 The counters of a flow are not part of its state: after a crash they may lack \
                 what was counted since they were last copied. A direction counts up to \
                 4,294,967,295 packets and 256 TiB and then stays there. Tags by id have room \
                 for all 4,096 ids.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(LENGTH),
        counters: Count::TABLE,
        tally: 4_096,
        events: true,
        cycles: 15,
        ..Descriptor::new("monitor", "counts traffic and writes flow records")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Monitor, SettingsError> {
        if settings.active_timeout != 0 && !settings.events {
            // The default time-out is no wish; another one without events is a mistake.
            if settings.active_timeout != Settings::default().active_timeout {
                return Err(
                    SettingsError::new("active-timeout", "there are no events to write")
                        .help("set events: true, or take active-timeout away"),
                );
            }
        }
        Ok(Monitor {
            events: settings.events,
            active_ns: match settings.active_timeout {
                _ if !settings.events => u64::MAX,
                0 => u64::MAX,
                seconds => u64::from(seconds) * 1_000_000_000,
            },
            vlans: settings.vlans,
        })
    }

    #[inline(always)]
    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let way = usize::from(!flow.info.to_server());
        let now = packet.time();
        flow.stats
            .add(way, now.0, packet.wire_len(), packet.headers().tcp_flags);
        if now.since(Time(flow.stats.first)) >= self.active_ns {
            self.interim(flow, now, cx);
        }
        Verdict::Pass
    }

    /// The counters of all traffic are added up over the burst and written once.
    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        let mut counts = Counts::<Count>::default();
        let mut flags = FlagCounts::default();
        let (mut left, mut tagged) = (burst.mask(), 0u64);
        // In registers while the burst is looked at.
        let (mut packets, mut bytes, mut tunnelled) = (0u64, 0u64, 0u64);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let packet = burst.packet(i);
            if packet.meta().flags & frame_flags::NO_OUTPUT != 0 {
                continue;
            }
            let headers = packet.headers();
            packets += 1;
            bytes += u64::from(packet.wire_len());
            flags.add(headers.flags);
            tunnelled += u64::from(headers.tunnels != 0);
            tagged |= u64::from(headers.vlans != 0) << i;
        }
        counts.add_many(Count::Packets, packets);
        counts.add_many(Count::Bytes, bytes);
        counts.add_many(Count::Tunnelled, tunnelled);
        for (flag, counter) in FLAG_COUNTERS {
            counts.add_many(counter, flags.of(flag));
        }
        let of = |counter: Count| counts.get(counter);
        let ip = of(Count::Ipv4) + of(Count::Ipv6);
        let other_network = of(Count::Packets).saturating_sub(ip + of(Count::Arp));
        let known = of(Count::Tcp) + of(Count::Udp) + of(Count::Sctp);
        let known = known + of(Count::Icmp) + of(Count::Icmpv6);
        counts.add_many(Count::OtherNetwork, other_network);
        counts.add_many(Count::OtherTransport, ip.saturating_sub(known));
        while tagged != 0 {
            let i = tagged.trailing_zeros() as usize;
            tagged &= tagged - 1;
            let tags = self.count_tags(&burst.packet(i), cx);
            counts.add_many(Count::VlanTags, tags);
        }
        cx.count_all(&counts);
        burst.for_each(self, cx);
    }

    fn show(&self, (): &(), stats: &FlowStats, shown: &mut Shown) {
        for (way, name) in ["to_server", "to_client"].into_iter().enumerate() {
            shown.within(name, |shown| {
                shown
                    .number("packets", stats.packets[way])
                    .number("bytes", stats.bytes(way))
                    .text("tcp_flags", format_args!("{:02x}", stats.flags(way)));
            });
        }
        shown
            .text("first", Time(stats.first))
            .number("interim_records", stats.records());
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        if self.events {
            let end = flow.info.last_seen();
            record(&*flow.stats, &flow.info, end, why.name(), cx);
        }
    }
}

impl Monitor {
    /// A record of a flow that goes on.
    #[cold]
    fn interim(&self, flow: &mut Flow<'_, Self>, now: Time, cx: &mut Context<'_>) {
        let age = now.since(Time(flow.stats.first));
        let due = (age / self.active_ns).min(u64::from(u16::MAX));
        if due > flow.stats.records() {
            flow.stats.set_records(due);
            record(&*flow.stats, &flow.info, now, "active", cx);
        }
    }

    /// Counts the tags of one packet by id; gives their number.
    #[cold]
    fn count_tags(&self, packet: &Packet<'_>, cx: &mut Context<'_>) -> u64 {
        let headers = packet.headers();
        let tags = usize::from(headers.vlans);
        if self.vlans {
            for &id in headers.vlan.iter().take(tags) {
                tally(id, cx);
            }
            for id in deeper_tags(packet).take(tags.saturating_sub(headers.vlan.len())) {
                tally(id, cx);
            }
        }
        tags as u64
    }
}

fn tally(id: u16, cx: &mut Context<'_>) {
    let mut name = Name::<16>::new("vlan.");
    name.number(u64::from(id));
    cx.tally(name.as_bytes(), 1);
}

/// Ids of the third and later tags, which the parser counts and does not keep: tags of an
/// Ethernet frame follow one another.
fn deeper_tags<'a>(packet: &'a Packet<'_>) -> impl Iterator<Item = u16> + 'a {
    let start = match packet.meta().link {
        LinkType::Ethernet => 12,
        _ => usize::MAX,
    };
    let tags = packet.bytes().get(start..).unwrap_or(&[]).chunks_exact(4);
    tags.map_while(|tag| {
        let kind = u16::from_be_bytes([tag[0], tag[1]]);
        let id = u16::from_be_bytes([tag[2], tag[3]]) & 0x0fff;
        ethertype::is_vlan(kind).then_some(id)
    })
    .skip(2)
}

fn record(stats: &FlowStats, info: &FlowInfo<'_>, end: Time, reason: &str, cx: &mut Context<'_>) {
    let is_tcp = info.key().proto() == 6;
    let phase = info.phase();
    let start = Time(stats.first);
    let [to_server, to_client] = stats.packets;
    let mut event = cx.flow_event("flow", info);
    event
        .object("flow")
        .number("pkts_toserver", u64::from(to_server))
        .number("pkts_toclient", u64::from(to_client))
        .number("bytes_toserver", stats.bytes(0))
        .number("bytes_toclient", stats.bytes(1))
        .time("start", start)
        .time("end", end)
        .number("age", end.since(start) / 1_000_000_000)
        .text("state", state_name(phase, is_tcp))
        .text("reason", reason)
        .end();
    if is_tcp {
        let (to_server, to_client) = (stats.flags(0), stats.flags(1));
        let all = to_server | to_client;
        event
            .object("tcp")
            .display("tcp_flags", format_args!("{all:02x}"))
            .display("tcp_flags_ts", format_args!("{to_server:02x}"))
            .display("tcp_flags_tc", format_args!("{to_client:02x}"));
        for (bit, name) in ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"]
            .into_iter()
            .enumerate()
        {
            if all >> bit & 1 != 0 {
                event.flag(name, true);
            }
        }
        event.end();
    }
}

/// Suricata's names of a flow's states.
fn state_name(phase: Phase, is_tcp: bool) -> &'static str {
    match phase {
        Phase::Open => "new",
        Phase::Answered if is_tcp => "new",
        Phase::Answered | Phase::Established => "established",
        Phase::Closing | Phase::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_counted_each_by_itself() {
        let mut counts = FlagCounts::default();
        for bits in 0..64u16 {
            counts.add(HeaderFlags::from_bits(bits.wrapping_mul(0x9d37)));
        }
        for bit in 0..16 {
            let flag = HeaderFlags::from_bits(1 << bit);
            let slow = (0..64u16).filter(|bits| bits.wrapping_mul(0x9d37) >> bit & 1 == 1);
            assert_eq!(counts.of(flag), slow.count() as u64, "bit {bit}");
        }
        for bits in 0..=u8::MAX {
            let bytes = spread(bits).to_le_bytes();
            for (bit, byte) in bytes.into_iter().enumerate() {
                assert_eq!(byte, bits >> bit & 1);
            }
        }
        let mut full = FlagCounts::default();
        (0..64).for_each(|_| full.add(HeaderFlags::from_bits(u16::MAX)));
        assert_eq!(full.of(HeaderFlags::NO_LENGTH), 64);
    }

    #[test]
    fn packed_fields_do_not_run_into_each_other() {
        let mut stats = FlowStats::default();
        stats.set_records(0xabcd);
        for _ in 0..3 {
            stats.add(0, 7, u32::MAX, 0x02);
            stats.add(1, 9, 60, 0x12);
        }
        assert_eq!(stats.first, 7);
        assert_eq!(stats.bytes(0), 3 * u64::from(u32::MAX));
        assert_eq!((stats.bytes(1), stats.packets), (180, [3, 3]));
        assert_eq!((stats.flags(0), stats.flags(1)), (0x02, 0x12));
        assert_eq!(stats.records(), 0xabcd);
        stats.octets[0] |= BYTES;
        stats.packets[0] = u32::MAX;
        stats.add(0, 9, 1_500, 0x01);
        assert_eq!((stats.bytes(0), stats.packets[0]), (BYTES, u32::MAX));
        assert_eq!((stats.flags(0), stats.records()), (0x03, 0xabcd));
    }
}
