//! A function of the simulator's own that asks for its flows to be moved.

use weir_nf::prelude::*;
use weir_nf::{Cluster, RuntimeId};

/// After each few packets it prefers the next runtime.
#[derive(Debug)]
pub(crate) struct Wanderer;

/// Packets of the flow, and how many of them it stays in one place.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Steps {
    packets: u32,
    stay: u32,
}

impl State for Steps {}

impl NetworkFunction for Wanderer {
    type Settings = ();
    type State = Steps;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("wanderer", "asks for its flows to be moved")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Wanderer)
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        _: &FlowInfo<'_>,
        _: &mut Context<'_>,
    ) -> Result<Steps, DropReason> {
        let stay = 4 + (packet.time().0 / 1_000 % 13) as u32;
        Ok(Steps { packets: 0, stay })
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        flow.state.packets += 1;
        Verdict::Pass
    }

    fn preferred_owner(&self, steps: &Steps, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let step = steps.packets.checked_div(steps.stay)? as usize;
        let wanted = cluster
            .runtimes
            .get(step.checked_rem(cluster.runtimes.len())?)?;
        (*wanted != cluster.here).then_some(*wanted)
    }
}
