//! Books: counts and gauges held against what the world saw, and what processes keep in two
//! places against each other.

use weir_protocol::actors::ActorCount;
use weir_protocol::message::Message;
use weir_protocol::switch::SwitchCount;
use weir_protocol::{Actors, UnitId, View};

use super::World;
use super::links::ProcessNo;
use super::process::{Body, Process};
use crate::check::Invariant;
use crate::fault::Fault;

/// Kinds of messages that runtimes count as they say them.
const SAID: [(&str, &[ActorCount]); 12] = [
    ("held", &[ActorCount::Held]),
    ("end", &[ActorCount::EndAsked]),
    ("tick", &[ActorCount::TickAsked]),
    ("repeat", &[ActorCount::RepeatAsked]),
    ("pull", &[ActorCount::PullSent, ActorCount::PullRepeated]),
    ("copy", &[ActorCount::CopySent]),
    ("early state", &[ActorCount::CopyingStarted]),
    ("state", &[ActorCount::StateSent]),
    ("outputs", &[ActorCount::OutputsAhead]),
    ("lease wanted", &[ActorCount::LeaseWanted]),
    ("lease granted", &[ActorCount::LeaseClaimed]),
    (
        "refuse",
        &[
            ActorCount::RefusedFull,
            ActorCount::RefusedLayout,
            ActorCount::RefusedCorrupt,
            ActorCount::RefusedNoState,
            ActorCount::RefusedTooLong,
            ActorCount::StateTooLong,
            ActorCount::LoggerLacks,
        ],
    ),
];

fn kind_of(message: &Message) -> Option<&'static str> {
    Some(match message {
        Message::Held { .. } => "held",
        Message::End { .. } => "end",
        Message::Tick { .. } => "tick",
        Message::Repeat { .. } => "repeat",
        Message::Pull { .. } => "pull",
        Message::Copy { .. } => "copy",
        Message::State {
            new: View::NONE, ..
        } => "early state",
        Message::State { .. } => "state",
        Message::Outputs { .. } => "outputs",
        Message::LeaseWanted { .. } => "lease wanted",
        Message::LeaseGranted { .. } => "lease granted",
        Message::PortFreed { .. } => "port freed",
        Message::Refuse { .. } => "refuse",
        _ => return None,
    })
}

