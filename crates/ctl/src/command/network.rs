//! Counts between the ports and the chains, for summaries and commands.

use weir_router::{Conflict, Neighbour, RouterCounts};

/// Counts of a layer, for the summary.
#[derive(Clone, Debug)]
pub enum LayerReport {
    /// A bump has nothing of its own.
    Bump,
    /// A tap.
    Tap {
        /// Packets that it kept from leaving.
        kept: u64,
    },
    /// A router.
    Router(Box<RouterReport>),
}

impl LayerReport {
    /// Adds what the layer of another worker of the same run did.
    pub fn add(&mut self, other: &LayerReport) {
        match (&mut *self, other) {
            (LayerReport::Tap { kept }, LayerReport::Tap { kept: more }) => *kept += more,
            (LayerReport::Router(sum), LayerReport::Router(more)) => sum.add(more),
            (LayerReport::Bump, other) => *self = other.clone(),
            // The layers of a run are of one kind.
            (LayerReport::Tap { .. } | LayerReport::Router(_), _) => {}
        }
    }
}

/// Counts of a router.
#[derive(Clone, Debug)]
pub struct RouterReport {
    /// Its counters.
    pub counts: RouterCounts,
    /// Neighbours that it knows or looks for.
    pub neighbours: Vec<Neighbour>,
    /// Others that answer for its addresses.
    pub conflicts: Vec<Conflict>,
}

impl RouterReport {
    /// Adds what another worker's router of the same ports did.
    pub(super) fn add(&mut self, other: &RouterReport) {
        self.counts.add(&other.counts);
        for theirs in &other.neighbours {
            let same = |n: &&mut Neighbour| (n.port, n.address) == (theirs.port, theirs.address);
            match self.neighbours.iter_mut().find(same) {
                // Each learns by itself; who knows the hardware address says it.
                Some(ours) if ours.mac.is_none() => *ours = *theirs,
                Some(_) => {}
                None => self.neighbours.push(*theirs),
            }
        }
        for theirs in &other.conflicts {
            let same = |c: &&mut Conflict| (c.port, c.address) == (theirs.port, theirs.address);
            match self.conflicts.iter_mut().find(same) {
                Some(ours) => ours.times += theirs.times,
                None => self.conflicts.push(*theirs),
            }
        }
    }
}
