//! Keys of a store in etcd, all behind one prefix.
//!
//! - `version`, `id`, `revision`: as in `embedded`.
//! - `leader`: the name of the coordinator that leads, under that coordinator's lease. Each write puts it again.
//! - `importing`: there while an import is not finished.
//! - `compositions/NAME`, `prices/NAME`, `parts/NAME/PUT/NUMBER`.
//! - `ledger/NAME`, hour, ledger and tenant, apart by zeros: names have none.

use weir_api::v1::LedgerEntry;

use crate::store::kept::hex;

/// The keys of one store.
#[derive(Clone, Debug)]
pub(super) struct Keys(String);

/// Keys from the first to before the second.
pub(super) type Between = (Vec<u8>, Vec<u8>);

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        Keys(prefix.to_owned())
    }

    fn of(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.0).into_bytes()
    }

    pub(super) fn version(&self) -> Vec<u8> {
        self.of("version")
    }

    pub(super) fn id(&self) -> Vec<u8> {
        self.of("id")
    }

    pub(super) fn revision(&self) -> Vec<u8> {
        self.of("revision")
    }

    pub(super) fn importing(&self) -> Vec<u8> {
        self.of("importing")
    }

    pub(super) fn leader(&self) -> Vec<u8> {
        self.of("leader")
    }

    pub(super) fn composition(&self, name: &str) -> Vec<u8> {
        self.of(&format!("compositions/{name}"))
    }

    pub(super) fn compositions(&self) -> Between {
        (self.of("compositions/"), self.of("compositions0"))
    }

    pub(super) fn prices(&self, name: &str) -> Vec<u8> {
        self.of(&format!("prices/{name}"))
    }

    pub(super) fn part(&self, name: &str, put: &[u8], number: usize) -> Vec<u8> {
        self.of(&format!("parts/{name}/{}/{number:05}", hex(put)))
    }

    /// All parts that a put of a composition has written.
    pub(super) fn parts(&self, name: &str, put: &[u8]) -> Between {
        let put = hex(put);
        (
            self.of(&format!("parts/{name}/{put}/")),
            self.of(&format!("parts/{name}/{put}0")),
        )
    }

    /// All parts of a composition.
    pub(super) fn all_parts(&self, name: &str) -> Between {
        (
            self.of(&format!("parts/{name}/")),
            self.of(&format!("parts/{name}0")),
        )
    }

    /// All parts of all compositions.
    pub(super) fn parts_of_all(&self) -> Between {
        (self.of("parts/"), self.of("parts0"))
    }

    /// All prices.
    pub(super) fn all_prices(&self) -> Between {
        (self.of("prices/"), self.of("prices0"))
    }

    /// The key of a ledger's rows for a tenant in an hour.
    pub(super) fn ledger(&self, of: &LedgerEntry) -> Vec<u8> {
        let rest = format!("{}\0{}", hex(&of.ledger), of.tenant);
        let mut key = self.hour(&of.composition, of.hour).0;
        key.extend(rest.into_bytes());
        key
    }

    /// All keys of a composition's ledgers in an hour.
    pub(super) fn hour(&self, composition: &str, hour: u64) -> Between {
        let of = |end: char| self.of(&format!("ledger/{composition}\0{hour:010}{end}"));
        (of('\0'), of('\x01'))
    }

    /// All keys of a composition's ledgers.
    pub(super) fn hours(&self, composition: &str) -> Between {
        (
            self.of(&format!("ledger/{composition}\0")),
            self.of(&format!("ledger/{composition}\x01")),
        )
    }

    /// All keys of ledgers.
    pub(super) fn ledgers(&self) -> Between {
        (self.of("ledger/"), self.of("ledger0"))
    }

    /// The composition of a ledger's key.
    pub(super) fn composition_of(&self, key: &[u8]) -> Option<String> {
        let rest = key.strip_prefix(self.of("ledger/").as_slice())?;
        let end = rest.iter().position(|octet| *octet == 0)?;
        String::from_utf8(rest[..end].to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_own_and_no_other() {
        let keys = Keys::new("weir/");
        let is_in = |key: &[u8], (from, to): Between| key >= &from[..] && key < &to[..];
        assert!(is_in(&keys.composition("edge"), keys.compositions()));
        assert!(!is_in(&keys.prices("edge"), keys.compositions()));
        assert!(is_in(&keys.part("edge", &[1], 2), keys.parts("edge", &[1])));
        assert!(!is_in(
            &keys.part("edge", &[2], 2),
            keys.parts("edge", &[1])
        ));
        assert!(is_in(&keys.part("edge", &[2], 2), keys.all_parts("edge")));
        assert!(!is_in(&keys.part("edge1", &[2], 2), keys.all_parts("edge")));
        let entry = LedgerEntry {
            composition: "edge".to_owned(),
            hour: 7,
            ledger: vec![255; 16],
            tenant: "acme".to_owned(),
            ..LedgerEntry::default()
        };
        let key = keys.ledger(&entry);
        assert!(is_in(&key, keys.hour("edge", 7)) && is_in(&key, keys.hours("edge")));
        assert!(is_in(&key, keys.ledgers()));
        assert!(!is_in(&key, keys.hour("edge", 8)) && !is_in(&key, keys.hours("edge1")));
        assert!(!is_in(&key, keys.hours("edg")));
        assert_eq!(keys.composition_of(&key).as_deref(), Some("edge"));
        assert_eq!(keys.composition_of(&keys.leader()), None);
    }
}
