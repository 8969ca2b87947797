//! The list of stock functions.

use weir_nf::host::Kind;

use crate::asset::AssetMonitor;
use crate::filter::Filter;
use crate::ip_check::IpCheck;
use crate::mac_swap::MacSwap;
use crate::monitor::Monitor;
use crate::nop::{FlowNop, Nop};
use crate::size_histogram::SizeHistogram;
use crate::ttl::Ttl;

const KINDS: &[Kind] = &[
    Kind::of::<AssetMonitor>(),
    Kind::of::<Filter>(),
    Kind::of::<FlowNop>(),
    Kind::of::<IpCheck>(),
    Kind::of::<MacSwap>(),
    Kind::of::<Monitor>(),
    Kind::of::<Nop>(),
    Kind::of::<SizeHistogram>(),
    Kind::of::<Ttl>(),
];

/// All stock functions, in the order of their names.
pub fn kinds() -> &'static [Kind] {
    KINDS
}

/// The stock function called `name`.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.descriptor.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_unlike_each_other() {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.descriptor.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn every_function_says_what_it_is() {
        for kind in KINDS {
            let d = kind.descriptor;
            assert!(!d.manual.is_empty() && !d.summary.is_empty(), "{}", d.name);
            assert!(d.labels.len() < weir_nf::host::MAX_LABELS, "{}", d.name);
        }
    }
}
