//! Moves through a controller, between the switch and the runtimes of a cluster.

use weir::driver::Relay;
use weir_packet::FramePool;
use weir_protocol::switch::{DataQueue, SwitchOutbox};
use weir_protocol::{Message, Peer, RuntimeId};
use weir_sim::central::Controller;

/// The controller of one chain.
pub(super) struct Central(Controller);

impl Central {
    /// With as many places as there are frames: none is dropped.
    pub(super) fn make(frames: u32) -> Box<dyn Relay> {
        Box::new(Central(Controller::new(frames)))
    }
}

impl Relay for Central {
    fn take_from_switch(&mut self, pool: &mut FramePool, outbox: &mut SwitchOutbox) {
        self.0.from_switch(pool, outbox);
    }

    fn take_from_runtime(&mut self, from: RuntimeId, to: RuntimeId, message: Message) {
        self.0.from_runtime(from, to, message);
    }

    fn go_on(&mut self) -> (&mut Vec<(Peer, Peer, Message)>, &mut Vec<DataQueue>) {
        let outbox = &mut self.0.outbox;
        (&mut outbox.messages, &mut outbox.queues)
    }

    fn most_held(&self) -> u32 {
        self.0.most_held()
    }
}
