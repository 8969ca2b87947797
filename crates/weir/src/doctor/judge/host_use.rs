//! Checks if the host itself uses an interface.

use weir_io::machine::Link;

/// True where the host itself uses an interface, so that it is none for weir.
pub(crate) fn is_used_by_host(link: &Link) -> bool {
    link.loopback || link.master.is_some() || own_addresses(link).next().is_some()
}

/// Addresses that somebody gave an interface; those that it gives itself where
/// IPv6 is on are none.
pub(super) fn own_addresses(link: &Link) -> impl Iterator<Item = String> {
    let given = link.addresses.iter().filter(|(address, _)| match address {
        std::net::IpAddr::V4(_) => true,
        std::net::IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    given.map(|(address, prefix)| format!("{address}/{prefix}"))
}
