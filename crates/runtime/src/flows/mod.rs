//! The flow table: keys, aliases and wider scopes over state blocks.

pub(crate) mod aliases;
mod fetch;
pub(crate) mod index;
pub(crate) mod records;
pub(crate) mod tcp;
pub(crate) mod wheel;
pub(crate) mod window;
#[cfg(test)]
mod window_tests;

use weir_nf::Scope;
use weir_nf::host::{AliasRequest, FlowOptions, StageLayout, Timeouts, UnitPlace};
use weir_packet::{Advise, Direction, FlowKey, Side};

use aliases::{Alias, Aliases};
use records::{ALIAS, Records};
use wheel::Wheel;

/// The result of a lookup by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This flow, with the packet going in this direction of its own key.
    Flow(u32, Direction),
    /// No flow, but its destination is an open alias of this unit.
    Unit(u32),
    /// Nothing.
    None,
}

/// A scope wider than the flow.
#[derive(Debug)]
pub(crate) struct ScopeTable {
    pub(crate) scope: Scope,
    /// Number of the function that makes the key of a scope of its own.
    pub(crate) keyed_by: usize,
    pub(crate) records: Records,
}

/// Flows, their aliases and the wider scopes of one stage.
#[derive(Debug)]
pub(crate) struct FlowTable {
    pub(crate) flows: Records,
    /// Wider scopes, finest first.
    pub(crate) scopes: Vec<ScopeTable>,
    pub(crate) aliases: Aliases,
    pub(crate) wheel: Wheel,
    pub(crate) open_aliases: usize,
    seed: u64,
    next_id: u64,
    /// Aliases that could not be had: the store was full, or the key was
    /// another flow's in this very burst.
    pub(crate) aliases_refused: u64,
}

/// The assertion that a missing table breaks.
pub(crate) const HAS_TABLE: &str = "a flow has a table";

impl FlowTable {
    /// Records of level `level`: 0 for flows, n + 1 for scope number n.
    pub(crate) fn level(&self, level: usize) -> Option<&Records> {
        match level.checked_sub(1) {
            None => Some(&self.flows),
            Some(scope) => self.scopes.get(scope).map(|scope| &scope.records),
        }
    }

    /// The same for writing, of a level that there is.
    pub(crate) fn level_mut(&mut self, level: usize) -> &mut Records {
        match level.checked_sub(1) {
            None => &mut self.flows,
            Some(scope) => &mut self.scopes[scope].records,
        }
    }

    /// Bytes that a table of these settings takes when it is full.
    pub(crate) fn bytes(
        options: &FlowOptions,
        layout: &StageLayout,
        scopes: &[StageLayout],
        rewriters: u32,
    ) -> u64 {
        let aliases = Self::most_aliases(options, rewriters);
        let scopes = scopes
            .iter()
            .map(|layout| Records::bytes(options.max, 0, layout))
            .sum::<u64>();
        Records::bytes(options.max, aliases, layout)
            + scopes
            + Aliases::bytes(aliases)
            + Wheel::bytes(options.max as usize)
    }

    /// Two for each flow and each function that gives flows further names (a
    /// NAT: its answers', and its mapping's for anybody).
    pub(crate) fn most_aliases(options: &FlowOptions, rewriters: u32) -> u32 {
        options
            .max
            .saturating_mul(2)
            .saturating_mul(rewriters)
            .min(ALIAS - 1)
    }

    /// For the blocks of `layout`, with `scopes` (finest first, each with the
    /// function that makes its keys and its own layout).
    pub(crate) fn new(
        options: &FlowOptions,
        layout: &StageLayout,
        scopes: Vec<(Scope, usize, StageLayout)>,
        rewriters: u32,
        seed: u64,
        advise: Advise,
    ) -> FlowTable {
        let aliases = Self::most_aliases(options, rewriters);
        FlowTable {
            flows: Records::new(options.max, aliases, layout, advise),
            scopes: scopes
                .into_iter()
                .map(|(scope, keyed_by, layout)| ScopeTable {
                    scope,
                    keyed_by,
                    records: Records::new(options.max, 0, &layout, advise),
                })
                .collect(),
            aliases: Aliases::new(aliases),
            wheel: Wheel::new(options.max as usize),
            open_aliases: 0,
            seed,
            next_id: 1,
            aliases_refused: 0,
        }
    }

