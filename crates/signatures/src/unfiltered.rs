//! Rules without a content to look for first, found by protocol, direction and port.

use crate::ranges::PortSet;
use crate::view::{FlowContext, ICMP, ICMPV6, SCTP, TCP, UDP};

/// Sets of at most this many ports are listed port by port.
const FEW_PORTS: u32 = 16;

/// Protocols that have lists of their own; one more list is for all others.
const PROTOCOLS: [u8; 5] = [TCP, UDP, ICMP, ICMPV6, SCTP];

/// The rules of one protocol and direction.
#[derive(Debug, Clone, Default)]
struct Lists {
    any: Vec<u32>,
    by_destination: Vec<(u16, u32)>,
    by_source: Vec<(u16, u32)>,
}

/// Rules without a fast pattern.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unfiltered {
    /// Protocols in the order of `PROTOCOLS`, then others; each to the server, then to the client.
    lists: [[Lists; 2]; PROTOCOLS.len() + 1],
}

/// Place of a protocol's lists.
fn place(protocol: u8) -> usize {
    PROTOCOLS
        .iter()
        .position(|&known| known == protocol)
        .unwrap_or(PROTOCOLS.len())
}

/// The ports of a small set.
fn few(ports: &PortSet) -> Option<Vec<u16>> {
    let count: u32 = ports
        .ranges()
        .iter()
        .map(|&(low, high)| u32::from(high) - u32::from(low) + 1)
        .sum();
    (count <= FEW_PORTS).then(|| {
        ports
            .ranges()
            .iter()
            .flat_map(|&(low, high)| low..=high)
            .collect()
    })
}

impl Unfiltered {
    /// Adds a rule for the protocols and directions (to the server, to the client) that it applies to.
    pub(crate) fn add(
        &mut self,
        rule: u32,
        protocols: impl Fn(Option<u8>) -> bool,
        directions: [bool; 2],
        ports: Option<(&PortSet, &PortSet)>,
    ) {
        for (number, by_direction) in self.lists.iter_mut().enumerate() {
            if !protocols(PROTOCOLS.get(number).copied()) {
                continue;
            }
            for (lists, _) in by_direction
                .iter_mut()
                .zip(directions)
                .filter(|(_, wanted)| *wanted)
            {
                let few_ports = ports.and_then(|(source, destination)| {
                    few(destination)
                        .map(|ports| (ports, true))
                        .or_else(|| few(source).map(|ports| (ports, false)))
                });
                match few_ports {
                    Some((ports, true)) => {
                        lists
                            .by_destination
                            .extend(ports.into_iter().map(|port| (port, rule)));
                    }
                    Some((ports, false)) => {
                        lists
                            .by_source
                            .extend(ports.into_iter().map(|port| (port, rule)));
                    }
                    None => lists.any.push(rule),
                }
            }
        }
    }

    /// To be called when all rules are added.
    pub(crate) fn finish(&mut self) {
        for lists in self.lists.iter_mut().flatten() {
            lists.by_destination.sort_unstable();
            lists.by_source.sort_unstable();
        }
    }

    /// Calls `add` with the rules that may match on packets of this flow and direction.
    #[inline]
    pub(crate) fn each(&self, flow: &FlowContext, mut add: impl FnMut(u32)) {
        let Some(by_direction) = self.lists.get(place(flow.protocol)) else {
            return;
        };
        let Some(lists) = by_direction.get(usize::from(!flow.to_server)) else {
            return;
        };
        for &rule in &lists.any {
            add(rule);
        }
        let ports = [
            (&lists.by_destination, flow.destination_port),
            (&lists.by_source, flow.source_port),
        ];
        for (list, port) in ports {
            let from = list.partition_point(|entry| entry.0 < port);
            let rules = list.get(from..).unwrap_or(&[]);
            for &(_, rule) in rules.iter().take_while(|entry| entry.0 == port) {
                add(rule);
            }
        }
    }
}
