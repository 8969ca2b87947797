//! The places of runtimes and loggers, each wired to the switch: on a thread, in a process, or on another
//! host.

use std::sync::Arc;

use weir_exec::{ExecError, Wakers};
use weir_nf::host::Stage;
use weir_protocol::RuntimeId;

use super::super::link::Found;
use super::super::process::{Engines, Relay, SharedRoom};
use super::super::wiring::{RuntimeEnds, SwitchEnds, wire, wire_peers};
use super::member::{Member, Site};
use super::phase::first_id;
use super::process::{HelloOf, wire_process};
use super::settings::ClusterSettings;

/// The places of runtimes, none of which is started yet, for a switch that has found those of others.
pub(super) fn members(
    stages: &Arc<[Stage]>,
    mut room: Option<&mut SharedRoom>,
    settings: &ClusterSettings,
    found: &Found,
    wakers: &Wakers,
) -> Result<Vec<Member>, ExecError> {
    let most = settings.places();
    let mut wired: Vec<(SwitchEnds, Site)> = Vec::new();
    for place in 0..most {
        let id = first_id(found, place, most);
        wired.push(match (&settings.processes, room.as_deref_mut()) {
            (Some(processes), Some(room)) if processes.has(place as usize, settings.runtimes) => {
                let main = wakers.for_process(0)?;
                let hello = HelloOf {
                    chains: processes.digest,
                    seed: settings.engine.seed,
                    keeping: settings.keeping(),
                    shares: settings.shares(),
                    is_logger: place >= settings.runtime_places(),
                };
                let (ends, home) = wire_process(room, id, stages, main, hello)?;
                (ends, Site::Process(Box::new(home)))
            }
            _ => on_thread(id, place as usize, stages, settings)?,
        });
    }
    wire_threads(&mut wired);
    let members = (0..).zip(wired).map(|(place, (ends, site))| {
        let is_logger = place >= settings.runtime_places();
        Member::absent(ends, site, (stages.len(), is_logger))
    });
    Ok(members.collect())
}

/// A runtime on a thread, or the thread that stands for one on another host.
fn on_thread(
    id: RuntimeId,
    place: usize,
    stages: &Arc<[Stage]>,
    settings: &ClusterSettings,
) -> Result<(SwitchEnds, Site), ExecError> {
    let (ends, theirs) = wire(id, stages.len());
    let remote = settings.remote.as_ref();
    let agent = remote.and_then(|remote| remote.agent_of(place));
    let engines = || Engines::Runtime(format!("runtime {}", id.0), stages.to_vec());
    let site = Site::Thread {
        theirs: Some(Box::new(theirs)),
        heir: Arc::default(),
        node: None,
        far: agent.map(|_| Relay::start(engines())).transpose()?,
    };
    Ok((ends, site))
}

/// Wires the threads of this process to one another; what goes to others goes through the
/// switch's thread.
fn wire_threads(wired: &mut [(SwitchEnds, Site)]) {
    let most = wired.len();
    let mut peers: Vec<Option<&mut RuntimeEnds>> = Vec::new();
    for (_, site) in wired {
        peers.push(match site {
            Site::Thread { theirs, far, .. } => {
                let theirs = theirs.as_deref_mut();
                match (theirs, far) {
                    (Some(theirs), Some(_)) => {
                        theirs.peers = (0..most).map(|_| None).collect();
                        None
                    }
                    (theirs, _) => theirs,
                }
            }
            Site::Process(_) => None,
        });
    }
    wire_peers(&mut peers);
}
