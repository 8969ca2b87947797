//! Values in files that rules look up: `dataset`, `datarep`, `filemd5` and its like, `iprep`.

mod options;
mod reputation;
mod set;

pub use options::{DataTest, DataUse};
pub use reputation::{ReputationTest, Reputations};
pub use set::{DataKind, DataSet};

pub(crate) use options::{hash_list, parse};
pub(crate) use reputation::parse as parse_reputation;

use std::net::IpAddr;
use std::sync::Arc;

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
    fn holds(self, flow: &FlowContext, test: impl Fn(IpAddr) -> bool) -> bool {
        let (source, destination) = (flow.source, flow.destination);
        match self {
            Which::Source => test(source),
            Which::Destination => test(destination),
            Which::Any => test(source) || test(destination),
            Which::Both => test(source) && test(destination),
        }
    }
}

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

/// What rules look up, as far as it was read.
pub(crate) type Loaded<T> = Option<Arc<T>>;
