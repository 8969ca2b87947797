//! The start of a runtime on another host, as the switch asks for it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_protocol::heartbeat::HeartbeatSettings;
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Peer, RuntimeId};

/// Kind of the first message of an agent to the process that it starts.
pub(in super::super) const HELLO: u8 = 32;
/// Version of what switch, agent and runtime say to one another.
pub(super) const VERSION: u32 = 1;

/// The settings of a runtime on another host. It fits into a datagram.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of all that follows.
    pub(super) version: u32,
    /// Id of the runtime.
    pub(super) id: u32,
    /// Places of runtimes that there are.
    pub(super) places: usize,
    /// Process start of the switch.
    pub(super) switch: u64,
    /// Stands for the chains, which the process loads itself.
    pub(super) chains: u64,
    pub(super) seed: u64,
    /// When a unit's state is with a second runtime.
    pub(super) replication: String,
    /// Places of units, by chain.
    pub(super) units: Vec<u32>,
    /// Interval of heartbeats in ns, and how many may be missing.
    pub(super) beats: (u64, u32),
    /// Network identifier.
    pub(super) network: u32,
    /// Bytes of events that its engines keep between two batches; 0 where nobody wants them.
    pub(super) event_bytes: usize,
    /// Its functions' promises are looked at.
    pub(super) audit: bool,
}

/// What an agent gives the process that it starts: the switch's words, where the switch is, the
/// address to bind, and the cluster's key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) hello: Hello,
    pub(crate) switch: SocketAddr,
    pub(crate) bind: std::net::IpAddr,
    pub(crate) key: [u8; 16],
}

impl Hello {
    /// Reads what came with a control frame; `None` where it is none of this version.
    pub(crate) fn read(bytes: &[u8]) -> Option<Hello> {
        let hello: Hello = serde_json::from_slice(bytes).ok()?;
        (hello.version == VERSION).then_some(hello)
    }

    /// The runtime.
    pub(crate) fn runtime(&self) -> RuntimeId {
        RuntimeId(self.id)
    }

    /// Process starts of runtime and switch.
    pub(crate) fn ends(&self) -> (ProcessStart, ProcessStart) {
        let runtime = ProcessStart::of(Peer::Runtime(self.runtime()), 0);
        (runtime, ProcessStart(self.switch))
    }

    pub(super) fn heartbeats(&self) -> HeartbeatSettings {
        HeartbeatSettings {
            interval: self.beats.0.max(1),
            missed: self.beats.1.max(1),
            ..HeartbeatSettings::default()
        }
    }
}
