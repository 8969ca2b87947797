//! The home switch: numbers packets, says who owns a unit, lets output out.

use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::{RuntimeConfig, StageError};

use crate::ids::{Peer, RuntimeId};
use crate::message::{Message, MoveMode, Selection};
use crate::settings::SwitchSettings;

/// What a switch wants carried out: the driver empties it after each call.
#[derive(Debug, Default)]
pub struct SwitchOutbox {
    /// Data frames, a lane per runtime that was ever joined.
    pub lanes: Vec<Lane>,
    /// Messages, in order per receiver.
    pub messages: Vec<(Peer, Message)>,
    /// Packets let out, in order.
    pub out: Vec<Frame>,
    /// Lines of events (EVE JSON) let out, each ended by a newline.
    pub events: Vec<u8>,
    /// What was done, in order; off until it is started.
    pub journal: crate::journal::Journal,
}

/// Data frames to one runtime.
#[derive(Debug)]
pub struct Lane {
    /// To whom.
    pub to: RuntimeId,
    /// The frames, in order.
    pub frames: Vec<Frame>,
}

/// Why a move is refused. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// There is no such runtime.
    UnknownTarget,
    /// There is no such runtime.
    UnknownSource,
    /// The target gives its own flows away.
    Draining,
    /// Source and target are the same.
    Same,
    /// No unit fits the selection.
    Nothing,
}

/// The switch of one chain.
#[derive(Debug)]
pub struct Switch {
    /// What it wants carried out.
    pub outbox: SwitchOutbox,
}

#[allow(unused_variables, clippy::todo)] // being written
impl Switch {
    /// A switch for `stage`, with no runtime yet.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub fn new(
        stage: &Stage,
        config: RuntimeConfig,
        settings: SwitchSettings,
    ) -> Result<Switch, StageError> {
        todo!()
    }

    /// After a crash of the switch before it: asks `runtimes` for what they
    /// have and holds packets of unknown units until all have answered or are
    /// suspected.
    pub fn recover(&mut self, now: Time, runtimes: &[RuntimeId]) {
        todo!()
    }

    /// A runtime that may own units has come.
    pub fn join(&mut self, now: Time, runtime: RuntimeId) {
        todo!()
    }

    /// All units of `runtime` go elsewhere and no new ones come.
    ///
    /// # Errors
    ///
    /// There is no such runtime, or none to take its units.
    pub fn drain(
        &mut self,
        now: Time,
        runtime: RuntimeId,
        mode: MoveMode,
    ) -> Result<(), MoveError> {
        todo!()
    }

    /// True where `runtime` owns no unit, keeps no copy and has answered all.
    pub fn is_drained(&self, runtime: RuntimeId) -> bool {
        todo!()
    }

    /// Takes a drained runtime out.
    pub fn leave(&mut self, now: Time, runtime: RuntimeId) {
        todo!()
    }

    /// A runtime is dead, or thought so; it is not used again under this id.
    pub fn suspect(&mut self, now: Time, pool: &mut FramePool, runtime: RuntimeId) {
        todo!()
    }

    /// Moves what `what` selects of `from`'s units to `to`; gives the number
    /// of units. Views open as the window allows.
    ///
    /// # Errors
    ///
    /// See [`MoveError`].
    pub fn move_units(
        &mut self,
        now: Time,
        from: Option<RuntimeId>,
        to: RuntimeId,
        what: &Selection,
        mode: MoveMode,
    ) -> Result<u32, MoveError> {
        todo!()
    }

    /// Packets from the ports, to be classified, numbered and sent on.
    pub fn ingress(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        todo!()
    }

    /// Entries from a ring, as frames (see the crate's documentation).
    pub fn entries(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        frames: &mut Vec<Frame>,
    ) {
        todo!()
    }

    /// A message.
    pub fn message(&mut self, now: Time, pool: &mut FramePool, from: Peer, message: Message) {
        todo!()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, pool: &mut FramePool) {
        todo!()
    }

    /// When [`Switch::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        todo!()
    }
}
