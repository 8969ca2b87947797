//! The list of stock functions.

use weir_nf::host::Kind;

use crate::asset::AssetMonitor;
use crate::classifier::Classifier;
use crate::compression::{PayloadCompressor, PayloadDecompressor};
use crate::counter::PacketCounter;
use crate::filter::Filter;
use crate::firewall::Firewall;
use crate::http::Http;
use crate::http_classifier::HttpClassifier;
use crate::ids::Ids;
use crate::ip_check::IpCheck;
use crate::load_balancer::LoadBalancer;
use crate::mac_swap::MacSwap;
use crate::monitor::Monitor;
use crate::nat44::Nat44;
use crate::nop::{FlowNop, Nop};
use crate::policer::Policer;
use crate::size_histogram::SizeHistogram;
use crate::syn_guard::SynGuard;
use crate::ttl::Ttl;
use crate::udp_whitelist::UdpWhitelist;
use crate::url_counter::UrlCounter;
use crate::url_validator::UrlValidator;

const KINDS: &[Kind] = &[
    Kind::of::<AssetMonitor>(),
    Kind::of::<Classifier>(),
    Kind::of::<PacketCounter>(),
    Kind::of::<Filter>(),
    Kind::of::<Firewall>(),
    Kind::of::<FlowNop>(),
    Kind::of::<Http>(),
    Kind::of::<HttpClassifier>(),
    Kind::of::<Ids>(),
    Kind::of::<IpCheck>(),
    Kind::of::<LoadBalancer>(),
    Kind::of::<MacSwap>(),
    Kind::of::<Monitor>(),
    Kind::of::<Nat44>(),
    Kind::of::<Nop>(),
    Kind::of::<PayloadCompressor>(),
    Kind::of::<PayloadDecompressor>(),
    Kind::of::<Policer>(),
    Kind::of::<SizeHistogram>(),
    Kind::of::<SynGuard>(),
    Kind::of::<Ttl>(),
    Kind::of::<UdpWhitelist>(),
    Kind::of::<UrlCounter>(),
    Kind::of::<UrlValidator>(),
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
