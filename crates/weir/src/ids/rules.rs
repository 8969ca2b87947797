//! The rules that a command about rules reads.

use std::collections::BTreeMap;
use std::path::Path;

use weir_nf::prelude::SettingsError;

use crate::args::IdsRules;
use crate::chains;
use crate::exit::Failure;

/// The rule files, each once.
pub(super) fn files(rules: &IdsRules) -> Result<Vec<String>, Failure> {
    let mut files: Vec<String> = Vec::new();
    for pattern in &rules.files {
        for name in chains::expanded(Path::new(""), pattern).map_err(Failure::outside)? {
            if !files.contains(&name) {
                files.push(name);
            }
        }
    }
    Ok(files)
}

/// A value or a file that can't be used.
pub(super) fn wrong(error: &SettingsError) -> Failure {
    let help = error
        .help
        .as_ref()
        .map(|help| format!("\n  = help: {help}"));
    let place = match &error.at {
        Some((name, line, column)) => format!("{name}:{line}:{column}: "),
        None => String::new(),
    };
    let of = match error.path.strip_prefix("vars.") {
        Some(name) => format!("the value of `{name}`: "),
        None => String::new(),
    };
    Failure::chain(format!(
        "{place}error: {of}{}{}",
        error.message,
        help.unwrap_or_default()
    ))
}

/// Values of variables: of a chain file, then of a `suricata.yaml`, then of
/// `--var`; the last one counts.
pub(super) fn values(args: &IdsRules) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    if let Some(chain) = &args.chain {
        values.extend(chains::chain_variables(chain)?);
    }
    if let Some(file) = &args.variables {
        values.extend(chains::suricata_variables(file)?);
    }
    values.extend(args.vars.iter().cloned());
    Ok(values)
}
