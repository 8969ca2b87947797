//! `weir nf`: list, show, new.

mod new;
mod settings;
mod template;
mod wrap;

use serde_json::{Value, json};
use weir_nf::Needs;
use weir_nf::host::Kind;
use weir_telemetry::{Entry, Unit};

use crate::args::{Format, Nf, NfCommand, NfList, NfShow};
use crate::exit::{Exit, Failure, Outcome};
use crate::{chains, output};

use new::new;
use wrap::wrapped;

/// `weir nf` and its commands.
pub(crate) fn nf(args: &Nf, kinds: &[Kind]) -> Outcome {
    match &args.command {
        NfCommand::List(args) => list(args, kinds),
        NfCommand::Show(args) => show(args, kinds),
        NfCommand::New(args) => new(args),
    }
}

fn list(args: &NfList, kinds: &[Kind]) -> Outcome {
    let templates = chains::describe_templates(&args.templates, kinds)?;
    match args.output {
        Format::Json => {
            let functions = kinds.iter().map(summary);
            let all = functions.chain(templates.iter().map(template::summary));
            output::json(&all.collect::<Vec<_>>())?;
        }
        Format::Text => {
            let functions = kinds
                .iter()
                .map(|kind| (kind.descriptor.name, kind.descriptor.summary, ""));
            let all = functions.chain(templates.iter().map(|template| {
                let (name, summary) = (template.name.as_str(), template.summary.as_str());
                (name, summary, "template: ")
            }));
            let mut all: Vec<(&str, &str, &str)> = all.collect();
            all.sort_unstable();
            let width = all.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
            let lines = all
                .iter()
                .map(|(name, summary, mark)| format!("{name:<width$}  {mark}{summary}\n"));
            output::line(&lines.collect::<String>())?;
        }
    }
    Ok(Exit::Done)
}

fn show(args: &NfShow, kinds: &[Kind]) -> Outcome {
    let Some(kind) = kinds.iter().find(|kind| kind.descriptor.name == args.name) else {
        let templates = chains::describe_templates(&args.templates, kinds)?;
        let Some(found) = templates.iter().find(|t| t.name == args.name) else {
            let message = format!(
                "there is no function or template `{}`; `weir nf list` lists them",
                args.name
            );
            return Err(Failure::usage(message));
        };
        match args.output {
            Format::Json => output::json(&template::whole(found))?,
            Format::Text => output::line(&template::page(found))?,
        }
        return Ok(Exit::Done);
    };
    let schema = settings::schema(kind);
    match args.output {
        Format::Json => {
            let mut value = summary(kind);
            value["manual"] = json!(kind.descriptor.manual);
            value["settings"] = schema;
            output::json(&value)?;
        }
        Format::Text => output::line(&page(kind, &schema))?,
    }
    Ok(Exit::Done)
}

const fn needs(needs: Needs) -> &'static str {
    match needs {
        Needs::Link => "link",
        Needs::Network => "network",
        Needs::Transport => "transport",
        Needs::Flow => "flow",
    }
}

/// The JSON that `weir nf list` prints for a function.
fn summary(kind: &Kind) -> Value {
    let d = kind.descriptor;
    json!({
        "name": d.name,
        "summary": d.summary,
        "needs": needs(d.needs),
        "scope": (d.needs == Needs::Flow).then(|| d.scope.describe()),
        "reads": d.reads.names().collect::<Vec<_>>(),
        "writes": d.writes.names().collect::<Vec<_>>(),
        "drops": names(d.drops),
        "labels": d.labels,
        "counters": names(d.counters),
        "emits": d.emits,
    })
}

/// The manual page of a function.
fn page(kind: &Kind, schema: &Value) -> String {
    let d = kind.descriptor;
    let list = |names: &[&str]| {
        if names.is_empty() {
            "-".to_owned()
        } else {
            names.join(", ")
        }
    };
    let mut page = format!("{}: {}\n\n{}\n", d.name, d.summary, wrapped(d.manual));
    let facts = [
        ("needs", needs(d.needs).to_owned()),
        (
            "state per",
            if d.needs == Needs::Flow {
                d.scope.describe()
            } else {
                "-".to_owned()
            },
        ),
        ("reads", list(&d.reads.names().collect::<Vec<_>>())),
        ("writes", list(&d.writes.names().collect::<Vec<_>>())),
        ("labels", list(d.labels)),
    ];
    for (name, value) in facts {
        page.push_str(&format!("  {name:<10} {value}\n"));
    }
    for (title, table) in [("Drops", d.drops), ("Counters", d.counters)] {
        if !table.is_empty() {
            page.push_str(&format!("\n{title}\n{}", meanings(table)));
        }
    }
    page.push_str("\nSettings\n");
    page.push_str(&settings::table(schema));
    page
}

fn names(table: &[Entry]) -> Vec<&'static str> {
    table.iter().map(Entry::name).collect()
}

/// Names with their meanings, a line each.
fn meanings(table: &[Entry]) -> String {
    let width = table.iter().map(|entry| entry.name().len()).max();
    let width = width.unwrap_or(0);
    let lines = table.iter().map(|entry| {
        let unit = match entry.unit() {
            Unit::Packets | Unit::Times => String::new(),
            unit => format!(" ({})", unit.name()),
        };
        let (name, meaning) = (entry.name(), entry.meaning());
        format!("  {name:<width$}  {meaning}{unit}\n")
    });
    lines.collect()
}
