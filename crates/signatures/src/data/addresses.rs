//! Conditions on addresses beyond those of a rule's header.

use std::net::IpAddr;

use super::options::DataTest;
use super::reputation::ReputationTest;
use super::which::Which;
use crate::view::FlowContext;

/// A condition on the addresses of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressTest {
    /// `ip.src` or `ip.dst` with `dataset` or `datarep`.
    Data(Which, DataTest),
    /// `iprep`.
    Reputation(Which, ReputationTest),
}

impl AddressTest {
    /// True if the packet's addresses meet the condition.
    pub(crate) fn holds(&self, flow: &FlowContext) -> bool {
        match self {
            AddressTest::Data(which, test) => which.holds(flow, |address| match address {
                IpAddr::V4(address) => test.holds(&address.octets()),
                IpAddr::V6(address) => test.holds(&address.octets()),
            }),
            AddressTest::Reputation(which, test) => {
                which.holds(flow, |address| test.holds(address))
            }
        }
    }
}
