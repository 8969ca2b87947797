//! A relay between a switch and its runtimes: a hook for benchmarks.

use weir_packet::FramePool;
use weir_protocol::switch::{DataQueue, SwitchOutbox};
use weir_protocol::{Message, Peer, RuntimeId};

/// Sees all that a switch tells its runtimes and they tell one another, and may hold
/// it back. A run has none; benchmarks compare with the ways of others.
pub trait Relay: Send {
    /// The switch wants this carried out: what is not to go on now is taken out of it.
    fn take_from_switch(&mut self, pool: &mut FramePool, outbox: &mut SwitchOutbox);

    /// A runtime has something to say to another.
    fn take_from_runtime(&mut self, from: RuntimeId, to: RuntimeId, message: Message);

    /// Messages (sender, receiver, message) and frames that are due now. They go
    /// before the rest of the switch's outbox, the messages first.
    fn go_on(&mut self) -> (&mut Vec<(Peer, Peer, Message)>, &mut Vec<DataQueue>);

    /// Most packets that it held at once.
    fn most_held(&self) -> u32;
}
