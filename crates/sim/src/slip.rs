//! Planted bugs between processes: a process says something else than it should.
//!
//! [`weir_protocol::plant`] leaves parts of the protocol out; a slip changes,
//! drops or adds a message, as a bug in the code that makes it would. Each has to
//! be found ([`crate::plants`]).

use weir_packet::{Disposition, FrameMeta, frame_flags};
use weir_protocol::message::{Message, Origin, StateUpdate};
use weir_protocol::{Clock, Peer, View};

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
    /// `Closed` names one clock more.
    ClosedLate = "closed-late",
    /// `Closed` names one clock less.
    ClosedEarly = "closed-early",
    /// `Open` of a planned view names one clock less as its base.
    OpenBaseEarly = "open-base-early",
    /// `Open` of a resumed view says that everything was let out.
    OpenOutAhead = "open-out-ahead",
    /// `Open` names no replica.
    OpenWithoutReplica = "open-without-replica",
    /// A target says `Held` as soon as it hears of its view.
    HeldEarly = "held-early",
    /// A state travels with a clock that is one too high.
    StateClockAhead = "state-clock-ahead",
    /// A state travels without the outputs that were not let out.
    StateWithoutOutputs = "state-without-outputs",
    /// A source says that it has no state.
    StateMissing = "state-missing",
    /// What the packets of a batch did to the state is not sent to the replica.
    UpdateMissing = "update-missing",
    /// A replica is sent the state of the batch before.
    UpdateStale = "update-stale",
    /// The owner sends entries to its replica and to the switch at once.
    EntriesPastReplica = "entries-past-replica",
    /// Entries say the clock of the one before.
    EntryClockLow = "entry-clock-low",
    /// The ends of flows are missing in entries.
    NotesWithoutEnds = "notes-without-ends",
    /// All notes are missing in entries.
    NotesMissing = "notes-missing",
    /// Packets that functions made are missing in entries.
    EmittedMissing = "emitted-missing",
    /// Replicas claim nothing after a switch restart.
    ClaimsOfOwnersOnly = "claims-of-owners-only",
    /// Claims name no aliases.
    ClaimsWithoutAliases = "claims-without-aliases",
    /// Claims name a clock that is one too low.
    ClaimsClockLow = "claims-clock-low",
    /// Claims name a clock that is one too high.
    ClaimsClockHigh = "claims-clock-high",
    /// Only the first half of the claims of a piece is sent.
    ClaimsHalf = "claims-half",
    /// One copy in three of a reprocessing is skipped, and the next one hides it.
    CopySkipped = "copy-skipped",
    /// The end of a reprocessing does not carry what the engine keeps of flows.
    CopiedUntouched = "copied-untouched",
    /// Ticks are never asked for.
    TickNever = "tick-never",
    /// The end of a unit is never asked for.
    EndNever = "end-never",
    /// A block of ports is granted to its holder and to another runtime.
    GrantTwice = "grant-twice",
    /// Ports that are free again are never given back.
    PortNeverFreed = "port-never-freed",
    /// A view that can't be taken over is not refused.
    RefusalLost = "refusal-lost",
    /// A packet that is sent again carries another time.
    RepeatTimeChanged = "repeat-time-changed",
    /// A packet that is sent again has lost its last byte.
    RepeatCut = "repeat-cut",
    /// A packet that is sent again is said to be a unit's first.
    RepeatFresh = "repeat-fresh",
    /// One tick in two carries a time ten seconds ahead.
    TickAhead = "tick-ahead",
    /// A move that is asked for leads to the runtime after the one that was meant.
    MoveAstray = "move-astray",
}

/// What else is said with a message.
pub(crate) enum Aside {
    /// Nothing; the message goes on.
    None,
    /// The message is not sent.
    Drop,
    /// Another message goes to a peer as well, from the same process.
    Also(Peer, Message),
}

impl Slip {
    /// Changes a message between processes. `number` tells messages apart;
    /// `switch` is the current one.
    pub(crate) fn slip(
        self,
        number: u64,
        (from, to): (Peer, Peer),
        switch: Option<Peer>,
        message: &mut Message,
    ) -> Aside {
        match message {
            Message::Out { .. } | Message::Forget { .. } | Message::Closed { .. } => {
                self.slip_word(message)
            }
            Message::Open(open) => {
                match (self, open.origin) {
                    (Slip::OpenBaseEarly, Origin::Planned { .. }) => {
                        open.base = Clock(open.base.0.saturating_sub(1));
                    }
                    (Slip::OpenOutAhead, Origin::Resumed { .. }) => open.out = Clock(u64::MAX >> 30),
                    (Slip::OpenWithoutReplica, _) => open.replica = None,
                    _ => {}
                }
                Aside::None
            }
            Message::Pull { unit, new, .. } if self == Slip::HeldEarly => match switch {
                Some(switch) => Aside::Also(
                    switch,
                    Message::Held {
                        unit: *unit,
                        view: *new,
                    },
                ),
                None => Aside::None,
            },
            Message::State { .. } | Message::Copy { .. } | Message::Copied { .. } => {
                self.slip_state(number, message)
            }
            Message::Entries(_) => self.slip_entries((from, to), switch, message),
            Message::Claims { .. } => self.slip_claims(message),
            Message::Tick { .. } => self.never(Slip::TickNever),
            Message::End { .. } => self.never(Slip::EndNever),
            Message::PortFreed { .. } => self.never(Slip::PortNeverFreed),
            Message::Refuse { .. } => self.never(Slip::RefusalLost),
            Message::LeaseGranted { .. } if self == Slip::GrantTwice => match to {
                Peer::Runtime(id) => {
                    let other = weir_protocol::RuntimeId(id.0 % 4 + 1);
                    Aside::Also(Peer::Runtime(other), message.clone())
                }
                _ => Aside::None,
            },
            Message::Move { to, .. } if self == Slip::MoveAstray => {
                to.0 += 1;
                Aside::None
            }
            _ => Aside::None,
        }
    }

