//! An engine under a switch: units, clocks and views come with the packets,
//! and everything they cause goes back as entries.
//!
//! Alone ([`Runtime::process`]) an engine names units itself and ends flows
//! when they have been idle. Under a switch ([`crate::RuntimeConfig::follows`])
//! the frames say which unit they belong to, in which order they were
//! numbered, and nothing changes a unit but its own packets: what is due in it
//! ends at a tick, which is numbered like a packet.

use weir_nf::{Cluster, RuntimeId};
use weir_packet::{FlowKey, Frame, FramePool, Time};

use crate::runtime::Runtime;
use crate::snapshot::SnapshotError;

#[allow(unused_variables, clippy::todo)] // being written
impl Runtime {
    /// Applies packets of units that live here, each in its unit's order, and
    /// gives the entry of each, in the order of `input`: side frames
    /// ([`weir_packet::Fate::Emitted`], [`weir_packet::Fate::Notes`]) and then
    /// the packet's own frame with what has become of it. All frames of an
    /// entry carry the packet's unit, clock and view. A packet of a unit
    /// that is not here makes it. Frames with `NO_OUTPUT` are applied and go
    /// back to `pool`: no entry, no event, no count; `LOST` ones do nothing and
    /// `TICK` ones end what is due in their unit at their time.
    pub fn apply(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
    ) {
        todo!()
    }

    /// Appends the unit's whole state to `out`.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NoFlow`]: the unit is not here.
    pub fn export_unit(&self, unit: u64, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        todo!()
    }

    /// Makes the unit out of what [`Runtime::export_unit`] gave.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing has changed then.
    pub fn install_unit(&mut self, unit: u64, bytes: &[u8]) -> Result<(), SnapshotError> {
        todo!()
    }

    /// Forgets a unit without telling any function: it lives on elsewhere, or
    /// a tick has ended all of it. False where it is not here.
    pub fn forget_unit(&mut self, unit: u64) -> bool {
        todo!()
    }

    /// True where the unit has a flow here.
    pub fn has_unit(&self, unit: u64) -> bool {
        todo!()
    }

    /// True where a function's state of the unit, or the set of its flows,
    /// aliases or fragments, is not what it was at the last call (or install).
    pub fn take_changed(&mut self, unit: u64) -> bool {
        todo!()
    }

    /// Appends what the engine itself keeps of the unit's flows (times, clocks,
    /// phases): all that a packet changes where no function changes its state.
    pub fn export_touch(&self, unit: u64, out: &mut Vec<u8>) {
        todo!()
    }

    /// Brings the bytes of [`Runtime::export_unit`] up to date with those of
    /// [`Runtime::export_touch`].
    ///
    /// # Errors
    ///
    /// One of them is damaged, or they are of different units.
    pub fn touch_snapshot(snapshot: &mut [u8], touch: &[u8]) -> Result<(), SnapshotError> {
        todo!()
    }

    /// Brings a unit that lives here up to date with the bytes of
    /// [`Runtime::export_touch`].
    ///
    /// # Errors
    ///
    /// They are damaged, or the unit is not here.
    pub fn install_touch(&mut self, unit: u64, touch: &[u8]) -> Result<(), SnapshotError> {
        todo!()
    }

    /// Units in which something is due at `now`, at most `most` of them, each
    /// at most once until a tick has come for it or
    /// [`Runtime::next_due`] has passed again.
    pub fn due_units(&mut self, now: Time, most: usize, units: &mut Vec<u64>) {
        todo!()
    }

    /// A time before which nothing is due.
    pub fn next_due(&self) -> Option<Time> {
        todo!()
    }

    /// What the functions prefer as the unit's owner ([`Runtime::preferred_owner`]).
    pub fn preferred_owner_of(&mut self, unit: u64, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        todo!()
    }

    /// True where a packet may be applied twice in two places: no function
    /// takes a resource that flows share (ports of a NAT).
    pub fn is_replayable(&self) -> bool {
        todo!()
    }

    /// The unit's flows (key, client is the key's second end) and aliases
    /// (with the key of their flow), read from the bytes of
    /// [`Runtime::export_unit`].
    ///
    /// # Errors
    ///
    /// They are damaged, or of another stage.
    #[allow(clippy::type_complexity)]
    pub fn read_names(
        &self,
        snapshot: &[u8],
    ) -> Result<
        (
            Vec<(FlowKey, bool)>,
            Vec<(FlowKey, weir_nf::host::AliasRequest)>,
        ),
        SnapshotError,
    > {
        todo!()
    }

    /// Port leases, to grant blocks and free ports.
    pub fn leases_mut(&mut self) -> &mut weir_nf::Leases {
        todo!()
    }
}
