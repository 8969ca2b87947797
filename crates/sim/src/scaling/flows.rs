//! The scenario's flows: who sends when, and whether it comes out in order.

use weir_packet::{FrameMeta, FramePool, LinkType, NoFrame, Side, Time};

use super::Load;

/// Bytes of a packet, without the frame's check sequence.
const PACKET: usize = 60;
/// Offset of the marks, behind the Ethernet, IPv4 and UDP headers.
const IPV4: usize = 14;
const UDP: usize = 34;
const MARKS: usize = 42;
const DESTINATION_PORT: u16 = 53;

/// A flow that sends.
#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u32,
    sent: u32,
}

/// All flows: those that send in the same millisecond of their period share a list.
#[derive(Debug)]
pub(crate) struct Flows {
    load: Load,
    phases: Vec<Vec<Flow>>,
    /// Packets in a flow's life.
    packets: u32,
    next: u32,
    /// Part of a flow that has not begun yet.
    begun: f64,
    live: u32,
    random: u64,
}

impl Flows {
    /// Those that live at the beginning, each somewhere in its life.
    pub(crate) fn new(load: &Load) -> Flows {
        let period = 1_000 / load.flow_rate.clamp(1, 1_000);
        let mut flows = Flows {
            load: *load,
            phases: vec![Vec::new(); period as usize],
            packets: load.flow_seconds * load.flow_rate,
            next: 0,
            begun: 0.0,
            live: 0,
            random: load.seed,
        };
        for _ in 0..load.low {
            let phase = flows.below(u64::from(period));
            let sent = flows.below(u64::from(flows.packets)) as u32;
            flows.begin(phase, sent);
        }
        flows
    }

    /// Flows that send.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    fn begin(&mut self, ms: u64, sent: u32) {
        let flow = Flow {
            number: self.next,
            sent,
        };
        let phase = ms as usize % self.phases.len().max(1);
        if let Some(phase) = self.phases.get_mut(phase) {
            phase.push(flow);
            self.next += 1;
            self.live += 1;
        }
    }

    /// A number below `n` (splitmix64).
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.random)) * u128::from(n)) >> 64) as u64
    }

    /// Appends what is sent in a millisecond: (flow, number of its packet).
    pub(crate) fn send(&mut self, ms: u64, packets: &mut Vec<(u32, u32)>) {
        let life = f64::from(self.load.flow_seconds) * 1_000.0;
        self.begun += self.load.wanted(ms) / life;
        while self.begun >= 1.0 {
            self.begun -= 1.0;
            // In its first period, so that the phases stay evenly filled.
            let phase = self.below(self.phases.len() as u64);
            self.begin(ms + phase, 0);
        }
        let phase = ms as usize % self.phases.len().max(1);
        let Some(phase) = self.phases.get_mut(phase) else {
            return;
        };
        let before = phase.len();
        phase.retain_mut(|flow| {
            packets.push((flow.number, flow.sent));
            flow.sent += 1;
            flow.sent < self.packets
        });
        self.live -= (before - phase.len()) as u32;
    }
}

/// The finaliser of splitmix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bytes of a flow's packet; flow and number are behind the headers.
fn bytes(flow: u32, number: u32) -> [u8; PACKET] {
    let mut packet = [0; PACKET];
    let look = mix(u64::from(flow));
    let [_, b, c, d] = flow.to_be_bytes();
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    packet[12..IPV4].copy_from_slice(&[0x08, 0x00]);
    packet[IPV4..UDP].copy_from_slice(&[
        0x45,
        0,
        0,
        (PACKET - IPV4) as u8,
        0,
        0,
        0x40,
        0,
        64,
        17,
        0,
        0,
        10,
        b,
        c,
        d,
        192,
        0,
        2,
        1 + (look % 250) as u8,
    ]);
    let sum = weir_packet::checksum::internet(&packet[IPV4..UDP]);
    packet[IPV4 + 10..IPV4 + 12].copy_from_slice(&sum.to_be_bytes());
    let port = 1_024 + ((look >> 8) % 60_000) as u16;
    packet[UDP..UDP + 2].copy_from_slice(&port.to_be_bytes());
    packet[UDP + 2..UDP + 4].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
    packet[UDP + 4..UDP + 6].copy_from_slice(&((PACKET - UDP) as u16).to_be_bytes());
    packet[MARKS..MARKS + 4].copy_from_slice(&flow.to_be_bytes());
    packet[MARKS + 4..MARKS + 8].copy_from_slice(&number.to_be_bytes());
    packet
}

