//! Units made again, with their names, from a snapshot or a runtime's claim.

use weir_nf::host::AliasRequest;
use weir_packet::FlowKey;

use super::{LAST_LIFE, Names};
use crate::snapshot::SnapshotError;

impl Names {
    /// Makes a unit with this id, these flows and aliases.
    pub(in crate::classifier) fn restore(
        &mut self,
        unit: u64,
        scope: Option<FlowKey>,
        flows: &[(FlowKey, bool)],
        aliases: &[(FlowKey, AliasRequest)],
    ) -> Result<(), SnapshotError> {
        self.check_restore(unit, scope.as_ref(), flows, aliases)?;
        let place = unit as u32;
        let mut first = None;
        if let Some((places, _)) = &mut self.wide {
            places.take_this(place);
            self.begin(place, Some(unit), scope);
        } else {
            self.flows.take_this(place);
            first = Some(place);
            self.begin(place, Some(unit), flows.first().map(|(key, _)| *key));
        }
        for (key, _) in flows {
            // The check has found room for each.
            let Some(flow) = first.take().or_else(|| self.flows.take()) else {
                return Err(SnapshotError::Full);
            };
            let hash = self.hash(key);
            let hash = self.find(key, hash).is_none().then_some(hash);
            self.put_flow(flow, key, hash, unit);
        }
        for (flow, request) in aliases {
            if !self.add_alias(unit, flow, request) {
                return Err(SnapshotError::Full);
            }
        }
        Ok(())
    }

    /// Makes a unit of one flow that no packet finds.
    pub(in crate::classifier) fn restore_hidden(
        &mut self,
        unit: u64,
        key: &FlowKey,
    ) -> Result<(), SnapshotError> {
        let record = self.units.get(unit as u32 as usize);
        let record = record.ok_or(SnapshotError::Corrupt)?;
        if unit >> 32 == 0 || self.wide.is_some() {
            return Err(SnapshotError::Corrupt);
        }
        if record.id != 0 || self.find(key, self.hash(key)).is_none() {
            return Err(SnapshotError::Exists);
        }
        if self.flows.left() == 0 {
            return Err(SnapshotError::Full);
        }
        let place = unit as u32;
        self.flows.take_this(place);
        self.begin(place, Some(unit), Some(*key));
        self.put_flow(place, key, None, unit);
        Ok(())
    }

    /// Everything that could stand in the way of [`Names::restore`].
    fn check_restore(
        &self,
        unit: u64,
        scope: Option<&FlowKey>,
        flows: &[(FlowKey, bool)],
        aliases: &[(FlowKey, AliasRequest)],
    ) -> Result<(), SnapshotError> {
        let record = self.units.get(unit as u32 as usize);
        let record = record.ok_or(SnapshotError::Corrupt)?;
        let wide = self.wide.is_some();
        if unit >> 32 == 0 || (!wide && flows.len() > 1) {
            return Err(SnapshotError::Corrupt);
        }
        if flows.is_empty() {
            return Err(SnapshotError::NoFlow);
        }
        if record.id != 0 || scope.is_some_and(|key| self.find_unit(key).is_some()) {
            return Err(SnapshotError::Exists);
        }
        if record.life == LAST_LIFE {
            return Err(SnapshotError::Full);
        }
        if flows.len() > self.flows.left() || aliases.len() > self.aliases.left() {
            return Err(SnapshotError::Full);
        }
        let mut keys: Vec<FlowKey> = flows.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(SnapshotError::Corrupt);
        }
        if let ([key], false) = (keys.as_slice(), wide) {
            // Another unit's alias may have taken it over.
            let found = self.find(key, self.hash(key));
            if found.is_some_and(|found| !self.is_alias(found)) {
                return Err(SnapshotError::Exists);
            }
        }
        for (flow, request) in aliases {
            let known = if request.open {
                wide
            } else {
                keys.binary_search(flow).is_ok()
            };
            if !known {
                return Err(SnapshotError::Corrupt);
            }
            let found = self.find(&request.key, self.hash(&request.key));
            if found.is_some_and(|found| self.is_alias(found)) {
                return Err(SnapshotError::Exists);
            }
        }
        Ok(())
    }
}
