//! `weir get coordinators`: each address is tried by itself.

use serde_json::json;
use weir_coordinator::Access;

use crate::args::{Format, Get};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::one_line;

use super::super::table::{row, text};

/// Which coordinator leads: that one lets callers in, and no other does.
pub(crate) fn coordinators(args: &Get) -> Outcome {
    let Access {
        addresses,
        credentials,
    } = super::super::at::of(&args.at)?;
    let wanted = |address: &str| {
        let name = args.instance.as_deref();
        name.is_none_or(|name| name == address)
    };
    let mut table = vec![row(["COORDINATOR", "STATE", "WHY"])];
    let mut all = Vec::new();
    for address in addresses {
        let shown = address.to_string();
        if !wanted(&shown) {
            continue;
        }
        let access = Access {
            addresses: vec![address],
            credentials: credentials.clone(),
        };
        let why = super::super::on_this_thread(async { Ok(access.connect(None).await.err()) })?;
        let state = if why.is_none() { "leads" } else { "silent" };
        all.push(json!({ "coordinator": shown, "state": state, "why": why }));
        let why = why.as_deref().map(one_line).unwrap_or_default();
        table.push(vec![shown, state.to_owned(), why]);
    }
    if all.is_empty() {
        return Err(Failure::usage(
            "no such address is among those of `--coordinator`, or of WEIR_COORDINATOR",
        ));
    }
    let leads = all.iter().any(|it| it["state"] == "leads");
    match args.output {
        Format::Json => output::json(&json!(all))?,
        Format::Text => output::line(&text(&table))?,
    }
    match leads {
        true => Ok(Exit::Done),
        false => Ok(Exit::Failed),
    }
}
