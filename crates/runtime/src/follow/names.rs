//! Names within a unit. Units are apart: a key that another unit has as well
//! is another name, since the switch has said which unit a packet is of.

use weir_nf::host::AliasRequest;
use weir_packet::{Direction, FlowKey, Side};

use super::units::{Unit, Units, place_of};
use crate::flows::records::ALIAS;
use crate::flows::{FlowTable, Found};

/// The result of a request for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It has it from now on.
    New,
    /// It had it.
    Had,
    /// It can't be had.
    Refused,
}

impl FlowTable {
    /// Record of the coarsest scope above record `record` of level `level`
    /// (0: flows, n + 1: scope number n).
    pub(crate) fn root_of(&self, mut level: usize, mut record: u32) -> Option<u32> {
        while level < self.scopes.len() {
            let cold = &self.level(level)?.cold;
            record = cold.get(record as usize)?.parent.checked_sub(1)?;
            level += 1;
        }
        Some(record)
    }

    /// Number of the unit of a flow in a stage with wider scopes.
    #[inline]
    pub(crate) fn root_id(&self, flow: u32) -> Option<u64> {
        let root = self.root_of(0, flow)?;
        let coarsest = self.scopes.last()?;
        Some(coarsest.records.blocks.head(root).id)
    }

    /// Place of the unit of an index entry.
    fn entry_place(&self, units: &Units, entry: u32) -> Option<u32> {
        if entry & ALIAS == 0 {
            return Some(units.place(entry));
        }
        let alias = self.aliases.get(entry & !ALIAS);
        if !alias.open {
            return Some(units.place(alias.owner));
        }
        let root = self.root_of(1, alias.owner)?;
        let coarsest = self.scopes.last()?;
        Some(place_of(coarsest.records.blocks.head(root).id))
    }

    /// The index entry under `key` among those of the unit at `place`.
    pub(super) fn entry_of(&self, units: &Units, place: u32, key: &FlowKey) -> Option<u32> {
        self.flows.index.find(self.hash(key), |entry| {
            let same = if entry & ALIAS == 0 {
                self.flows.blocks.head(entry).key == *key
            } else {
                self.aliases.get(entry & !ALIAS).key == *key
            };
            same && self.entry_place(units, entry) == Some(place)
        })
    }

    /// Looks up the key of a packet in `direction` in its own unit.
    pub(crate) fn find_in(
        &self,
        units: &Units,
        unit: &Unit,
        key: &FlowKey,
        direction: Direction,
        side: Side,
    ) -> Found {
        let place = place_of(unit.id);
        match self.entry_of(units, place, key) {
            Some(entry) if entry & ALIAS == 0 => Found::Flow(entry, direction),
            Some(entry) => {
                let alias = self.aliases.get(entry & !ALIAS);
                if alias.open {
                    return Found::Unit(alias.owner);
                }
                let client = self.flows.blocks.head(alias.owner).client_direction();
                let from_client = direction == alias.client;
                let way = if from_client {
                    client
                } else {
                    client.opposite()
                };
                Found::Flow(alias.owner, way)
            }
            None if self.open_aliases > 0 => {
                let (address, port) = key.destination(direction);
                let (end, _) =
                    FlowKey::one_end(address, port, key.proto(), key.zone(), key.chain());
                match self.entry_of(units, place, &end) {
                    Some(entry) if entry & ALIAS != 0 => {
                        let alias = self.aliases.get(entry & !ALIAS);
                        if alias.open && alias.side != side {
                            Found::Unit(alias.owner)
                        } else {
                            Found::None
                        }
                    }
                    _ => Found::None,
                }
            }
            None => Found::None,
        }
    }

    /// Gives a flow, or its unit, a further name. One that another flow of the
    /// unit has is refused (another unit's does not matter here, the switch
    /// gives it to one of them): what packets behind the one that asked are of
    /// must not depend on which burst they are in.
    pub(crate) fn name_in(&mut self, units: &Units, request: &AliasRequest) -> Named {
        let AliasRequest {
            flow,
            ref key,
            open,
            ..
        } = *request;
        let owner = if open {
            let cold = self.flows.cold.get(flow as usize);
            match cold.and_then(|cold| cold.parent.checked_sub(1)) {
                Some(parent) => parent,
                None => return Named::Refused,
            }
        } else {
            flow
        };
        match self.entry_of(units, units.place(flow), key) {
            Some(entry) if entry & ALIAS != 0 => {
                let have = self.aliases.get(entry & !ALIAS);
                return if have.owner == owner && have.open == open {
                    Named::Had
                } else {
                    Named::Refused
                };
            }
            Some(entry) if !open && entry == owner => return Named::Had,
            Some(_) => return Named::Refused,
            None => {}
        }
        if self.name(owner, request) {
            Named::New
        } else {
            Named::Refused
        }
    }
}
