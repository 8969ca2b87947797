//! The notes of entries: names of flows, ends, events.

use weir_nf::host::AliasRequest;
use weir_nf::{PoolId, PortLease};
use weir_packet::{Disposition, FlowKey, Frame, PacketMemory};
use weir_runtime::notes::{self, Note};

use super::leases::Freed;
use super::runtimes::Slot;
use super::{Switch, SwitchCount, SwitchDrop};
use crate::ids::{Clock, UnitId};
use crate::journal::Done;
use crate::message::Message;

/// Names that a planted bug registers too late.
#[derive(Debug, Default)]
pub(super) struct Late {
    names: Vec<(UnitId, FlowKey, AliasRequest)>,
}

/// The ports that an entry has leased, and the keys of the aliases that it asked for.
#[derive(Debug, Default)]
pub(super) struct Leased {
    ports: Vec<(PoolId, PortLease)>,
    names: Vec<FlowKey>,
}

impl Switch {
    /// Registers the names in the notes of an entry, before its outputs leave.
    pub(super) fn take_names(
        &mut self,
        (unit, clock): (UnitId, Clock),
        bytes: &[u8],
        late: bool,
        leased: &mut Leased,
    ) {
        for note in notes::read(bytes) {
            match note {
                Ok(Note::Alias { flow, request }) if late => {
                    self.late_names.names.push((unit, flow, request));
                }
                Ok(Note::Alias { flow, request }) => {
                    self.name_stays(unit, &flow);
                    self.name_stays(unit, &request.key);
                    self.add_name(unit, &flow, &request);
                    leased.names.push(request.key);
                }
                Ok(Note::FlowEnded { key }) => {
                    self.counts.add(SwitchCount::FlowEnded);
                    self.flow_ended(unit, clock, &key);
                }
                Ok(Note::FlowOpened { key, .. }) => {
                    self.name_stays(unit, &key);
                    let was_alias = self.classifier.alias_of(&key).is_some();
                    self.classifier.add_flow(unit.0, &key);
                    self.count_name(unit, &key, was_alias);
                }
                Ok(Note::AliasEnded { key }) => self.alias_ended(unit, clock, &key),
                Ok(Note::Leased { pool, lease }) => leased.ports.push((pool, lease)),
                Ok(Note::EmitsLost { count }) => {
                    self.packets.emitted += u64::from(count);
                    self.drops.add_many(SwitchDrop::EmitsLost, u64::from(count));
                }
                Ok(Note::Event(_)) | Err(_) => {}
            }
        }
    }

    fn add_name(&mut self, unit: UnitId, flow: &FlowKey, request: &AliasRequest) {
        if self.yields_name(unit, &request.key) {
            return;
        }
        if self.take_name(unit, flow, request) {
            self.counts.add(SwitchCount::AliasAdded);
            self.outbox.journal.note(Done::Alias {
                unit,
                key: request.key,
            });
        } else {
            self.counts.add(SwitchCount::AliasRefused);
        }
    }

    /// A key that may have become an alias of the unit, by request or because the unit has
    /// its one flow already: it counts once among the names of its port, whoever has it.
    pub(super) fn count_name(&mut self, unit: UnitId, key: &FlowKey, was_alias: bool) {
        if !was_alias && self.classifier.alias_of(key) == Some(unit.0) {
            self.lessor.named(key);
        }
    }

    /// Ports that an entry has leased. One that got no name in it (its flow's packets
    /// are found under a name that the unit has otherwise) is the unit's until
    /// that ends: no name will tell when it is free.
    pub(super) fn take_leases(&mut self, unit: UnitId, leased: &Leased) {
        for &(pool, lease) in &leased.ports {
            let mut names = leased.names.iter();
            let is_named = names.any(|key| {
                self.classifier.alias_of(key) == Some(unit.0)
                    && self.lessor.lies_on(key, pool, lease)
            });
            if self.lessor.lease(unit, pool, lease, is_named) {
                self.counts.add(SwitchCount::PortHeld);
            }
        }
    }

    /// An entry is never let out, nor made again where none is repeated: the ports that
    /// it leased are free. Elsewhere their owner keeps the entry, and asks.
    pub(super) fn free_unheard(&mut self, from: Slot, memory: &PacketMemory, side: &[Frame]) {
        if self.settings.acknowledge {
            return;
        }
        for frame in side {
            let (meta, bytes) = memory.read(frame);
            if meta.disposition != Disposition::Notes {
                continue;
            }
            for note in notes::read(bytes).flatten() {
                if let Note::Leased { pool, lease } = note
                    && !self.lessor.is_leased(from, pool, lease)
                {
                    self.tell_port_freed((from, pool, lease));
                }
            }
        }
    }

    fn tell_port_freed(&mut self, (holder, pool, lease): Freed) {
        if self.runtimes.is_here(holder) {
            self.counts.add(SwitchCount::PortFreed);
            self.tell(holder, Message::PortFreed { pool, lease });
        }
    }

    /// A port is free. Its runtime is told after the `Out`s of this burst: it would doubt a port
    /// whose leasing entry it still takes for not let out.
    fn port_freed(&mut self, freed: Freed) {
        match self.acks.is_empty() {
            true => self.tell_port_freed(freed),
            false => self.freed.push(freed),
        }
    }

    /// Tells of the ports that became free in a burst and were not leased again in it.
    pub(super) fn tell_freed(&mut self) {
        let mut all = core::mem::take(&mut self.freed);
        for (holder, pool, lease) in all.drain(..) {
            if !self.lessor.is_leased(holder, pool, lease) {
                self.tell_port_freed((holder, pool, lease));
            }
        }
        self.freed = all;
    }

    /// A unit is over: ports that only it held are free.
    pub(super) fn leases_gone(&mut self, unit: UnitId) {
        for freed in self.lessor.let_go(unit) {
            self.port_freed(freed);
        }
    }

    /// True but for a planted bug.
    pub(super) fn late_names_is_empty(&self) -> bool {
        self.late_names.names.is_empty()
    }

    /// Registers what a planted bug has left for later.
    pub(super) fn add_late_names(&mut self) {
        for (unit, flow, request) in core::mem::take(&mut self.late_names.names) {
            if self.units.find(unit).is_some() {
                self.add_name(unit, &flow, &request);
            }
        }
    }

    /// Names that the classifier has let go of: their ports are free again.
    pub(super) fn names_gone(&mut self, names: &[FlowKey]) {
        for key in names {
            self.counts.add(SwitchCount::AliasGone);
            for freed in self.lessor.unnamed(key).into_iter().flatten() {
                self.port_freed(freed);
            }
        }
    }

    /// Takes the events out of the notes of an entry that is let out.
    pub(super) fn take_events(&mut self, bytes: &[u8]) {
        for note in notes::read(bytes) {
            if let Ok(Note::Event(line)) = note {
                self.outbox.events.extend_from_slice(line);
            }
        }
    }
}
