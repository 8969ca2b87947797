//! `weir plan`.

use serde_json::json;
use weir_graph::compile::{Flags, Plan};
use weir_graph::picture;
use weir_nf::host::Kind;

use crate::args::{PlanFormat, ShowPlan};
use crate::exit::{Exit, Failure};
use crate::{Outcome, chains, output};

pub(crate) fn show(args: &ShowPlan, kinds: &[Kind]) -> Outcome {
    let file = chains::load(&args.chain, &args.templates, &args.set, 0, kinds)?;
    let costs = super::costs(args.costs.as_deref(), &file)?;
    let mut plans = Vec::new();
    for (chain, cycles) in file.chains.iter().zip(costs) {
        if args
            .only
            .as_ref()
            .is_some_and(|only| *only != chain.stage.chain)
        {
            continue;
        }
        let flags = Flags {
            mode: args.plan,
            passes: args.passes,
            cores: (!args.cores.is_empty()).then(|| args.cores.clone()),
            cycles,
        };
        plans.push(super::plan(chain, &flags)?);
    }
    if let Some(only) = &args.only
        && plans.is_empty()
    {
        let names: Vec<&str> = file.chains.iter().map(|c| c.stage.chain.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no chain `{only}` in {}; it has {}",
            args.chain.display(),
            names.join(", ")
        )));
    }
    if let Some(name) = &args.explain {
        return explain(name, &plans, args.output);
    }
    match args.output {
        PlanFormat::Text => {
            let texts: Vec<String> = plans.iter().map(picture::text).collect();
            output::line(&texts.join("\n"))?;
        }
        PlanFormat::Json => {
            let data: Vec<_> = plans.iter().map(picture::plan_data).collect();
            output::json(&json!({"plans": data}))?;
        }
        PlanFormat::Dot => {
            let texts: Vec<String> = plans.iter().map(picture::dot).collect();
            output::line(&texts.join("\n"))?;
        }
        PlanFormat::Svg => match plans.as_slice() {
            [plan] => output::line(&picture::svg(plan))?,
            _ => {
                return Err(Failure::usage(
                    "a picture is of one chain: say which with `--chain NAME`",
                ));
            }
        },
    }
    Ok(Exit::Done)
}

fn explain(name: &str, plans: &[Plan], format: PlanFormat) -> Outcome {
    let mut found = Vec::new();
    for plan in plans {
        if let Some(text) = picture::explain(plan, name) {
            found.push((plan, text));
        }
    }
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "the chain has no `{name}`; {}",
            picture::unknown(plans, name)
        )));
    }
    match format {
        PlanFormat::Text => {
            let texts: Vec<String> = found.into_iter().map(|(_, text)| text).collect();
            output::line(&texts.join("\n"))?;
        }
        PlanFormat::Json => {
            let data: Vec<_> = found
                .iter()
                .map(|(plan, _)| picture::plan_data(plan).about(name))
                .collect();
            output::json(&json!({"plans": data}))?;
        }
        PlanFormat::Dot | PlanFormat::Svg => {
            return Err(Failure::usage(
                "`--explain` prints text or JSON: leave `--output` out, or write `--output json`",
            ));
        }
    }
    Ok(Exit::Done)
}
