//! One runtime that sees all packets in the order in which they were let out.

use weir_packet::{Fate, Frame, FramePool, MemoryLayout};
use weir_protocol::entry::{to_frame, to_part};
use weir_protocol::message::{Entry, Part};
use weir_protocol::{UnitId, View};
use weir_runtime::Runtime;
use weir_runtime::notes::{self, Note};

use super::{same, show_entry};

/// The engine that all runtimes together must be equal to.
pub(crate) struct Reference {
    engine: Runtime,
    pool: FramePool,
    input: Vec<Frame>,
    output: Vec<Frame>,
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
        }
    }

    /// Applies a packet as it was numbered; leased resources are those of the
    /// entry that `made` says.
    pub(crate) fn apply(&mut self, unit: UnitId, view: View, part: &Part, made: &Entry) -> Entry {
        self.lease(made);
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
        Entry {
            clock: made.clock,
            parts,
        }
    }

    /// Gives the engine the ports that the other one took.
    fn lease(&mut self, made: &Entry) {
        for part in made.parts.iter().filter(|p| p.fate == Fate::Notes) {
            for note in notes::read(&part.bytes).flatten() {
                if let Note::Leased { pool, lease } = note {
                    self.engine.leases_mut().script(pool, lease);
                }
            }
        }
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
        if same(&right, made) {
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
                text += &format!("; {:?} differs at byte {at}", a.fate);
            } else if a.time != b.time {
                text += &format!("; {:?} has another time", a.fate);
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
        self.engine.forget_unit(unit.0);
    }

    /// The unit's state, as it is exported.
    pub(crate) fn state(&self, unit: UnitId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.engine
            .export_unit(unit.0, &mut bytes)
            .ok()
            .map(|()| comparable(bytes))
    }

    /// Frames that were not given back.
    pub(crate) fn outstanding(&self) -> usize {
        self.pool.outstanding()
    }
}

/// A state without its counters: those are replicated when there is something
/// else to replicate.
pub(crate) fn comparable(mut state: Vec<u8>) -> Vec<u8> {
    // Bytes that are no snapshot are compared as they are.
    let _ = Runtime::clear_stats(&mut state);
    state
}
