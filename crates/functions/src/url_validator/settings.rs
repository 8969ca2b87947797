//! Settings of the URL validator.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::Reading;

/// Action on a request that contains an attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// An event; the packet goes on.
    #[default]
    Alert,
    /// An event; the packet that completes the request and all later ones of
    /// the connection are dropped.
    Drop,
}

/// Settings of [`super::UrlValidator`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Action on a request that contains an attack.
    pub action: Action,
    /// Look for SQL injection: the patterns that the manual lists, and
    /// conditions that are always true (`' or '1'='1`).
    pub sql_injection: bool,
    /// Look for cross-site scripting.
    pub cross_site_scripting: bool,
    /// Look for path traversal and well-known files.
    pub path_traversal: bool,
    /// Further texts to look for, in lower case, with single spaces, decoded.
    pub patterns: Vec<String>,
    /// Look into the bodies of `application/x-www-form-urlencoded` requests as
    /// well, up to 8,192 bytes of each.
    pub form_body: bool,
    /// Ports on which HTTP is looked for, and limits of the reader.
    pub reading: Reading,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            action: Action::Alert,
            sql_injection: true,
            cross_site_scripting: false,
            path_traversal: false,
            patterns: Vec::new(),
            form_body: false,
            reading: Reading::default(),
        }
    }
}
