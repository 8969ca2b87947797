//! A switch and runtimes that are threads of one process (`--mode ring`): queues
//! stand where links are, over one packet memory. `rounds` has them work.

mod rounds;

use std::collections::{BTreeMap, VecDeque};

use weir_packet::shares::{LARGE_SHARE, SHARE};
use weir_packet::{Frame, FramePool, Time};
use weir_protocol::Peer;
use weir_protocol::in_process::{self, BURST, FRAMES_ON_THE_WAY, MESSAGES_ON_THE_WAY};
use weir_protocol::message::Message;

use super::links::ProcessNo;
use super::ring::Ring;
use crate::fault::Fault;
use crate::plan::{Plan, Step};
use crate::random::Random;

/// Frames for the ports beside those of `in_process::frames`.
const PORTS: u32 = 1_024;

/// The place of a runtime's thread in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It takes frames out of its queue.
    Frames,
    /// It takes the switch's messages out.
    Switch,
    /// It takes other runtimes' messages out, and works.
    Peers,
}

/// A runtime's thread, and the queues of frames between it and the switch's.
#[derive(Debug)]
struct Thread {
    data: Ring<Frame>,
    entries: Ring<Frame>,
    part: Part,
    /// Taken out and not applied yet.
    input: Vec<Frame>,
    heard: Vec<(ProcessNo, Message)>,
    /// Messages that wait until the entries before them are in their queue.
    outgoing: VecDeque<(Peer, Message)>,
    /// At the switch: frames of an entry whose last one has not come yet.
    partial: Vec<Frame>,
    /// Its next step is planned.
    called: bool,
    /// Its memory, when it is over and not joined yet.
    left: Option<FramePool>,
}

/// All threads.
#[derive(Debug)]
pub(super) struct Threads {
    random: Random,
    /// Places of queues of frames and of messages.
    places: (usize, usize),
    runtimes: BTreeMap<ProcessNo, Thread>,
    words: BTreeMap<(ProcessNo, ProcessNo), Ring<Message>>,
    /// Whom the switch hears next in its round.
    hearing: VecDeque<ProcessNo>,
    /// Messages that it took out of that one's queue.
    heard: Option<Vec<Message>>,
    called: bool,
    /// Packets of the plan that wait at the port for room.
    port: VecDeque<usize>,
    /// Time of the packets that have come.
    packet_time: Time,
    /// Frames in all, and in a runtime's share.
    frames: u32,
    share: u32,
    /// Runtimes that there may be in all.
    most: u32,
}

impl Threads {
    pub(super) fn new(plan: &Plan, runtimes: u32) -> Threads {
        let few = plan.faults.has(Fault::FewFrames);
        let short = plan.faults.has(Fault::FullBuffers);
        // The frames of one that has died are its successor's.
        let later = plan
            .steps
            .iter()
            .filter(|(_, step)| matches!(step, Step::Join));
        let most = runtimes + later.count() as u32;
        let (frames, _) = in_process::frames(most);
        let divided = |places: usize| if short { places / 64 } else { places };
        Threads {
            random: Random::new(plan.seed, 21),
            places: (divided(FRAMES_ON_THE_WAY), divided(MESSAGES_ON_THE_WAY)),
            runtimes: BTreeMap::new(),
            words: BTreeMap::new(),
            hearing: VecDeque::new(),
            heard: None,
            called: false,
            port: VecDeque::new(),
            packet_time: Time::ZERO,
            frames: frames + if few { 0 } else { PORTS },
            share: if few { SHARE / 64 } else { SHARE },
            most,
        }
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Packets that wait at the port.
    pub(super) fn at_port(&self) -> usize {
        self.port.len()
    }

    /// A runtime's thread starts; the switch's pool gives it a share.
    pub(super) fn start(&mut self, no: ProcessNo, pool: &mut FramePool) -> FramePool {
        let thread = Thread {
            data: Ring::new(self.places.0),
            entries: Ring::new(self.places.0),
            part: Part::Frames,
            input: Vec::new(),
            heard: Vec::new(),
            outgoing: VecDeque::new(),
            partial: Vec::new(),
            called: false,
            left: None,
        };
        self.runtimes.insert(no, thread);
        pool.share(self.share, LARGE_SHARE)
    }

    /// Frames that nobody has who could give them back.
    pub(super) fn missing<'a>(&'a self, living: impl Iterator<Item = &'a FramePool>) -> usize {
        let pools: Vec<&FramePool> = living.collect();
        let reserve = pools.first().map_or(0, |pool| {
            pool.memory().in_reserve() + pool.memory().large_in_reserve()
        });
        FramePool::outstanding_of(pools).saturating_sub(reserve)
    }