    /// Blocks only, for a later stage: the first one keeps the table. `scopes`
    /// as in [`FlowTable::new`].
    pub(crate) fn fed(
        options: &FlowOptions,
        layout: &StageLayout,
        scopes: Vec<(Scope, usize, StageLayout)>,
        seed: u64,
        advise: Advise,
    ) -> FlowTable {
        FlowTable {
            flows: Records::fed(options.max, layout, advise),
            scopes: scopes
                .into_iter()
                .map(|(scope, keyed_by, layout)| ScopeTable {
                    scope,
                    keyed_by,
                    records: Records::fed(options.max, &layout, advise),
                })
                .collect(),
            aliases: Aliases::new(0),
            wheel: Wheel::new(0),
            open_aliases: 0,
            seed,
            next_id: 1,
            aliases_refused: 0,
        }
    }

    #[inline]
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.seed)
    }

    /// A unit id that was never used before: one per life of a key.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Notes a packet at `now` in the units of its flow, which has this id and clock; gives those of
    /// the coarsest.
    #[inline]
    pub(crate) fn enter_units(
        &mut self,
        flow: u32,
        (mut id, mut clock): (u64, u64),
        now: u64,
        mut note: impl FnMut(usize, UnitPlace),
    ) -> (u64, u64) {
        let mut parent = self.flows.cold[flow as usize].parent;
        for (number, scope) in self.scopes.iter_mut().enumerate() {
            let Some(unit) = parent.checked_sub(1) else {
                break;
            };
            let head = scope.records.blocks.head_mut(unit);
            head.last_seen = head.last_seen.max(now);
            head.clock += 1;
            (id, clock) = (head.id, head.clock);
            note(number, UnitPlace { clock, unit });
            parent = scope.records.cold[unit as usize].parent;
        }
        (id, clock)
    }

    /// Sets the clocks of the units of packet `i` that were noted by
    /// [`FlowTable::enter_units`]: under a switch they are the packet's, so
    /// that they do not depend on packets which were not applied here.
    #[inline]
    pub(crate) fn set_clocks<const S: usize, const N: usize>(
        &mut self,
        units: &mut [[UnitPlace; N]; S],
        i: usize,
        clock: u64,
    ) {
        for (scope, places) in self.scopes.iter_mut().zip(units) {
            let place = &mut places[i];
            place.clock = clock;
            scope.records.blocks.head_mut(place.unit).clock = clock;
        }
    }

    #[inline]
    fn find_entry(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.flows.index.find(hash, |entry| {
            if entry & ALIAS == 0 {
                self.flows.blocks.head(entry).key == *key
            } else {
                self.aliases.get(entry & !ALIAS).key == *key
            }
        })
    }

    /// Looks up the key of a packet in `direction`.
    #[inline(always)]
    pub(crate) fn find(&self, key: &FlowKey, hash: u64, direction: Direction, side: Side) -> Found {
        match self.find_entry(key, hash) {
            Some(entry) if entry & ALIAS == 0 => Found::Flow(entry, direction),
            Some(entry) => {
                let alias = self.aliases.get(entry & !ALIAS);
                if alias.open {
                    return Found::Unit(alias.owner);
                }
                let client = self.flows.blocks.head(alias.owner).client_direction();
                let from_client = direction == alias.client;
                Found::Flow(
                    alias.owner,
                    if from_client {
                        client
                    } else {
                        client.opposite()
                    },
                )
            }
            None if self.open_aliases > 0 => self.find_open(key, direction, side),
            None => Found::None,
        }
    }

    #[inline(never)]
    /// The unit whose open alias a packet from `side` goes to. A packet from
    /// the side of the unit's own client is another client's: its flow is one
    /// of that client's unit (RFC 4787 REQ-9).
    fn find_open(&self, key: &FlowKey, direction: Direction, side: Side) -> Found {
        let (address, port) = key.destination(direction);
        let (end, _) = FlowKey::one_end(address, port, key.proto(), key.zone(), key.chain());
        match self.find_entry(&end, self.hash(&end)) {
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

    /// The flow whose own key (not an alias) this is.
    pub(crate) fn flow_of(&self, key: &FlowKey) -> Option<u32> {
        self.flows.find(key, self.hash(key))
    }

    /// Adds an alias; false where it can't be had. An alias that is there
    /// already is fine.
    pub(crate) fn add_alias(&mut self, request: &AliasRequest) -> bool {
        let AliasRequest {
            flow,
            ref key,
            open,
            ..
        } = *request;
        let owner = if open {
            match self.flows.cold[flow as usize].parent {
                0 => return false,
                parent => parent - 1,
            }
        } else {
            flow
        };
        let hash = self.hash(key);
        if let Some(entry) = self.find_entry(key, hash) {
            let same = entry & ALIAS != 0 && {
                let have = self.aliases.get(entry & !ALIAS);
                have.owner == owner && have.open == open
            };
            // A flow whose own key it is needs no alias.
            return same || (!open && entry == owner);
        }
        self.name(owner, request)
    }

    /// Gives a flow, or for an open alias a unit of the finest wider scope, a
    /// name that nothing has; false where there is no room.
    pub(crate) fn name(&mut self, owner: u32, request: &AliasRequest) -> bool {
        let AliasRequest {
            ref key,
            client,
            side,
            open,
            ..
        } = *request;
        let hash = self.hash(key);
        let cold = match (open, self.scopes.first_mut()) {
            (false, _) => &mut self.flows.cold,
            (true, Some(scope)) => &mut scope.records.cold,
            (true, None) => return false,
        };
        let next = cold[owner as usize].aliases;
        let Some(number) = self.aliases.add(Alias {
            key: *key,
            owner,
            next,
            client,
            open,
            side,
        }) else {
            return false;
        };
        if !self.flows.index.insert(hash, number | ALIAS) {
            self.aliases.remove(number);
            return false;
        }
        cold[owner as usize].aliases = number + 1;
        self.open_aliases += usize::from(open);
        true
    }

    /// True where a flow or an alias has this key.
    pub(crate) fn knows(&self, key: &FlowKey) -> bool {
        self.find_entry(key, self.hash(key)).is_some()
    }

    /// The aliases in a record's list.
    pub(crate) fn aliases_from(&self, mut link: u32) -> impl Iterator<Item = Alias> + '_ {
        core::iter::from_fn(move || {
            let alias = *self.aliases.get(link.checked_sub(1)?);
            link = alias.next;
            Some(alias)
        })
    }

    /// The unit of scope number `scope` that a flow belongs to.
    pub(crate) fn unit_of(&self, flow: u32, scope: usize) -> Option<u32> {
        let mut unit = self.flows.cold.get(flow as usize)?.parent.checked_sub(1)?;
        for scope in self.scopes.iter().take(scope) {
            let cold = scope.records.cold.get(unit as usize)?;
            unit = cold.parent.checked_sub(1)?;
        }
        Some(unit)
    }

    /// Keeps an id from being given out here: a unit brought it along.
    pub(crate) fn reserve_id(&mut self, id: u64) {
        self.next_id = self.next_id.max(id.saturating_add(1));
    }

    /// Puts a flow into the wheel by its last packet and time-out.
    pub(crate) fn watch(&mut self, flow: u32) {
        let head = self.flows.blocks.head(flow);
        if head.idle_ms != Timeouts::NEVER {
            let due = u64::from(head.idle_ms).saturating_mul(1_000_000);
            self.wheel
                .insert(flow, head.last_seen.saturating_add(due).saturating_add(1));
        }
    }

    fn drop_aliases(&mut self, mut link: u32) {
        while link != 0 {
            let number = link - 1;
            let alias = *self.aliases.get(number);
            let hash = alias.key.hash(self.seed);
            self.flows.index.remove(hash, number | ALIAS);
            self.aliases.remove(number);
            self.open_aliases -= usize::from(alias.open);
            link = alias.next;
        }
    }

    /// Takes a flow away, its aliases first. Its parent must have been let go.
    pub(crate) fn remove_flow(&mut self, flow: u32) {
        let aliases = core::mem::take(&mut self.flows.cold[flow as usize].aliases);
        self.drop_aliases(aliases);
        let hash = self.flows.blocks.head(flow).key.hash(self.seed);
        self.wheel.remove(flow);
        self.flows.close(flow, hash);
    }

    /// Takes a unit of scope number `scope` away, its aliases first.
    pub(crate) fn remove_unit(&mut self, scope: usize, unit: u32) {
        let records = &mut self.scopes[scope].records;
        let aliases = core::mem::take(&mut records.cold[unit as usize].aliases);
        let hash = records.blocks.head(unit).key.hash(self.seed);
        records.close(unit, hash);
        self.drop_aliases(aliases);
    }
}
