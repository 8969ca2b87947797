//! The packets of a run: conversations between clients and servers.
//!
//! A plan of packets is made before the run. Answers of servers are made when
//! their time has come, for the addresses that the servers have seen by then:
//! a NAT or a load balancer in the chain decides them.

mod conversation;
mod packet;

use std::net::Ipv4Addr;

use weir_packet::{LinkType, Side};

use crate::chain::Chain;
use crate::random::Random;

pub(crate) use packet::observed;
pub use packet::{Ends, Planned, Shape};

/// Packets of a capture, given from outside.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When, in nanoseconds from the first packet.
    pub at: u64,
    /// The side it comes from.
    pub side: Side,
    /// How its bytes begin.
    pub link: LinkType,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Time of the first packet: some functions take time 0 for "never".
pub(crate) const START: u64 = 1_000_000_000_000;
/// Nanoseconds from one packet to the next, on average.
const GAP: u64 = 150_000;

/// Client ports of [`Chain::NatCrowded`]: so few that names collide.
const CROWDED_PORTS: u32 = 96;

/// How long the packets of a run take, in nanoseconds.
pub fn duration(packets: u32) -> u64 {
    u64::from(packets) * GAP
}

/// The packets of a seed, by time.
pub fn plan(seed: u64, chain: Chain, flows: u32, packets: u32) -> Vec<Planned> {
    let mut random = Random::new(seed, 4);
    let length = duration(packets);
    let mut all: Vec<Planned> = Vec::with_capacity(packets as usize + 64);
    let flows = flows.max(1);
    let mut number = 0u32;
    // Each flow once; then those that come back, until there are enough.
    while number < flows || all.len() < packets as usize {
        let flow = if number < flows {
            number
        } else {
            random.below(u64::from(flows)) as u32
        };
        let left = (packets as usize).saturating_sub(all.len()) as u32;
        if left == 0 {
            break;
        }
        let fair = (packets / flows).max(1);
        // Each flow that is still to come has a packet at least.
        let free = left.saturating_sub(flows.saturating_sub(number + 1)).max(1);
        let most = free.min(if random.chance(100) {
            20 * fair
        } else {
            2 * fair
        });
        let start = random.below(length);
        conversation::plan(&mut random, chain, flow, (start, length), most, &mut all);
        number += 1;
    }
    burst(&mut random, &mut all);
    all.sort_by_key(|packet| packet.at);
    all
}

/// The packets of a capture, brought to the same length of time: at most
/// `packets` of them.
pub fn plan_of(recorded: &[Recorded], packets: u32) -> Vec<Planned> {
    let taken = recorded.len().min(packets as usize);
    let last = recorded.get(..taken).and_then(|r| r.last());
    let span = last.map_or(0, |packet| packet.at).max(1);
    let length = duration(taken as u32);
    let place = |at: u64| (u128::from(at) * u128::from(length) / u128::from(span)) as u64;
    let packets = recorded.iter().take(taken).enumerate();
    packets
        .map(|(i, packet)| Planned {
            at: place(packet.at),
            flow: i as u32,
            to_server: true,
            side: packet.side,
            link: packet.link,
            shape: Shape::Raw(packet.bytes.clone()),
        })
        .collect()
}

/// Lets packets that are close come together, as an interface hands them over.
fn burst(random: &mut Random, packets: &mut [Planned]) {
    let grain = [1, 100_000, 400_000, 1_500_000][random.below(4) as usize];
    for packet in packets {
        packet.at -= packet.at % grain;
    }
}

/// Addresses and ports of a conversation, as its client sees them.
pub(crate) fn ends(chain: Chain, flow: u32) -> Ends {
    // Several flows per client, so that scopes wider than a flow matter.
    let client = flow / 4;
    // Hairpin: clients that talk to another client's outside address, where a
    // NAT that preserves ports may have a mapping.
    let is_crowded = chain == Chain::NatCrowded;
    let hairpin = chain.is_nat() && flow.is_multiple_of(if is_crowded { 3 } else { 17 });
    let ports = if is_crowded { CROWDED_PORTS } else { 50_000 };
    let server = match chain {
        Chain::Web if !flow.is_multiple_of(3) => Ipv4Addr::new(203, 0, 113, 80),
        _ if hairpin => Ipv4Addr::new(203, 0, 113, 1),
        _ => Ipv4Addr::new(198, 51, 100, (flow % 7) as u8 + 1),
    };
    Ends {
        client: Ipv4Addr::new(10, 0, (client >> 8) as u8, client as u8),
        client_port: 1_024 + (flow % ports) as u16,
        server,
        server_port: if hairpin {
            1_024 + (flow / 2 % ports) as u16
        } else {
            conversation::server_port(flow)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_what_was_asked_for() {
        for (seed, chain) in Chain::ALL.into_iter().enumerate() {
            let plan = plan(seed as u64, chain, 200, 5_000);
            assert!((4_990..=5_100).contains(&plan.len()), "{}", plan.len());
            assert!(plan.is_sorted_by_key(|packet| packet.at));
            let flows: std::collections::BTreeSet<u32> = plan.iter().map(|p| p.flow).collect();
            assert!(flows.len() >= 190, "{}", flows.len());
            assert!(plan.iter().any(|p| !p.to_server));
        }
    }
}
