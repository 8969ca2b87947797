//! Snapshots: a unit with all its flows and states as bytes, and back.
//!
//! A unit is what moves: a flow, or with wider scopes the coarsest scope key
//! with everything below it. The bytes carry, for each function of the stage,
//! its name and the version and sizes of its state; a snapshot is refused for
//! another layout, never for newer settings. A state of an older version goes
//! through the function's `upgrade`.

mod error;
pub(crate) mod format;
mod place;
mod write;

use std::collections::BTreeSet;

use weir_nf::host::{AliasRequest, FlowHead};
use weir_packet::FlowKey;

use crate::bytes::Reader;
use crate::follow::following;
use crate::runtime::Runtime;
pub use error::SnapshotError;
use format::{Parsed, TOUCH, TOUCH_2};

/// Flows (key, client is the key's second end) and aliases (with the key of
/// their flow).
type Names = (Vec<(FlowKey, bool)>, Vec<(FlowKey, AliasRequest)>);

impl Runtime {
    /// The unit of the flow under `key` as bytes: its flows, states, counters,
    /// side buffers and aliases. Nothing changes here. With wider scopes the
    /// unit's flows are found by a walk over all flows. For an engine that is
    /// alone.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NoFlow`].
    pub fn export(&self, key: &FlowKey) -> Result<Vec<u8>, SnapshotError> {
        let members = self.members(key).ok_or(SnapshotError::NoFlow)?;
        let mut out = Vec::new();
        self.write(0, &members, &mut out);
        Ok(out)
    }

    /// Makes a unit out of what [`Runtime::export`] gave, here or in another
    /// runtime with the same stage.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing has changed then.
    pub fn install(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let parsed = Parsed::of(bytes)?;
        self.check_stage(&parsed)?;
        if parsed.unit != 0 || self.follow.is_some() || !parsed.datagrams.is_empty() {
            return Err(SnapshotError::Layout("who names its unit".to_owned()));
        }
        if parsed.levels.len() == 1 && parsed.flows().len() != 1 {
            return Err(SnapshotError::Corrupt);
        }
        self.place_all(0, &parsed)
    }

    /// Forgets the unit of the flow under `key` without telling any function:
    /// it lives on elsewhere. False where there is none.
    pub fn forget(&mut self, key: &FlowKey) -> bool {
        match self.members(key) {
            Some(members) => {
                self.take_all_back(&members);
                true
            }
            None => false,
        }
    }

    fn take_all_back(&mut self, members: &[Vec<u32>]) {
        for (level, records) in members.iter().enumerate() {
            for &record in records {
                self.take_back(level, record);
            }
        }
    }

    /// Appends the unit's whole state to `out`.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NoFlow`]: the unit has no flow here.
    pub fn export_unit(&self, unit: u64, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let members = self.members_of(unit).ok_or(SnapshotError::NoFlow)?;
        self.write(unit, &members, out);
        Ok(())
    }

