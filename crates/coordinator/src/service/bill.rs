//! What tenants have used, as agents have reported it (docs/billing.md).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tonic::Status;
use weir_api::v1;
use weir_telemetry::usage::{Hours, Usage, UsageRow, UsageSum};

use super::shared::Shared;

/// Entries of a report that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// Characters of a name in it.
const LONGEST_NAME: usize = 256;
/// Hours by which an agent's clock may be ahead.
const AHEAD: u64 = 24;

impl Shared {
    /// Keeps what an agent has reported of its ledgers.
    ///
    /// # Errors
    ///
    /// It can't be kept; the coordinator has said why.
    pub(super) async fn keep_ledger(self: &Arc<Self>, report: v1::LedgerReport) -> Result<(), ()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let latest = now.map_or(0, |now| now.as_secs() / 3_600) + AHEAD;
        let mut entries = report.entries;
        entries.truncate(MOST_ENTRIES);
        entries.retain(|entry| is_sound(entry, latest));
        let shared = self.clone();
        let kept = tokio::task::spawn_blocking(move || shared.store.put_ledger(&entries)).await;
        match kept {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => {
                tell(&why);
                Err(())
            }
            Err(_) => Err(()),
        }
    }

    /// The answer to a question.
    pub(super) async fn bill(
        self: Arc<Self>,
        asked: v1::GetBillRequest,
    ) -> Result<v1::GetBillResponse, Status> {
        let is_known = self.state().taken(&asked.composition).is_some();
        let made = tokio::task::spawn_blocking(move || self.make_bill(asked, is_known)).await;
        made.unwrap_or_else(|_| Err(Status::internal("the bill could not be made")))
    }

    fn make_bill(
        &self,
        asked: v1::GetBillRequest,
        is_known: bool,
    ) -> Result<v1::GetBillResponse, Status> {
        let name = asked.composition;
        let entries = self.store.ledger(&name).map_err(Status::internal)?;
        if entries.is_empty() && !is_known {
            return Err(Status::not_found(format!(
                "nothing was ever reported of a composition `{name}`"
            )));
        }
        let prices = self.store.prices(&name).map_err(Status::internal)?;
        let mut sum = UsageSum::default();
        for entry in entries {
            if !asked.tenant.is_empty() && asked.tenant != entry.tenant {
                continue;
            }
            let numbers = [
                entry.packets,
                entry.bytes,
                entry.dropped,
                entry.sampled_ns,
                entry.sampled,
            ];
            let Ok(ledger) = <[u8; 16]>::try_from(entry.ledger.as_slice()) else {
                continue;
            };
            let row = UsageRow {
                tenant: entry.tenant,
                chain: entry.chain,
                function: entry.function,
            };
            sum.add(ledger, row, entry.hour, &Usage::of_numbers(numbers));
        }
        let hours = Hours {
            from: asked.from_hour,
            to: asked.to_hour,
            each: asked.by_hour,
        };
        let (lines, cut) = sum.answer(hours);
        let rows = lines.into_iter().map(|line| v1::BillRow {
            tenant: line.row.tenant,
            chain: line.row.chain,
            function: line.row.function,
            hour: line.hour,
            packets: line.packets,
            bytes: line.bytes,
            dropped: line.dropped,
            compute_ns: line.compute_ns,
        });
        Ok(v1::GetBillResponse {
            rows: rows.collect(),
            prices,
            cut,
            composition: name,
        })
    }
}

/// True of an entry that may be kept: an agent may say anything.
fn is_sound(entry: &v1::LedgerEntry, latest: u64) -> bool {
    let texts = [&entry.tenant, &entry.chain, &entry.function];
    let is_name = |text: &&String| {
        text.chars().count() <= LONGEST_NAME && !text.chars().any(char::is_control)
    };
    weir_identity::check_name(&entry.composition).is_ok()
        && entry.ledger.len() == 16
        && (1..=latest).contains(&entry.hour)
        && texts.iter().all(is_name)
}

fn tell(why: &str) {
    use std::io::Write as _;
    // Nobody may read it.
    let _ = writeln!(
        std::io::stderr(),
        "error: what hosts have used is not kept: {why}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_could_not_be_kept_is_left_out() {
        let entry = v1::LedgerEntry {
            composition: "edge".to_owned(),
            ledger: vec![1; 16],
            hour: 100,
            tenant: "acme".to_owned(),
            ..v1::LedgerEntry::default()
        };
        assert!(is_sound(&entry, 100));
        let but = |change: fn(&mut v1::LedgerEntry)| {
            let mut other = entry.clone();
            change(&mut other);
            other
        };
        for odd in [
            but(|it| it.composition = "a\0b".to_owned()),
            but(|it| it.ledger.truncate(3)),
            but(|it| it.hour = 101),
            but(|it| it.hour = 0),
            but(|it| it.tenant = "a\0b".to_owned()),
            but(|it| it.function = "x".repeat(257)),
        ] {
            assert!(!is_sound(&odd, 100), "{odd:?}");
        }
    }
}
