//! `weir check` and `weir schema`.

use serde_json::json;

use crate::args::{Check, Format};
use crate::exit::Exit;
use crate::{Outcome, chains, output};

pub(crate) fn check(args: &Check) -> Outcome {
    let file = chains::load(&args.chain, &args.set, 0)?;
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

pub(crate) fn schema() -> Outcome {
    output::json(&weir_graph::schema(weir_functions::kinds()))?;
    Ok(Exit::Done)
}
