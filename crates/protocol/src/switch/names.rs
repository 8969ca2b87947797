//! What entries say beside packets: names of flows, ends, events.

use weir_nf::host::AliasRequest;
use weir_packet::FlowKey;
use weir_runtime::notes::{self, Note};

use super::{Switch, SwitchCount};
use crate::ids::UnitId;
use crate::journal::Done;
use crate::message::Message;

/// Names that a planted bug registers too late.
#[derive(Debug, Default)]
pub(super) struct Late {
    names: Vec<(UnitId, FlowKey, AliasRequest)>,
}

impl Switch {
    /// Registers the names in the notes of an entry, before its outputs leave.
    pub(super) fn take_names(&mut self, unit: UnitId, bytes: &[u8], late: bool) {
        for note in notes::read(bytes) {
            match note {
                Ok(Note::Alias { flow, request }) if late => {
                    self.late_names.names.push((unit, flow, request));
                }
                Ok(Note::Alias { flow, request }) => self.add_name(unit, &flow, &request),
                Ok(Note::FlowEnded { key }) => {
                    self.counts.add(SwitchCount::FlowEnded);
                    let mut freed = Vec::new();
                    self.classifier.end_flow(unit.0, &key, &mut freed);
                    self.names_gone(&freed);
                }
                Ok(Note::FlowOpened { key, .. }) => {
                    self.classifier.add_flow(unit.0, &key);
                }
                Ok(Note::AliasEnded { key }) => {
                    if self.classifier.end_alias(unit.0, &key) {
                        self.names_gone(&[key]);
                    }
                }
                Ok(Note::Event(_) | Note::Leased { .. }) | Err(_) => {}
            }
        }
    }

    fn add_name(&mut self, unit: UnitId, flow: &FlowKey, request: &AliasRequest) {
        if self.classifier.add_alias(unit.0, flow, request) {
            self.counts.add(SwitchCount::AliasAdded);
            self.lessor.named(&request.key);
            self.outbox.journal.note(Done::Alias {
                unit,
                key: request.key,
            });
        } else if self.classifier.unit_of(&request.key) == Some(unit.0) {
            // A unit is one flow, and a switch that started again knows it the
            // other way round: after a loss its owner met the server first and
            // claimed that side. Who uses the name finds the unit.
            self.counts.add(SwitchCount::AliasKnown);
            self.outbox.journal.note(Done::Alias {
                unit,
                key: request.key,
            });
        } else {
            self.counts.add(SwitchCount::AliasRefused);
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
            for (holder, pool, lease) in self.lessor.unnamed(key).into_iter().flatten() {
                if self.lanes.is_here(holder) {
                    self.counts.add(SwitchCount::PortFreed);
                    self.tell(holder, Message::PortFreed { pool, lease });
                }
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
