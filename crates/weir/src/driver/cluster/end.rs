//! Counts of a cluster when it has ended, all parts together.

use std::time::Duration;

use weir_ctl::DriverDrop;
use weir_protocol::settings::Replication;
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
    /// It died; its counts are those that it told last.
    pub died: bool,
    /// It was a logger.
    pub is_logger: bool,
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
    /// When a second runtime has a unit's state, by chain.
    pub replication: Vec<Replication>,
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
    // The classifier has not seen those that were not let in.
    report.packets_in = gate.packets_in;
    report.bytes_in += switch.refused_bytes();
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

/// Packets that functions dropped, by the entries that a switch let out.
pub(super) fn by_functions(switch: &Switch) -> u64 {
    let functions = SwitchDrop::Functions.name();
    let drops = switch.report().drops;
    let found = drops.iter().find(|(name, _)| name == functions);
    found.map_or(0, |(_, n)| *n)
}

/// Sets the drops that runtimes told of, some of which have died, right by the number that
/// the switch let out as dropped. A dead runtime told what it had counted a while before: what
/// it dropped since has no reason, and what it had counted and not handed on its successor has
/// counted again. What does not balance for another reason is left as it is, to be seen.
pub(super) fn settle(report: &mut Report, dropped: u64) {
    let told = report.dropped();
    let mut twice = told.saturating_sub(dropped);
    if let Some(missing @ 1..) = dropped.checked_sub(told) {
        let died = (DriverDrop::RuntimeDied.name().to_owned(), missing);
        return add_named(&mut report.drops, &[died]);
    }
    // Functions' reasons are `NAME.reason`; the largest has most of them.
    let mut drops: Vec<&mut (String, u64)> = report.drops.iter_mut().collect();
    drops.retain(|(name, _)| name.contains('.'));
    drops.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (_, n) in drops {
        let less = twice.min(*n);
        *n -= less;
        twice -= less;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_dead_runtimes_balance() {
        let settled = |denied: u64, dropped: u64| {
            let mut report = Report {
                packets_in: 10,
                drops: vec![
                    ("flow_table_full".to_owned(), 1),
                    ("firewall.denied".to_owned(), denied),
                ],
                ..Report::default()
            };
            settle(&mut report, dropped);
            report.drops.retain(|(_, n)| *n > 0);
            report.drops
        };
        let named = |drops: &[(&str, u64)]| -> Vec<(String, u64)> {
            let drops = drops.iter();
            drops.map(|(name, n)| ((*name).to_owned(), *n)).collect()
        };
        let full = ("flow_table_full", 1);
        assert_eq!(settled(5, 6), named(&[full, ("firewall.denied", 5)]));
        assert_eq!(settled(7, 6), named(&[full, ("firewall.denied", 5)]));
        let died = DriverDrop::RuntimeDied.name();
        let expected = [full, ("firewall.denied", 3), (died, 2)];
        assert_eq!(settled(3, 6), named(&expected));
    }

    /// Packets that are missing for another reason are not laid to the dead.
    #[test]
    fn an_imbalance_of_another_cause_stays() {
        let mut report = Report {
            packets_in: 10,
            packets_out: 4,
            drops: vec![("firewall.denied".to_owned(), 5)],
            ..Report::default()
        };
        settle(&mut report, 5);
        assert_eq!(report.drops, [("firewall.denied".to_owned(), 5)]);
        assert!(!report.balances());
    }

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