/// A frame with a flow's packet.
///
/// # Errors
///
/// No frame is free.
pub(crate) fn frame(
    pool: &mut FramePool,
    now: Time,
    sequence: u64,
    (flow, number): (u32, u32),
) -> Result<weir_packet::Frame, NoFrame> {
    let mut meta = FrameMeta::received(now, 0);
    meta.sequence = sequence;
    meta.wire_len = PACKET as u32;
    meta.side = Side::Inside;
    meta.link = LinkType::Ethernet;
    pool.copy(&bytes(flow, number), meta)
}

/// Looks at what leaves.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    /// By flow: the number after its last packet that left.
    next: Vec<u32>,
    pub(crate) reordered: u64,
    pub(crate) doubled: u64,
    /// Not of these flows.
    pub(crate) strange: u64,
}

impl Exit {
    /// A packet leaves.
    pub(crate) fn see(&mut self, packet: &[u8]) {
        let word = |at: usize| {
            let word = packet.get(at..at + 4)?;
            Some(u32::from_be_bytes(word.try_into().ok()?))
        };
        let (Some(flow), Some(number)) = (word(MARKS), word(MARKS + 4)) else {
            self.strange += 1;
            return;
        };
        let at = flow as usize;
        if self.next.len() <= at {
            self.next.resize(at + 1, 0);
        }
        let Some(next) = self.next.get_mut(at) else {
            return;
        };
        if number + 1 == *next {
            self.doubled += 1;
        } else if number < *next {
            self.reordered += 1;
        } else {
            *next = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{KeyOptions, KeyOutcome, ParseOptions, flow_key, parse};

    #[test]
    fn packets_are_right_and_flows_apart() {
        let mut keys = std::collections::BTreeSet::new();
        for flow in [0, 1, 255, 256, 70_000] {
            let packet = bytes(flow, 9);
            let headers = parse(&packet, LinkType::Ethernet, &ParseOptions::default()).unwrap();
            assert!(weir_packet::checksum::ipv4_is_right(&packet[IPV4..UDP]));
            let KeyOutcome::Flow(key, _) = flow_key(&packet, &headers, &KeyOptions::default())
            else {
                panic!("UDP has a flow");
            };
            keys.insert(key);
        }
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn flows_live_as_long_and_send_as_often_as_they_should() {
        let load = Load {
            low: 100,
            high: 100,
            ..Load::default()
        };
        let mut flows = Flows::new(&load);
        let mut packets = Vec::new();
        for ms in 0..120_000 {
            flows.send(ms, &mut packets);
        }
        // 100 flows × 20 × 120 s, less what begins and ends in between.
        let sent = packets.len();
        assert!((235_000..245_000).contains(&sent), "{sent}");
        let mut of_one: Vec<u32> = packets.iter().filter(|p| p.0 == 150).map(|p| p.1).collect();
        of_one.truncate(1_200);
        assert_eq!(of_one, (0..1_200).collect::<Vec<_>>());
        assert!((90..=110).contains(&flows.live()), "{}", flows.live());
    }

    #[test]
    fn the_exit_sees_what_is_wrong() {
        let mut exit = Exit::default();
        for number in [0, 1, 3, 3, 2, 4] {
            exit.see(&bytes(7, number));
        }
        exit.see(&[0; 20]);
        assert_eq!((exit.doubled, exit.reordered, exit.strange), (1, 1, 1));
    }
}
