//! Runtimes on other hosts: an agent there starts them, and a link (UDP) joins each to the
//! switch's thread.
//!
//! On the switch's side a runtime is a [`LinkNode`], with the edges that a runtime on a thread
//! has: it passes on what comes over them, and what comes over the link. So the cluster treats it
//! as a thread: where the link falls silent, the node fails, and its units go on elsewhere. On the
//! other side [`RemoteProcess`] is a process with the runtime itself. Where the switch is gone, that
//! process waits for the next one, which finds it by its agent ([`survivors`]).
//!
//! Messages on the link's stream begin with a kind.

mod agent;
mod connect;
mod hello;
mod lease;
mod mailbox;
mod node;
mod programs;
mod remote;
mod remote_node;
mod resumed;
mod socket;
mod survivors;
mod tie;
mod trial;
mod votes;

pub(crate) use agent::{Agent, AgentEvent};
pub(super) use connect::Agents;
pub use connect::RemoteHosts;
pub(super) use hello::HELLO;
pub(crate) use hello::kind;
pub use lease::Lease;
pub(crate) use lease::{LeasePlan, Standing};
pub(super) use node::{LinkNode, LinkPlan};
pub(crate) use programs::AtHost;
pub use remote::RemoteProcess;
pub(super) use survivors::Found;

use std::time::Duration;

use weir_packet::ethernet::MacAddr;
use weir_protocol::Key;
use weir_protocol::heartbeat::HeartbeatSettings;
use weir_protocol::link::LinkSettings;
use weir_protocol::stream::StreamSettings;

/// Versions of what processes of two programs say to one another over links.
pub(crate) const SPEAKS: &[(&str, u32)] = &[
    ("agent", resumed::VERSION),
    ("link", hello::VERSION),
    ("control", weir_protocol::link::control::VERSION as u32),
    ("messages", weir_protocol::codec::VERSION as u32),
];

/// A message of the edge between switch and runtime.
const EDGE: u8 = 0;
/// Runtime to switch: lines of events of flows that ended with the run.
const EVENTS: u8 = 1;
/// Counts so far, which outlive the process.
const REPORT: u8 = 2;
/// All flows have ended; the counts.
const END: u8 = 3;
/// A message of the way of commands, either way: its kind follows.
const COMMAND: u8 = 4;

/// Longest message of the way of commands.
const LONGEST_COMMAND: usize = 16 << 20;
/// Times that the peer's host says that nobody is there, after which the peer is gone. Its socket is
/// open for as long as it lives, and hosts say so once a second at most when they have said it
/// a few times (Linux: `icmp_ratelimit`).
const REFUSED: u32 = 1;

/// Longest wait for a runtime that is taken over, or for the switch that does so: both have all
/// that they need, and where one dies meanwhile another may ask.
const PATIENCE_TAKEN: Duration = Duration::from_secs(2);

/// Octets of a datagram's payload around what a stream puts into it: outer IP (v6) and UDP
/// headers, VXLAN-GPE, Ethernet.
const AROUND: u16 = 40 + 8 + 8 + 14;
/// MTU of the network between hosts.
const MTU: u16 = 1_500;

/// Time in which neither end of a link that is taken over judges the other's silence: the
/// runtime tells all that it has, and the switch takes that in, each in one go.
const GRACE: Duration = Duration::from_secs(2);

/// Settings of a link with this key and these heartbeats.
fn settings(key: Key, network: u32, beats: HeartbeatSettings, is_taken_over: bool) -> LinkSettings {
    LinkSettings {
        key,
        network,
        stream: StreamSettings {
            local: MacAddr([0; 6]),
            remote: MacAddr([0; 6]),
            mtu: MTU - AROUND,
            // Pauses of a process that shares its processor are no losses.
            shortest_wait: 10_000_000,
            ..StreamSettings::DEFAULT
        },
        beats,
        grace: match is_taken_over {
            true => GRACE.as_nanos() as u64,
            false => 0,
        },
    }
}
