//! The queues between a switch thread and its runtime threads.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::Consumer;
use weir_ctl::command::CommandHandler;
use weir_exec::queue::{Sender, queue};
use weir_packet::{FlowKey, Frame, FramePool};
use weir_protocol::in_process::{FRAMES_ON_THE_WAY, MESSAGES_ON_THE_WAY};
use weir_protocol::{Message, Peer, RuntimeId, UnitId};

/// Said where a queue names a chain that the run does not have.
pub(super) const NO_CHAIN: &str = "a chain that is not there";

/// From the switch's thread to a runtime's.
#[derive(Debug)]
pub(super) enum ToRuntime {
    /// To the actors of a chain.
    Message {
        /// Number of the chain.
        chain: usize,
        /// The sender.
        from: Peer,
        /// The message.
        message: Message,
    },
    /// Say it back when nothing is left to do.
    Echo(u64),
    /// These run.
    Cluster(Vec<RuntimeId>),
    /// All is let out: end all flows, report, stop.
    Finish,
}

/// From a runtime's thread to the switch's.
#[derive(Debug)]
pub(super) enum ToSwitch {
    /// It had nothing to do and nothing under way.
    Echo(u64),
    /// Somebody has asked for the end of a flow: only the switch grants it.
    End {
        /// Number of the chain.
        chain: usize,
        /// The flow's unit.
        unit: UnitId,
        /// Its key.
        key: FlowKey,
    },
    /// To another runtime, through the relay on the switch's thread.
    Relay {
        /// Number of the chain.
        chain: usize,
        /// To whom.
        to: RuntimeId,
        /// The message.
        message: Message,
    },
    /// To the switch of a chain.
    Message {
        /// Number of the chain.
        chain: usize,
        /// The message.
        message: Message,
    },
}

/// State that two threads share, without messages.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// Time of the packets that have come to the switch.
    pub(super) packet_time: AtomicU64,
    /// Ends of flows that the runtime has asked for and the switch has not
    /// numbered yet.
    pub(super) ends: AtomicUsize,
    /// The lock is taken at the end of the runtime alone.
    left: Mutex<Option<Left>>,
}

impl Gauge {
    /// The runtime ends, in whatever way.
    fn leave(&self, left: Left) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    /// The remains of a runtime whose thread was joined, or did not start; `None` if it
    /// was never placed.
    pub(super) fn take_left(&self) -> Option<Left> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.take()
    }
}

/// What a runtime has of others, from when it is placed until it is over. Where it is
/// dropped, by whatever end, all of it goes into the gauge.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) pool: FramePool,
    pub(super) ends: RuntimeEnds,
    /// The receiving end of its command channel, until its node has it.
    pub(super) handler: CommandHandler,
    pub(super) gauge: Arc<Gauge>,
    /// Frames that it has not given back.
    pub(super) lost: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let empty = FramePool::empty(self.pool.memory().clone());
        self.gauge.leave(Left {
            pool: std::mem::replace(&mut self.pool, empty),
            ends: self.ends.take(),
            handler: std::mem::take(&mut self.handler),
            lost: self.lost,
        });
    }
}

/// Frames, queues and command channel of a runtime that is over. The switch's thread gets
/// them, and the queues and the channel go on to a successor.
#[derive(Debug)]
pub(super) struct Left {
    /// The frames that it had.
    pub(super) pool: FramePool,
    /// Its ends of the queues. The switch's thread sends data frames until it joins the
    /// runtime: those are unread.
    pub(super) ends: RuntimeEnds,
    /// The receiving end of its command channel.
    pub(super) handler: CommandHandler,
    /// Frames that it had and are not there any more: 0 unless there is a bug.
    pub(super) lost: u64,
}

/// A message from one runtime to another. Their places may have had other runtimes
/// before, and may have others when it is read.
#[derive(Debug)]
pub(super) struct PeerMessage {
    pub(super) from: RuntimeId,
    pub(super) to: RuntimeId,
    /// Number of the chain.
    pub(super) chain: usize,
    pub(super) message: Message,
}

/// To another runtime.
pub(super) type PeerSender = Sender<PeerMessage>;
/// From another runtime.
pub(super) type PeerQueue = Consumer<PeerMessage>;

/// The place of a runtime, from 0, among so many. An id names one start: the successor
/// of a runtime that has died has its place, and its id plus the number of places.
pub(super) fn place_of(id: RuntimeId, places: usize) -> usize {
    (id.0 as usize)
        .wrapping_sub(1)
        .checked_rem(places)
        .unwrap_or(0)
}

/// The queues of one runtime to and from another.
#[derive(Debug)]
pub(super) struct PeerEnds {
    pub(super) to: PeerSender,
    pub(super) from: PeerQueue,
}

