//! The engine's front half alone: from packets to units, for a switch.
//!
//! A switch needs the same parser, keys, aliases, scopes and fragment memory
//! as an engine, and none of its functions' states. It shares the engine's
//! first look at the packets, index and fragment memory; its tables are its
//! own, since all that a packet must find is a unit.

mod burst;
mod names;
mod places;

use std::sync::Arc;

use weir_nf::host::{
    AliasRequest, BURST, FlowHead, FlowOptions, NewFunction, SharedProcessor, Stage,
};
use weir_nf::{Needs, Scope};
use weir_packet::{
    Direction, FlowKey, Frame, FramePool, Headers, KeyOptions, Malformed, PacketMemory,
    ParseOptions,
};
use zerocopy::FromZeros;

use crate::config::RuntimeConfig;
use crate::drops::{EngineDrop, Reasons};
use crate::flows::FlowTable;
use crate::fragments::Fragments;
use crate::open::key_of_fields;
use crate::report::{FlowReport, Report};
use crate::scratch::{Lookup, NO_FAULT};
use crate::setup::{
    check_memory, check_nodes, key_options, nested_scopes, parse_options, rewriters_of,
};
use crate::snapshot::SnapshotError;
use crate::stage_error::StageError;
use crate::stages::needs_of;
use names::Names;

struct Scratch {
    headers: [Headers; BURST],
    lookups: [Lookup; BURST],
    faults: [Malformed; BURST],
}

/// Tells which unit of a stage a packet belongs to, and keeps the names (flow
/// keys and aliases) of all units. Nothing ends here by itself.
///
/// A unit's number is its place in a dense table (low 32 bits) and its incarnation
/// in that place (bits above, from 1). Packets without a flow (ARP, malformed
/// packets that the chain passes on) are of one more unit, the *liaison*, which
/// never ends.
pub struct Classifier {
    chain: String,
    /// How deep to parse; `None` leaves packets unread.
    parse: Option<ParseOptions>,
    key: KeyOptions,
    options: FlowOptions,
    /// Absent where the stage keeps no flows.
    names: Option<Names>,
    /// The coarsest scope, and the number of the function that makes the keys of one of its
    /// own.
    scope: Option<(Scope, usize)>,
    /// The stage's functions with their names: they may know a packet's sender for a client.
    functions: Vec<(String, SharedProcessor)>,
    fragments: Fragments,
    /// Fragments on their way out of the fragment memory.
    over: Vec<Frame>,
    /// The memory of the last burst's frames, kept to save counting references.
    memory: Option<Arc<PacketMemory>>,
    scratch: Box<Scratch>,
    reasons: Reasons,
    cycles: fn() -> u64,
    now: u64,
    packets_in: u64,
    bytes_in: u64,
    packets_out: u64,
    bytes_out: u64,
    aliases_refused: u64,
    engine_cycles: u64,
}

impl core::fmt::Debug for Classifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Classifier")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

impl Classifier {
    /// Reserves all memory it will ever use.
    ///
    /// # Errors
    ///
    /// As [`crate::Runtime::new`].
    pub fn new(stage: &Stage, config: RuntimeConfig) -> Result<Classifier, StageError> {
        check_nodes(stage)?;
        let needs = needs_of(stage);
        let options = stage.flows;
        let scope = nested_scopes(stage)?.pop();
        let names = if needs == Needs::Flow {
            let aliases = FlowTable::most_aliases(&options, rewriters_of(stage));
            let max = options.max.clamp(1, i32::MAX as u32 - 1);
            let wide = scope.is_some();
            check_memory(&stage.chain, &options, Names::bytes(max, aliases, wide), 0)?;
            Some(Names::new(max, aliases, wide, config.seed, config.advise))
        } else {
            None
        };
        Ok(Classifier {
            chain: stage.chain.clone(),
            parse: parse_options(&options, needs, false),
            key: key_options(stage),
            names,
            scope,
            functions: (stage.nodes.iter())
                .map(|node| (node.name.clone(), node.processor.clone()))
                .collect(),
            fragments: Fragments::new(options.held_fragments, config.seed),
            over: Vec::with_capacity(options.held_fragments as usize),
            memory: None,
            scratch: Box::new(Scratch {
                headers: [Headers::default(); BURST],
                lookups: [Lookup::default(); BURST],
                faults: [NO_FAULT; BURST],
            }),
            reasons: Reasons::default(),
            cycles: config.cycles,
            now: 0,
            packets_in: 0,
            bytes_in: 0,
            packets_out: 0,
            bytes_out: 0,
            aliases_refused: 0,
            engine_cycles: 0,
            options,
        })
    }

