//! From facts of a machine to findings: pure functions, so that machines that
//! are not here can be judged in tests.

mod host;
mod interfaces;
mod offloads;
mod privileges;
#[cfg(test)]
mod tests;
mod xdp;

use weir_io::machine::{Link, Machine};

use super::finding::Finding;
use super::need::Need;

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

/// True where the host itself uses an interface, so that it is none for weir.
pub(crate) fn is_used_by_host(link: &Link) -> bool {
    link.loopback || link.master.is_some() || own_addresses(link).next().is_some()
}

/// Addresses that somebody gave an interface; those that it gives itself where
/// IPv6 is on are none.
fn own_addresses(link: &Link) -> impl Iterator<Item = String> {
    let given = link.addresses.iter().filter(|(address, _)| match address {
        std::net::IpAddr::V4(_) => true,
        std::net::IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    given.map(|(address, prefix)| format!("{address}/{prefix}"))
}

/// `1 queue`, `2 queues`.
fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
