//! The answers of runtimes to a switch that starts again, piece by piece.

use std::collections::BTreeMap;

use super::runtimes::Slot;
use crate::message::{CLAIMS, Claim};

/// An answer may have this many pieces, however few units there is room for.
const LEAST_BOUND: u32 = 65_536;

/// A runtime whose answer brings nothing new is asked this many times; then it
/// is suspected, so that nobody's silence, or wrong number of pieces, holds
/// packets for ever.
const PATIENCE: u32 = 24;

/// Doublings of the time between two questions that bring nothing new.
const DOUBLINGS: u32 = 6;

/// The result for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// More is to come.
    Piece,
    /// The answer is complete.
    Answer,
    /// No answer has such a piece.
    Impossible,
}

/// One runtime's answer as far as it is here. Memory is taken for what came,
/// not for what was announced.
#[derive(Debug)]
struct Answer {
    from: Slot,
    /// Pieces of the whole answer; 0 before the first has come.
    total: u32,
    pieces: BTreeMap<u32, Vec<Claim>>,
    /// The first piece that is missing.
    missing: u32,
    /// Most pieces that were ever here at once: with another total the answer
    /// begins anew, and that is no progress.
    most: usize,
    /// How often it was asked for since there was progress.
    asked: u32,
    /// Times that it was looked at whether to ask, since it was asked.
    looked: u32,
    /// A new piece has come since it was last looked at.
    goes_on: bool,
    /// The first piece that was not asked for.
    asked_to: u32,
}

impl Answer {
    fn is_complete(&self) -> bool {
        self.total != 0 && self.pieces.len() == self.total as usize
    }

    /// It is asked for what is missing: the first piece of that.
    fn asked_for(&mut self, most: u32) -> u32 {
        self.asked += 1;
        self.looked = 0;
        self.asked_to = self.missing.saturating_add(most);
        self.missing
    }
}

/// The answers of all who were asked.
#[derive(Debug)]
pub(super) struct Answers {
    of: Vec<Answer>,
    /// Most pieces that an answer may have.
    bound: u32,
    /// Pieces that are asked for at a time.
    most: u32,
}

impl Answers {
    /// For a switch with room for `units` units, which asks for `most` pieces at a time.
    pub(super) fn new(units: usize, most: u32) -> Answers {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Answers {
            of: Vec::new(),
            bound: units.max(LEAST_BOUND),
            most: most.max(1),
        }
    }

    /// One more runtime is asked.
    pub(super) fn expect(&mut self, from: Slot) {
        self.of.push(Answer {
            from,
            total: 0,
            pieces: BTreeMap::new(),
            missing: 0,
            most: 0,
            asked: 0,
            looked: 0,
            goes_on: false,
            asked_to: 0,
        });
    }

    /// True where the answer of `from` is not complete.
    pub(super) fn waits_for(&self, from: Slot) -> bool {
        let mut all = self.of.iter();
        all.any(|answer| answer.from == from && !answer.is_complete())
    }

