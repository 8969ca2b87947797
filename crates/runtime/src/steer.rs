//! Steers each packet to one of several runtimes that have flows of their own.
//!
//! If no state of a chain is wider than a pair of hosts, runtimes need neither a
//! switch nor each other: packets are steered by the pair of hosts of their flow key. So both directions, all protocols
//! and ports, ICMP errors that quote a flow, what comes through a tunnel (where
//! the chain looks into it) and all zones meet in one runtime.

use core::fmt;

use weir_nf::host::{OnMalformed, Stage};
use weir_nf::{Fields, Scope};
use weir_packet::{
    FlowKey, FragmentKey, FrameMeta, Headers, KeyOptions, KeyOutcome, ParseOptions, classify,
};

use crate::fragments::LIFETIME_NS;
use crate::runtime::Runtime;
use crate::setup::key_options;

/// Datagrams remembered that are not steered by their own hosts.
const DATAGRAMS: usize = 64;

/// Ids of flows that a worker may give out before they meet those of the next:
/// small enough for ids to be exact in JSON.
const IDS: u64 = 1 << 40;

/// Why the packets of a chain can't be steered by their hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// This function keeps a state per such key, which several pairs of hosts
    /// may share.
    Scope {
        /// Name of the function.
        function: String,
        /// The key, in words.
        scope: String,
    },
    /// This function gives flows other names, under which answers come.
    Aliases(String),
    /// This function takes something that all flows share.
    Shares(String),
    /// This function may send packets back, to other flows.
    Turns(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Scope { function, scope } => {
                write!(f, "{function} keeps a state per {scope}")
            }
            Obstacle::Aliases(function) => write!(f, "{function} gives flows other names"),
            Obstacle::Shares(function) => {
                write!(f, "{function} takes something that all flows share")
            }
            Obstacle::Turns(function) => write!(f, "{function} may send packets back"),
        }
    }
}

/// A datagram whose fragments follow a first one that is of other hosts: an
/// ICMP error in fragments.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    key: FragmentKey,
    seen: u64,
    worker: u32,
}

/// Gives each packet its worker.
///
/// It keeps a short memory of ICMP errors that came in fragments, since those
/// are of the flow that they quote. Where a later fragment of one overtakes the
/// first, it goes where its own hosts are steered to, and waits there in vain.
#[derive(Debug)]
pub struct Steering {
    parse: ParseOptions,
    key: KeyOptions,
    workers: u32,
    seed: u64,
    /// Newest first.
    datagrams: Vec<Datagram>,
}

impl Steering {
    /// The reason why a chain's packets can't be steered by their hosts; `None`
    /// if they can.
    pub fn obstacle(stage: &Stage) -> Option<Obstacle> {
        let pair = Fields::CLIENT_ADDRESS.and(Fields::SERVER_ADDRESS);
        stage.nodes.iter().find_map(|node| {
            let descriptor = node.processor.descriptor();
            let scope = node.processor.scope();
            let narrow = match scope {
                Scope::Flow => true,
                Scope::Fields(fields) => fields.contains(pair),
                Scope::Own(_) => false,
            };
            let function = node.name.clone();
            if descriptor.aliases {
                Some(Obstacle::Aliases(function))
            } else if descriptor.shares {
                Some(Obstacle::Shares(function))
            } else if descriptor.turns {
                Some(Obstacle::Turns(function))
            } else if !narrow {
                let scope = scope.describe();
                Some(Obstacle::Scope { function, scope })
            } else {
                None
            }
        })
    }

    /// Of a chain, over so many workers (at least one). The same seed steers
    /// alike.
    pub fn new(stage: &Stage, workers: u32, seed: u64) -> Steering {
        Steering {
            parse: ParseOptions {
                inner: stage.flows.inner,
                lenient: stage.flows.malformed == OnMalformed::Pass,
                ..ParseOptions::default()
            },
            key: key_options(stage),
            workers: workers.max(1),
            seed,
            datagrams: Vec::with_capacity(DATAGRAMS),
        }
    }

    /// The worker of a packet, from 0. All that has no flow is the first one's.
    #[inline]
    pub fn worker_of(&mut self, meta: &FrameMeta, bytes: &[u8]) -> u32 {
        if self.workers == 1 {
            return 0;
        }
        let mut headers = Headers::default();
        match classify(bytes, meta.link, &self.parse, &self.key, &mut headers) {
            Ok(KeyOutcome::Flow(key, _)) => {
                let worker = self.worker_of_hosts(key.to_words());
                if headers.is_fragment() {
                    self.first_fragment(meta, bytes, &headers, worker);
                }
                worker
            }
            Ok(KeyOutcome::LaterFragment(key)) => {
                let now = meta.time.0;
                let found = self.datagrams.iter().find(|datagram| {
                    datagram.key == key && now.saturating_sub(datagram.seen) <= LIFETIME_NS
                });
                match found {
                    Some(datagram) => datagram.worker,
                    None => self.worker_of_hosts(key.to_words()),
                }
            }
            Ok(KeyOutcome::None) | Err(_) => 0,
        }
    }

