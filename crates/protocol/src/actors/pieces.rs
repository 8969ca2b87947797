//! Messages of bounded length.
//!
//! An owner keeps the outputs of a unit until the switch has let them out, and
//! sends them with the state to a replica or to the next owner. All of them may
//! be too long for one message ([`ActorSettings::longest`]). Then they go ahead
//! of the state, as [`Message::Outputs`], at most
//! [`ActorSettings::at_once`] bytes for each repetition. The receiver keeps them
//! ([`Staged`]); a piece that was lost comes again with the next cycle.
//!
//! [`ActorSettings::longest`]: crate::settings::ActorSettings::longest
//! [`ActorSettings::at_once`]: crate::settings::ActorSettings::at_once

use std::collections::BTreeMap;

use weir_packet::{Disposition, Frame, FramePool, Time};
use weir_runtime::notes::{self, Note};

use super::kept::Kept;
use super::{ActorCount, Actors, Place};
use crate::entry::to_part;
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Entry, Image, Message, Part};
use crate::plant::Plant;

/// Entries staged for a unit at most: a switch keeps no more packets than that
/// for all units together.
const MOST_STAGED: usize = 1 << 17;

/// Outputs that came ahead of their state.
#[derive(Debug)]
pub(crate) struct Staged {
    from: RuntimeId,
    view: View,
    entries: BTreeMap<Clock, Entry>,
    /// When they expire.
    pub(crate) until: Time,
}

impl Staged {
    /// The view that they were made in.
    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// The entries after `since`, then `last`; `None` where some of them are
    /// not here.
    fn join(&self, since: Clock, last: &[Entry], clock: Clock) -> Option<Vec<Entry>> {
        let end = last.first().map_or(clock.next(), |entry| entry.clock);
        let mut next = since.next();
        let mut joined = Vec::new();
        for (at, entry) in self.entries.range(next..) {
            if *at != next || *at >= end {
                break;
            }
            joined.push(entry.clone());
            next = next.next();
        }
        (next >= end).then(|| {
            joined.extend_from_slice(last);
            joined
        })
    }
}

/// The part of a unit's outputs that one repetition sends.
pub(crate) struct Portion {
    /// Pieces that go ahead, each short enough for a message.
    pub(crate) ahead: Vec<Vec<Entry>>,
    /// The last piece, which goes with the state; `None` where the rest has to
    /// wait for the next repetition.
    pub(crate) last: Option<Vec<Entry>>,
    /// The clock after which the next repetition goes on.
    pub(crate) cursor: Clock,
}

/// Cuts entries into pieces of at most `longest` bytes, or of one entry.
pub(crate) fn cut(entries: Vec<Entry>, longest: usize) -> Vec<Vec<Entry>> {
    let mut pieces: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let more = entry.wire_len();
        match pieces.last_mut() {
            Some(piece) if bytes + more <= longest => {
                piece.push(entry);
                bytes += more;
            }
            _ => {
                pieces.push(vec![entry]);
                bytes = more;
            }
        }
    }
    pieces
}

impl Kept {
    /// The outputs to send after `cursor`: at most `at_once` bytes in messages of
    /// `longest`.
    pub(crate) fn portion(&self, cursor: Clock, at_once: usize, longest: usize) -> Portion {
        let (entries, is_all) = self.after_clock(cursor, at_once);
        let cursor = match is_all {
            true => Clock::ZERO,
            false => entries.last().map_or(Clock::ZERO, |entry| entry.clock),
        };
        let mut ahead = cut(entries, longest);
        let last = is_all.then(|| ahead.pop().unwrap_or_default());
        Portion {
            ahead,
            last,
            cursor,
        }
    }
}

impl Actors {
    /// Outputs have come ahead of the state of `view`.
    pub(super) fn outputs(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        entries: Vec<Entry>,
    ) {
        if view.generation() < self.generation {
            return self.counts.add(ActorCount::EntriesFenced);
        }
        let is_wanted = match self.whereabouts(unit, view) {
            Place::Stored | Place::Unknown => self.claim(pool, unit, view),
            // The view that a waiting one follows.
            Place::Stale => self
                .cold
                .get(&unit)
                .and_then(|cold| cold.waiting)
                .is_some_and(|w| w.open.old == view && w.source == from),
            _ => false,
        };
        if !is_wanted {
            return self.counts.add(ActorCount::MessageStale);
        }
        let until = now.plus(self.patience());
        let cold = self.cold.entry(unit).or_default();
        match &cold.staged {
            Some(staged) if staged.view > view => {
                return self.counts.add(ActorCount::MessageStale);
            }
            Some(staged) if staged.view == view && staged.from == from => {}
            _ => {
                cold.staged = Some(Staged {
                    from,
                    view,
                    entries: BTreeMap::new(),
                    until,
                });
            }
        }
        if let Some(staged) = &mut cold.staged {
            staged.until = until;
            for entry in entries {
                if staged.entries.len() < MOST_STAGED {
                    staged.entries.insert(entry.clock, entry);
                }
            }
        }
        self.counts.add(ActorCount::OutputsStaged);
        self.arm(unit, until);
    }

    /// The entries after `since` up to `clock`, of which `last` are the last
    /// ones and the others came ahead; `None` where some are missing.
    pub(super) fn joined(
        &self,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        (since, clock): (Clock, Clock),
        last: &[Entry],
    ) -> Option<Vec<Entry>> {
        let first = last.first().map_or(clock.next(), |entry| entry.clock);
        if first <= since.next() || self.settings.plant == Some(Plant::OutputsSkipped) {
            return Some(last.to_vec());
        }
        let staged = self.cold.get(&unit)?.staged.as_ref()?;
        let fits = staged.from == from && staged.view == view;
        fits.then(|| staged.join(since, last, clock)).flatten()
    }

