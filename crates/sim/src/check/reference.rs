//! One runtime that sees all packets in the order in which they were let out.

use weir_nf::{PoolId, PortLease};
use weir_packet::{FlowKey, Frame, FramePool, MemoryLayout};
use weir_protocol::entry::{to_frame, to_part};
use weir_protocol::message::{Entry, Part};
use weir_protocol::{UnitId, View};
use weir_runtime::Runtime;

use super::bindings::{Bindings, Doubled, Turn};
use super::show::{same, show_entry};

/// The engine that all runtimes together must be equal to.
pub(crate) struct Reference {
    engine: Runtime,
    pool: FramePool,
    input: Vec<Frame>,
    output: Vec<Frame>,
    bindings: Bindings,
    /// A port that an applied entry leased, and that another live unit has.
    doubled: Option<Doubled>,
}

impl Reference {
    pub(crate) fn new(engine: Runtime) -> Reference {
        let pool = FramePool::with_layout(MemoryLayout {
            small_frames: 1_024,
            small_bytes: 33 * 64,
            large_frames: 8,
            large_bytes: 1_025 * 64,
        });
        Reference {
            engine,
            pool,
            input: Vec::new(),
            output: Vec::new(),
            bindings: Bindings::default(),
            doubled: None,
        }
    }

    /// Applies a packet as it was numbered; leased resources are those of the
    /// entry that `made` says.
    pub(crate) fn apply(&mut self, unit: UnitId, view: View, part: &Part, made: &Entry) -> Entry {
        // Ports are those that the other engine took.
        let turn = Turn::of(made);
        for &(pool, lease) in turn.leased() {
            self.engine.leases_mut().script(pool, lease);
        }
        if let Ok(frame) = to_frame(&mut self.pool, (unit, view, made.clock), part) {
            self.input.push(frame);
        }
        self.engine
            .apply(&mut self.pool, &mut self.input, &mut self.output);
        let mut parts = Vec::with_capacity(self.output.len());
        for frame in self.output.drain(..) {
            parts.push(to_part(self.pool.memory(), &frame));
            self.pool.give(frame);
        }
        let mut bindings = core::mem::take(&mut self.bindings);
        let doubled = bindings.turn(unit, made.clock.0, &turn, || self.flows(unit));
        self.bindings = bindings;
        self.doubled = self.doubled.take().or(doubled);
        Entry {
            clock: made.clock,
            parts,
        }
    }

    /// A port that an entry leased since the last call, and that another live unit has.
    pub(crate) fn take_doubled(&mut self) -> Option<Doubled> {
        self.doubled.take()
    }

    /// Applies a packet and says what is different from the entry that was
    /// let out.
    pub(crate) fn compare(
        &mut self,
        unit: UnitId,
        view: View,
        part: &Part,
        made: &Entry,
    ) -> Option<String> {
        let right = self.apply(unit, view, part, made);
        if same(made, &right) {
            return None;
        }
        let mut text = format!(
            "{} was let out, {} is right",
            show_entry(made),
            show_entry(&right)
        );
        for (a, b) in made.parts.iter().zip(&right.parts) {
            let at = a.bytes.iter().zip(&b.bytes).position(|(x, y)| x != y);
            if let Some(at) = at {
                text += &format!("; {:?} differs at byte {at}", a.disposition);
            } else if a.time != b.time {
                text += &format!("; {:?} has another time", a.disposition);
            }
        }
        Some(text)
    }

    /// True where the unit has a flow.
    pub(crate) fn has_flows(&self, unit: UnitId) -> bool {
        self.engine.has_unit(unit.0)
    }

    /// The unit has no state any more.
    pub(crate) fn forget(&mut self, unit: UnitId) {
        self.bindings.forget(unit);
        self.engine.forget_unit(unit.0);
    }

    /// Another live unit that has this one's port.
    pub(crate) fn doubled_of(&self, unit: UnitId) -> Option<Doubled> {
        self.bindings.doubled_of(unit)
    }

    /// All ports that live units have.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (UnitId, (PoolId, PortLease))> + '_ {
        self.bindings.ports()
    }

    /// The unit has this state, exported after its packet `out`, and no other.
    pub(crate) fn go_back(&mut self, unit: UnitId, state: Option<&[u8]>, out: u64) -> bool {
        self.bindings.go_back(unit, out);
        self.engine.forget_unit(unit.0);
        state.is_none_or(|state| self.engine.install_unit(unit.0, state).is_ok())
    }

    /// The unit's state, as it is exported.
    pub(crate) fn state(&self, unit: UnitId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.engine.export_unit(unit.0, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The unit's flows, by key.
    pub(crate) fn flows(&self, unit: UnitId) -> Vec<FlowKey> {
        let names = self
            .state(unit)
            .and_then(|state| self.engine.read_names(&state).ok());
        let flows = names.map(|(flows, _)| flows).unwrap_or_default();
        flows.into_iter().map(|(key, _)| key).collect()
    }

    /// Frames that were not given back.
    pub(crate) fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{Disposition, LinkType, Side, Time, frame_flags};
    use weir_protocol::journal::Start;
    use weir_protocol::{Clock, RuntimeId};
    use weir_runtime::RuntimeConfig;
    use weir_runtime::harness::Craft;
    use weir_runtime::notes::{self, Note};

    use super::super::{Holders, UnitRecord};
    use super::*;
    use crate::chain::Chain;

    fn part(disposition: Disposition, flags: u8, bytes: &[u8]) -> Part {
        Part {
            disposition,
            time: Time(1_000_000_000),
            sequence: 0,
            flags,
            side: Side::Inside,
            port: 0,
            link: LinkType::Ethernet,
            dlt: 1,
            wire_len: bytes.len() as u32,
            path: 0,
            bytes: bytes.to_vec(),
        }
    }

    /// That an entry speaks of the end of a flow is no excuse to lose a unit that has one still.
    #[test]
    fn a_unit_has_ended_with_its_own_last_flow_only() {
        let stage = Chain::Count.build(1).expect("the chain");
        let config = RuntimeConfig {
            follows: true,
            ..RuntimeConfig::default()
        };
        let engine = Runtime::new(&stage, config).expect("an engine");
        let mut reference = Reference::new(engine);
        let (id, view) = (UnitId(1 << 32 | 3), View(1));
        let mut unit = UnitRecord::new(Holders {
            view,
            base: 0,
            owner: RuntimeId(1),
            replica: None,
            holder: RuntimeId(1),
            start: Start::Nothing,
        });
        let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:53").build();
        let packet = part(Disposition::Pending, 0, &packet);
        let nothing = |clock| Entry {
            clock: Clock(clock),
            parts: Vec::new(),
        };
        reference.apply(id, view, &packet, &nothing(1));
        unit.out = 1;
        assert!(reference.has_flows(id));
        let key = reference.engine.open_flow(0).expect("it is open").key;
        let mut end = Vec::new();
        notes::write(&Note::FlowEnded { key }, &mut end);
        let tick = part(Disposition::Pending, frame_flags::TICK, &end);
        for (clock, applied, ended) in [(2, packet, false), (3, tick, true)] {
            let mut made = nothing(clock);
            made.parts = vec![
                part(Disposition::Notes, 0, &end),
                part(Disposition::Dropped, 0, &[]),
            ];
            unit.entries.insert((view, Clock(clock)), made);
            unit.numbered.entry(clock).or_default().part = Some(applied);
            assert_eq!(unit.may_have_ended(id, &mut reference), ended);
            // The next one goes on from there.
            unit.numbered.clear();
        }
    }
}
