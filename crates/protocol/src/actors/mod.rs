//! A runtime's side of the protocol: its flow actors and their hand-over.

use weir_packet::{Frame, FramePool, Time};
use weir_runtime::Runtime;

use crate::ids::{Peer, RuntimeId};
use crate::message::Message;
use crate::settings::ActorSettings;

/// What a runtime's actors want carried out: the driver empties it after each
/// call.
#[derive(Debug, Default)]
pub struct ActorOutbox {
    /// Entries for the switch, as frames (see the crate's documentation);
    /// where the way there is no ring the driver makes them a message
    /// ([`crate::message::Message::Entries`]).
    pub entries: Vec<Frame>,
    /// Messages, in order per receiver. Where a unit has entries in
    /// `entries`, those come first.
    pub messages: Vec<(Peer, Message)>,
}

/// The flow actors of one runtime, around its engine.
#[derive(Debug)]
pub struct Actors {
    /// What they want carried out.
    pub outbox: ActorOutbox,
}

#[allow(unused_variables, clippy::todo)] // being written
impl Actors {
    /// Actors over an engine that follows a switch
    /// ([`weir_runtime::RuntimeConfig::follows`]).
    pub fn new(engine: Runtime, settings: ActorSettings) -> Actors {
        todo!()
    }

    /// Data frames from the switch.
    pub fn frames(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        todo!()
    }

    /// A message.
    pub fn message(&mut self, now: Time, pool: &mut FramePool, from: Peer, message: Message) {
        todo!()
    }

    /// Does what is due: repeats, expiry.
    pub fn tick(&mut self, now: Time, pool: &mut FramePool) {
        todo!()
    }

    /// When [`Actors::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        todo!()
    }

    /// Runtimes that run now; what functions prefer is asked with it.
    pub fn cluster(&mut self, runtimes: &[RuntimeId]) {
        todo!()
    }

    /// The engine, for reports.
    pub fn engine(&self) -> &Runtime {
        todo!()
    }
}
