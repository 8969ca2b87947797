//! A switch and runtimes on one host (`--mode ring`), which are threads of its process or
//! processes of their own: queues stand where links are, over one packet memory. `rounds`
//! has them work, `supply` brings processes free frames, `shares` looks who keeps them,
//! `death` ends them.

mod death;
mod doom;
mod rounds;
mod shares;
mod supply;

use std::collections::{BTreeMap, VecDeque};

use weir_packet::shares::{LARGE_SHARE, SHARE};
use weir_packet::{Frame, FramePool, LinkType, MemoryLayout, Time};
use weir_protocol::Peer;
use weir_protocol::in_process::{
    self, BURST, FRAMES, FRAMES_ON_THE_WAY, Keeping, MESSAGES_ON_THE_WAY,
};
use weir_protocol::message::Message;

use super::links::ProcessNo;
use super::pools;
use super::ring::Ring;
use crate::fault::Fault;
use crate::plan::{Plan, Step};
use crate::random::{Random, mix};
use doom::Doom;
use supply::Supply;

/// Frames for the ports beside those of `in_process::frames`.
const PORTS: u32 = 1_024;

/// Octets of a small frame, metadata included, where many packets take a large one.
const SHORT_FRAMES: u32 = 16 * 64;

/// What a runtime's thread reads next in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Its queue of frames.
    Frames,
    /// The switch's messages.
    Switch,
    /// Other runtimes' messages.
    Peers,
}

/// The parts of a round as the driver has them: frames are taken out first and looked at
/// last, so that what a message said before them of their view is there by then.
const ROUND: [Part; 3] = [Part::Frames, Part::Switch, Part::Peers];
/// The other order: frames may be there before what is said of their view.
const FRAMES_LAST: [Part; 3] = [Part::Switch, Part::Peers, Part::Frames];

/// A message on its way over queues.
#[derive(Debug)]
struct Word {
    from: ProcessNo,
    /// Whom it is for: the switch's thread passes on what is not its own.
    to: Peer,
    message: Message,
}

/// A runtime's thread, and the queues of frames between it and the switch's.
#[derive(Debug)]
struct Thread {
    data: Ring<Frame>,
    entries: Ring<Frame>,
    /// How many parts of the round are done.
    done: usize,
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
    /// It is a process of its own.
    supply: Option<Supply>,
    /// It is to die in its next round.
    doom: Option<Doom>,
    /// Frames that it could not say before its death.
    unsaid: Vec<Frame>,
}