    fn word(&mut self, from: ProcessNo, to: ProcessNo, message: Message) {
        let places = self.places.1;
        let ring = self.words.entry((from, to));
        ring.or_insert_with(|| Ring::new(places)).push(message);
    }

    /// Sends what waits with a runtime's thread: entries, and messages once the
    /// entries that were before them are in their queue. True where nothing waits.
    fn send_on(&mut self, no: ProcessNo, of: impl Fn(Peer) -> Option<ProcessNo>) -> bool {
        let Some(thread) = self.runtimes.get_mut(&no) else {
            return true;
        };
        if !thread.entries.flush() {
            return false;
        }
        for (to, message) in core::mem::take(&mut thread.outgoing) {
            if let Some(to) = of(to) {
                self.word(no, to, message);
            }
        }
        self.flush_words(no)
    }

    fn flush_words(&mut self, from: ProcessNo) -> bool {
        let own = self.words.range_mut((from, 0)..(from + 1, 0));
        own.fold(true, |all, (_, ring)| ring.flush() && all)
    }

    /// Runtimes for which something waits until their queues have room: a flush of
    /// the switch's wakes them, as in the driver.
    fn wait_for_room(&self, switch: ProcessNo) -> Vec<ProcessNo> {
        let words = self.words.range((switch, 0)..(switch + 1, 0));
        let words = words
            .filter(|(_, ring)| ring.waits())
            .map(|((_, to), _)| *to);
        let data = self.runtimes.iter();
        let data = data.filter(|(_, thread)| thread.data.waits());
        words.chain(data.map(|(no, _)| *no)).collect()
    }

    /// Runtimes that the switch has something to hear of.
    fn speakers(&self, switch: ProcessNo) -> VecDeque<ProcessNo> {
        let speaks = |no: &ProcessNo, thread: &Thread| {
            let words = self.words.get(&(*no, switch));
            !thread.entries.is_empty() || words.is_some_and(|ring| !ring.is_empty())
        };
        let all = self.runtimes.iter();
        all.filter(|(no, thread)| speaks(no, thread))
            .map(|(no, _)| *no)
            .collect()
    }

    /// Takes up to a burst of whole entries of a runtime out of its queue.
    fn collect(&mut self, no: ProcessNo, pool: &FramePool) -> Vec<Frame> {
        let Some(thread) = self.runtimes.get_mut(&no) else {
            return Vec::new();
        };
        let mut frames = core::mem::take(&mut thread.partial);
        frames.extend(thread.entries.take(BURST));
        let closes = |frame: &Frame| pool.memory().meta(frame).disposition.closes();
        let whole = frames.iter().rposition(closes).map_or(0, |at| at + 1);
        thread.partial = frames.split_off(whole);
        frames
    }

    /// A thread is over: its memory waits for the switch's thread.
    fn end(&mut self, no: ProcessNo, mut pool: FramePool) {
        if let Some(thread) = self.runtimes.get_mut(&no) {
            pool.give_all(&mut thread.input);
            let entries = thread.entries.take_waiting();
            entries.for_each(|frame| pool.give(frame));
            thread.heard.clear();
            thread.outgoing.clear();
            thread.left = Some(pool);
        }
    }

    /// The switch's thread joins one that is over: it takes back the frames that it
    /// left, those in queues that nobody reads any more, and an entry that its death
    /// has cut.
    fn join(&mut self, no: ProcessNo, pool: &mut FramePool) {
        if let Some(thread) = self.runtimes.get_mut(&no) {
            if let Some(left) = thread.left.take() {
                pool.join(left);
            }
            let data = &mut thread.data;
            data.take(usize::MAX).for_each(|frame| pool.give(frame));
            data.take_waiting().for_each(|frame| pool.give(frame));
            pool.give_all(&mut thread.partial);
        }
        self.words.retain(|(_, to), _| *to != no);
    }

    /// True where something waits for a thread, or in it.
    fn has_work(&self, no: ProcessNo) -> bool {
        let thread = self.runtimes.get(&no);
        let own = thread.is_some_and(|thread| {
            !thread.data.is_empty()
                || !thread.input.is_empty()
                || thread.entries.waits()
                || !thread.outgoing.is_empty()
        });
        let words = self.words.iter();
        own || words
            .filter(|((from, to), _)| *from == no || *to == no)
            .any(|((from, to), ring)| *to == no && !ring.is_empty() || *from == no && ring.waits())
    }
}
