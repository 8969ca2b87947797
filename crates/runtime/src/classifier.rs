//! The engine's front half alone: from packets to units, for a switch.
//!
//! A switch needs the same parser, keys, aliases, scopes and fragment memory
//! as an engine, and none of its functions' states.

use weir_nf::host::{AliasRequest, Stage};
use weir_packet::{FlowKey, Frame, FramePool};

use crate::report::Report;
use crate::runtime::{RuntimeConfig, StageError};
use crate::snapshot::SnapshotError;

/// Tells which unit of a stage a packet belongs to, and keeps the names (flow
/// keys and aliases) of all units. Nothing ends here by itself.
///
/// A unit's number is its place in a dense table (low 32 bits) and which life
/// in that place it is (bits above, from 1). What has no flow (ARP, malformed
/// packets that the chain passes on) is of one more unit, the *liaison*, which
/// never ends.
#[derive(Debug)]
pub struct Classifier {}

#[allow(unused_variables, clippy::todo)] // being written
impl Classifier {
    /// Reserves all memory it will ever use.
    ///
    /// # Errors
    ///
    /// As [`crate::Runtime::new`].
    pub fn new(stage: &Stage, config: RuntimeConfig) -> Result<Classifier, StageError> {
        todo!()
    }

    /// Writes the unit of each packet into its metadata and moves it to
    /// `output`, in order. What is malformed, or finds no room for its new
    /// flow, is counted and goes back to `pool`; a later fragment that comes
    /// before its first one is held, and follows it.
    pub fn classify(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        todo!()
    }

    /// Places that units can have: numbers below this.
    pub fn places(&self) -> usize {
        todo!()
    }

    /// The unit of what has no flow.
    pub fn liaison(&self) -> u64 {
        todo!()
    }

    /// True where the unit lives.
    pub fn is_live(&self, unit: u64) -> bool {
        todo!()
    }

    /// The unit of a flow key, alias or scope key.
    pub fn unit_of(&self, key: &FlowKey) -> Option<u64> {
        todo!()
    }

    /// The key of a live unit: its flow's, or its scope's.
    pub fn key_of(&self, unit: u64) -> Option<FlowKey> {
        todo!()
    }

    /// Appends the keys of a unit's flows.
    pub fn flows_of(&self, unit: u64, keys: &mut Vec<FlowKey>) {
        todo!()
    }

    /// All live units, by place; not the liaison.
    pub fn live_units(&self) -> impl Iterator<Item = u64> + '_ {
        core::iter::empty()
    }

    /// Gives the unit's flow another name. A name that another unit's flow
    /// has goes over to this one (the other got nowhere: its answers would
    /// come here); one that another unit's alias has is refused.
    pub fn add_alias(&mut self, unit: u64, flow: &FlowKey, request: &AliasRequest) -> bool {
        todo!()
    }

    /// A flow of the unit has ended: its key and aliases go; the aliases are
    /// added to `freed`. The unit lives on.
    pub fn end_flow(&mut self, unit: u64, key: &FlowKey, freed: &mut Vec<FlowKey>) {
        todo!()
    }

    /// The unit has ended, with all its names; its aliases are added to `freed`.
    pub fn remove_unit(&mut self, unit: u64, freed: &mut Vec<FlowKey>) {
        todo!()
    }

    /// Makes a unit with the number, flows and aliases it had in a classifier
    /// before this one.
    ///
    /// # Errors
    ///
    /// The place or a name is taken, or there is no room.
    pub fn restore(
        &mut self,
        unit: u64,
        flows: &[(FlowKey, bool)],
        aliases: &[(FlowKey, AliasRequest)],
    ) -> Result<(), SnapshotError> {
        todo!()
    }

    /// What was taken in, dropped and held.
    pub fn report(&self) -> Report {
        todo!()
    }

    /// Gives held fragments back to `pool`, as dropped.
    pub fn finish(&mut self, pool: &mut FramePool) {
        todo!()
    }
}