    /// Puts functions in the places of those of their names, as [`crate::Runtime::replace`].
    pub fn replace(&mut self, functions: &[NewFunction]) {
        for (name, processor) in &mut self.functions {
            if let Some(new) = functions.iter().find(|new| new.name == *name) {
                *processor = new.processor.clone();
            }
        }
    }

    /// Places that units can have: numbers below this.
    pub fn places(&self) -> usize {
        self.most_units() as usize + 1
    }

    fn most_units(&self) -> u32 {
        self.names.as_ref().map_or(0, Names::max)
    }

    /// The unit of what has no flow; its place is the last one.
    #[inline]
    pub fn liaison(&self) -> u64 {
        1 << 32 | u64::from(self.most_units())
    }

    /// True where the unit lives.
    #[inline]
    pub fn is_live(&self, unit: u64) -> bool {
        unit == self.liaison() || self.names.as_ref().is_some_and(|names| names.is_live(unit))
    }

    /// The unit of a flow key, alias or scope key.
    pub fn unit_of(&self, key: &FlowKey) -> Option<u64> {
        let names = self.names.as_ref()?;
        names
            .unit_of_name(key, names.hash(key))
            .or_else(|| names.unit_of_scope(key))
    }

    /// The unit of a flow key or alias. A scope key may look like a name and be another
    /// unit's: the end that all clients of a translated one see is its alias, and the scope
    /// of what it sends to itself.
    pub fn unit_of_name(&self, key: &FlowKey) -> Option<u64> {
        let names = self.names.as_ref()?;
        names.unit_of_name(key, names.hash(key))
    }

    /// The unit whose key this is: a scope key, or where a unit is one flow that flow's.
    pub fn unit_with_key(&self, key: &FlowKey) -> Option<u64> {
        match self.has_wide_units() {
            true => self.names.as_ref()?.unit_of_scope(key),
            false => self.unit_of_name(key),
        }
    }

    /// The key of a live unit: its flow's, or its scope's. `None` for the
    /// liaison, and where [`Classifier::restore`] could not tell it.
    pub fn key_of(&self, unit: u64) -> Option<FlowKey> {
        self.names.as_ref()?.key_of(unit)
    }

    /// Appends the keys of a unit's flows.
    pub fn flows_of(&self, unit: u64, keys: &mut Vec<FlowKey>) {
        if let Some(names) = &self.names {
            keys.extend(names.flows_of(unit));
        }
    }

