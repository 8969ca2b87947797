//! The start of a runtime on another host, as the switch asks for it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_protocol::heartbeat::HeartbeatSettings;
use weir_protocol::stream::ProcessStart;
use weir_protocol::{Peer, RuntimeId};

use super::super::wiring::place_of;

/// Kind of the first message of an agent to the process that it starts.
pub(in super::super) const HELLO: u8 = 32;
/// Kind of what an agent tells the process whose runtime another switch takes over: a [`Start`].
pub(super) const TAKEN: u8 = 33;
/// Kind of what a process tells its agent when its switch is gone: how many units the runtime has,
/// 8 octets, little endian.
pub(super) const WAITS: u8 = 34;
/// Kind of what an agent tells the process whose switch is known to be dead: the process start of
/// that, little endian.
pub(super) const DEAD: u8 = 35;
/// Kind of what a process tells its agent when its runtime has taken other functions: its
/// [`Hello::kind`] from then on.
pub(super) const KIND: u8 = 36;
/// Version of what switch, agent and runtime say to one another.
pub(super) const VERSION: u32 = 2;
/// The same of a runtime of a cluster with loggers, which a program of before would take for
/// runtimes.
const WITH_LOGGERS: u32 = 3;

/// The settings of a runtime on another host. It fits into a datagram.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version of all that follows.
    pub(super) version: u32,
    /// Id of the runtime.
    pub(super) id: u32,
    /// Places of runtimes and loggers that there are.
    pub(super) places: usize,
    /// Loggers, which have the last places.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) loggers: usize,
    /// Process start of the switch.
    pub(super) switch: u64,
    /// Process start of the switch before, from which this one takes the runtime over.
    pub(super) after: Option<u64>,
    /// Name of the switch's run.
    pub(super) run: String,
    /// Stands for the chains, which the process loads itself.
    pub(super) chains: u64,
    pub(super) seed: u64,
    /// When a unit's state is with a second runtime.
    pub(super) replication: String,
    /// Places of units, by chain.
    pub(super) units: Vec<u32>,
    /// Tenant and weight of each chain, where several tenants share its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shares: Option<Vec<(u16, u32)>>,
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
    /// How long the runtime waits for another switch when this one is gone.
    pub(crate) outlive: std::time::Duration,
}

/// A switch's question to an agent: which runtimes are there?
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Who {
    /// Version of all that is said.
    pub(super) version: u32,
    /// The start of a switch that is known to be dead.
    pub(super) dead: Option<u32>,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Here {
    /// Version of all that is said.
    pub(super) version: u32,
    /// The runtimes.
    pub(super) runtimes: Vec<Listed>,
}

/// A runtime on an agent's host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Listed {
    /// Its id.
    pub(super) id: u32,
    /// Process start of its switch.
    pub(super) switch: u64,
    /// See [`Hello::kind`].
    pub(super) kind: String,
    /// Its switch is gone, and it waits for another one.
    pub(super) waits: bool,
    /// Units that it has, if it waits.
    pub(super) units: u64,
}

/// See [`Hello::kind`]. Of the places the last ones are the loggers'.
pub(crate) fn kind(
    run: &str,
    chains: u64,
    (places, loggers): (usize, usize),
    replication: &str,
) -> String {
    let places = match loggers {
        0 => places.to_string(),
        loggers => format!("{}+{loggers}", places.saturating_sub(loggers)),
    };
    format!("{chains:x}/{places}/{replication}/{run}")
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The generation of a switch with this process start; 0 of none.
pub(super) fn generation_of(switch: u64) -> u16 {
    match ProcessStart(switch).peer() {
        Some(Peer::Switch(generation)) => generation,
        _ => 0,
    }
}

impl Hello {
    /// Reads what came with a control frame; `None` where it is none of this version.
    pub(crate) fn read(bytes: &[u8]) -> Option<Hello> {
        let hello: Hello = serde_json::from_slice(bytes).ok()?;
        (hello.version == Hello::version_with(hello.loggers)).then_some(hello)
    }

    /// The version of one with so many loggers.
    pub(super) fn version_with(loggers: usize) -> u32 {
        match loggers {
            0 => VERSION,
            _ => WITH_LOGGERS,
        }
    }

    /// The runtime.
    pub(crate) fn runtime(&self) -> RuntimeId {
        RuntimeId(self.id)
    }

    /// True where it keeps copies and owns no unit.
    pub(super) fn is_logger(&self) -> bool {
        let runtimes = self.places.saturating_sub(self.loggers);
        self.places > 0 && place_of(self.runtime(), self.places) >= runtimes
    }

    /// Process starts of runtime and switch.
    pub(crate) fn ends(&self) -> (ProcessStart, ProcessStart) {
        let runtime = ProcessStart::of(Peer::Runtime(self.runtime()), 0);
        (runtime, ProcessStart(self.switch))
    }

    /// Name, chains, places and replication of the run, as one word. A runtime is taken over by a
    /// switch of the same kind alone.
    pub(super) fn kind(&self) -> String {
        let places = (self.places, self.loggers);
        kind(&self.run, self.chains, places, &self.replication)
    }

    /// Refuses a switch that can't take over the runtime of the one `before`.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    pub(super) fn may_follow(&self, before: &Hello) -> Result<(), &'static str> {
        let same = [
            (self.id == before.id, "another runtime is meant"),
            (
                self.kind() == before.kind() && self.units == before.units,
                "its name, chains, places or replication are others than the switch's",
            ),
            (
                generation_of(self.switch) > generation_of(before.switch),
                "the switch is no newer than the one before",
            ),
        ];
        let differs = same.into_iter().find(|(is_same, _)| !is_same);
        differs.map_or(Ok(()), |(_, what)| Err(what))
    }

    pub(super) fn heartbeats(&self) -> HeartbeatSettings {
        HeartbeatSettings {
            interval: self.beats.0.max(1),
            missed: self.beats.1.max(1),
            ..HeartbeatSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(generation: u16) -> Hello {
        Hello {
            version: VERSION,
            id: 3,
            places: 4,
            loggers: 0,
            switch: ProcessStart::of(Peer::Switch(generation), 77).0,
            after: None,
            run: "edge".to_owned(),
            chains: 9,
            seed: 1,
            replication: "none".to_owned(),
            units: vec![100, 200],
            shares: None,
            beats: (1, 4),
            network: 7,
            event_bytes: 0,
            audit: false,
        }
    }

    #[test]
    fn a_newer_switch_of_the_same_kind_may_follow() {
        let before = hello(2);
        assert_eq!(hello(3).may_follow(&before), Ok(()));
        assert_eq!(hello(9).may_follow(&before), Ok(()));
        for other in [
            hello(2),
            hello(1),
            Hello { id: 4, ..hello(3) },
            Hello {
                places: 5,
                ..hello(3)
            },
            Hello {
                loggers: 1,
                ..hello(3)
            },
            Hello {
                chains: 8,
                ..hello(3)
            },
            Hello {
                run: "other".to_owned(),
                ..hello(3)
            },
            Hello {
                units: vec![100],
                ..hello(3)
            },
            Hello {
                replication: "each-burst".to_owned(),
                ..hello(3)
            },
            Hello {
                switch: 5,
                ..hello(3)
            },
        ] {
            assert!(other.may_follow(&before).is_err(), "{other:?}");
        }
    }
}
