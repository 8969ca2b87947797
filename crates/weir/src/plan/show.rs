//! `weir plan`.

use serde_json::json;
use weir_graph::compile::{Flags, Plan};
use weir_graph::{ChainFile, picture};
use weir_nf::host::{Kind, Stage};

use crate::args::{PlanFormat, ShowPlan};
use crate::driver::placement::{self as placed, Form};
use crate::driver::{ChainPlan, Workers};
use crate::exit::{Exit, Failure, Outcome};
use crate::run::placement::{homes, of_file};
use crate::{chains, output};

use super::place_svg;

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
    if args.placement {
        return placement(args, &file, plans);
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

/// Shows where things would run.
fn placement(args: &ShowPlan, file: &ChainFile, plans: Vec<Plan>) -> Outcome {
    let wrong = |why: String| Failure::usage(format!("the placement: {why}"));
    let other = args.processes || args.runtimes.is_some() || args.workers.is_some();
    let (given, form) = match of_file(file)? {
        Some((given, form)) if !other => (Some(given), form),
        _ => match (args.runtimes, args.workers) {
            (Some(runtimes), _) => (None, Form::Runtimes(runtimes)),
            (_, Some(workers)) => (None, Form::Workers(workers)),
            (None, None) => (None, Form::Stages),
        },
    };
    let chosen = match form {
        Form::Runtimes(count) => placed::of_runtimes(count as usize, &args.cores, args.processes),
        Form::Workers(count) => {
            let stages: Vec<Stage> = file.chains.iter().map(|c| c.stage.clone()).collect();
            match Workers::obstacle(&stages) {
                None => placed::of_workers(count as usize, &args.cores),
                Some(_) => placed::of_runtimes(count as usize, &args.cores, false),
            }
        }
        Form::Stages => {
            let plans = plans.into_iter().zip(&file.chains).map(|(plan, chain)| {
                let stages = plan.stages(&chain.stage);
                let stages = stages.map_err(|e| Failure::chain(format!("error: {e}")))?;
                Ok(ChainPlan {
                    plan,
                    stages,
                    texts: chain.texts.clone(),
                })
            });
            let plans = plans.collect::<Result<Vec<_>, Failure>>()?;
            placed::of_plans(&plans, &homes(args.processes, given.as_ref(), &plans))
        }
    };
    let mut placement = match given {
        None => chosen,
        Some(given) => {
            let fitted = given.check().and_then(|()| placed::fitted(&given, &chosen));
            fitted.map_err(wrong)?
        }
    };
    if file.network.fails_open() {
        placed::add_guard(&mut placement);
    }
    match args.output {
        PlanFormat::Text => output::line(placement.to_string().trim_end())?,
        PlanFormat::Json => output::json(&json!(placement))?,
        PlanFormat::Svg => output::line(&place_svg::draw(&placement))?,
        PlanFormat::Dot => {
            return Err(Failure::usage(
                "a placement is printed as text, json or svg, not as dot",
            ));
        }
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
