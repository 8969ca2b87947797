//! What is kept of a composition and of ledgers, whatever the store.

use std::collections::BTreeMap;

use weir_api::v1;

use crate::state::{Facts, Taken, Wanted};

/// Hours that the ledger keeps: 400 days. Older ones go when a newer one comes.
pub(crate) const KEPT_HOURS: u64 = 400 * 24;
/// Hours between two looks for old ones.
pub(crate) const PRUNE: u64 = 24;

/// A composition as it is kept. Fields may be added; none changes its meaning or number.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Kept {
    /// With its files and its key.
    #[prost(message, tag = "1")]
    share: Option<v1::Share>,
    #[prost(string, repeated, tag = "2")]
    hosts: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    keys: BTreeMap<String, String>,
    #[prost(string, repeated, tag = "4")]
    switches: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    addresses: Vec<String>,
    #[prost(message, tag = "6")]
    prices: Option<v1::Prices>,
}

impl Kept {
    /// A composition, to be kept.
    pub(crate) fn of(taken: &Taken) -> Kept {
        let Facts {
            name,
            hosts,
            switches,
            addresses,
            keys,
            prices,
        } = taken.wanted.facts.clone();
        Kept {
            share: Some(v1::Share {
                composition: name,
                revision: taken.revision,
                epoch: taken.epoch,
                key: taken.key.to_vec(),
                files: Some(taken.wanted.files.clone()),
                put: false,
                reload: false,
            }),
            hosts,
            switches,
            addresses,
            keys,
            prices,
        }
    }

    /// The composition that was kept.
    ///
    /// # Errors
    ///
    /// No coordinator writes such a one: what is wrong with it.
    pub(crate) fn taken(self) -> Result<Taken, String> {
        let share = self.share.ok_or("it has no share")?;
        let key = <[u8; 16]>::try_from(share.key.as_slice());
        Ok(Taken {
            revision: share.revision,
            epoch: share.epoch,
            key: key.map_err(|_| "its key has not 16 octets")?,
            wanted: Wanted {
                facts: Facts {
                    name: share.composition,
                    hosts: self.hosts,
                    switches: self.switches,
                    addresses: self.addresses,
                    keys: self.keys,
                    prices: self.prices,
                },
                files: share.files.ok_or("it has no files")?,
            },
        })
    }
}

/// Names a row among those of its hour, ledger and tenant. Names have no control characters.
pub(crate) fn row(entry: &v1::LedgerEntry) -> String {
    format!("{}\0{}", entry.chain, entry.function)
}

/// Octets as two hexadecimal digits each.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The row with what `entry` adds to it; `None` where that says nothing new. Numbers only ever grow, so
/// of two reports about one row the greater numbers are the later ones.
pub(crate) fn news(
    known: Option<&v1::LedgerEntry>,
    entry: &v1::LedgerEntry,
) -> Option<v1::LedgerEntry> {
    let now = match known {
        None => entry.clone(),
        Some(known) => v1::LedgerEntry {
            packets: known.packets.max(entry.packets),
            bytes: known.bytes.max(entry.bytes),
            dropped: known.dropped.max(entry.dropped),
            sampled_ns: known.sampled_ns.max(entry.sampled_ns),
            sampled: known.sampled.max(entry.sampled),
            ..known.clone()
        },
    };
    (known != Some(&now)).then_some(now)
}
