//! Planted bugs between processes: a process says something else than it should.
//!
//! [`weir_protocol::plant`] leaves parts of the protocol out; a slip changes,
//! drops or adds a message, as a bug in the code that makes it would, and costs
//! that code no line. Each has to be found ([`crate::plants`]).

use weir_packet::{Disposition, FrameMeta, frame_flags};
use weir_protocol::journal::Done;
use weir_protocol::message::{Message, Open, Origin, Part, StateUpdate};
use weir_protocol::{Clock, Peer, RuntimeId, View};
use weir_runtime::notes::{Note, read};

use crate::random::mix;

macro_rules! slips {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// One slip.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Slip { $($(#[$doc])+ $variant,)+ }

        impl Slip {
            /// All, in the order of the documentation.
            pub const ALL: &'static [Slip] = &[$(Slip::$variant,)+];

            /// Its name on a command line.
            pub const fn name(self) -> &'static str {
                match self { $(Slip::$variant => $name,)+ }
            }
        }
    };
}

slips! {
    /// `Out` names one clock more than was let out.
    OutTooFar = "out-too-far",
    /// `Out` is never sent.
    OutNever = "out-never",
    /// `Forget` names the view after the one that is settled.
    ForgetTooMuch = "forget-too-much",
    /// `Forget` of a unit that goes on is never sent.
    ForgetNever = "forget-never",
    /// `Forget` of a unit that has ended is never sent.
    EndNeverTold = "end-never-told",
    /// `Forgotten` is never sent.
    ForgottenNever = "forgotten-never",
    /// `Forgotten` is never waited for: the switch hears it before `Forget` arrives.
    ForgottenEarly = "forgotten-early",
    /// `Closed` is never sent.
    ClosedNever = "closed-never",
    /// `Closed` names one clock more.
    ClosedLate = "closed-late",
    /// `Closed` names one clock less.
    ClosedEarly = "closed-early",
    /// `Open` of a planned view is never sent.
    OpenNever = "open-never",
    /// `Open` of a planned view names one clock less as its base.
    OpenBaseEarly = "open-base-early",
    /// `Open` of a resumed view says that everything was let out.
    OpenOutAhead = "open-out-ahead",
    /// `Open` names no replica.
    OpenWithoutReplica = "open-without-replica",
    /// A target says `Held` as soon as it asks for its state.
    HeldEarly = "held-early",
    /// A target does not ask for its state.
    PullNever = "pull-never",
    /// A state travels with a clock that is one too high.
    StateClockAhead = "state-clock-ahead",
    /// A state travels without the outputs that were not let out.
    StateWithoutOutputs = "state-without-outputs",
    /// A source says that it has no state.
    StateMissing = "state-missing",
    /// Outputs that go ahead of their state are never sent.
    OutputsNever = "outputs-never",
    /// The changes that a batch made to the state are not sent to the replica.
    UpdateMissing = "update-missing",
    /// A replica is sent a state whose last byte is older.
    UpdateStale = "update-stale",
    /// Entries say the clock of the one before.
    EntryClockLow = "entry-clock-low",
    /// A byte of a packet differs in one entry of seven.
    EntryByte = "entry-byte",
    /// The ends of flows are missing in entries.
    NotesWithoutEnds = "notes-without-ends",
    /// Events are missing in entries.
    NotesWithoutEvents = "notes-without-events",
    /// All notes are missing in entries.
    NotesMissing = "notes-missing",
    /// Packets that functions made are missing in entries.
    EmittedMissing = "emitted-missing",
    /// Replicas claim nothing after a switch restart.
    ClaimsOfOwnersOnly = "claims-of-owners-only",
    /// Claims name no aliases.
    ClaimsWithoutAliases = "claims-without-aliases",
    /// Claims name no flows.
    ClaimsWithoutFlows = "claims-without-flows",
    /// Claims name a clock that is one too low.
    ClaimsClockLow = "claims-clock-low",
    /// Claims name a clock that is one too high.
    ClaimsClockHigh = "claims-clock-high",
    /// Only the first half of the claims of a piece is sent.
    ClaimsHalf = "claims-half",
    /// Nobody tells a restarted switch whom the one before it suspected.
    SuspectedUntold = "suspected-untold",
    /// An answer to a restarted switch never comes.
    ClaimsNever = "claims-never",
    /// One copy in three of a reprocessing does nothing.
    CopySkipped = "copy-skipped",
    /// The counters at the end of a reprocessing are older.
    CopiedStale = "copied-stale",
    /// Ticks are never asked for.
    TickNever = "tick-never",
    /// The end of a unit is never asked for.
    EndNever = "end-never",
    /// A block of ports is granted to its holder and to another runtime.
    GrantTwice = "grant-twice",
    /// Ports that are free are never given back.
    FreedNever = "freed-never",
    /// Ports that are in doubt all count as free.
    KnownFree = "known-free",
    /// A view that can't be taken over is not refused.
    RefusalLost = "refusal-lost",
    /// A repeated packet carries another time.
    RepeatTimeChanged = "repeat-time-changed",
    /// A repeated packet has lost its last byte.
    RepeatCut = "repeat-cut",
    /// The `Lost` frame of a lost packet is never sent.
    LostNever = "lost-never",
    /// A tick is asked for with each batch of entries, and carries a time ten
    /// seconds ahead.
    TickAhead = "tick-ahead",
    /// The switch is never told of a death.
    DeathUntold = "death-untold",
    /// Where there are several chains the first one's switch alone is told of a death.
    DeathToldToOne = "death-told-to-one",
    /// A runtime leaves as soon as it has no unit of the first chain.
    LeavesWithUnits = "leaves-with-units",
    /// A process keeps one data frame in a hundred of a unit's.
    FrameLeaked = "frame-leaked",
    /// A process keeps a copy of one data frame in ten of a unit's.
    FrameKept = "frame-kept",
    /// A runtime that drains keeps a copy of each data frame.
    LeavesWithFrames = "leaves-with-frames",
    /// An alias is registered under the name that another unit got just before.
    AliasTwice = "alias-twice",
    /// One packet in fifty is called lost when it is sent for the first time.
    LostFalsely = "lost-falsely",
    /// The switch watches no runtime.
    PeersUnwatched = "peers-unwatched",
    /// The switch's thread passes no message on from one runtime's process to another one.
    RelayLost = "relay-lost",
    /// A process gets free frames when it starts, and none later.
    SupplyEnds = "supply-ends",
    /// An entry that a death has cut keeps its frames.
    CutEntryKept = "cut-entry-kept",
    /// A stream gives one message in fifty out twice.
    MessageTwice = "message-twice",
    /// A data frame that travels says another length on the wire than the packet had.
    PacketMisread = "packet-misread",
    /// A frame of a stream that comes again is not acknowledged again.
    TwiceUnanswered = "twice-unanswered",
    /// One packet in fifty that is let out never leaves.
    OutLost = "out-lost",
    /// One packet in fifty that is let out leaves twice.
    OutTwice = "out-twice",
    /// Two packets that are let out together leave in the wrong order.
    OutSwapped = "out-swapped",
    /// Events that are let out never leave.
    EventsLost = "events-lost",
    /// Ports are never asked for.
    WantedNever = "wanted-never",
    /// A runtime asks for the end of a unit with each batch of entries.
    EndEarly = "end-early",
    /// A message travels that says something else than what was sent.
    MessageMisread = "message-misread",
    /// A data frame that was damaged is taken.
    DataDamageTaken = "data-damage-taken",
    /// A runtime's thread gives no free frames back.
    FramesHoarded = "frames-hoarded",
    /// The ports' thread takes in a batch more than there is room for.
    PortsTakeMore = "ports-take-more",
    /// A stream takes what was damaged.
    DamageTaken = "damage-taken",
}

