//! Settings of a cluster.

use weir_control::tenants::Tenants;
use weir_ctl::events::Events;
use weir_ctl::ledger::Ledger;
use weir_packet::MemoryLayout;
use weir_protocol::flowlets::FlowletSettings;
use weir_protocol::in_process::Keeping;
use weir_protocol::settings::{Dispatch, Replication};
use weir_runtime::RuntimeConfig;

use super::super::link::RemoteHosts;
use super::super::process::ProcessCommand;
use super::super::relay::Relay;
use super::super::spread::Spread;

/// Settings of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Runtimes at the start.
    pub runtimes: u32,
    /// Runtimes that there may be in all.
    pub most_runtimes: u32,
    /// Loggers: they keep copies of all runtimes' units and own none.
    pub loggers: u32,
    /// Threads that the runtimes run on. The switch is on the ports' thread.
    pub spread: Spread,
    /// Dispatch of new flows to runtimes.
    pub dispatch: Dispatch,
    /// Units are given out anew at each flowlet, instead of by `dispatch`.
    pub flowlets: Option<FlowletSettings>,
    /// When a unit's state is with a second runtime.
    pub replication: Replication,
    /// Makes what stands between a switch and its runtimes, given the packets that
    /// may be under way; nothing does but where benchmarks compare.
    pub relay: Option<fn(u32) -> Box<dyn Relay>>,
    /// Configuration of the engines.
    pub engine: RuntimeConfig,
    /// Frames that the ports need beside those of packets under way, and their
    /// sizes.
    pub memory: MemoryLayout,
    /// No thread ever sleeps.
    pub wakeful: bool,
    /// Runtimes in processes of their own.
    pub processes: Option<RuntimeProcesses>,
    /// Runtimes on other hosts.
    pub remote: Option<RemoteHosts>,
    /// Takes the events of runtimes.
    pub happened: Events,
    /// Takes what is let out, for bills.
    pub ledger: Option<Ledger>,
    /// What each tenant may have, where that is bounded or shared.
    pub tenants: Option<Tenants>,
    /// Ports can't wait: room is shared by tenants, and what is over a part is dropped.
    pub ports_drop: bool,
}

impl ClusterSettings {
    /// Places of runtimes and loggers.
    pub(super) fn places(&self) -> u32 {
        self.runtime_places() + self.loggers
    }

    /// Places of runtimes, which are the first ones.
    pub(super) fn runtime_places(&self) -> u32 {
        self.most_runtimes.max(self.runtimes)
    }

    /// Tenant and weight of each chain, where several tenants share.
    pub(super) fn shares(&self) -> Option<Vec<(u16, u32)>> {
        self.tenants.as_ref().and_then(Tenants::shares)
    }

    /// What switch and runtimes keep for repeats.
    pub(super) fn keeping(&self) -> Keeping {
        Keeping {
            replication: self.replication,
            linked: self.remote.is_some(),
        }
    }
}

/// Runtimes in processes of their own.
#[derive(Clone, Debug)]
pub struct RuntimeProcesses {
    /// Command that starts them.
    pub command: ProcessCommand,
    /// Places of these runtimes, from 0; those that are added later have one, too.
    pub places: Vec<usize>,
    /// Stands for the chains (`driver::process::digest_of_chains`).
    pub digest: u64,
}

impl RuntimeProcesses {
    /// True where the runtime of a place has a process, of `runtimes` at the start.
    pub(super) fn has(&self, place: usize, runtimes: u32) -> bool {
        place >= runtimes as usize || self.places.contains(&place)
    }
}

impl Default for ClusterSettings {
    /// One runtime, no core of its own.
    fn default() -> ClusterSettings {
        ClusterSettings {
            runtimes: 1,
            most_runtimes: 1,
            loggers: 0,
            spread: Spread::default(),
            dispatch: Dispatch::RoundRobin,
            flowlets: None,
            replication: Replication::None,
            relay: None,
            engine: RuntimeConfig::default(),
            memory: MemoryLayout::default(),
            wakeful: false,
            processes: None,
            remote: None,
            happened: Events::default(),
            ledger: None,
            tenants: None,
            ports_drop: false,
        }
    }
}
