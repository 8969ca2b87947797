//! From facts of a machine to findings: pure functions, so that machines that
//! are not here can be judged in tests.

mod host;
mod host_use;
mod interfaces;
mod offloads;
mod privileges;
#[cfg(test)]
mod tests;
mod xdp;

use weir_io::machine::Machine;

use super::finding::Finding;
use super::need::Need;

pub(crate) use host_use::is_used_by_host;

/// Judges a machine by what is needed of it. Findings are in the order of their
/// areas.
pub(crate) fn judge(machine: &Machine, need: &Need) -> Vec<Finding> {
    let mut all = interfaces::judge(machine, need);
    all.extend(privileges::judge(machine, need));
    all.extend(host::judge(machine, need));
    // Stable: what is about one interface stays together.
    all.sort_by_key(|finding| finding.area);
    all
}
