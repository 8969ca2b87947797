//! Lists of rules to leave out, to take, to let drop and to change, thresholds and reputations, out of the settings.

use weir_nf::prelude::*;
use weir_signatures::{ListKind, Reputations, RuleError, RuleLists, ThresholdLists, Variables};

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
        let add = |name: &str, text: &str| lists.add(*kind, name, text);
        each_text(setting, names, set_up, add)?;
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
    let add = |_: &str, text: &str| lists.add(text, variables);
    each_text("threshold-files", names, set_up, add)?;
    Ok(lists)
}

/// Reads the files of categories, and then those of scores.
pub(super) fn reputations(
    categories: &[String],
    scores: &[String],
    set_up: &mut SetUp<'_>,
) -> Result<Reputations, SettingsError> {
    let mut all = Reputations::default();
    let add = |_: &str, text: &str| all.add_categories(text).map_err(|error| vec![error]);
    each_text("reputation-categories", categories, set_up, add)?;
    let add = |_: &str, text: &str| all.add_scores(text).map_err(|error| vec![error]);
    each_text("reputation-files", scores, set_up, add)?;
    Ok(all)
}

/// Hands the name and the text of each file of a setting to `add`.
fn each_text(
    setting: &str,
    names: &[String],
    set_up: &mut SetUp<'_>,
    mut add: impl FnMut(&str, &str) -> Result<(), Vec<RuleError>>,
) -> Result<(), SettingsError> {
    for (number, name) in names.iter().enumerate() {
        let path = format!("{setting}[{number}]");
        let text = set_up.text(&path, name)?;
        add(name, &text).map_err(|errors| told(&path, name, &errors))?;
    }
    Ok(())
}
