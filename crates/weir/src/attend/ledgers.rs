//! The ledgers of this host, for its coordinator.

use std::io;
use std::path::Path;

use weir_api::v1;
use weir_ctl::ledger::{Ledger, folder};

/// All that the ledgers in a folder have: each composition has a folder there, which stays when the
/// composition is deleted.
pub(super) fn report(path: &Path) -> io::Result<v1::LedgerReport> {
    let folders = match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(v1::LedgerReport::default());
        }
        folders => folders?,
    };
    let mut entries = Vec::new();
    for its in folders {
        let its = its?.path();
        // A file among the folders is none of ours; a link to another disk may be.
        if !its.is_dir() {
            continue;
        }
        for ledger in folder::read(&its)? {
            add(&ledger, &mut entries);
        }
    }
    Ok(v1::LedgerReport { entries })
}

fn add(ledger: &Ledger, entries: &mut Vec<v1::LedgerEntry>) {
    let names = ledger.names();
    for record in ledger.records() {
        let Some(row) = names.rows().get(record.row) else {
            continue;
        };
        let usage = record.usage;
        entries.push(v1::LedgerEntry {
            composition: names.composition().to_owned(),
            ledger: ledger.id().to_vec(),
            hour: record.hour,
            tenant: row.tenant.clone(),
            chain: row.chain.clone(),
            function: row.function.clone(),
            packets: usage.packets,
            bytes: usage.bytes,
            dropped: usage.dropped,
            sampled_ns: usage.sampled_ns,
            sampled: usage.sampled,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else what an editor left there would end the bills of all compositions.
    #[test]
    fn a_file_among_the_folders_is_left_out() {
        let all = std::env::temp_dir().join(format!("weir-ledgers-{}", std::process::id()));
        std::fs::create_dir_all(all.join("one")).unwrap();
        std::fs::write(all.join("notes.txt"), "none").unwrap();
        assert_eq!(report(&all).unwrap(), v1::LedgerReport::default());
        std::fs::remove_dir_all(&all).unwrap();
    }
}
