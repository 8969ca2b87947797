//! The end of a runtime in a process of its own, as text.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_nf::host::Stage;
use weir_protocol::RuntimeId;

use super::super::runtime_done::RuntimeDone;
use super::said::Said;

/// The end of a runtime, but for its events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct SaidDone {
    /// Per chain.
    said: Vec<Said>,
    busy_ns: u64,
    packets: u64,
    units: u64,
    held_most: u64,
    counts: Vec<(String, u64)>,
}

impl SaidDone {
    pub(in super::super) fn of(done: &RuntimeDone) -> SaidDone {
        let first = |chain| match chain {
            0 => done.lies.as_slice(),
            _ => &[],
        };
        let reports = done.reports.iter().enumerate();
        SaidDone {
            said: reports
                .map(|(chain, report)| Said::new(report, first(chain)))
                .collect(),
            busy_ns: u64::try_from(done.busy.as_nanos()).unwrap_or(u64::MAX),
            packets: done.packets,
            units: done.units,
            held_most: done.held_most,
            counts: done.counts.clone(),
        }
    }

    /// The end of this runtime, which has these chains.
    pub(in super::super) fn done(
        self,
        id: RuntimeId,
        stages: &[Stage],
        events: Vec<u8>,
    ) -> RuntimeDone {
        let said = self.said.iter().zip(stages);
        // The first chain's has those of all.
        let lies = self.said.first().map(|first| first.lies(stages));
        let mut done = RuntimeDone::of(id, events);
        done.reports = said.map(|(said, stage)| said.report(stage)).collect();
        done.lies = lies.unwrap_or_default();
        done.busy = Duration::from_nanos(self.busy_ns);
        done.packets = self.packets;
        done.units = self.units;
        done.held_most = self.held_most;
        done.counts = self.counts;
        done
    }
}
