//! Templates: network functions that are small graphs of processors, as data.
//!
//! A template is a YAML file ([`crate::template_schema`]; docs/templates.md).
//! An entry of a chain that names one becomes its processors, with settings
//! that are computed from the entry's.
//!
//! The way goes from text (`raw`, with `setting` for what it takes) over a check
//! that needs no chain (`check`) to the processors of one entry (`expand`, with
//! `values` for its settings, `reference` for the `$name`s in those of its
//! processors, and `join` for their links).

mod canonical;
mod check;
mod describe;
mod expand;
mod join;
mod library;
mod raw;
mod reference;
mod schema;
mod setting;
mod values;

pub use describe::{
    SettingDescription, TemplateDescription, TemplateLabel, TemplateLink, TemplateProcessor,
    describe_templates,
};
pub use schema::template_schema;

pub(crate) use canonical::canonical;
pub(crate) use check::all as check_all;
pub use expand::Instance;
pub(crate) use expand::{Of, expand, labels, link_names, of};
pub(crate) use join::Flat;
pub(crate) use library::Library;
#[cfg(test)]
pub(crate) use raw::keys;
#[cfg(test)]
pub(crate) use setting::keys as setting_keys;

/// The templates that come with weir: names and texts.
const SHIPPED: &[(&str, &str)] = &[
    (
        "application-firewall",
        include_str!("../../templates/application-firewall.yaml"),
    ),
    (
        "edge-firewall",
        include_str!("../../templates/edge-firewall.yaml"),
    ),
    (
        "load-balancing",
        include_str!("../../templates/load-balancing.yaml"),
    ),
    (
        "monitoring",
        include_str!("../../templates/monitoring.yaml"),
    ),
    (
        "wan-optimizer",
        include_str!("../../templates/wan-optimizer.yaml"),
    ),
];

/// A template's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateText {
    /// Name of its file, for messages.
    pub file: String,
    /// Its YAML.
    pub text: String,
}

/// Templates that chains may name: those that come with weir, and more.
///
/// ```
/// use weir_graph::Templates;
///
/// let mut templates = Templates::shipped();
/// templates.add("mine.yaml", "template: mine\nprocessors: [monitor]\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    shipped: bool,
    more: Vec<TemplateText>,
}

impl Templates {
    /// Most templates beside those that come with weir.
    pub const MOST: usize = 256;

    /// Those that come with weir. A function of the program with the name of
    /// one of them takes its place.
    pub const fn shipped() -> Templates {
        Templates {
            shipped: true,
            more: Vec::new(),
        }
    }

    /// None.
    pub const fn none() -> Templates {
        Templates {
            shipped: false,
            more: Vec::new(),
        }
    }

    /// Adds the text of a file. Its errors are told when templates
    /// are used: its name must be unlike those of all functions and templates.
    pub fn add(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.more.push(TemplateText {
            file: file.into(),
            text: text.into(),
        });
    }
}

impl Default for Templates {
    fn default() -> Templates {
        Templates::shipped()
    }
}

/// Name of a shipped template's text in messages.
fn shipped_file(name: &str) -> String {
    format!("weir:templates/{name}.yaml")
}