    /// Of a flow's or a fragment's key: two addresses of two words each, in any
    /// order, and the family in the last word, above protocol and chain.
    #[inline]
    fn worker_of_hosts(&self, [a0, a1, b0, b1, _, kind]: [u64; 6]) -> u32 {
        let (low, high) = if (a0, a1) <= (b0, b1) {
            ([a0, a1], [b0, b1])
        } else {
            ([b0, b1], [a0, a1])
        };
        let pair = FlowKey::from_words([low[0], low[1], high[0], high[1], 0, kind & !0xffff]);
        ((u128::from(pair.hash(self.seed)) * u128::from(self.workers)) >> 64) as u32
    }

    /// Remembers where the later fragments of this first one go, if they would
    /// not go there by their own hosts.
    #[cold]
    fn first_fragment(&mut self, meta: &FrameMeta, bytes: &[u8], headers: &Headers, worker: u32) {
        let Some(key) = FragmentKey::of(bytes, headers, &self.key) else {
            return;
        };
        self.datagrams.retain(|datagram| datagram.key != key);
        if self.worker_of_hosts(key.to_words()) == worker {
            return;
        }
        self.datagrams.truncate(DATAGRAMS - 1);
        let seen = meta.time.0;
        self.datagrams.insert(0, Datagram { key, seen, worker });
    }
}

impl Runtime {
    /// Makes the ids of this runtime's flows unlike those of other workers of
    /// the same chain; before the first packet.
    pub fn be_worker(&mut self, worker: u32) {
        if let (Some(table), Some(last)) =
            (&mut self.table, (u64::from(worker) * IDS).checked_sub(1))
        {
            table.reserve_id(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_nf::host::FlowOptions;
    use weir_packet::{LinkType, Time};

    use super::*;
    use crate::harness::Craft;

    fn steering(flows: FlowOptions) -> Steering {
        let stage = Stage {
            chain: "c".to_owned(),
            number: 0,
            first: 0,
            nodes: Vec::new(),
            flows,
            pools: Vec::new(),
            sets: weir_nf::Sets::default(),
        };
        assert_eq!(Steering::obstacle(&stage), None);
        Steering::new(&stage, 16, 7)
    }

    fn worker(steering: &mut Steering, bytes: &[u8]) -> u32 {
        let mut meta = FrameMeta::received(Time(5), bytes.len() as u32);
        meta.link = LinkType::Ethernet;
        steering.worker_of(&meta, bytes)
    }

    #[test]
    fn two_hosts_have_one_worker_and_many_hosts_all_of_them() {
        let mut steering = steering(FlowOptions::default());
        let mut seen = [0u32; 16];
        for host in 1..=200u32 {
            let client = |port: u16| format!("10.0.0.{host}:{port}");
            let there = Craft::udp(&client(1_000), "192.0.2.1:53").build();
            let back = Craft::udp("192.0.2.1:80", &client(2_000)).build();
            let first = worker(&mut steering, &there);
            assert_eq!(first, worker(&mut steering, &back), "host {host}");
            seen[first as usize] += 1;
        }
        assert!(seen.iter().all(|n| (2..40).contains(n)), "{seen:?}");
    }

    #[test]
    fn fragments_follow_their_hosts_and_what_is_no_ip_the_first_worker() {
        let mut steering = steering(FlowOptions::default());
        for id in 0..50u16 {
            let from = format!("10.0.1.{id}:1000");
            let part = |more: u16| {
                let craft = Craft::udp(&from, "192.0.2.1:53").ip_id(id).fragment(more);
                craft.payload(&[0; 16]).build()
            };
            let (first, last) = (part(0x2000), part(3));
            assert_eq!(worker(&mut steering, &first), worker(&mut steering, &last));
        }
        assert_eq!(worker(&mut steering, &[0; 9]), 0);
        assert_eq!(worker(&mut steering, &[0xff; 60]), 0);
    }

    /// An ICMP error in two fragments: what `quoted` says was sent from
    /// 10.0.0.1 to 192.0.2.1 could not pass 10.9.9.9.
    fn error_parts(id: u16, quoted: &[u8]) -> [Vec<u8>; 2] {
        let mut icmp = vec![3, 1, 0, 0, 0, 0, 0, 0];
        icmp.extend_from_slice(&quoted[14..]);
        icmp.resize(64, 0);
        let part = |offset: u16, more: bool, body: &[u8]| {
            let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            let total = 20 + body.len() as u16;
            bytes.extend([0x45, 0, (total >> 8) as u8, total as u8]);
            bytes.extend(id.to_be_bytes());
            bytes.extend(((u16::from(more) << 13) | (offset / 8)).to_be_bytes());
            bytes.extend([64, 1, 0, 0, 10, 9, 9, 9, 10, 0, 0, 1]);
            bytes.extend_from_slice(body);
            bytes
        };
        [part(0, true, &icmp[..48]), part(48, false, &icmp[48..])]
    }

    #[test]
    fn icmp_errors_follow_what_they_quote_in_fragments_too() {
        let mut steering = steering(FlowOptions::default());
        let mut elsewhere = 0;
        for host in 0..40u16 {
            let to = format!("192.0.2.{host}:53");
            let lost = Craft::udp("10.0.0.1:1000", &to).build();
            let flow = worker(&mut steering, &lost);
            let [first, later] = error_parts(host, &lost);
            elsewhere += u32::from(flow != worker(&mut steering, &later));
            assert_eq!(flow, worker(&mut steering, &first), "host {host}");
            assert_eq!(flow, worker(&mut steering, &later), "host {host}");
        }
        assert!(elsewhere > 20, "the memory was needed: {elsewhere}");
        assert!(steering.datagrams.len() <= DATAGRAMS);
    }
}