/// A second message beside one that goes on.
pub(crate) enum Aside {
    /// Nothing; the message goes on.
    None,
    /// The message is not sent.
    Drop,
    /// Another message goes to a peer as well, from the same process.
    Also(Peer, Message),
    /// Another message goes to the switch as well.
    Ask(Message),
    /// The peer seems to answer at once, with this.
    Answer(Peer, Message),
}

impl Slip {
    /// Changes a message between processes.
    pub(crate) fn slip(self, (from, to): (Peer, Peer), message: &mut Message) -> Aside {
        match message {
            Message::Out { .. }
            | Message::Forget { .. }
            | Message::Forgotten { .. }
            | Message::Closed { .. } => self.slip_word(to, message),
            Message::Open(open) => self.slip_open(open),
            Message::Pull { unit, new, .. } => match self {
                Slip::HeldEarly => Aside::Ask(Message::Held {
                    unit: *unit,
                    view: *new,
                }),
                Slip::PullNever => Aside::Drop,
                _ => Aside::None,
            },
            Message::State { .. }
            | Message::Copy { .. }
            | Message::Copied { .. }
            | Message::Outputs { .. } => self.slip_state(message),
            Message::Entries(_) => self.slip_entries((from, to), message),
            Message::Claims { .. } => self.slip_claims(message),
            Message::Tick { .. } => self.never(Slip::TickNever),
            Message::End { .. } => self.never(Slip::EndNever),
            Message::Refuse { .. } => self.never(Slip::RefusalLost),
            Message::PortFreed { .. } => self.never(Slip::FreedNever),
            Message::PortsKnown { free, .. } if self == Slip::FreedNever => {
                free.clear();
                Aside::None
            }
            Message::PortsKnown { free, leased, .. } if self == Slip::KnownFree => {
                free.append(leased);
                Aside::None
            }
            Message::LeaseWanted { .. } => self.never(Slip::WantedNever),
            Message::LeaseGranted { .. } if self == Slip::GrantTwice => match to {
                Peer::Runtime(id) => {
                    let other = RuntimeId(id.0 % 4 + 1);
                    Aside::Also(Peer::Runtime(other), message.clone())
                }
                _ => Aside::None,
            },
            _ => Aside::None,
        }
    }

