//! `weir nf`: list, show, new.

use serde_json::json;

use crate::args::{Format, NfNew, NfShow};
use crate::exit::{Exit, Failure};
use crate::{Outcome, output};

pub(crate) fn list(format: Format) -> Outcome {
    let kinds = weir_functions::kinds();
    match format {
        Format::Json => output::json(
            &kinds
                .iter()
                .map(|kind| json!({"name": kind.descriptor.name, "summary": kind.descriptor.summary}))
                .collect::<Vec<_>>(),
        )?,
        Format::Text => {
            let width = kinds.iter().map(|kind| kind.descriptor.name.len()).max().unwrap_or(0);
            for kind in kinds {
                output::line(&format!("{:<width$}  {}", kind.descriptor.name, kind.descriptor.summary))?;
            }
        }
    }
    Ok(Exit::Done)
}

pub(crate) fn show(args: &NfShow) -> Outcome {
    let Some(kind) = weir_functions::find(&args.name) else {
        return Err(Failure::usage(format!(
            "there is no function {}; `weir nf list` lists them",
            args.name
        )));
    };
    output::line(kind.descriptor.manual)?;
    Ok(Exit::Done)
}

pub(crate) fn new(args: &NfNew) -> Outcome {
    Err(Failure::outside(format!("can't write {}", args.name)))
}
