//! The edges between a switch's thread and its runtimes.

use std::sync::{Arc, Mutex, PoisonError};

use rtrb::Consumer;
use weir_ctl::command::CommandHandler;
use weir_exec::edge::{FrameReceiver, FrameSender, MessageReceiver, MessageSender};
use weir_exec::queue::{Sender, queue};
use weir_packet::{FlowKey, Frame, FramePool};
use weir_protocol::in_process::{FRAMES_ON_THE_WAY, MESSAGES_ON_THE_WAY};
use weir_protocol::{Message, Peer, RuntimeId, UnitId};

use super::gauge::Gauge;
use super::runtime_done::RuntimeDone;
use super::supply::Supply;

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
    /// To another runtime, through the switch's thread.
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

/// The remains of a runtime's thread, for the switch's. The lock is taken at the end of
/// the runtime alone.
#[derive(Debug, Default)]
pub(super) struct Heir(Mutex<Option<Left>>);

impl Heir {
    /// The remains of a runtime whose thread was joined, or did not start; `None` if it
    /// was never placed.
    pub(super) fn take(&self) -> Option<Left> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.take()
    }
}

/// What a runtime has of others, from when it is placed until it is over. Where it is
/// dropped, by whatever end, all of it goes to the heir.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) pool: FramePool,
    pub(super) ends: RuntimeEnds,
    /// The receiving end of its command channel, until its node has it.
    pub(super) handler: CommandHandler,
    pub(super) gauge: Gauge,
    pub(super) supply: Supply,
    /// `None` in a process of its own, whose frames are reclaimed.
    pub(super) heir: Option<Arc<Heir>>,
    /// Frames that it has not given back.
    pub(super) lost: u64,
    /// Its counts at its death.
    pub(super) counted: Option<Box<RuntimeDone>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(heir) = &self.heir else { return };
        let empty = FramePool::empty(self.pool.memory().clone());
        let left = Left {
            pool: std::mem::replace(&mut self.pool, empty),
            ends: self.ends.take(),
            handler: std::mem::take(&mut self.handler),
            lost: self.lost,
            counted: self.counted.take(),
        };
        *heir.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
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
    /// Its counts when it died of a bug.
    pub(super) counted: Option<Box<RuntimeDone>>,
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

/// A runtime's ends of its edges.
#[derive(Debug)]
pub(super) struct RuntimeEnds {
    /// Data frames, an edge per chain.
    pub(super) data: Vec<FrameReceiver>,
    /// Entries, an edge per chain.
    pub(super) entries: Vec<FrameSender>,
    pub(super) inbox: MessageReceiver<ToRuntime>,
    pub(super) outbox: MessageSender<ToSwitch>,
    /// By place of the runtime. `None` at its own one, and where one of the two is a
    /// process of its own: messages go through the switch's thread then.
    pub(super) peers: Vec<Option<PeerEnds>>,
}

impl RuntimeEnds {
    /// Takes the ends; those that stay lead nowhere.
    fn take(&mut self) -> RuntimeEnds {
        let nowhere = MessageReceiver::Queue(queue(1).1);
        let from_nowhere = MessageSender::Queue(queue(1).0);
        RuntimeEnds {
            data: std::mem::take(&mut self.data),
            entries: std::mem::take(&mut self.entries),
            inbox: std::mem::replace(&mut self.inbox, nowhere),
            outbox: std::mem::replace(&mut self.outbox, from_nowhere),
            peers: std::mem::take(&mut self.peers),
        }
    }

