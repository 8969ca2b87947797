//! The addresses of a packet that rules look up.

use std::net::IpAddr;

use crate::view::FlowContext;

/// The address of a packet that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// That of its sender (`src`, `ip.src`).
    Source,
    /// That of its receiver (`dst`, `ip.dst`).
    Destination,
    /// One of both (`any`).
    Any,
    /// Each of both (`both`).
    Both,
}

impl Which {
    /// True if the addresses in question meet the condition.
    pub(super) fn holds(self, flow: &FlowContext, test: impl Fn(IpAddr) -> bool) -> bool {
        let (source, destination) = (flow.source, flow.destination);
        match self {
            Which::Source => test(source),
            Which::Destination => test(destination),
            Which::Any => test(source) || test(destination),
            Which::Both => test(source) && test(destination),
        }
    }
}
