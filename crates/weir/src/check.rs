//! `weir check` and `weir schema`.

use serde_json::{Value, json};
use weir_graph::{ChainFile, Threads};
use weir_nf::host::Kind;

use crate::args::{Check, Format, Schema, SchemaOf};
use crate::exit::{Exit, Failure, Outcome};
use crate::run::{placement, up};
use crate::{chains, output};

pub(crate) fn check(args: &Check, kinds: &[Kind]) -> Outcome {
    if chains::is_composition(&args.chain) {
        return composition(args, kinds);
    }
    let file = chains::load(&args.chain, &args.templates, &args.set, 0, kinds)?;
    placement::of_file(&file)?;
    match args.output {
        Format::Text => text(&file),
        Format::Json => output::json(&value(&file)).map(|()| Exit::Done),
    }
}

/// Checks a composition, with the chains that it names.
fn composition(args: &Check, kinds: &[Kind]) -> Outcome {
    if !args.set.is_empty() || !args.templates.is_empty() {
        return Err(Failure::usage(
            "a composition has keys for that: `set` and `templates`",
        ));
    }
    let composed = up::load(&args.chain, 0, kinds)?;
    match args.output {
        Format::Text => {
            output::line(&composed.composition.to_string())?;
            text(&composed.file)
        }
        Format::Json => {
            let mut value = value(&composed.file);
            value["composition"] = json!(composed.composition);
            output::json(&value)?;
            Ok(Exit::Done)
        }
    }
}

fn text(file: &ChainFile) -> Outcome {
    output::line(&file.network.to_string())?;
    if file.threads != Threads::default() {
        output::line(&file.threads.to_string())?;
    }
    if let Some(placement) = &file.placement {
        output::line(&placement.to_string())?;
    }
    for chain in &file.chains {
        output::line(&weir_graph::describe(chain).to_string())?;
    }
    Ok(Exit::Done)
}

fn value(file: &ChainFile) -> Value {
    let described: Vec<_> = file.chains.iter().map(weir_graph::describe).collect();
    json!({
        "network": file.network,
        "threads": file.threads,
        "placement": file.placement,
        "chains": described,
        "warnings": file.warnings,
    })
}

pub(crate) fn schema(args: &Schema, kinds: &[Kind]) -> Outcome {
    let schema = match args.of {
        SchemaOf::Chain => {
            weir_graph::schema_with(kinds, &chains::describe_templates(&args.templates, kinds)?)
        }
        SchemaOf::Template => weir_graph::template_schema(),
        SchemaOf::Composition => weir_graph::composition_schema(),
        SchemaOf::Script => weir_graph::script_schema(),
    };
    output::json(&schema)?;
    Ok(Exit::Done)
}
