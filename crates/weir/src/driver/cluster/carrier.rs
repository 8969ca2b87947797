//! Moves messages and frames of a switch into the queues of its runtimes.

use weir_packet::{FramePool, Internal};
use weir_protocol::switch::DataQueue;
use weir_protocol::{Message, Peer};

use super::super::wiring::{NO_CHAIN, ToRuntime, place_of};
use super::member::{Member, NO_MEMBER};

/// Puts frames and messages into the queues to runtimes.
pub(super) struct Carrier<'a> {
    pub(super) members: &'a mut [Member],
    pub(super) chain: usize,
    pub(super) internal: &'a mut Internal,
}

impl Carrier<'_> {
    pub(super) fn frames(&mut self, pool: &mut FramePool, queue: &mut DataQueue) {
        if queue.frames.is_empty() {
            return;
        }
        let place = place_of(queue.to, self.members.len());
        let member = self.members.get_mut(place);
        let Some(member) = self.internal.expect(member, NO_MEMBER) else {
            return pool.give_all(&mut queue.frames);
        };
        // A unit whose new owner has died waits for what its old one put out. Packets
        // that come meanwhile are numbered for the dead one, and lost with it.
        if member.is_dead(queue.to) {
            return pool.give_all(&mut queue.frames);
        }
        let sent = member.ends.send_frames(self.chain, &mut queue.frames);
        self.internal.expect(sent, NO_CHAIN);
    }

    pub(super) fn message(&mut self, from: Peer, to: Peer, message: Message) {
        // There is no coordinator in one process.
        let Peer::Runtime(id) = to else { return };
        let place = place_of(id, self.members.len());
        let member = self.members.get_mut(place);
        if let Some(member) = self.internal.expect(member, NO_MEMBER)
            && !member.is_dead(id)
        {
            let message = ToRuntime::Message {
                chain: self.chain,
                from,
                message,
            };
            member.ends.outbox.push(message);
        }
    }
}
