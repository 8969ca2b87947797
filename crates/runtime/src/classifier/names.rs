//! Names and units: which unit a flow key, alias or scope key belongs to.
//!
//! A name is one cache line: its key and its unit. A packet of a known flow
//! needs the index bucket and that line, and one that comes under an alias no
//! more. Everything else lies in records of the units, in lists through their
//! flows and aliases: what ends is taken away in the time that it takes to
//! walk along its own names.

use weir_nf::host::AliasRequest;
use weir_packet::{Advise, Arena, Direction, FlowKey, Side};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::places::Places;
use crate::flows::index::Index;

mod restore;

/// A key and the unit it leads to.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(super) struct Name {
    pub(super) key: FlowKey,
    /// 0 where the record is free.
    pub(super) unit: u64,
    /// Of a flow: the first of its aliases, plus one. Of an alias: its flow,
    /// plus one, or 0 where it is the unit's.
    other: u32,
    bits: u32,
}

const _: () = assert!(size_of::<Name>() == 64, "a name is one cache line");

/// Of a flow: an alias or another unit has its key; no packet comes by it.
const HIDDEN: u32 = 1;
/// Of an alias: any packet to it opens a flow of the unit.
const OPEN: u32 = 2;
/// Of an open alias: its unit's own client is outside.
const OUTSIDE: u32 = 4;
/// Its flow or alias has ended. It leads to its unit while a packet that came by it
/// may be on its way there.
const LEAVING: u32 = 8;
/// Of a name that leaves: a packet has come by it since [`Names::was_used`].
const USED: u32 = 16;
/// Of an alias in a unit of one flow: the key of a flow that its owner has beside that
/// one. It stays when one of them ends, as the flow's own key does.
const OWN: u32 = 32;

impl Name {
    /// True where no packet that comes by it needs to be noted.
    #[inline(always)]
    pub(super) const fn stays(&self) -> bool {
        self.bits & LEAVING == 0
    }
}

/// A place that has had so many lives is given to no unit again: a number would
/// come back, and engines would take its packets for those of an earlier life. At
/// 100,000 flows a second that all take one place this is after 12 hours; the
/// table then has one place less.
const LAST_LIFE: u32 = u32::MAX;

/// One place for a unit.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Unit {
    /// Of its flow, or of its scope.
    key: FlowKey,
    /// Of the unit that lives here; 0 for none.
    id: u64,
    /// The last life here.
    life: u32,
    /// First of its flows, plus one.
    flows: u32,
    /// First of its open aliases, plus one.
    aliases: u32,
    /// Flows without their key.
    hidden: u32,
    /// 1 where `key` is known.
    keyed: u32,
    unused: u32,
}

/// All names of all units.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) index: Index,
    /// Flows, then aliases.
    names: Arena<Name>,
    units: Arena<Unit>,
    flows: Places,
    aliases: Places,
    /// If units are wider than flows: their places, and the index by scope
    /// key. A unit of one flow has its flow's place.
    wide: Option<(Places, Index)>,
    max: u32,
    open_aliases: u32,
    pub(super) seed: u64,
    /// Units and flows made since the start.
    pub(super) opened: u64,
}

/// Why a flow was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    Flows,
    Units,
}

impl Names {
    /// Bytes that so many names take.
    pub(super) fn bytes(max: u32, aliases: u32, wide: bool) -> u64 {
        let names = max as usize + aliases as usize;
        let units = if wide {
            Places::bytes(max) + Index::bytes(max as usize)
        } else {
            0
        };
        Index::bytes(names)
            + (names * size_of::<Name>()) as u64
            + u64::from(max) * size_of::<Unit>() as u64
            + Places::bytes(max)
            + Places::bytes(aliases)
            + units
    }

    /// For `max` flows, and as many units where they are `wide`r.
    pub(super) fn new(max: u32, aliases: u32, wide: bool, seed: u64, advise: Advise) -> Names {
        let names = max as usize + aliases as usize;
        Names {
            index: Index::new(names, advise),
            names: Arena::zeroed(names, advise),
            units: Arena::zeroed(max as usize, advise),
            flows: Places::new(max, advise),
            aliases: Places::new(aliases, advise),
            wide: wide.then(|| (Places::new(max, advise), Index::new(max as usize, advise))),
            max,
            open_aliases: 0,
            seed,
            opened: 0,
        }
    }

