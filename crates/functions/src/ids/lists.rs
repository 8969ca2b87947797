//! Lists of rules to leave out, to take, to let drop and to change, out of the settings.

use weir_nf::prelude::*;
use weir_signatures::{ListKind, RuleLists};

use super::settings::{Settings, told};

/// The lists that the settings name.
pub(super) fn lists(
    settings: &Settings,
    set_up: &mut SetUp<'_>,
) -> Result<RuleLists, SettingsError> {
    let mut lists = RuleLists::default();
    for (kind, setting, names) in [
        (ListKind::Disable, "disable-files", &settings.disable_files),
        (ListKind::Enable, "enable-files", &settings.enable_files),
        (ListKind::Drop, "drop-files", &settings.drop_files),
        (ListKind::Modify, "modify-files", &settings.modify_files),
    ] {
        for (number, name) in names.iter().enumerate() {
            let path = format!("{setting}[{number}]");
            let text = set_up.text(&path, name)?;
            let added = lists.add(kind, name, &text);
            added.map_err(|errors| told(&path, name, &errors))?;
        }
    }
    Ok(lists)
}