    /// Makes the unit out of what [`Runtime::export_unit`] gave. An earlier
    /// life in the unit's place is forgotten.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing else has changed then.
    pub fn install_unit(&mut self, unit: u64, bytes: &[u8]) -> Result<(), SnapshotError> {
        let parsed = Parsed::of(bytes)?;
        self.check_stage(&parsed)?;
        let Some(follow) = &self.follow else {
            return Err(SnapshotError::Layout("who names its unit".to_owned()));
        };
        if parsed.unit != unit || unit == 0 || !names_differ(&parsed) {
            return Err(SnapshotError::Corrupt);
        }
        let there = follow.units.at_place_of(unit).ok_or(SnapshotError::Full)?;
        if there.first != 0 && there.id == unit || there.id >> 32 > unit >> 32 {
            return Err(SnapshotError::Exists);
        }
        let there = there.id;
        self.forget_unit(there);
        if let Some(follow) = &mut self.follow {
            follow.units.begin(unit);
        }
        let placed = self.place_all(unit, &parsed);
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return placed;
        };
        if placed.is_err() {
            follow.units.forget(unit);
            return placed;
        }
        let first = follow.units.flows(unit).next();
        let root = first.and_then(|flow| table.root_of(0, flow));
        if let Some(known) = follow.units.get_mut(unit) {
            known.changed = 0;
            if let Some(root) = root
                && !table.scopes.is_empty()
            {
                known.root = root + 1;
            }
        }
        Ok(())
    }

    /// Forgets a unit without telling any function: it lives on elsewhere, or
    /// a tick has ended all of it. False where it is not here.
    pub fn forget_unit(&mut self, unit: u64) -> bool {
        let members = self.members_of(unit);
        if let Some(members) = &members {
            self.take_all_back(members);
        }
        if let Some(follow) = &mut self.follow {
            if let Some(known) = follow.units.get_mut(unit) {
                follow.datagrams.forget(known);
            }
            follow.units.forget(unit);
        }
        members.is_some()
    }

    /// Brings the bytes of [`Runtime::export_unit`] up to date with those of
    /// [`Runtime::export_touch`].
    ///
    /// # Errors
    ///
    /// One of them is damaged, or they are of different units.
    pub fn touch_snapshot(snapshot: &mut [u8], touch: &[u8]) -> Result<(), SnapshotError> {
        let parsed = Parsed::of(snapshot)?;
        let mut reader = Reader(touch);
        let records: usize = parsed.levels.iter().map(Vec::len).sum();
        if reader.u64()? != parsed.unit || reader.u32()? as usize != records {
            return Err(SnapshotError::Corrupt);
        }
        let places: Vec<(usize, u64)> = parsed.touches().collect();
        let (touches, counters) =
            checked_touches(reader, places.iter().map(|&(_, opened)| opened))?;
        let own = stats_places(snapshot, &parsed);
        let bytes: usize = own.iter().map(|place| place.len()).sum();
        if counters.is_some_and(|counters| counters.len() != bytes) {
            return Err(SnapshotError::Corrupt);
        }
        let mut counters = counters.unwrap_or(&[]);
        let size = parsed.touch;
        if touches.iter().any(|touch| touch.len() != size) {
            // The replica asks for the whole state then, and gets it in one version.
            return Err(SnapshotError::Corrupt);
        }
        for ((place, _), touch) in places.into_iter().zip(touches) {
            if let Some(old) = snapshot.get_mut(place..place + size) {
                old.copy_from_slice(touch);
            }
        }
        for place in own {
            if let Some((new, rest)) = counters.split_at_checked(place.len())
                && let Some(old) = snapshot.get_mut(place)
            {
                old.copy_from_slice(new);
                counters = rest;
            }
        }
        Ok(())
    }

    /// The unit's flows (key, client is the key's second end) and aliases
    /// (with the key of their flow), read from the bytes of
    /// [`Runtime::export_unit`].
    ///
    /// # Errors
    ///
    /// They are damaged, or of another stage.
    pub fn read_names(&self, snapshot: &[u8]) -> Result<Names, SnapshotError> {
        let parsed = Parsed::of(snapshot)?;
        self.check_stage(&parsed)?;
        let all = parsed.flows();
        let flows = all
            .iter()
            .map(|f| (f.head.key, f.head.bits & FlowHead::CLIENT_IS_B != 0))
            .collect();
        let mut aliases = Vec::new();
        let mut add = |flow: FlowKey, requests: &[AliasRequest]| {
            aliases.extend(requests.iter().rev().map(|&request| (flow, request)));
        };
        if let Some(scopes) = parsed.levels.iter().rev().nth(1) {
            for (number, scope) in scopes.iter().enumerate() {
                // An open alias is the unit's: any of its flows stands for it.
                let flow = all.iter().find(|flow| flow.parent as usize == number);
                if let Some(flow) = flow {
                    add(flow.head.key, &scope.aliases);
                }
            }
        }
        for flow in all {
            add(flow.head.key, &flow.aliases);
        }
        Ok((flows, aliases))
    }

    /// The key of the unit's coarsest scope, read from the bytes of
    /// [`Runtime::export_unit`]; `None` where a unit is one flow.
    ///
    /// # Errors
    ///
    /// They are damaged, or of another stage.
    pub fn read_scope_key(&self, snapshot: &[u8]) -> Result<Option<FlowKey>, SnapshotError> {
        let parsed = Parsed::of(snapshot)?;
        self.check_stage(&parsed)?;
        match parsed.levels.as_slice() {
            [coarsest, _, ..] => Ok(coarsest.first().map(|record| record.head.key)),
            _ => Ok(None),
        }
    }
}

/// The ranges of the open slots' counters in a snapshot, in order.
fn stats_places(snapshot: &[u8], parsed: &Parsed<'_>) -> Vec<core::ops::Range<usize>> {
    let start = snapshot.as_ptr() as usize;
    let slots = parsed
        .levels
        .iter()
        .flatten()
        .flat_map(|record| &record.slots);
    slots
        .filter_map(|slot| match slot {
            format::Slot::Open(bytes) => Some(bytes.stats),
            _ => None,
        })
        .map(|stats| {
            let at = (stats.as_ptr() as usize).wrapping_sub(start);
            at..at.wrapping_add(stats.len())
        })
        .collect()
}

/// The touches of a unit's records, and the counters behind them: `None` of a
/// version that wrote none.
type Touches<'a> = (Vec<&'a [u8]>, Option<&'a [u8]>);

/// The touches of records with these times of their first packets, each
/// checked; all of one version.
pub(crate) fn checked_touches(
    mut reader: Reader<'_>,
    records: impl ExactSizeIterator<Item = u64>,
) -> Result<Touches<'_>, SnapshotError> {
    use zerocopy::FromZeros;
    let mut touches = Vec::new();
    let size = if reader.0.len() == records.len() * TOUCH_2 {
        TOUCH_2
    } else {
        TOUCH
    };
    for opened in records {
        let bytes = reader.take(size)?;
        if format::read_touch(&mut Reader(bytes), &mut FlowHead::new_zeroed())? != opened {
            return Err(SnapshotError::Corrupt);
        }
        touches.push(bytes);
    }
    // An older version wrote no counters.
    match (size, reader.0) {
        (TOUCH, counters) => Ok((touches, Some(counters))),
        (_, []) => Ok((touches, None)),
        _ => Err(SnapshotError::Corrupt),
    }
}

/// True where no two flows or aliases of a unit have one name.
fn names_differ(parsed: &Parsed<'_>) -> bool {
    let mut seen = BTreeSet::new();
    parsed.levels.iter().flatten().all(|record| {
        let mut aliases = record.aliases.iter();
        aliases.all(|alias| seen.insert(alias.key.to_words()))
    }) && parsed
        .flows()
        .iter()
        .all(|flow| seen.insert(flow.head.key.to_words()))
}