    /// Forgets what came ahead of a state that is here now.
    pub(super) fn unstage(&mut self, unit: UnitId) {
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.staged = None;
        }
    }

    /// Sends pieces of outputs ahead of their state.
    pub(super) fn send_ahead(
        &mut self,
        to: RuntimeId,
        (unit, view): (UnitId, View),
        pieces: Vec<Vec<Entry>>,
    ) {
        for entries in pieces {
            self.counts.add(ActorCount::OutputsAhead);
            let outputs = Message::Outputs {
                unit,
                view,
                entries,
            };
            self.tell_runtime(to, outputs);
        }
    }

    /// Sends the state that view `old` ended with to the owner of `new`, or a
    /// part of its outputs.
    pub(super) fn send_stored(&mut self, unit: UnitId, old: View, (new, to): (View, RuntimeId)) {
        let (at_once, longest, most) = (
            self.settings.at_once,
            self.settings.longest,
            self.settings.most,
        );
        let cold = self.cold.get_mut(&unit);
        let Some(stored) = cold.and_then(|cold| cold.stored.get_mut(&old)) else {
            return self.internal.note("a state is sent that is not stored");
        };
        let state = stored.state.as_ref();
        if state.is_some_and(|state| state.len() > most) {
            self.counts.add(ActorCount::StateTooLong);
            let why = crate::message::Refusal::TooLong;
            return self.tell_runtime(
                to,
                Message::Refuse {
                    unit,
                    view: new,
                    why,
                },
            );
        }
        let portion = stored.for_next_owner(at_once, longest);
        let image = portion.last.map(|outputs| Image {
            clock: stored.clock,
            state: stored.state.clone(),
            since: stored.kept.since(stored.clock),
            outputs,
        });
        self.send_ahead(to, (unit, old), portion.ahead);
        if let Some(image) = image {
            self.counts.add(ActorCount::StateSent);
            let state = Message::State {
                unit,
                old,
                new,
                image,
            };
            self.tell_runtime(to, state);
        }
    }

    /// Takes emitted packets out of an entry that is too long for a message, and says how
    /// many; the packet itself and its notes stay.
    pub(super) fn shorten(
        &mut self,
        pool: &mut FramePool,
        parts: &mut Vec<Part>,
        frames: &mut Vec<Frame>,
    ) {
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        if bytes <= self.settings.most {
            return;
        }
        let is_emitted = |part: &Part| part.disposition == Disposition::Emitted;
        let count = parts.iter().filter(|part| is_emitted(part)).count() as u32;
        let kept = core::mem::take(frames);
        let mut meta = None;
        for (part, frame) in parts.iter().zip(kept) {
            if is_emitted(part) {
                meta = Some(*pool.memory().meta(&frame));
                pool.give(frame);
            } else {
                frames.push(frame);
            }
        }
        let Some(mut meta) = meta else {
            return;
        };
        parts.retain(|part| !is_emitted(part));
        self.counts
            .add_many(ActorCount::EmittedTooLong, u64::from(count));
        let mut text = Vec::new();
        notes::write(&Note::EmitsLost { count }, &mut text);
        meta.disposition = Disposition::Notes;
        meta.wire_len = text.len() as u32;
        // An entry taken out freed one.
        if let Ok(frame) = pool.copy(&text, meta) {
            parts.insert(0, to_part(pool.memory(), &frame));
            frames.insert(0, frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(clock: u64, bytes: usize) -> Entry {
        let part = Part {
            disposition: Disposition::Out,
            time: Time(0),
            sequence: 0,
            flags: 0,
            side: weir_packet::Side::Inside,
            port: 0,
            link: weir_packet::LinkType::Ethernet,
            dlt: 0,
            wire_len: 0,
            path: 0,
            bytes: vec![0; bytes],
        };
        Entry {
            clock: Clock(clock),
            parts: vec![part],
        }
    }

    #[test]
    fn an_entry_is_as_long_as_its_form() {
        let entries = vec![entry(1, 10), entry(2, 0)];
        let length = |entries: &[Entry]| {
            let message = Message::Outputs {
                unit: UnitId(1),
                view: View(1),
                entries: entries.to_vec(),
            };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            bytes.len()
        };
        let sum: usize = entries.iter().map(Entry::wire_len).sum();
        assert_eq!(length(&entries), length(&[]) + sum);
    }

    #[test]
    fn portions_go_on_where_the_last_one_ended() {
        let entries: Vec<Entry> = (1..=10).map(|clock| entry(clock, 53)).collect();
        let kept = Kept::after(entries, Clock::ZERO);
        let first = kept.portion(Clock::ZERO, 600, 200);
        assert_eq!(
            first.ahead.iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 2, 2]
        );
        assert!(first.last.is_none());
        assert_eq!(first.cursor, Clock(6));
        let second = kept.portion(first.cursor, 600, 200);
        assert_eq!((second.ahead.len(), second.cursor), (1, Clock::ZERO));
        let last = second.last.unwrap();
        let staged = |pieces: &[&[Vec<Entry>]]| Staged {
            from: RuntimeId(1),
            view: View(1),
            entries: pieces
                .iter()
                .flat_map(|pieces| pieces.iter().flatten())
                .map(|entry| (entry.clock, entry.clone()))
                .collect(),
            until: Time(0),
        };
        let all = staged(&[&first.ahead, &second.ahead]);
        let joined = all.join(Clock::ZERO, &last, Clock(10)).unwrap();
        assert_eq!(joined, kept.to_vec());
        // A piece is missing.
        let some = staged(&[&first.ahead[..2], &second.ahead]);
        assert!(some.join(Clock::ZERO, &last, Clock(10)).is_none());
        assert!(some.join(Clock(6), &last, Clock(10)).is_some());
    }
}
