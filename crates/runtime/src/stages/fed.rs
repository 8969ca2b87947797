//! The state of a later stage of a plan.

use weir_packet::{Advise, Arena};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::scratch::MAX_SCOPES;

/// The state of a later stage of a plan.
#[derive(Debug)]
pub(crate) struct Fed {
    /// Number of its first function in the whole plan.
    pub(super) first: u8,
    /// Packets leave the plan from here.
    pub(crate) last: bool,
    /// It took the place of a lost one: notices on their way to that one may
    /// tell it again of what it has learned.
    pub(super) learned: bool,
    /// Beside each flow's block.
    pub(super) members: Arena<Member>,
    /// Flows that are open, and units.
    pub(crate) flows: u64,
    pub(crate) units: u64,
    pub(crate) bad_notices: u64,
}

/// The units of a flow: the coarsest of the first stage, and those of this one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Member {
    /// Id of its coarsest unit in the first stage: that in its packets.
    pub(super) unit: u64,
    /// Its record in each wider scope of this stage, plus one.
    pub(super) units: [u32; MAX_SCOPES],
}

impl Fed {
    pub(crate) fn new(first: u8, last: bool, flows: usize, advise: Advise) -> Fed {
        Fed {
            first,
            last,
            learned: false,
            members: Arena::zeroed(flows, advise),
            flows: 0,
            units: 0,
            bad_notices: 0,
        }
    }

    /// Record of a flow's unit in a wider scope of this stage.
    pub(crate) fn unit_of(&self, flow: u32, scope: usize) -> Option<u32> {
        let member = self.members.get(flow as usize)?;
        member.units.get(scope)?.checked_sub(1)
    }
}