/// All threads.
#[derive(Debug)]
pub(super) struct Threads {
    random: Random,
    /// Places of queues of frames and of messages.
    places: (usize, usize),
    runtimes: BTreeMap<ProcessNo, Thread>,
    words: BTreeMap<(ProcessNo, ProcessNo), Ring<Word>>,
    /// Whom the switch hears next in its round.
    hearing: VecDeque<ProcessNo>,
    /// Messages that it took out of that one's queue.
    heard: Option<Vec<Word>>,
    called: bool,
    /// Packets of the plan that wait at the port for room.
    port: VecDeque<usize>,
    /// Time of the packets that have come.
    packet_time: Time,
    keeping: Keeping,
    /// The packet memory, and small frames in a runtime's share of it.
    layout: MemoryLayout,
    share: u32,
    /// Of four runtimes, so many are processes.
    processes: u64,
    order: [Part; 3],
    /// The switch's process; other queues are the runtimes'.
    switch: ProcessNo,
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
        let keeping = Keeping {
            replication: plan.replication,
            linked: false,
        };
        let (small, large) = in_process::frames(most);
        let kept = in_process::frames_kept(1, keeping);
        let drawn = |what: u64| mix(plan.seed, 0x9100 + what);
        // Few: those that each may keep, and an eighth of those for packets under way.
        let usual = pools::layout(match few {
            true => small - FRAMES / 8 * 7 + kept.0 / 8,
            false => small + kept.0 + PORTS,
        });
        let layout = MemoryLayout {
            small_bytes: match drawn(1).is_multiple_of(3) {
                true => SHORT_FRAMES,
                false => usual.small_bytes,
            },
            large_frames: usual.large_frames + large + kept.1,
            ..usual
        };
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
            keeping,
            layout,
            processes: [0, 0, 2, 4][(drawn(2) % 4) as usize],
            order: match drawn(3).is_multiple_of(4) {
                true => FRAMES_LAST,
                false => ROUND,
            },
            switch: 0,
            share: if few { SHARE / 64 } else { SHARE },
            most,
        }
    }

    pub(super) fn layout(&self) -> MemoryLayout {
        self.layout
    }

    /// Some packets need a large frame: a trailer follows their datagram.
    pub(super) fn lengthen(&self, index: usize, link: LinkType, bytes: &mut Vec<u8>) {
        let is_long = mix(index as u64, 0x9105).is_multiple_of(3);
        if is_long && link == LinkType::Ethernet && self.layout.small_bytes == SHORT_FRAMES {
            bytes.resize(bytes.len().max(SHORT_FRAMES as usize), 0);
        }
    }

    pub(super) fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// Packets that wait at the port.
    pub(super) fn at_port(&self) -> usize {
        self.port.len()
    }

    /// A runtime's thread starts; the switch's pool gives it a share.
    pub(super) fn start(&mut self, no: ProcessNo, pool: &mut FramePool) -> FramePool {
        let is_process = mix(no as u64, 0x9104) % 4 < self.processes;
        let thread = Thread {
            data: Ring::new(self.places.0),
            entries: Ring::new(self.places.0),
            done: 0,
            input: Vec::new(),
            heard: Vec::new(),
            outgoing: VecDeque::new(),
            partial: Vec::new(),
            called: false,
            left: None,
            supply: is_process.then(Supply::new),
            doom: None,
            unsaid: Vec::new(),
        };
        self.runtimes.insert(no, thread);
        match is_process {
            // All frames come to it over a queue.
            true => pool.share(0, 0),
            false => pool.share(self.share, LARGE_SHARE),
        }
    }

    /// True where a runtime is a process of its own: no queue leads from it to another one.
    fn is_process(&self, no: ProcessNo) -> bool {
        let thread = self.runtimes.get(&no);
        thread.is_some_and(|thread| thread.supply.is_some())
    }

    /// Frames that nobody has who could give them back.
    pub(super) fn missing<'a>(&'a self, living: impl Iterator<Item = &'a FramePool>) -> usize {
        let pools: Vec<&FramePool> = living.collect();
        let reserve = pools.first().map_or(0, |pool| {
            pool.memory().in_reserve() + pool.memory().large_in_reserve()
        });
        let supplies = self.runtimes.values().filter_map(|t| t.supply.as_ref());
        let free: usize = supplies.map(Supply::frames).sum();
        FramePool::outstanding_of(pools).saturating_sub(reserve + free)
    }

    /// Processes that find free frames in their queue.
    fn supplied(&self) -> Vec<ProcessNo> {
        let finds = |thread: &Thread| thread.supply.as_ref().is_some_and(Supply::brings);
        let all = self.runtimes.iter().filter(|(_, thread)| finds(thread));
        all.map(|(no, _)| *no).collect()
    }

    /// Puts a message into the queue from one to the other.
    fn word(&mut self, from: ProcessNo, to: ProcessNo, word: Word) {
        let places = self.places.1;
        let ring = self.words.entry((from, to));
        ring.or_insert_with(|| Ring::new(places)).push(word);
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
        let switch = self.switch;
        for (to, message) in core::mem::take(&mut thread.outgoing) {
            let Some(number) = of(to) else {
                continue;
            };
            let word = Word {
                from: no,
                to,
                message,
            };
            let is_relayed = self.is_process(no) || self.is_process(number);
            let queue = if is_relayed { switch } else { number };
            self.word(no, queue, word);
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
            pool.give_all(&mut thread.unsaid);
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
    fn join(&mut self, no: ProcessNo, pool: &mut FramePool, keeps: bool) {
        if let Some(thread) = self.runtimes.get_mut(&no) {
            if let Some(left) = thread.left.take() {
                pool.join(left);
            }
            if let Some(mut supply) = thread.supply.take() {
                supply.take_back(pool);
            }
            let data = &mut thread.data;
            data.take(usize::MAX).for_each(|frame| pool.give(frame));
            data.take_waiting().for_each(|frame| pool.give(frame));
            thread
                .entries
                .take(usize::MAX)
                .for_each(|frame| pool.give(frame));
            if keeps {
                // A planted bug.
                thread.partial.drain(..).for_each(drop);
            }
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
