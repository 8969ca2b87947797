//! The texts that chains were loaded from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_nf::Sources;

/// All texts that chains were loaded from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// That of the composition that names the chain file, if there is one.
    pub(crate) composition: Option<String>,
    pub(crate) chain: String,
    /// Names and texts of templates, without those that come with weir.
    pub(crate) templates: Vec<(String, String)>,
    /// Texts that functions have read, by their names.
    pub(crate) texts: BTreeMap<String, String>,
    /// Names of texts, by patterns.
    pub(crate) names: BTreeMap<String, Vec<String>>,
}

impl Sources for &Snapshot {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let text = self.texts.get(name).cloned();
        text.ok_or_else(|| format!("can't read {name}: the run has not read it"))
    }

    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        let names = self.names.get(pattern).cloned();
        names.ok_or_else(|| format!("no file fits the pattern `{pattern}`"))
    }
}