/// A runtime's ends of its queues.
#[derive(Debug)]
pub(super) struct RuntimeEnds {
    /// Data frames, a queue per chain.
    pub(super) data: Vec<Consumer<Frame>>,
    /// Entries, a queue per chain.
    pub(super) entries: Vec<Sender<Frame>>,
    pub(super) inbox: Consumer<ToRuntime>,
    pub(super) outbox: Sender<ToSwitch>,
    /// By place of the runtime; `None` at its own one.
    pub(super) peers: Vec<Option<PeerEnds>>,
}

impl RuntimeEnds {
    /// Takes the ends; those that stay lead nowhere.
    fn take(&mut self) -> RuntimeEnds {
        RuntimeEnds {
            data: std::mem::take(&mut self.data),
            entries: std::mem::take(&mut self.entries),
            inbox: std::mem::replace(&mut self.inbox, queue(1).1),
            outbox: std::mem::replace(&mut self.outbox, queue(1).0),
            peers: std::mem::take(&mut self.peers),
        }
    }

    /// Drops all messages to the runtime that had the ends, and those that it could not
    /// send: the ends are for a successor.
    pub(super) fn clear(&mut self) {
        while self.inbox.pop().is_ok() {}
        self.outbox.take_waiting().for_each(drop);
        for peer in self.peers.iter_mut().flatten() {
            peer.to.take_waiting().for_each(drop);
        }
        self.clear_unread();
    }

    /// Drops what other runtimes say to a place without one.
    pub(super) fn clear_unread(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            while peer.from.pop().is_ok() {}
        }
    }
}

/// The switch's ends of its queues to and from one runtime.
#[derive(Debug)]
pub(super) struct SwitchEnds {
    pub(super) id: RuntimeId,
    pub(super) data: Vec<Sender<Frame>>,
    pub(super) entries: Vec<Consumer<Frame>>,
    pub(super) inbox: Consumer<ToSwitch>,
    pub(super) outbox: Sender<ToRuntime>,
    pub(super) gauge: Arc<Gauge>,
}

/// Queues for `runtimes` runtimes, numbered from 1, and `chains` chains: for all
/// that will ever be there, since a thread that runs can't be given new ones.
pub(super) fn wire(runtimes: u32, chains: usize) -> Vec<(SwitchEnds, RuntimeEnds)> {
    let number = runtimes as usize;
    let mut senders: Vec<Vec<Option<PeerSender>>> = Vec::new();
    let mut receivers: Vec<Vec<Option<PeerQueue>>> = (0..number).map(|_| Vec::new()).collect();
    for from in 0..number {
        let mut row = Vec::new();
        for (to, column) in receivers.iter_mut().enumerate() {
            let (sender, receiver) = if from == to {
                (None, None)
            } else {
                let (sender, receiver) = queue(MESSAGES_ON_THE_WAY);
                (Some(sender), Some(receiver))
            };
            row.push(sender);
            column.push(receiver);
        }
        senders.push(row);
    }
    let mut ends = Vec::new();
    for (place, (senders, receivers)) in senders.into_iter().zip(receivers).enumerate() {
        let id = RuntimeId(place as u32 + 1);
        let (data_to, data_from) = (0..chains).map(|_| queue(FRAMES_ON_THE_WAY)).unzip();
        let (entries_to, entries_from) = (0..chains).map(|_| queue(FRAMES_ON_THE_WAY)).unzip();
        let (to_runtime, from_switch) = queue(MESSAGES_ON_THE_WAY);
        let (to_switch, from_runtime) = queue(MESSAGES_ON_THE_WAY);
        let peers = senders
            .into_iter()
            .zip(receivers)
            .map(|ends| match ends {
                (Some(to), Some(from)) => Some(PeerEnds { to, from }),
                _ => None,
            })
            .collect();
        let switch = SwitchEnds {
            id,
            data: data_to,
            entries: entries_from,
            inbox: from_runtime,
            outbox: to_runtime,
            gauge: Arc::default(),
        };
        let runtime = RuntimeEnds {
            data: data_from,
            entries: entries_to,
            inbox: from_switch,
            outbox: to_switch,
            peers,
        };
        ends.push((switch, runtime));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_a_place_without_a_runtime_does_not_wait_for_ever() {
        let mut wired = wire(2, 1).into_iter().map(|(_, runtime)| runtime);
        let (Some(mut one), Some(mut empty)) = (wired.next(), wired.next()) else {
            panic!("two places");
        };
        let peer = one.peers[1].as_mut().unwrap();
        for _ in 0..3 * MESSAGES_ON_THE_WAY {
            peer.to.push(PeerMessage {
                from: RuntimeId(1),
                to: RuntimeId(2),
                chain: 0,
                message: Message::PollWorkload,
            });
        }
        let mut rounds = 0;
        while !peer.to.flush() {
            assert!(peer.to.waiting() > 0);
            empty.clear_unread();
            rounds += 1;
        }
        assert!(rounds >= 2);
    }
}
