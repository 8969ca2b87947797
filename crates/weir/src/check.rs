//! `weir check` and `weir schema`.

use serde_json::json;
use weir_nf::host::Kind;

use crate::args::{Check, Format};
use crate::exit::Exit;
use crate::{Outcome, chains, output};

pub(crate) fn check(args: &Check, kinds: &[Kind]) -> Outcome {
    let file = chains::load(&args.chain, &args.set, 0, kinds)?;
    let described: Vec<_> = file.chains.iter().map(weir_graph::describe).collect();
    match args.output {
        Format::Text => {
            for chain in &described {
                output::line(&chain.to_string())?;
            }
        }
        Format::Json => output::json(&json!({"chains": described, "warnings": file.warnings}))?,
    }
    Ok(Exit::Done)
}

pub(crate) fn schema(kinds: &[Kind]) -> Outcome {
    output::json(&weir_graph::schema(kinds))?;
    Ok(Exit::Done)
}
