//! Facts about an interface beside its packets.

use std::net::IpAddr;

use weir_packet::MacAddr;

use super::interface::failure;
use crate::port::PortError;
use crate::sys::interface::{Interfaces, addresses};

/// Facts about an interface that a router needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Its hardware address.
    pub mac: MacAddr,
    /// Octets of the largest packet behind its link header.
    pub mtu: u32,
    /// The addresses that the kernel has for it, and answers for.
    pub addresses: Vec<IpAddr>,
}

/// Asks the kernel about the interface of this name; `port` is what errors
/// name.
///
/// # Errors
///
/// There is no such interface, or it can't be asked about.
pub fn interface_facts(port: &str, name: &str) -> Result<InterfaceFacts, PortError> {
    let wrong = |error: std::io::Error| failure(port, name, &error);
    let ask = Interfaces::open().map_err(wrong)?;
    Ok(InterfaceFacts {
        mac: ask.mac(name).map_err(wrong)?,
        mtu: ask.mtu(name).map_err(wrong)?,
        addresses: addresses(name).map_err(wrong)?,
    })
}
