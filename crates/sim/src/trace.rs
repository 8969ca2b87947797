//! The trace of a run, in lines that people read.

use weir_packet::frame_flags;
use weir_protocol::UnitId;
use weir_protocol::journal::Done;
use weir_protocol::message::{Message, Origin, StateUpdate};

use crate::check::{show_unit, show_view};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// About which unit; about all without it.
    pub unit: Option<UnitId>,
    /// The event.
    pub text: String,
}

/// The lines of a run, if they are kept.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    on: bool,
    now: u64,
    /// The chain that lines are about, where it is not the first.
    chain: usize,
    lines: Vec<Line>,
}

impl Trace {
    /// One that keeps its lines.
    pub fn kept() -> Trace {
        Trace {
            on: true,
            ..Trace::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
    }

    /// Lines are about this chain from now on.
    pub(crate) fn of_chain(&mut self, number: usize) {
        self.chain = number;
    }

    pub(crate) fn say(&mut self, unit: Option<UnitId>, text: impl FnOnce() -> String) {
        if self.on {
            let text = match self.chain {
                0 => text(),
                chain => format!("chain {chain}: {}", text()),
            };
            let at = self.now;
            self.lines.push(Line { at, unit, text });
        }
    }

    /// All lines, by time.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines about a unit and about all units.
    pub fn of(&self, unit: UnitId) -> impl Iterator<Item = &Line> {
        let about = move |line: &&Line| line.unit.is_none_or(|u| u == unit);
        self.lines.iter().filter(about)
    }

    pub(crate) fn done(&mut self, done: &Done) {
        if !self.on {
            return;
        }
        let (unit, text) = match *done {
            Done::Numbered { unit, view, clock } => (
                unit,
                format!("V numbers {} in view {}", clock.0, show_view(view)),
            ),
            Done::Opened {
                unit,
                view,
                base,
                owner,
                replica,
                from,
                holder,
            } => (
                unit,
                format!(
                    "V opens view {} after {}: owner r{}, replica {}, {from:?}{}",
                    show_view(view),
                    base.0,
                    owner.0,
                    replica.map_or_else(|| "none".to_owned(), |r| format!("r{}", r.0)),
                    holder.map_or_else(String::new, |r| format!(" from r{}", r.0)),
                ),
            ),
            Done::Settled { unit, view } => {
                (unit, format!("V: view {} is settled", show_view(view)))
            }
            Done::Alias { unit, key } => (unit, format!("V registers alias {key}")),
            Done::Taken { unit, of, key } => {
                (unit, format!("V takes {key} from {}", show_unit(of)))
            }
            Done::Yielded { unit, of, key } => {
                (unit, format!("V leaves {key} to {}", show_unit(of)))
            }
            Done::LetOut { unit, view, clock } => (
                unit,
                format!("V lets out {} of view {}", clock.0, show_view(view)),
            ),
            Done::OwnerLost { unit, first, last } => (
                unit,
                format!(
                    "V: all holders are gone, {} to {} are lost",
                    first.0, last.0
                ),
            ),
            Done::Ended { unit } => (unit, "V grants the end".to_owned()),
        };
        self.say(Some(unit), || format!("[{}] {text}", show_unit(unit)));
    }
}

/// Flags of a data frame.
pub(crate) fn flags(flags: u8) -> String {
    let names = [
        (frame_flags::NO_OUTPUT, "no output"),
        (frame_flags::FRESH, "fresh"),
        (frame_flags::LOST, "lost"),
        (frame_flags::TICK, "tick"),
        (frame_flags::AFTER_LOSS, "after loss"),
        (frame_flags::REPEATED, "again"),
        (frame_flags::TURNED, "turned"),
    ];
    let said: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| flags & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", said.join(", "))
    }
}

/// A message in words, with the unit that it is about.
pub(crate) fn describe(message: &Message) -> Vec<(Option<UnitId>, String)> {
    let one = |unit: &UnitId, text: String| vec![(Some(*unit), text)];
    match message {
        Message::Open(open) => {
            let origin = match open.origin {
                Origin::Nothing { after_loss: false } => "from nothing".to_owned(),
                Origin::Nothing { after_loss: true } => "from nothing, after a loss".to_owned(),
                Origin::Planned { source } => format!("state at r{}", source.0),
                Origin::Resumed { source } => format!("resumed at r{}", source.0),
            };
            let text = format!(
                "Open {} after {} (old {}, out {}, {origin})",
                show_view(open.view),
                open.base.0,
                show_view(open.old),
                open.out.0
            );
            one(&open.unit, text)
        }
        Message::Closed {
            unit,
            old,
            at,
            new,
            to,
            ..
        } => one(
            unit,
            format!(
                "Closed {} at {}, {} at r{}",
                show_view(*old),
                at.0,
                show_view(*new),
                to.0
            ),
        ),
        Message::Forget { unit, below, ended } => one(
            unit,
            format!(
                "Forget below {}{}",
                show_view(*below),
                if *ended { ", ended" } else { "" }
            ),
        ),
        Message::Out { unit, view, out } => {
            one(unit, format!("Out {} of view {}", out.0, show_view(*view)))
        }
        Message::Entries(batches) => batches
            .iter()
            .map(|batch| {
                let first = batch.entries.first().map_or(0, |e| e.clock.0);
                let state = match &batch.state {
                    StateUpdate::Omitted => "no state",
                    StateUpdate::Touched(_) => "state touched",
                    StateUpdate::Full(Some(_)) => "state",
                    StateUpdate::Full(None) => "state: none",
                    StateUpdate::Whole(Some(_)) => "state, all entries",
                    StateUpdate::Whole(None) => "state: none, all entries",
                    StateUpdate::Rest { .. } => "state, the last entries",
                    StateUpdate::Delta { .. } => "changes of the state",
                    StateUpdate::Apart { .. } => "state in turn, entries",
                };
                let text = format!(
                    "entries {first} to {} of view {} ({state})",
                    batch.clock.0,
                    show_view(batch.view)
                );
                (Some(batch.unit), text)
            })
            .collect(),
        Message::Prepare { unit, .. }
        | Message::Held { unit, .. }
        | Message::Move { unit, .. }
        | Message::End { unit, .. }
        | Message::Tick { unit, .. }
        | Message::Repeat { unit, .. }
        | Message::Refuse { unit, .. }
        | Message::Pull { unit, .. } => one(unit, format!("{message:?}")),
        Message::State {
            unit,
            old,
            new,
            image,
        } => one(
            unit,
            format!(
                "State of view {} at {} for view {}",
                show_view(*old),
                image.clock.0,
                show_view(*new)
            ),
        ),
        Message::SendAhead {
            unit, clock, to, ..
        } => one(unit, format!("SendAhead at {} to {to:?}", clock.0)),
        Message::Ahead { unit, view, image } => one(
            unit,
            format!(
                "Ahead: state of view {} at {}",
                show_view(*view),
                image.clock.0
            ),
        ),
        Message::Compare { unit, clock, .. } => one(unit, format!("Compare at {}", clock.0)),
        Message::Compared { unit, found, .. } => one(unit, format!("Compared: {found:?}")),
        Message::Copy { unit, clock, .. } => one(unit, format!("Copy of packet {}", clock.0)),
        Message::Copied { unit, clock, .. } => one(unit, format!("Copied at {}", clock.0)),
        other => {
            let text = format!("{other:?}");
            vec![(None, text.chars().take(120).collect())]
        }
    }
}
