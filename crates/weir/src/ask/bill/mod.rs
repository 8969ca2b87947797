//! `weir bill`: asks an instance or a coordinator what tenants have used.

mod amount;
mod shown;

use std::path::Path;

use weir_api::v1;
use weir_ctl::{client, server};

use crate::args::{Bill, BillFormat};
use crate::billing::message_of;
use crate::chains;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::say::say;

use super::{at, compositions};

/// Octets of the longest answer: 20,000 rows.
const MOST_OCTETS: usize = 64 << 20;

/// Prints the bill.
pub(crate) fn bill(args: &Bill) -> Outcome {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::usage("`--to` is a time behind `--from`"));
    }
    let asked = v1::GetBillRequest {
        tenant: args.tenant.clone().unwrap_or_default(),
        from_hour: args.from.unwrap_or(0),
        to_hour: args.to.unwrap_or(0),
        by_hour: args.by_hour,
        ..v1::GetBillRequest::default()
    };
    let mut bill = match &args.ledger {
        Some(folder) => of_folder(folder, &asked)?,
        None => answer(args, asked)?,
    };
    if let Some(file) = &args.prices {
        let (composition, _) = chains::load_composition(file)?;
        bill.prices = composition.prices.as_ref().map(message_of);
        if bill.prices.is_none() {
            return Err(Failure::usage(format!(
                "{} has no `prices:`",
                file.display()
            )));
        }
    }
    if bill.cut {
        say("warning: there are more rows than these: ask for fewer hours");
    }
    match args.output {
        BillFormat::Text => output::line(&shown::text(&bill))?,
        BillFormat::Json => output::json(&shown::json(&bill))?,
        BillFormat::Csv => output::line(&shown::csv(&bill))?,
    }
    Ok(Exit::Done)
}

/// The bill of ledgers in a folder.
fn of_folder(folder: &Path, asked: &v1::GetBillRequest) -> Result<v1::GetBillResponse, Failure> {
    let read = server::bill_of(folder, asked)
        .map_err(|error| Failure::outside(format!("can't read {}: {error}", folder.display())))?;
    read.ok_or_else(|| Failure::outside(format!("{} has no ledger", folder.display())))
}

/// The answer of a coordinator, where one is named, else of an instance.
fn answer(args: &Bill, asked: v1::GetBillRequest) -> Result<v1::GetBillResponse, Failure> {
    let name = args.instance.as_deref();
    let through = match args.at.coordinator.is_some() || args.at.identity.is_some() {
        true => match name {
            Some(name) => Some((name.to_owned(), at::of(&args.at)?)),
            None => {
                return Err(Failure::usage(
                    "name the composition: a coordinator has several",
                ));
            }
        },
        false => super::through(name)?,
    };
    if let Some((composition, access)) = through {
        let asked = v1::GetBillRequest {
            composition,
            ..asked
        };
        return compositions::ask(&access, async |client| {
            let mut client = client.max_decoding_message_size(MOST_OCTETS);
            let answer = client.get_bill(asked).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| compositions::failure(&status))
        });
    }
    super::ask(name, async |client: client::Client| {
        let mut client = client.max_decoding_message_size(MOST_OCTETS);
        let answer = client.get_bill(asked).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| super::failure(&status))
    })
}
