//! Requests from outside have an answer: they are carried out, refused by name,
//! or overtaken.

use weir_protocol::{RuntimeId, UnitId, View};

use super::show::{show_unit, show_view};
use super::{Checker, Invariant};

impl Checker {
    /// The switch has taken on a move of a unit.
    pub(crate) fn move_asked(&mut self, id: UnitId, to: RuntimeId) {
        if let Some(unit) = self.units.get(&id) {
            self.moves.insert(id, (to, unit.current.view));
        }
    }

    /// Units that a move from `from` (anyone: `None`) to `to` may be of, at most: whose a unit is
    /// that a restarted switch has not opened yet is not known.
    pub(crate) fn movable(&self, from: Option<RuntimeId>, to: RuntimeId) -> u32 {
        let units = self.units.values();
        let fits = units.filter(|unit| {
            let owner = unit.current.owner;
            let may_be = owner != to && from.is_none_or(|from| from == owner);
            !unit.ended && (unit.awaits_view() || may_be)
        });
        fits.count() as u32
    }

    /// A move of units that may be any of `from`'s, or of all: what was asked of those before is
    /// overtaken.
    pub(crate) fn overtakes_moves(&mut self, from: Option<RuntimeId>, to: RuntimeId) {
        let units = &self.units;
        self.moves.retain(|id, _| {
            let owner = units.get(id).map(|unit| unit.current.owner);
            owner.is_none_or(|owner| owner == to || from.is_some_and(|from| from != owner))
        });
    }

    /// View and last number of a unit that lives.
    pub(crate) fn sent_of(&self, id: UnitId) -> Option<(View, u64)> {
        let unit = self.units.get(&id)?;
        unit.is_live().then_some((unit.current.view, unit.sent))
    }

    /// The switch took on the end of a flow of a unit whose view and last number were
    /// `before`: by now a tick that says so is numbered. A view that opens for it
    /// after a restart begins at another number.
    pub(crate) fn end_taken_on(&mut self, id: UnitId, before: (View, u64)) {
        if self.sent_of(id) == Some(before) {
            let text = "a flow's end was taken on, and no tick is numbered".to_owned();
            self.violated(Invariant::Stuck, Some(id), text);
        }
    }

    /// A drain is taken back. Moves to the runtime that were asked for before it was drained may
    /// have come to nothing meanwhile.
    pub(crate) fn was_kept(&mut self, runtime: RuntimeId) {
        self.moves.retain(|_, (to, _)| *to != runtime);
    }

    /// A move that nothing became of; `takes_units` says where one may go.
    pub(crate) fn unanswered(
        &self,
        takes_units: impl Fn(RuntimeId) -> bool,
    ) -> Option<(UnitId, String)> {
        let mut moves = self.moves.iter();
        let open = moves.find(|(id, (to, before))| {
            let unit = self.units.get(id);
            unit.is_some_and(|unit| {
                unit.is_live()
                    && unit.current.view == *before
                    && unit.current.owner != *to
                    && takes_units(*to)
            })
        });
        open.map(|(id, (to, before))| {
            let (id, view) = (*id, show_view(*before));
            let unit = show_unit(id);
            let text = format!(
                "the move of {unit} to runtime {} has no answer: view {view} goes on",
                to.0
            );
            (id, text)
        })
    }
}