    /// Drops all messages to the runtime that had the ends, and those that it could not
    /// send: the ends are for a successor.
    pub(super) fn clear(&mut self) {
        let mut unread = Vec::new();
        while self.inbox.drain(MESSAGES_ON_THE_WAY, &mut unread) > 0 {
            unread.clear();
        }
        drop(self.outbox.clear());
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

/// The switch's ends of its edges to and from one runtime.
#[derive(Debug)]
pub(super) struct SwitchEnds {
    pub(super) id: RuntimeId,
    pub(super) data: Vec<FrameSender>,
    pub(super) entries: Vec<FrameReceiver>,
    pub(super) inbox: MessageReceiver<ToSwitch>,
    pub(super) outbox: MessageSender<ToRuntime>,
    pub(super) gauge: Gauge,
}

impl SwitchEnds {
    /// Sends what waits, as far as there is room: messages before the packets that they are
    /// about. True where something waited.
    pub(super) fn flush(&mut self) -> bool {
        let mut waited = self.outbox.is_waiting();
        let told = self.outbox.flush();
        for queue in &mut self.data {
            waited |= queue.waiting() > 0;
            if told {
                queue.flush();
            }
        }
        waited
    }

    /// Sends packets behind all messages that were sent before them.
    pub(super) fn send_frames(&mut self, chain: usize, frames: &mut Vec<Frame>) -> Option<()> {
        let told = self.outbox.flush();
        let data = self.data.get_mut(chain)?;
        match told {
            true => data.extend(frames),
            false => data.keep(frames),
        }
        Some(())
    }

    /// The process at the other ends is over: its successor finds edges that are whole.
    pub(super) fn mend(&mut self) {
        self.inbox.mend();
        self.entries.iter_mut().for_each(FrameReceiver::mend);
        self.data.iter_mut().for_each(FrameSender::mend);
        self.outbox.mend();
    }

    /// The switch's thread is about to sleep; false where it must not.
    pub(super) fn prepare_park(&mut self) -> bool {
        let mut may = self.inbox.prepare_park();
        for ring in &mut self.entries {
            // Each is told, also behind one that must not.
            may &= ring.prepare_park();
        }
        may
    }

    /// The switch's thread is awake.
    pub(super) fn unpark(&mut self) {
        self.inbox.unpark();
        self.entries.iter_mut().for_each(FrameReceiver::unpark);
    }
}

/// Queues to and from a runtime that is a thread, for so many chains. They are made for all
/// that will ever be there, since a thread that runs can't be given new ones.
pub(super) fn wire(id: RuntimeId, chains: usize) -> (SwitchEnds, RuntimeEnds) {
    let frames = || -> (Vec<FrameSender>, Vec<FrameReceiver>) {
        let queues = (0..chains).map(|_| queue(FRAMES_ON_THE_WAY));
        queues
            .map(|(to, from)| (FrameSender::Queue(to), FrameReceiver::Queue(from)))
            .unzip()
    };
    let ((data, data_from), (entries_to, entries)) = (frames(), frames());
    let (outbox, from_switch) = queue(MESSAGES_ON_THE_WAY);
    let (to_switch, inbox) = queue(MESSAGES_ON_THE_WAY);
    let switch = SwitchEnds {
        id,
        data,
        entries,
        inbox: MessageReceiver::Queue(inbox),
        outbox: MessageSender::Queue(outbox),
        gauge: Gauge::default(),
    };
    let runtime = RuntimeEnds {
        data: data_from,
        entries: entries_to,
        inbox: MessageReceiver::Queue(from_switch),
        outbox: MessageSender::Queue(to_switch),
        peers: Vec::new(),
    };
    (switch, runtime)
}

/// Queues between each two of these runtimes, which are threads of one process; `None` is
/// the place of one that is not.
pub(super) fn wire_peers(runtimes: &mut [Option<&mut RuntimeEnds>]) {
    let places = runtimes.len();
    for ends in runtimes.iter_mut().flatten() {
        ends.peers = (0..places).map(|_| None).collect();
    }
    for high in 1..places {
        let (before, from_high) = runtimes.split_at_mut(high);
        let Some(Some(one)) = from_high.first_mut() else {
            continue;
        };
        for (low, other) in before.iter_mut().enumerate() {
            let Some(other) = other else { continue };
            let (to_other, from_one) = queue(MESSAGES_ON_THE_WAY);
            let (to_one, from_other) = queue(MESSAGES_ON_THE_WAY);
            one.peers[low] = Some(PeerEnds {
                to: to_other,
                from: from_other,
            });
            other.peers[high] = Some(PeerEnds {
                to: to_one,
                from: from_one,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_a_place_without_a_runtime_does_not_wait_for_ever() {
        let (mut one, mut empty) = (wire(RuntimeId(1), 1).1, wire(RuntimeId(2), 1).1);
        wire_peers(&mut [Some(&mut one), Some(&mut empty)]);
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
