//! Result of the graph compiler for the engine: the functions of one stage, their links, and the
//! limits of the stage's flow table.

use weir_packet::IcmpKey;

use super::SharedProcessor;
use crate::{PoolSpec, Sets};

/// A stage, ready to run.
#[derive(Clone)]
pub struct Stage {
    /// Name of the chain.
    pub chain: String,
    /// Number of the chain in its file; it is in every flow key.
    pub number: u8,
    /// Number of its first function in the whole plan: 0 but for the later
    /// stages of a plan with several.
    pub first: u8,
    /// Functions, each before all that its links lead to; the first gets every
    /// packet.
    pub nodes: Vec<Node>,
    /// How flows are kept.
    pub flows: FlowOptions,
    /// Pools announced by the functions, in the order of their
    /// [`crate::PoolId`]s.
    pub pools: Vec<PoolSpec>,
    /// The sets of the chain file, into which functions look.
    pub sets: Sets,
}

/// A function to put in the place of the one of the same name and kind, whose settings have changed.
#[derive(Clone)]
pub struct NewFunction {
    /// Its name in the chain.
    pub name: String,
    /// The function.
    pub processor: SharedProcessor,
}

impl NewFunction {
    /// The function of a node.
    pub fn of(node: &Node) -> NewFunction {
        NewFunction {
            name: node.name.clone(),
            processor: node.processor.clone(),
        }
    }
}

impl core::fmt::Debug for NewFunction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("NewFunction").field(&self.name).finish()
    }
}

/// One function of a stage.
#[derive(Clone)]
pub struct Node {
    /// Its name in the chain, unlike every other's.
    pub name: String,
    /// The function.
    pub processor: SharedProcessor,
    /// An earlier function of the stage, by its number, whose verdicts stand
    /// for this one's: it is the same function under the same settings, and
    /// each packet that gets here was shown to it unchanged. This one is then
    /// not called. Its own numbers in the report go on as if it were.
    pub same_as: Option<usize>,
    /// Targets of its links: `pass`, then its labels in their order. A link beyond the list leads
    /// where `pass` does.
    pub next: Vec<Target>,
}

/// End of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The function with this number, greater than the number of the link's
    /// start.
    Node(usize),
    /// A function of a later stage, by its number in the whole plan.
    Later(u8),
    /// Out of the chain.
    Out,
    /// Nowhere: dropped as `NAME.LABEL`.
    Drop,
}

/// How a stage keeps flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// Most flows at a time.
    pub max: u32,
    /// Treatment of a new flow if the table is full.
    pub when_full: WhenFull,
    /// Keep flows even if no function needs them.
    pub always: bool,
    /// Open tunnels and key flows by the inner packet.
    pub inner: bool,
    /// VLAN or tunnel ids are part of the key.
    pub zone: bool,
    /// How ICMP is given to flows.
    pub icmp: IcmpKey,
    /// Treatment of malformed packets.
    pub malformed: OnMalformed,
    /// When flows are idle.
    pub timeouts: Timeouts,
    /// Bytes of the arena of side buffers.
    pub buffer_bytes: usize,
    /// Later fragments that may wait for their first one.
    pub held_fragments: u32,
}

impl Default for FlowOptions {
    fn default() -> FlowOptions {
        FlowOptions {
            max: 1 << 20,
            when_full: WhenFull::Evict,
            always: false,
            inner: false,
            zone: true,
            icmp: IcmpKey::Conversation,
            malformed: OnMalformed::Drop,
            timeouts: Timeouts::default(),
            buffer_bytes: 64 << 20,
            held_fragments: 256,
        }
    }
}

/// Treatment of a new flow if the table is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Its packet is dropped as `flow_table_full`.
    Refuse,
    /// The longest idle of a sample of flows is ended, counted `evicted`.
    #[default]
    Evict,
}

/// Treatment of malformed packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMalformed {
    /// Dropped under the reason's name.
    #[default]
    Drop,
    /// Counted under the reason's name and sent on; a flow is found for them
    /// where addresses and ports could be read.
    Pass,
}

/// Times without a packet after which a flow ends, in milliseconds;
/// [`Timeouts::NEVER`] for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP before the handshake is complete (RFC 5382 REQ-5: at least 4 min).
    pub tcp_opening: u32,
    /// TCP, established (RFC 5382 REQ-5: at least 2 h 4 min).
    pub tcp_established: u32,
    /// TCP after a FIN (RFC 5382 REQ-5: at least 4 min).
    pub tcp_closing: u32,
    /// TCP after both FINs or a reset.
    pub tcp_closed: u32,
    /// UDP (RFC 4787 REQ-5: at least 2 min, 5 recommended).
    pub udp: u32,
    /// ICMP queries (RFC 5508 REQ-2: at least 60 s).
    pub icmp: u32,
    /// All else.
    pub other: u32,
    /// A SYN on a closed connection begins a new flow at once.
    pub reuse: bool,
}

impl Timeouts {
    /// Never.
    pub const NEVER: u32 = u32::MAX;

    /// No flow ever ends but by the end of the run.
    pub const NONE: Timeouts = Timeouts {
        tcp_opening: Self::NEVER,
        tcp_established: Self::NEVER,
        tcp_closing: Self::NEVER,
        tcp_closed: Self::NEVER,
        udp: Self::NEVER,
        icmp: Self::NEVER,
        other: Self::NEVER,
        reuse: false,
    };
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp_opening: 240_000,
            tcp_established: 7_440_000,
            tcp_closing: 240_000,
            tcp_closed: 10_000,
            udp: 300_000,
            icmp: 60_000,
            other: 600_000,
            reuse: true,
        }
    }
}

impl Stage {
    /// Puts functions in the places of those of their names, where it has them.
    pub fn replace(&mut self, functions: &[NewFunction]) {
        for node in &mut self.nodes {
            if let Some(new) = functions.iter().find(|new| new.name == node.name) {
                node.processor = new.processor.clone();
            }
        }
    }
}

impl core::fmt::Debug for Stage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stage")
            .field("chain", &self.chain)
            .field("nodes", &self.nodes)
            .field("flows", &self.flows)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("nf", &self.processor.descriptor().name)
            .field("next", &self.next)
            .finish()
    }
}
