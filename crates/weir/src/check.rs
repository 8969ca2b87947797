//! `weir check` and `weir schema`.

use serde_json::json;
use weir_graph::Threads;
use weir_nf::host::Kind;

use crate::args::{Check, Format, Schema, SchemaOf};
use crate::exit::{Exit, Outcome};
use crate::run::placement;
use crate::{chains, output};

pub(crate) fn check(args: &Check, kinds: &[Kind]) -> Outcome {
    let file = chains::load(&args.chain, &args.templates, &args.set, 0, kinds)?;
    placement::of_file(&file)?;
    let described: Vec<_> = file.chains.iter().map(weir_graph::describe).collect();
    match args.output {
        Format::Text => {
            output::line(&file.network.to_string())?;
            if file.threads != Threads::default() {
                output::line(&file.threads.to_string())?;
            }
            if let Some(placement) = &file.placement {
                output::line(&placement.to_string())?;
            }
            for chain in &described {
                output::line(&chain.to_string())?;
            }
        }
        Format::Json => output::json(&json!({
            "network": file.network,
            "threads": file.threads,
            "placement": file.placement,
            "chains": described,
            "warnings": file.warnings,
        }))?,
    }
    Ok(Exit::Done)
}

pub(crate) fn schema(args: &Schema, kinds: &[Kind]) -> Outcome {
    let schema = match args.of {
        SchemaOf::Chain => {
            weir_graph::schema_with(kinds, &chains::describe_templates(&args.templates, kinds)?)
        }
        SchemaOf::Template => weir_graph::template_schema(),
        SchemaOf::Script => weir_graph::script_schema(),
    };
    output::json(&schema)?;
    Ok(Exit::Done)
}
