//! `weir ids check`: what the function `ids` would load of rule files.

use weir_functions::ids::{ListKind, Loading};

use crate::args::{Format, IdsCheck};
use crate::chains;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

use super::rules::{files, values, wrong};
use super::show;

pub(super) fn check(args: &IdsCheck) -> Outcome {
    let mut loading = Loading::new(&values(&args.rules)?).map_err(|error| {
        let given = |(name, _): &(String, String)| error.path == format!("vars.{name}");
        let failure = wrong(&error);
        match args.rules.vars.iter().any(given) {
            true => Failure::usage(failure.why()),
            false => failure,
        }
    })?;
    let files = files(&args.rules)?;
    for (kind, names) in [
        (ListKind::Disable, &args.rules.disable),
        (ListKind::Enable, &args.rules.enable),
        (ListKind::Drop, &args.rules.drop),
        (ListKind::Modify, &args.rules.modify),
    ] {
        for name in names {
            let added = loading.list(kind, name, &chains::named_text(name)?);
            added.map_err(|error| wrong(&error))?;
        }
    }
    for name in &args.rules.thresholds {
        let added = loading.thresholds(name, &chains::named_text(name)?);
        added.map_err(|error| wrong(&error))?;
    }
    for name in &args.rules.reputation_categories {
        let added = loading.reputation_categories(name, &chains::named_text(name)?);
        added.map_err(|error| wrong(&error))?;
    }
    for name in &args.rules.reputations {
        let added = loading.reputations(name, &chains::named_text(name)?);
        added.map_err(|error| wrong(&error))?;
    }
    for file in &files {
        let read = loading.file(file, &chains::named_text(file)?);
        read.map_err(|error| wrong(&error))?;
    }
    let classes = match &args.rules.classification {
        None => None,
        Some(name) => Some((name.as_str(), chains::named_text(name)?)),
    };
    let classes = classes.as_ref().map(|(name, text)| (*name, text.as_str()));
    let mut read =
        |name: &str| chains::named_text(name).map_err(|failure| failure.why().to_owned());
    let loaded = loading.end(classes, &mut read);
    let loaded = loaded.map_err(|error| wrong(&error))?;
    match args.output {
        Format::Text => output::line(&show::text(&loaded, args.all))?,
        Format::Json => output::json(&show::value(&loaded, args.all))?,
    }
    Ok(if loaded.is_fine() {
        Exit::Done
    } else {
        Exit::Chain
    })
}
