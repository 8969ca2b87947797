//! Lists of rules to leave out, to take, to let drop and to change, out of the settings.

use weir_nf::prelude::*;
use weir_signatures::{ListKind, RuleLists, ThresholdLists, Variables};

use super::told::told;

/// The purpose of lists, the setting that names them, and their names.
pub(super) type Named<'a> = (ListKind, &'a str, &'a [String]);

/// Reads all lists.
pub(super) fn read(
    named: &[Named<'_>],
    set_up: &mut SetUp<'_>,
) -> Result<RuleLists, SettingsError> {
    let mut lists = RuleLists::default();
    for (kind, setting, names) in named {
        for (number, name) in names.iter().enumerate() {
            let path = format!("{setting}[{number}]");
            let text = set_up.text(&path, name)?;
            let added = lists.add(*kind, name, &text);
            added.map_err(|errors| told(&path, name, &errors))?;
        }
    }
    Ok(lists)
}

/// Reads all files of thresholds.
pub(super) fn thresholds(
    names: &[String],
    variables: &Variables,
    set_up: &mut SetUp<'_>,
) -> Result<ThresholdLists, SettingsError> {
    let mut lists = ThresholdLists::default();
    for (number, name) in names.iter().enumerate() {
        let path = format!("threshold-files[{number}]");
        let text = set_up.text(&path, name)?;
        let added = lists.add(&text, variables);
        added.map_err(|errors| told(&path, name, &errors))?;
    }
    Ok(lists)
}
