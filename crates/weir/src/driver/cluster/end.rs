//! Counts of a cluster when it has ended, all parts together.

use std::time::Duration;

use weir_ctl::DriverDrop;
use weir_protocol::switch::SwitchDrop;
use weir_protocol::{RuntimeId, Switch};
use weir_runtime::{Lie, Report, add_named};

use super::super::hand_overs::HandOvers;

/// Counts of one runtime.
#[derive(Clone, Debug)]
pub struct RuntimeEnd {
    /// Which.
    pub id: RuntimeId,
    /// Packets that came to it.
    pub packets: u64,
    /// Units that it owned at the end, in all chains.
    pub units: u64,
    /// Time in which it had something to do.
    pub busy: Duration,
    /// Most packets it held for units whose state was not there yet.
    pub held_most: u64,
}

/// Packets that left, and those that left out of order, which never should happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Packets that left.
    pub out: u64,
    /// Packets that left after a later one of their unit.
    pub reordered: u64,
}

/// Counts of a cluster.
#[derive(Debug, Default)]
pub struct ClusterEnd {
    /// Per chain.
    pub reports: Vec<Report>,
    /// Per runtime, in the order of their numbers.
    pub runtimes: Vec<RuntimeEnd>,
    /// Packets and bytes that left.
    pub gate: GateCounts,
    /// Hand-overs.
    pub hand_overs: HandOvers,
    /// Counts of all switches and actors together, zeros included.
    pub counts: Vec<(String, u64)>,
    /// Violations of descriptors that an audit found.
    pub lies: Vec<Lie>,
    /// Frames that nobody gave back; 0 unless there is a bug.
    pub leaked: usize,
    /// Why runtimes have died while the run went on.
    pub deaths: Vec<String>,
    /// Page size of the packet memory, where runtimes have processes of their own.
    pub pages: Option<String>,
}

impl ClusterEnd {
    /// A count by its name; 0 where there is none of it.
    pub fn count(&self, name: &str) -> u64 {
        let found = self.counts.iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, n)| *n)
    }

    pub(super) fn add_count(&mut self, name: &str, n: u64) {
        add_named(&mut self.counts, &[(name.to_owned(), n)]);
    }

    /// Packets that left as nothing, since no copy was there to send again. A
    /// `Lost` that was sent is none yet: on a ring the packet itself comes first,
    /// however late, and the `Lost` is a repeat that is dropped.
    pub fn lost(&self) -> u64 {
        let drops = self.reports.iter().flat_map(|report| &report.drops);
        drops
            .filter(|(name, _)| name == SwitchDrop::Lost.name())
            .map(|(_, n)| n)
            .sum()
    }

    /// Entries that the gate refused: they came twice, late, or from one who
    /// does not own the unit.
    pub fn refused(&self) -> u64 {
        [
            "entry_duplicate",
            "entry_old_view",
            "entry_not_owner",
            "entry_unknown_unit",
            "entry_not_sent",
            "parked_refused",
        ]
        .iter()
        .map(|name| self.count(name))
        .sum()
    }
}

/// Counts of a chain's switch: packets in, packets out, and its own drops.
pub(super) fn of_switch(switch: &Switch) -> Report {
    let (mut report, gate) = (switch.classifier().report(), switch.report());
    report.packets_out = gate.packets_out;
    report.bytes_out = gate.bytes_out;
    report.emitted = gate.emitted;
    report.held = gate.held;
    // Runtimes report the drops of functions, by reason.
    let functions = SwitchDrop::Functions.name();
    report.drops = gate.drops;
    report.drops.retain(|(name, _)| name != functions);
    report.add_internal(switch.internal());
    report
}

/// Counts drops without a known reason: a dead runtime can't report what its
/// functions dropped, so those packets count under a reason of their own.
pub(super) fn not_told(report: &mut Report) {
    let told = report.packets_out + report.dropped() + report.held;
    let missing = (report.packets_in + report.emitted).saturating_sub(told);
    if missing > 0 {
        add_named(
            &mut report.drops,
            &[(DriverDrop::RuntimeDied.name().to_owned(), missing)],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_is_what_did_not_leave_and_not_what_was_asked_for_again() {
        let mut end = ClusterEnd::default();
        end.add_count("lost_sent", 85);
        end.reports.push(Report::default());
        assert_eq!(end.lost(), 0);

        end.reports[0].drops = vec![(SwitchDrop::Lost.name().to_owned(), 3)];
        assert_eq!(end.lost(), 3);
    }
}
