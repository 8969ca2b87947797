//! The bill of an instance, from its ledgers.

use std::io;
use std::path::{Path, PathBuf};

use tonic::Status;
use weir_api::v1;
use weir_telemetry::usage::{Hours, UsageLine, UsageSum};

use crate::ledger::{Ledger, folder};

/// The ledger and the prices of a run.
#[derive(Clone, Debug)]
pub struct Billed {
    /// The ledger that its switches count in.
    pub ledger: Ledger,
    /// The folder that it lies in, with older ones; `None` where it goes with the run.
    pub folder: Option<PathBuf>,
    /// Prices, where there are some.
    pub prices: Option<v1::Prices>,
}

impl Billed {
    /// All that was counted, of all tenants or one.
    fn sum(&self, tenant: Option<&str>) -> Result<UsageSum, Status> {
        let mut sum = UsageSum::default();
        self.ledger.add_to(&mut sum, tenant);
        if let Some(path) = &self.folder {
            let older = folder::read(path).map_err(|error| {
                Status::internal(format!("can't read {}: {error}", path.display()))
            })?;
            // The folder has the ledger in use, too: of two entries of one hour the later counts.
            older.iter().for_each(|it| it.add_to(&mut sum, tenant));
        }
        Ok(sum)
    }

    /// The answer to a question.
    pub(super) fn answer(&self, asked: &v1::GetBillRequest) -> Result<v1::GetBillResponse, Status> {
        let sum = self.sum(tenant_of(asked))?;
        Ok(v1::GetBillResponse {
            prices: self.prices.clone(),
            composition: self.ledger.names().composition().to_owned(),
            ..answer(&sum, asked)
        })
    }

    /// What was counted since the ledger began.
    pub(super) fn totals(&self) -> Vec<UsageLine> {
        let mut sum = UsageSum::default();
        self.ledger.add_to(&mut sum, None);
        sum.lines(Hours::default())
    }
}

/// The bill of the ledgers in a folder, without prices; `None` where there is none.
///
/// # Errors
///
/// The folder can't be read.
pub fn bill_of(
    folder: &Path,
    asked: &v1::GetBillRequest,
) -> io::Result<Option<v1::GetBillResponse>> {
    let ledgers = folder::read(folder)?;
    let Some(last) = ledgers.last() else {
        return Ok(None);
    };
    let mut sum = UsageSum::default();
    for ledger in &ledgers {
        ledger.add_to(&mut sum, tenant_of(asked));
    }
    Ok(Some(v1::GetBillResponse {
        composition: last.names().composition().to_owned(),
        ..answer(&sum, asked)
    }))
}

/// The tenant that is asked about, if one is.
fn tenant_of(asked: &v1::GetBillRequest) -> Option<&str> {
    Some(asked.tenant.as_str()).filter(|tenant| !tenant.is_empty())
}

/// The rows of an answer.
fn answer(sum: &UsageSum, asked: &v1::GetBillRequest) -> v1::GetBillResponse {
    let (lines, cut) = sum.answer(Hours {
        from: asked.from_hour,
        to: asked.to_hour,
        each: asked.by_hour,
    });
    v1::GetBillResponse {
        rows: lines.into_iter().map(row).collect(),
        cut,
        ..v1::GetBillResponse::default()
    }
}

fn row(line: UsageLine) -> v1::BillRow {
    v1::BillRow {
        tenant: line.row.tenant,
        chain: line.row.chain,
        function: line.row.function,
        hour: line.hour,
        packets: line.packets,
        bytes: line.bytes,
        dropped: line.dropped,
        compute_ns: line.compute_ns,
    }
}