    fn never(self, which: Slip) -> Aside {
        if self == which { Aside::Drop } else { Aside::None }
    }

    fn slip_word(self, message: &mut Message) -> Aside {
        match (self, message) {
            (Slip::OutTooFar, Message::Out { out, .. }) => out.0 += 1,
            (Slip::OutNever, Message::Out { .. }) => return Aside::Drop,
            (Slip::ForgetTooMuch, Message::Forget { below, ended, .. }) if !*ended => {
                *below = View(below.0 + 1);
            }
            (Slip::ForgetNever, Message::Forget { ended: false, .. })
            | (Slip::EndNeverTold, Message::Forget { ended: true, .. }) => return Aside::Drop,
            (Slip::ClosedLate, Message::Closed { at, .. }) => at.0 += 1,
            (Slip::ClosedEarly, Message::Closed { at, .. }) => at.0 = at.0.saturating_sub(1),
            _ => {}
        }
        Aside::None
    }

    fn slip_state(self, number: u64, message: &mut Message) -> Aside {
        match (self, message) {
            (Slip::StateClockAhead, Message::State { image, new, .. }) if *new != View::NONE => {
                image.clock.0 += 1;
            }
            (Slip::StateWithoutOutputs, Message::State { image, .. }) => image.outputs.clear(),
            (Slip::StateMissing, Message::State { image, new, .. }) if *new != View::NONE => {
                image.state = None;
            }
            (Slip::CopySkipped, Message::Copy { after, clock, .. }) => {
                if mix(clock.0, 3).is_multiple_of(3) {
                    return Aside::Drop;
                }
                // Whatever came before it counts as applied.
                let _ = number;
                after.0 = clock.0 - 1;
            }
            (Slip::CopiedUntouched, Message::Copied { touched, .. }) => touched.clear(),
            _ => {}
        }
        Aside::None
    }

    fn slip_entries(
        self,
        (from, to): (Peer, Peer),
        switch: Option<Peer>,
        message: &mut Message,
    ) -> Aside {
        let to_replica = matches!((from, to), (Peer::Runtime(_), Peer::Runtime(_)));
        if self == Slip::EntriesPastReplica
            && to_replica
            && let Some(switch) = switch
        {
            return Aside::Also(switch, message.clone());
        }
        let Message::Entries(batches) = message else {
            return Aside::None;
        };
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
                Slip::NotesMissing | Slip::NotesWithoutEnds | Slip::EmittedMissing => {
                    for entry in &mut batch.entries {
                        entry.parts.retain(|part| !self.leaves_out(part));
                    }
                }
                _ => {}
            }
        }
        Aside::None
    }

    fn leaves_out(self, part: &weir_protocol::message::Part) -> bool {
        use weir_runtime::notes::{Note, read};
        let ends = |bytes: &[u8]| {
            let mut notes = read(bytes);
            notes.any(|note| matches!(note, Ok(Note::FlowEnded { .. })))
        };
        match (self, part.disposition) {
            (Slip::NotesMissing, Disposition::Notes) => true,
            (Slip::NotesWithoutEnds, Disposition::Notes) => ends(&part.bytes),
            (Slip::EmittedMissing, Disposition::Emitted) => true,
            _ => false,
        }
    }

    fn slip_claims(self, message: &mut Message) -> Aside {
        let Message::Claims { claims, .. } = message else {
            return Aside::None;
        };
        match self {
            Slip::ClaimsOfOwnersOnly => claims.retain(|claim| claim.owner),
            Slip::ClaimsWithoutAliases => claims.iter_mut().for_each(|c| c.aliases.clear()),
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

    /// Changes what a data frame says; the bytes that are cut off it.
    pub(crate) fn slip_frame(self, meta: &mut FrameMeta) -> usize {
        let again = meta.flags & frame_flags::REPEATED != 0;
        let tick = meta.flags & frame_flags::TICK != 0;
        match self {
            Slip::RepeatTimeChanged if again && !tick => meta.time.0 += 1_000,
            Slip::RepeatFresh if again => meta.flags |= frame_flags::FRESH,
            Slip::RepeatCut if again && !tick => return 1,
            Slip::TickAhead if tick && meta.clock.is_multiple_of(2) => {
                meta.time.0 += 10_000_000_000;
            }
            _ => {}
        }
        0
    }
}