    pub(super) fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.seed)
    }

    /// Most units.
    pub(super) const fn max(&self) -> u32 {
        self.max
    }

    /// Flows now.
    pub(super) const fn flow_count(&self) -> u32 {
        self.flows.used()
    }

    /// Aliases now.
    pub(super) const fn alias_count(&self) -> u32 {
        self.aliases.used()
    }

    pub(super) const fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// Units of a wider scope now.
    pub(super) fn wide_units(&self) -> u32 {
        self.wide.as_ref().map_or(0, |(places, _)| places.used())
    }

    /// The name that an index entry stands for.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<&Name> {
        self.names.get(number as usize)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        weir_packet::prefetch::read(self.names.as_ptr().wrapping_add(number as usize));
    }

    fn find(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        let same = |number| self.get(number).is_some_and(|name| name.key == *key);
        self.index.find(hash, same)
    }

    fn find_unit(&self, key: &FlowKey) -> Option<u32> {
        let (_, index) = self.wide.as_ref()?;
        index.find(self.hash(key), |place| {
            let unit = self.units.get(place as usize);
            unit.is_some_and(|unit| unit.key == *key)
        })
    }

    const fn is_alias(&self, number: u32) -> bool {
        number >= self.max
    }

    /// The unit of a flow key or alias.
    pub(super) fn unit_of_name(&self, key: &FlowKey, hash: u64) -> Option<u64> {
        self.find(key, hash).map(|n| self.names[n as usize].unit)
    }

    /// The same for a packet that comes by it.
    pub(super) fn unit_of_packet(&mut self, key: &FlowKey, hash: u64) -> Option<u64> {
        let found = self.find(key, hash)?;
        Some(self.use_name(found))
    }

    /// A packet comes by the name: gives its unit.
    fn use_name(&mut self, number: u32) -> u64 {
        let name = &mut self.names[number as usize];
        if !name.stays() {
            name.bits |= USED;
        }
        name.unit
    }

    /// The unit of a scope key.
    pub(super) fn unit_of_scope(&self, key: &FlowKey) -> Option<u64> {
        self.find_unit(key)
            .map(|place| self.units[place as usize].id)
    }

    /// The unit whose open alias a packet from `side` goes to; one from the
    /// side of the unit's own client is another client's (RFC 4787 REQ-9).
    pub(super) fn unit_behind(
        &mut self,
        key: &FlowKey,
        direction: Direction,
        side: Side,
    ) -> Option<u64> {
        if self.open_aliases == 0 {
            return None;
        }
        let (address, port) = key.destination(direction);
        let (end, _) = FlowKey::one_end(address, port, key.proto(), key.zone(), key.chain());
        let found = self.find(&end, self.hash(&end))?;
        let name = self.get(found)?;
        let own = if name.bits & OUTSIDE == 0 {
            Side::Inside
        } else {
            Side::Outside
        };
        (name.bits & OPEN != 0 && own != side).then(|| self.use_name(found))
    }

    fn place(&self, unit: u64) -> Option<usize> {
        let place = unit as u32 as usize;
        let live = self.units.get(place).is_some_and(|u| u.id == unit);
        (live && unit != 0).then_some(place)
    }

    pub(super) fn is_live(&self, unit: u64) -> bool {
        self.place(unit).is_some()
    }

    pub(super) fn key_of(&self, unit: u64) -> Option<FlowKey> {
        let unit = &self.units[self.place(unit)?];
        (unit.keyed != 0).then_some(unit.key)
    }

    pub(super) fn flows_of(&self, unit: u64) -> impl Iterator<Item = FlowKey> + '_ {
        let head = self.place(unit).map_or(0, |place| self.units[place].flows);
        self.flows
            .list(head)
            .map(|flow| self.names[flow as usize].key)
    }

    pub(super) fn live_units(&self) -> impl Iterator<Item = u64> + '_ {
        let places = match &self.wide {
            Some((places, _)) => places.fresh(),
            None => self.flows.fresh(),
        };
        let units = self.units.iter().take(places as usize);
        units.map(|unit| unit.id).filter(|&id| id != 0)
    }

    /// True where no flow can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.flows.left() == 0
    }

    /// Opens a flow under a key that nothing has, in a unit of its own; of
    /// units that are wider than flows, in the one under `scope`.
    pub(super) fn open(
        &mut self,
        key: &FlowKey,
        hash: u64,
        scope: &FlowKey,
    ) -> Result<u64, NoRoom> {
        if self.is_full() {
            return Err(NoRoom::Flows);
        }
        if self.wide.is_none() {
            let flow = self.flows.take().ok_or(NoRoom::Flows)?;
            let unit = self.begin(flow, None, Some(*key));
            self.put_flow(flow, key, Some(hash), unit);
            return Ok(unit);
        }
        let unit = match self.unit_of_scope(scope) {
            Some(unit) => unit,
            None => {
                let place = self.wide.as_mut().and_then(|(places, _)| places.take());
                self.begin(place.ok_or(NoRoom::Units)?, None, Some(*scope))
            }
        };
        self.open_in(key, hash, unit)?;
        Ok(unit)
    }

    /// Opens a flow under a key that nothing has in a unit that lives.
    pub(super) fn open_in(&mut self, key: &FlowKey, hash: u64, unit: u64) -> Result<(), NoRoom> {
        if self.is_full() {
            return Err(NoRoom::Flows);
        }
        if !self.show(unit, key) {
            let flow = self.flows.take().ok_or(NoRoom::Flows)?;
            self.put_flow(flow, key, Some(hash), unit);
        }
        Ok(())
    }

    /// The alias that hid a flow of the unit is gone: packets find the flow. False
    /// where no flow was hidden.
    fn show(&mut self, unit: u64, key: &FlowKey) -> bool {
        let Some(flow) = self.hidden_in(unit, key) else {
            return false;
        };
        if self.index.insert(self.hash(key), flow) {
            self.names[flow as usize].bits &= !HIDDEN;
            self.units[unit as u32 as usize].hidden -= 1;
        }
        true
    }

    /// Begins a life in a place that was just taken.
    fn begin(&mut self, place: u32, id: Option<u64>, key: Option<FlowKey>) -> u64 {
        let unit = &mut self.units[place as usize];
        let (life, id) = match id {
            Some(id) => (unit.life.max((id >> 32) as u32), id),
            None => {
                let life = unit.life + 1;
                (life, u64::from(life) << 32 | u64::from(place))
            }
        };
        *unit = Unit {
            key: FlowKey::default(),
            id,
            life,
            flows: 0,
            aliases: 0,
            hidden: 0,
            keyed: 0,
            unused: 0,
        };
        if let Some(key) = key {
            self.name_unit(place, &key);
        }
        id
    }

    fn name_unit(&mut self, place: u32, key: &FlowKey) {
        let hash = self.hash(key);
        let unit = &mut self.units[place as usize];
        (unit.key, unit.keyed) = (*key, 1);
        if let Some((_, index)) = &mut self.wide {
            index.insert(hash, place);
        }
    }

    /// Gives a unit whose scope key is not known this one; false where it has
    /// one, or another unit has this one.
    pub(super) fn set_key(&mut self, unit: u64, key: &FlowKey) -> bool {
        let Some(place) = self.place(unit) else {
            return false;
        };
        if self.wide.is_none() || self.units[place].keyed != 0 || self.find_unit(key).is_some() {
            return false;
        }
        self.name_unit(place as u32, key);
        true
    }

    /// Writes a flow that was just taken; without a hash it is hidden.
    fn put_flow(&mut self, flow: u32, key: &FlowKey, hash: Option<u64>, unit: u64) {
        let record = &mut self.units[unit as u32 as usize];
        self.flows.push(&mut record.flows, flow);
        let reachable = hash.is_some_and(|hash| self.index.insert(hash, flow));
        record.hidden += u32::from(!reachable);
        self.names[flow as usize] = Name {
            key: *key,
            unit,
            other: 0,
            bits: if reachable { 0 } else { HIDDEN },
        };
        self.opened += 1;
    }

    /// The flow of this unit under this key, hidden or not.
    fn flow_in(&self, unit: u64, key: &FlowKey) -> Option<u32> {
        if let Some(found) = self.find(key, self.hash(key))
            && !self.is_alias(found)
            && self.names[found as usize].unit == unit
        {
            return Some(found);
        }
        self.hidden_in(unit, key)
    }

    /// The flow of a unit that can have no other.
    fn only_flow(&self, unit: u64) -> Option<u32> {
        let head = self.units[self.place(unit)?].flows;
        head.checked_sub(1).filter(|_| self.wide.is_none())
    }

    /// The hidden flow of this unit under this key.
    fn hidden_in(&self, unit: u64, key: &FlowKey) -> Option<u32> {
        let record = &self.units[self.place(unit)?];
        if record.hidden == 0 {
            return None;
        }
        self.flows.list(record.flows).find(|&flow| {
            let name = &self.names[flow as usize];
            name.bits & HIDDEN != 0 && name.key == *key
        })
    }

    /// Makes a flow known that the unit's owner opened; true where the unit
    /// has it now, or had it.
    pub(super) fn add_flow(&mut self, unit: u64, key: &FlowKey) -> bool {
        if self.place(unit).is_none() {
            return false;
        }
        let hash = self.hash(key);
        match self.find(key, hash) {
            Some(found) => {
                let is_own = self.names[found as usize].unit == unit;
                if self.wide.is_none() || (is_own && !self.is_alias(found)) {
                    return is_own;
                }
                // Packets go by that name, which may be another unit's. The flow is
                // hidden, and the names that it asks for end with it.
                if self.hidden_in(unit, key).is_none() {
                    let Some(flow) = self.flows.take() else {
                        return false;
                    };
                    self.put_flow(flow, key, None, unit);
                }
                true
            }
            None if self.wide.is_some() => self.open_in(key, hash, unit).is_ok(),
            // A claim may have had the flow under another of its names.
            None => {
                let flow = self.only_flow(unit);
                flow.is_some() && self.put_alias(unit, flow, key, OWN)
            }
        }
    }

    /// Gives a flow of the unit, or for an open alias the unit, another name.
    pub(super) fn add_alias(&mut self, unit: u64, flow: &FlowKey, request: &AliasRequest) -> bool {
        if self.place(unit).is_none() || (request.open && self.wide.is_none()) {
            return false;
        }
        let owner = if request.open {
            None
        } else {
            // A flow that it has forgotten lives on where its packets go.
            let found = self.flow_in(unit, flow).or_else(|| {
                self.add_flow(unit, flow)
                    .then(|| self.flow_in(unit, flow))
                    .flatten()
            });
            // It may have begun anew from its server's side, under a name of the
            // flow before it.
            match found.or_else(|| self.only_flow(unit)) {
                Some(flow) => Some(flow),
                None => return false,
            }
        };
        let hash = self.hash(&request.key);
        if let Some(found) = self.find(&request.key, hash) {
            if !self.is_alias(found) {
                if owner == Some(found) {
                    return true; // its own key
                }
                if self.aliases.left() == 0 {
                    return false;
                }
                self.hide(found, hash);
            } else {
                self.drop_alias(found);
            }
        }
        let outside = request.side == Side::Outside;
        let bits = if request.open { OPEN } else { 0 } | if outside { OUTSIDE } else { 0 };
        self.put_alias(unit, owner, &request.key, bits)
    }

    /// Takes a flow's key from it.
    fn hide(&mut self, flow: u32, hash: u64) {
        self.index.remove(hash, flow);
        let name = &mut self.names[flow as usize];
        name.bits |= HIDDEN;
        self.units[name.unit as u32 as usize].hidden += 1;
    }

    fn put_alias(&mut self, unit: u64, owner: Option<u32>, key: &FlowKey, bits: u32) -> bool {
        let Some(alias) = self.aliases.take() else {
            return false;
        };
        let number = alias + self.max;
        if !self.index.insert(self.hash(key), number) {
            self.aliases.give(alias);
            return false;
        }
        self.names[number as usize] = Name {
            key: *key,
            unit,
            other: owner.map_or(0, |flow| flow + 1),
            bits,
        };
        self.open_aliases += u32::from(bits & OPEN != 0);
        let head = match owner {
            Some(flow) => &mut self.names[flow as usize].other,
            None => &mut self.units[unit as u32 as usize].aliases,
        };
        self.aliases.push(head, alias);
        true
    }

    fn drop_alias(&mut self, number: u32) -> FlowKey {
        let name = self.names[number as usize];
        let head = match name.other.checked_sub(1) {
            Some(flow) => &mut self.names[flow as usize].other,
            None => &mut self.units[name.unit as u32 as usize].aliases,
        };
        self.aliases.unlink(head, number - self.max);
        self.index.remove(name.key.hash(self.seed), number);
        self.open_aliases -= u32::from(name.bits & OPEN != 0);
        self.names[number as usize].unit = 0;
        self.aliases.give(number - self.max);
        name.key
    }

    /// Drops an alias that no other one replaces.
    fn free_alias(&mut self, number: u32, freed: &mut Vec<FlowKey>) {
        let unit = self.names[number as usize].unit;
        let key = self.drop_alias(number);
        self.show(unit, &key);
        freed.push(key);
    }

    fn drop_aliases_of(&mut self, flow: u32, freed: &mut Vec<FlowKey>) {
        while let Some(alias) = self.names[flow as usize].other.checked_sub(1) {
            self.free_alias(alias + self.max, freed);
        }
    }

    /// The aliases that go when a flow ends.
    fn asked_by(&self, flow: u32) -> Vec<u32> {
        let head = self.names[flow as usize].other;
        let aliases = self.aliases.list(head).map(|alias| alias + self.max);
        let is_asked = |alias: &u32| self.names[*alias as usize].bits & OWN == 0;
        aliases.filter(is_asked).collect()
    }

    fn drop_flow(&mut self, flow: u32, freed: &mut Vec<FlowKey>) {
        self.drop_aliases_of(flow, freed);
        let name = self.names[flow as usize];
        let record = &mut self.units[name.unit as u32 as usize];
        self.flows.unlink(&mut record.flows, flow);
        if name.bits & HIDDEN != 0 {
            record.hidden -= 1;
        } else {
            self.index.remove(name.key.hash(self.seed), flow);
        }
        let was_last = self.wide.is_none() && record.life == LAST_LIFE;
        self.names[flow as usize].unit = 0;
        if !was_last {
            self.flows.give(flow);
        }
    }

    /// Ends a flow. Where a unit is one flow the keys of its flows stay its.
    pub(super) fn end_flow(&mut self, unit: u64, key: &FlowKey, freed: &mut Vec<FlowKey>) {
        let Some(flow) = self.flow_in(unit, key) else {
            return;
        };
        if self.wide.is_some() {
            self.drop_flow(flow, freed);
        } else {
            for alias in self.asked_by(flow) {
                self.free_alias(alias, freed);
            }
        }
    }

    /// Ends an alias of the unit.
    pub(super) fn end_alias(&mut self, unit: u64, key: &FlowKey) -> bool {
        let alias = self.alias_in(unit, key);
        if let Some(alias) = alias {
            self.free_alias(alias, &mut Vec::new());
        }
        alias.is_some()
    }

    /// The unit's alias under this key.
    fn alias_in(&self, unit: u64, key: &FlowKey) -> Option<u32> {
        let found = self.find(key, self.hash(key))?;
        (self.is_alias(found) && self.names[found as usize].unit == unit).then_some(found)
    }

    /// The unit that has an alias under this key.
    pub(super) fn alias_of(&self, key: &FlowKey) -> Option<u64> {
        let found = self.find(key, self.hash(key))?;
        self.is_alias(found)
            .then(|| self.names[found as usize].unit)
    }

    /// The keys of the unit's aliases.
    pub(super) fn aliases_of(&self, unit: u64) -> impl Iterator<Item = FlowKey> + '_ {
        let place = self.place(unit);
        let flows = place.map_or(0, |place| self.units[place].flows);
        let of_flows = self.flows.list(flows);
        let heads = of_flows.map(|flow| self.names[flow as usize].other);
        let open = place.map_or(0, |place| self.units[place].aliases);
        let aliases = heads.chain([open]).flat_map(|head| self.aliases.list(head));
        aliases.map(|alias| self.names[(alias + self.max) as usize].key)
    }

    /// A flow has ended, and packets that are of it may be on their way: adds
    /// the names that go when they have arrived.
    pub(super) fn leave_flow(&mut self, unit: u64, key: &FlowKey, names: &mut Vec<FlowKey>) {
        let Some(flow) = self.flow_in(unit, key) else {
            return;
        };
        let mut leaving = self.asked_by(flow);
        if self.wide.is_some() {
            leaving.push(flow);
        }
        for number in leaving {
            let name = &mut self.names[number as usize];
            name.bits = name.bits & !USED | LEAVING;
            names.push(name.key);
        }
    }

    /// The same for an alias; false where the unit has none under this key.
    pub(super) fn leave_alias(&mut self, unit: u64, key: &FlowKey) -> bool {
        let alias = self.alias_in(unit, key);
        if let Some(alias) = alias {
            let name = &mut self.names[alias as usize];
            name.bits = name.bits & !USED | LEAVING;
        }
        alias.is_some()
    }

    /// The unit's names under a key: an alias or a flow's own, and a hidden flow's.
    fn names_in(&self, unit: u64, key: &FlowKey) -> impl Iterator<Item = u32> + use<> {
        let found = self.find(key, self.hash(key));
        let own = found.filter(|&found| self.names[found as usize].unit == unit);
        [own, self.hidden_in(unit, key)].into_iter().flatten()
    }

    /// A name that was to leave stays: its flow has begun anew.
    pub(super) fn stay(&mut self, unit: u64, key: &FlowKey) {
        for number in self.names_in(unit, key) {
            self.names[number as usize].bits &= !(LEAVING | USED);
        }
    }

    /// True where a packet has come by the name since it leaves, or since this
    /// was asked last.
    pub(super) fn was_used(&mut self, unit: u64, key: &FlowKey) -> bool {
        let mut used = false;
        for number in self.names_in(unit, key) {
            let bits = &mut self.names[number as usize].bits;
            used |= *bits & USED != 0;
            *bits &= !USED;
        }
        used
    }

    /// Ends the name of the unit under a key, if it leaves.
    pub(super) fn end_name(&mut self, unit: u64, key: &FlowKey, freed: &mut Vec<FlowKey>) {
        let mut names = self.names_in(unit, key);
        match names.find(|&number| !self.names[number as usize].stays()) {
            Some(alias) if self.is_alias(alias) => self.free_alias(alias, freed),
            Some(flow) => self.drop_flow(flow, freed),
            None => {}
        }
    }

    /// Ends a unit with all its names.
    pub(super) fn remove_unit(&mut self, unit: u64, freed: &mut Vec<FlowKey>) {
        let Some(place) = self.place(unit) else {
            return;
        };
        while let Some(flow) = self.units[place].flows.checked_sub(1) {
            self.drop_flow(flow, freed);
        }
        while let Some(alias) = self.units[place].aliases.checked_sub(1) {
            self.free_alias(alias + self.max, freed);
        }
        let hash = self.hash(&self.units[place].key);
        let record = &mut self.units[place];
        record.id = 0;
        if let Some((places, index)) = &mut self.wide {
            if record.keyed != 0 {
                index.remove(hash, place as u32);
            }
            if record.life != LAST_LIFE {
                places.give(place as u32);
            }
        }
    }
}