    fn slip_open(self, open: &mut Open) -> Aside {
        match (self, open.origin) {
            (Slip::OpenNever, Origin::Planned { .. }) => return Aside::Drop,
            (Slip::OpenBaseEarly, Origin::Planned { .. }) => {
                open.base = Clock(open.base.0.saturating_sub(1));
            }
            (Slip::OpenOutAhead, Origin::Resumed { .. }) => open.out = Clock(u64::MAX >> 30),
            (Slip::OpenWithoutReplica, _) => open.replica = None,
            _ => {}
        }
        Aside::None
    }

    fn never(self, which: Slip) -> Aside {
        if self == which {
            Aside::Drop
        } else {
            Aside::None
        }
    }

    fn slip_word(self, to: Peer, message: &mut Message) -> Aside {
        match (self, message) {
            (Slip::OutTooFar, Message::Out { out, .. }) => out.0 += 1,
            (Slip::OutNever, Message::Out { .. }) => return Aside::Drop,
            (Slip::ForgetTooMuch, Message::Forget { below, ended, .. }) if !*ended => {
                *below = View(below.0 + 1);
            }
            (Slip::ForgetNever, Message::Forget { ended: false, .. })
            | (Slip::EndNeverTold, Message::Forget { ended: true, .. }) => return Aside::Drop,
            (Slip::ForgottenNever, Message::Forgotten { .. })
            | (Slip::ClosedNever, Message::Closed { .. }) => return Aside::Drop,
            (Slip::ForgottenEarly, Message::Forget { unit, below, .. }) => {
                let (unit, below) = (*unit, *below);
                return Aside::Answer(to, Message::Forgotten { unit, below });
            }
            (Slip::ClosedLate, Message::Closed { at, .. }) => at.0 += 1,
            (Slip::ClosedEarly, Message::Closed { at, .. }) => at.0 = at.0.saturating_sub(1),
            _ => {}
        }
        Aside::None
    }

    fn slip_state(self, message: &mut Message) -> Aside {
        match (self, message) {
            (Slip::StateClockAhead, Message::State { image, new, .. }) if *new != View::NONE => {
                image.clock.0 += 1;
            }
            (Slip::StateWithoutOutputs, Message::State { image, .. }) => image.outputs.clear(),
            (Slip::OutputsNever, Message::Outputs { .. }) => return Aside::Drop,
            (Slip::StateMissing, Message::State { image, new, .. }) if *new != View::NONE => {
                image.state = None;
            }
            (Slip::CopySkipped, Message::Copy { clock, packet, .. })
                if mix(clock.0, 3).is_multiple_of(3) =>
            {
                packet.flags |= frame_flags::LOST;
                packet.bytes.clear();
            }
            (Slip::CopiedStale, Message::Copied { touched, .. }) => {
                if let Some(last) = touched.last_mut() {
                    *last ^= 1;
                }
            }
            _ => {}
        }
        Aside::None
    }

    fn slip_entries(self, (from, to): (Peer, Peer), message: &mut Message) -> Aside {
        let to_replica = matches!((from, to), (Peer::Runtime(_), Peer::Runtime(_)));
        let Message::Entries(batches) = message else {
            return Aside::None;
        };
        if let (Slip::EndEarly, true, Some(batch)) = (self, to_replica, batches.first())
            && let Some(last) = batch.entries.last()
        {
            let (unit, view, clock) = (batch.unit, batch.view, last.clock);
            return Aside::Ask(Message::End { unit, view, clock });
        }
        if let (Slip::TickAhead, true, Some(batch)) = (self, to_replica, batches.first()) {
            let (unit, view) = (batch.unit, batch.view);
            return Aside::Ask(Message::Tick { unit, view });
        }
        for batch in batches {
            match self {
                Slip::UpdateMissing if to_replica && !batch.entries.is_empty() => {
                    batch.state = StateUpdate::Touched(Vec::new());
                }
                Slip::UpdateStale if to_replica => {
                    if let StateUpdate::Full(Some(state)) = &mut batch.state
                        && let Some(last) = state.last_mut()
                    {
                        *last = last.wrapping_sub(1);
                    }
                }
                Slip::EntryClockLow => {
                    for entry in &mut batch.entries {
                        entry.clock.0 = entry.clock.0.saturating_sub(1);
                    }
                }
                Slip::EntryByte => {
                    let parts = batch.entries.iter_mut().filter(|e| e.clock.0 % 7 == 3);
                    for part in parts.filter_map(|entry| entry.parts.last_mut()) {
                        if let Some(last) = part.bytes.last_mut() {
                            *last ^= 1;
                        }
                    }
                }
                Slip::NotesMissing
                | Slip::NotesWithoutEnds
                | Slip::NotesWithoutEvents
                | Slip::EmittedMissing => {
                    for entry in &mut batch.entries {
                        entry.parts.retain(|part| !self.leaves_out(part));
                    }
                }
                _ => {}
            }
        }
        Aside::None
    }

