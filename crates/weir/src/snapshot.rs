//! The texts that chains were loaded from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_nf::{Sets, Sources};

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

/// A snapshot, and the sets of the run that loads it again.
pub(crate) struct Loaded<'a>(pub(crate) &'a Snapshot, pub(crate) &'a Sets);

impl Sources for Loaded<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let text = self.0.texts.get(name).cloned();
        text.ok_or_else(|| format!("can't read {name}: the run has not read it"))
    }

    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        let names = self.0.names.get(pattern).cloned();
        names.ok_or_else(|| format!("no file fits the pattern `{pattern}`"))
    }

    fn sets(&self) -> Sets {
        self.1.clone()
    }
}
