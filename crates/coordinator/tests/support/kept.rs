//! What a store is given to keep.

#![allow(dead_code)] // each test needs another part of it

use weir_api::v1;
use weir_coordinator::state::{Facts, Taken, Wanted};

/// Hours that a store keeps of ledgers.
pub(crate) const KEPT_HOURS: u64 = 400 * 24;

/// A composition with a file of so many octets.
pub(crate) fn some(name: &str, revision: u64, octets: usize) -> Taken {
    Taken {
        revision,
        epoch: 1,
        key: [7; 16],
        wanted: Wanted {
            facts: Facts {
                name: name.to_owned(),
                hosts: vec!["alpha".to_owned()],
                switches: vec!["alpha".to_owned()],
                addresses: vec!["10.0.0.1:1".to_owned()],
                keys: [("ports".to_owned(), "gen".to_owned())].into(),
                prices: Some(v1::Prices {
                    currency: name.to_owned(),
                    packets: revision,
                    ..v1::Prices::default()
                }),
            },
            files: v1::Files {
                composition: "a.yaml".to_owned(),
                files: vec![v1::File {
                    path: "a.yaml".to_owned(),
                    content: (0..octets).map(|n| (n % 251) as u8).collect(),
                }],
            },
        },
    }
}

/// A row of a ledger.
pub(crate) fn entry(composition: &str, hour: u64, ledger: u8, packets: u64) -> v1::LedgerEntry {
    v1::LedgerEntry {
        composition: composition.to_owned(),
        ledger: vec![ledger; 16],
        hour,
        tenant: "acme".to_owned(),
        chain: "edge".to_owned(),
        packets,
        bytes: 60 * packets,
        ..v1::LedgerEntry::default()
    }
}