    fn leaves_out(self, part: &Part) -> bool {
        let has = |which: fn(&Note<'_>) -> bool| {
            let mut notes = read(&part.bytes);
            notes.any(|note| note.is_ok_and(|note| which(&note)))
        };
        match (self, part.disposition) {
            (Slip::NotesMissing, Disposition::Notes) => true,
            (Slip::NotesWithoutEnds, Disposition::Notes) => {
                has(|note| matches!(note, Note::FlowEnded { .. }))
            }
            (Slip::NotesWithoutEvents, Disposition::Notes) => {
                has(|note| matches!(note, Note::Event(_)))
            }
            (Slip::EmittedMissing, Disposition::Emitted) => true,
            _ => false,
        }
    }

    fn slip_claims(self, message: &mut Message) -> Aside {
        let Message::Claims {
            claims, suspected, ..
        } = message
        else {
            return Aside::None;
        };
        match self {
            Slip::ClaimsOfOwnersOnly => claims.retain(|claim| claim.owner),
            Slip::ClaimsWithoutAliases => claims.iter_mut().for_each(|c| c.aliases.clear()),
            Slip::ClaimsWithoutFlows => claims.iter_mut().for_each(|c| c.flows.clear()),
            Slip::SuspectedUntold => suspected.clear(),
            Slip::ClaimsNever => return Aside::Drop,
            Slip::ClaimsClockLow => {
                let clocks = claims.iter_mut().map(|claim| &mut claim.clock.0);
                clocks.for_each(|clock| *clock = clock.saturating_sub(1));
            }
            Slip::ClaimsClockHigh => claims.iter_mut().for_each(|claim| claim.clock.0 += 1),
            Slip::ClaimsHalf => claims.truncate(claims.len() / 2),
            _ => {}
        }
        Aside::None
    }

    /// Changes what the switch says that it did.
    pub(crate) fn slip_journal(self, journal: &mut [Done]) {
        if self != Slip::AliasTwice {
            return;
        }
        let mut before = None;
        for done in journal {
            if let Done::Alias { unit, key } = done {
                match before {
                    Some((other, other_key)) if other != *unit => *key = other_key,
                    _ => before = Some((*unit, *key)),
                }
            }
        }
    }

    /// True where a process keeps a copy of a data frame that comes to it.
    pub(crate) const fn keeps_copy(self, clock: u64, drains: bool) -> bool {
        match self {
            Slip::FrameKept => clock.is_multiple_of(10),
            Slip::LeavesWithFrames => drains,
            _ => false,
        }
    }

    /// Changes what leaves the switch: packets, and lines of events.
    pub(crate) fn slip_out(self, out: &mut Vec<(FrameMeta, Vec<u8>)>, events: &mut Vec<u8>) {
        let is_one = |meta: &FrameMeta| mix(meta.unit, meta.clock).is_multiple_of(50);
        match self {
            Slip::OutLost => out.retain(|(meta, _)| !is_one(meta)),
            Slip::OutTwice => {
                let again = out.iter().find(|(meta, _)| is_one(meta)).cloned();
                out.extend(again);
            }
            Slip::OutSwapped => out.reverse(),
            Slip::EventsLost => events.clear(),
            _ => {}
        }
    }

    /// Changes what the switch says of a data frame; false where it does not leave.
    pub(crate) fn slip_frame(self, meta: &mut FrameMeta) -> bool {
        let again = meta.flags & frame_flags::REPEATED != 0;
        let tick = meta.flags & frame_flags::TICK != 0;
        match self {
            Slip::RepeatTimeChanged if again && !tick => meta.time.0 += 1_000,
            Slip::RepeatCut if again && !tick => meta.len = meta.len.saturating_sub(1),
            Slip::TickAhead if tick => {
                meta.time.0 += 10_000_000_000;
            }
            Slip::LostFalsely if !again && !tick && meta.clock.is_multiple_of(50) => {
                meta.flags |= frame_flags::LOST;
            }
            Slip::LostNever => return meta.flags & frame_flags::LOST == 0,
            _ => {}
        }
        true
    }
}
