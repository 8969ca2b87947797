//! Errors of texts as errors of settings.

use weir_nf::prelude::*;
use weir_signatures::RuleError;

/// Most rule errors told at a time.
const MOST_ERRORS: usize = 8;

/// The first errors of a text as one.
pub(super) fn told(path: &str, name: &str, errors: &[RuleError]) -> SettingsError {
    let Some(first) = errors.first() else {
        return SettingsError::new(path, "the rules can't be read");
    };
    let mut message = first.message.clone();
    for error in errors.iter().take(MOST_ERRORS).skip(1) {
        message.push_str(&format!(
            "; {name}:{}:{}: {}",
            error.line, error.column, error.message
        ));
    }
    if let Some(more) = errors.len().checked_sub(MOST_ERRORS).filter(|&n| n > 0) {
        message.push_str(&format!("; and {more} more"));
    }
    let told = SettingsError::new(path, message).at(name, first.line, first.column);
    match &first.help {
        Some(help) => told.help(help),
        None => told,
    }
}