    /// All live units, by place; not the liaison.
    pub fn live_units(&self) -> impl Iterator<Item = u64> + '_ {
        self.names.iter().flat_map(Names::live_units)
    }

    /// Gives the unit's flow another name. A name that another unit has, as a
    /// flow's key or as an alias, goes over to this one: the newest holder's
    /// answers come by it. A flow that is not known here, though its unit lives,
    /// is known then. False, and counted, where there is no room.
    pub fn add_alias(&mut self, unit: u64, flow: &FlowKey, request: &AliasRequest) -> bool {
        let names = self.names.as_mut();
        let added = names.is_some_and(|names| names.add_alias(unit, flow, request));
        self.aliases_refused += u64::from(!added);
        added
    }

    /// The unit that has an alias under this key: not a flow's own key.
    pub fn alias_of(&self, key: &FlowKey) -> Option<u64> {
        self.names.as_ref()?.alias_of(key)
    }

    /// True where units are wider than flows.
    pub fn has_wide_units(&self) -> bool {
        self.names.as_ref().is_some_and(Names::is_wide)
    }

    /// The keys of a unit's aliases, in no order.
    pub fn aliases_of(&self, unit: u64) -> impl Iterator<Item = FlowKey> + '_ {
        self.names
            .iter()
            .flat_map(move |names| names.aliases_of(unit))
    }

    /// Makes a flow known that the unit's owner opened by itself: it began
    /// anew with the packet that ended it, or with one that was on its way
    /// when its end was let out. Where a unit is one flow the key is one more name
    /// of it; where it has several and another unit has the key, packets go on to that
    /// one, and the flow has the names that it asks for. True where the unit has the
    /// flow then.
    pub fn add_flow(&mut self, unit: u64, key: &FlowKey) -> bool {
        let names = self.names.as_mut();
        names.is_some_and(|names| names.add_flow(unit, key))
    }

    /// A flow of the unit has ended: its key and aliases go; the aliases are
    /// added to `freed`. The unit lives on. Where a unit is one flow, it keeps
    /// the keys of its flows until [`Classifier::remove_unit`]: a flow may have begun
    /// anew with the packet that ended it.
    pub fn end_flow(&mut self, unit: u64, key: &FlowKey, freed: &mut Vec<FlowKey>) {
        if let Some(names) = &mut self.names {
            names.end_flow(unit, key, freed);
        }
    }

    /// An alias of the unit has ended before its flow, or an open one before
    /// its unit. False where the unit has no such alias.
    pub fn end_alias(&mut self, unit: u64, key: &FlowKey) -> bool {
        let names = self.names.as_mut();
        names.is_some_and(|names| names.end_alias(unit, key))
    }

    /// A flow of the unit has ended while packets may be on their way that came
    /// by its names. Until [`Classifier::end_name`] the names lead to the unit:
    /// a name has one unit while a packet that came by it is on its way. Adds to
    /// `names` those that are to go: the flow's aliases, and its key where units
    /// are wider than flows.
    pub fn leave_flow(&mut self, unit: u64, key: &FlowKey, names: &mut Vec<FlowKey>) {
        if let Some(all) = &mut self.names {
            all.leave_flow(unit, key, names);
        }
    }

    /// The same for an alias that has ended before its flow or unit. False where
    /// the unit has no such alias.
    pub fn leave_alias(&mut self, unit: u64, key: &FlowKey) -> bool {
        let names = self.names.as_mut();
        names.is_some_and(|names| names.leave_alias(unit, key))
    }

    /// A name that was to leave stays: its flow has begun anew in the unit.
    pub fn stay(&mut self, unit: u64, key: &FlowKey) {
        if let Some(names) = &mut self.names {
            names.stay(unit, key);
        }
    }

    /// True where a packet has come by a name that leaves, since it does or
    /// since this was asked last.
    pub fn was_used(&mut self, unit: u64, key: &FlowKey) -> bool {
        let names = self.names.as_mut();
        names.is_some_and(|names| names.was_used(unit, key))
    }

    /// Ends a name of the unit, if it leaves; an alias is added to `freed`.
    pub fn end_name(&mut self, unit: u64, key: &FlowKey, freed: &mut Vec<FlowKey>) {
        if let Some(names) = &mut self.names {
            names.end_name(unit, key, freed);
        }
    }

    /// The unit has ended, with all its names; its aliases are added to
    /// `freed`. The liaison does not end.
    pub fn remove_unit(&mut self, unit: u64, freed: &mut Vec<FlowKey>) {
        if let Some(names) = &mut self.names {
            names.remove_unit(unit, freed);
        }
    }

    /// Makes a unit with the number, scope key, flows (key, and whether the
    /// client is the key's second end) and aliases (with the key of their
    /// flow) it had in a classifier before this one. Without its scope key it
    /// gets, where the scope is made of fields, that of the first flow that
    /// did not come through an open alias; one that a function makes is not
    /// known then ([`Classifier::set_key`]). A scope key that is told, and that
    /// another unit has, stays that unit's. A unit that is one flow needs none.
    ///
    /// # Errors
    ///
    /// The place, the unit's key or an alias is taken
    /// ([`SnapshotError::Exists`]), there is no room, no flow, or the lists
    /// contradict themselves. Nothing has changed then. A flow key that
    /// another unit has stays that unit's.
    pub fn restore(
        &mut self,
        unit: u64,
        key: Option<&FlowKey>,
        flows: &[(FlowKey, bool)],
        aliases: &[(FlowKey, AliasRequest)],
    ) -> Result<(), SnapshotError> {
        let scope = match (key, &self.scope) {
            (Some(key), Some(_)) => Some(*key),
            _ => self.scope_of_restored(flows, aliases),
        };
        let names = self.names.as_mut().ok_or(SnapshotError::NoFlow)?;
        let scope = scope.filter(|scope| key.is_none() || names.unit_of_scope(scope).is_none());
        names.restore(unit, scope, flows, aliases)
    }

    fn scope_of_restored(
        &self,
        flows: &[(FlowKey, bool)],
        aliases: &[(FlowKey, AliasRequest)],
    ) -> Option<FlowKey> {
        let Some((Scope::Fields(fields), _)) = self.scope else {
            return None;
        };
        let through_alias = |head: &FlowHead| {
            let key = &head.key;
            let (address, port) = key.destination(head.client_direction());
            let (end, _) = FlowKey::one_end(address, port, key.proto(), key.zone(), key.chain());
            aliases
                .iter()
                .any(|(_, alias)| alias.open && alias.key == end)
        };
        let mut heads = flows.iter().map(|(key, client_is_b)| {
            head_of(
                key,
                if *client_is_b {
                    Direction::Reverse
                } else {
                    Direction::Forward
                },
            )
        });
        heads
            .find(|head| !through_alias(head))
            .map(|head| key_of_fields(&head, fields))
    }

    /// Makes a unit of one flow whose key another unit's flow has: no packet
    /// finds it, and it lives until it ends. That happens where an alias took the
    /// key over and went, and the next packet opened a flow under it.
    ///
    /// # Errors
    ///
    /// The place is taken, there is no room, or units are wider than flows.
    /// Nothing has changed then.
    pub fn restore_hidden(&mut self, unit: u64, flow: &FlowKey) -> Result<(), SnapshotError> {
        let names = self.names.as_mut().ok_or(SnapshotError::NoFlow)?;
        names.restore_hidden(unit, flow)
    }

    /// Tells the scope key of a restored unit; false where the unit has one,
    /// or another unit has this one.
    pub fn set_key(&mut self, unit: u64, key: &FlowKey) -> bool {
        let names = self.names.as_mut();
        names.is_some_and(|names| names.set_key(unit, key))
    }

    /// Counts of packets taken in, dropped and held.
    pub fn report(&self) -> Report {
        let mut flows = FlowReport::default();
        if let Some(names) = &self.names {
            flows.tracked = true;
            flows.seen = names.opened;
            flows.active = u64::from(names.flow_count());
            flows.units = u64::from(names.wide_units());
            flows.aliases = u64::from(names.alias_count());
            flows.aliases_refused = self.aliases_refused;
        }
        Report {
            chain: self.chain.clone(),
            packets_in: self.packets_in,
            bytes_in: self.bytes_in,
            packets_out: self.packets_out,
            bytes_out: self.bytes_out,
            held: self.fragments.held() as u64,
            drops: self.reasons.drops(),
            malformed: self.reasons.malformed(),
            flows,
            engine_cycles: self.engine_cycles,
            ..Report::default()
        }
    }

    /// Gives held fragments back to `pool`, as dropped.
    pub fn finish(&mut self, pool: &mut FramePool) {
        self.drop_held(pool, None);
    }

    /// Drops the fragments that have waited too long by `now`, or all.
    fn drop_held(&mut self, pool: &mut FramePool, now: Option<u64>) {
        let mut over = core::mem::take(&mut self.over);
        self.fragments.expired(now, &mut over);
        for frame in over.drain(..) {
            self.reasons.count(EngineDrop::FragmentTimeout);
            pool.give(frame);
        }
        self.over = over;
    }
}

/// The head of a new flow, for functions that make scope keys.
fn head_of(key: &FlowKey, client: Direction) -> FlowHead {
    let mut head = FlowHead::new_zeroed();
    head.key = *key;
    head.bits = match client {
        Direction::Forward => 0,
        Direction::Reverse => FlowHead::CLIENT_IS_B,
    };
    head
}