impl World<'_> {
    /// A process says something.
    pub(super) fn note_word(&mut self, from: ProcessNo, message: &Message) {
        if let Some(kind) = kind_of(message) {
            *self.words.entry((from, kind)).or_default() += 1;
        }
    }

    /// What a process keeps in two places agrees, and its counts are what it did.
    pub(super) fn look_at_books(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get(no) else {
            return;
        };
        let wrong = match process.living.as_ref().map(|(body, _)| body) {
            Some(Body::Switch(switch)) => {
                let counts = || match self.switch == Some(no) {
                    true => self.wrong_count(),
                    false => None,
                };
                switch.audit().or_else(counts)
            }
            Some(Body::Runtime(actors)) => actors.audit().or_else(|| self.wrong_word(no)),
            None => None,
        };
        let wrong = wrong.or_else(|| process.streams.as_ref()?.audit());
        if let Some(text) = wrong {
            let text = format!("{}: {text}", process.name());
            self.checker.violated(Invariant::Books, None, text);
        }
    }

    /// The same for all.
    pub(super) fn look_at_all_books(&mut self) {
        for no in 0..self.processes.len() {
            self.look_at_books(no);
        }
    }

    /// A runtime's count of its messages that is not their number.
    fn wrong_word(&self, no: ProcessNo) -> Option<String> {
        let actors = self.processes.get(no)?.actors()?;
        SAID.iter().find_map(|(kind, counts)| {
            let counted: u64 = counts.iter().map(|count| actors.counts().get(*count)).sum();
            let said = self.words.get(&(no, *kind)).copied().unwrap_or(0);
            (counted != said).then(|| format!("{said} messages `{kind}`, {counted} are counted"))
        })
    }

    /// A count or gauge of the switch that is not what its journal says.
    fn wrong_count(&self) -> Option<String> {
        let no = self.switch?;
        let switch = self.processes.get(no)?.switch()?;
        let (ledger, tally, before) = (self.checker.ledger, self.checker.tally, self.before);
        let sum = |counts: &[SwitchCount]| -> u64 {
            let all = counts.iter().map(|count| switch.counts().get(*count));
            all.sum()
        };
        use SwitchCount as C;
        let granted = self.words.get(&(no, "lease granted")).copied();
        let freed = self.words.get(&(no, "port freed")).copied();
        let packets = tally.numbered - before.numbered;
        let resumed = sum(&[C::ReplicaChanged, C::ResumedAtOwner, C::ResumedAtReplica])
            - sum(&[C::HeirAwaited]);
        let first = sum(&[C::FirstOpened, C::FirstOpenedAgain, C::OpenedAfterLoss]);
        let planned = sum(&[C::PlannedPush, C::PlannedPull, C::PlannedReprocess]);
        let report = switch.report();
        let hand_overs = &report.hand_overs;
        let pairs = [
            ("ticks", sum(&[C::TickNumbered]), ledger.numbered - packets),
            ("views", first + planned + resumed, ledger.opened),
            ("planned views", planned, ledger.planned),
            ("failed moves", sum(&[C::MoveFailed]), ledger.failed),
            ("failed moves reported", hand_overs.failed, ledger.failed),
            ("moves timed", hand_overs.durations.count(), ledger.moved),
            (
                "settled",
                sum(&[C::SettledByEntry, C::SettledByHeld]),
                ledger.settled,
            ),
            (
                "let out",
                sum(&[C::LetOut, C::LetOutClosing]),
                ledger.let_out,
            ),
            ("let out closing", sum(&[C::LetOutClosing]), ledger.closing),
            ("lost units", sum(&[C::UnitLost]), ledger.lost),
            ("lost units reported", hand_overs.units_lost, ledger.lost),
            ("ends", sum(&[C::EndGranted]), ledger.ended),
            ("aliases", sum(&[C::AliasAdded]), ledger.aliases),
            ("names taken", sum(&[C::NameTaken]), ledger.taken),
            ("names yielded", sum(&[C::NameYielded]), ledger.yielded),
            ("bytes in", report.bytes_in, tally.bytes - before.bytes),
            ("turned", sum(&[C::Turned]), tally.turned - before.turned),
            (
                "blocks",
                sum(&[C::BlockGranted, C::BlockGrantedAgain, C::BlockSaidAgain]),
                granted.unwrap_or(0),
            ),
            ("ports freed", sum(&[C::PortFreed]), freed.unwrap_or(0)),
            ("units", report.units, switch.live_units().count() as u64),
        ];
        let wrong = pairs.iter().find(|(_, counted, right)| counted != right);
        wrong.map(|(what, counted, right)| format!("{what}: {counted} counted, {right} is right"))
    }

    /// What is left in books when all flows have ended.
    pub(super) fn left_in_books(&self) -> Option<String> {
        let switch = self.running_switch()?;
        let liaison = UnitId(switch.classifier().liaison());
        let switch = switch.left_over();
        // A forged word may be about a unit that never was.
        let is_forged = self.plan.faults.has(Fault::Forgery);
        let counts = |what: &str| !is_forged || what != Actors::NOT_PLAIN;
        let runtimes = self.processes.iter().filter_map(|process| {
            let left = process.actors()?.left_over(liaison);
            Some((process.name(), left))
        });
        let mut all = core::iter::once(("the switch".to_owned(), switch)).chain(runtimes);
        all.find_map(|(name, left)| {
            let mut left = left.iter().filter(|(what, _)| counts(what));
            let (what, number) = left.find(|(_, number)| *number > 0)?;
            Some(format!("{name} keeps {number} {what}"))
        })
    }

    /// Runtimes that are here and may own units, as the switch was told.
    pub(super) fn takes_units(process: &Process) -> bool {
        !process.suspected && !process.draining && !process.is_logger && process.runtime().is_some()
    }
}