    /// True where no answer is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.of.iter().all(Answer::is_complete)
    }

    /// Runtimes to ask now, each with its first missing piece; and those that were asked too
    /// often. To be called in even intervals: who brings nothing new is asked ever less often, since
    /// it may be busy with the answer.
    pub(super) fn ask(&mut self) -> (Vec<(Slot, u32)>, Vec<Slot>) {
        let (mut asked, mut given_up) = (Vec::new(), Vec::new());
        for answer in self.of.iter_mut().filter(|answer| !answer.is_complete()) {
            if core::mem::take(&mut answer.goes_on) {
                // The rest is on its way.
                continue;
            }
            answer.looked += 1;
            let every = match answer.asked {
                0 => 1,
                asked => 1 << (asked - 1).min(DOUBLINGS),
            };
            if answer.looked < every {
                continue;
            }
            match answer.asked >= PATIENCE {
                true => given_up.push(answer.from),
                false => asked.push((answer.from, answer.asked_for(self.most))),
            }
        }
        (asked, given_up)
    }

    /// The next piece of this runtime's answer, where all that it was asked for have come.
    pub(super) fn ask_on(&mut self, from: Slot) -> Option<u32> {
        let mut all = self.of.iter_mut();
        let answer = all.find(|answer| answer.from == from && !answer.is_complete())?;
        (answer.missing >= answer.asked_to).then(|| answer.asked_for(self.most))
    }

    /// A piece has come from a runtime that is waited for. Said again, it takes
    /// the place of what was said before.
    pub(super) fn take(
        &mut self,
        from: Slot,
        (piece, pieces): (u32, u32),
        claims: Vec<Claim>,
    ) -> Taken {
        let answer = self.of.iter_mut().find(|answer| answer.from == from);
        let Some(answer) = answer else {
            return Taken::Impossible;
        };
        if piece >= pieces || pieces > self.bound || claims.len() > CLAIMS {
            return Taken::Impossible;
        }
        if answer.total != pieces {
            answer.total = pieces;
            answer.pieces.clear();
            answer.missing = 0;
        }
        answer.pieces.insert(piece, claims);
        while answer.pieces.contains_key(&answer.missing) {
            answer.missing += 1;
        }
        if answer.pieces.len() > answer.most {
            answer.most = answer.pieces.len();
            (answer.asked, answer.looked) = (answer.asked.min(1), 0);
            answer.goes_on = true;
        }
        match answer.is_complete() {
            true => Taken::Answer,
            false => Taken::Piece,
        }
    }

    /// The runtime is gone, and its answer with it.
    pub(super) fn drop_of(&mut self, from: Slot) {
        self.of.retain(|answer| answer.from != from);
    }

    /// All claims, and who made each.
    pub(super) fn into_claims(self) -> impl Iterator<Item = (Slot, Claim)> {
        self.of.into_iter().flat_map(|answer| {
            let claims = answer.pieces.into_values().flatten();
            claims.map(move |claim| (answer.from, claim))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Clock, UnitId, View};

    fn claim(unit: u64) -> Claim {
        Claim {
            unit: UnitId(unit),
            view: View(1),
            owner: true,
            clock: Clock(1),
            state: true,
            key: None,
            flows: Vec::new(),
            aliases: Vec::new(),
        }
    }

    const PIECES: u32 = 64;

    fn waiting() -> Answers {
        let mut answers = Answers::new(100, PIECES);
        answers.expect(1);
        answers.expect(2);
        answers
    }

    #[test]
    fn an_answer_is_complete_with_its_last_missing_piece() {
        let mut answers = waiting();
        assert_eq!(answers.ask().0, [(1, 0), (2, 0)]);
        assert_eq!(answers.take(1, (2, 3), vec![claim(3)]), Taken::Piece);
        // More may be on its way.
        assert_eq!(answers.ask().0, [(2, 0)]);
        assert_eq!(answers.ask().0, [(1, 0)]);
        assert_eq!(answers.take(1, (0, 3), vec![claim(1)]), Taken::Piece);
        assert_eq!(answers.take(1, (0, 3), vec![claim(1)]), Taken::Piece);
        // The other one is asked less often by now.
        assert_eq!(answers.ask().0, [(2, 0)]);
        assert_eq!(answers.ask().0, [(1, 1)]);
        assert_eq!(answers.take(1, (1, 3), vec![claim(2)]), Taken::Answer);
        assert!(!answers.waits_for(1) && answers.waits_for(2));
        assert_eq!(answers.take(2, (0, 1), Vec::new()), Taken::Answer);
        assert!(answers.is_complete());
        let claims: Vec<(Slot, u64)> = answers.into_claims().map(|(s, c)| (s, c.unit.0)).collect();
        assert_eq!(claims, [(1, 1), (1, 2), (1, 3)]);
    }

    #[test]
    fn numbers_that_no_piece_has_are_refused() {
        let mut answers = waiting();
        let many = vec![claim(1); CLAIMS + 1];
        for (piece, claims) in [
            ((0, 0), Vec::new()),
            ((3, 3), Vec::new()),
            ((0, u32::MAX), Vec::new()),
            ((0, 1), many),
        ] {
            assert_eq!(answers.take(1, piece, claims), Taken::Impossible);
        }
        assert_eq!(answers.take(1, (0, LEAST_BOUND), Vec::new()), Taken::Piece);
    }

    #[test]
    fn who_has_said_what_it_was_asked_for_is_asked_on() {
        let mut answers = waiting();
        assert_eq!(answers.ask().0, [(1, 0), (2, 0)]);
        let pieces = 2 * PIECES + 1;
        for piece in 0..pieces {
            let taken = answers.take(1, (piece, pieces), vec![claim(1)]);
            let next = match piece + 1 {
                next if next == pieces => {
                    assert_eq!(taken, Taken::Answer);
                    None
                }
                next => (next % PIECES == 0).then_some(next),
            };
            assert_eq!(answers.ask_on(1), next, "{piece}");
        }
        assert_eq!(answers.ask_on(2), None);
    }

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        let mut answers = waiting();
        assert_eq!(answers.take(2, (0, 1), Vec::new()), Taken::Answer);
        let (mut asked, mut looked) = (0, 0);
        loop {
            // Each time another total: no more than one piece is ever here.
            let _ = answers.take(1, (0, 2 + asked % 2), vec![claim(1)]);
            let (again, given_up) = answers.ask();
            if !given_up.is_empty() {
                assert_eq!(given_up, [1]);
                break;
            }
            asked += again.len() as u32;
            looked += 1;
            assert!(asked <= PATIENCE);
        }
        // Each pause is as long as the two before, up to a bound.
        assert_eq!(asked, PATIENCE);
        assert!(looked > 16 * PATIENCE && looked < PATIENCE << DOUBLINGS);
        answers.drop_of(1);
        assert!(answers.is_complete());
    }
}
