//! `ids`: rules of Suricata and Snort over packets and reassembled streams.

mod collect;
mod counts;
mod function;
mod inspect;
mod loading;
mod report;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod view;

use weir_signatures::RuleSet;

pub use collect::Replaced;
pub use loading::{File, Loaded, Loading, Reason, Refused};
pub use settings::{Act, OnUnsupported, Settings, parse_options, variables};
pub use state::{IdsState, Progress, SideState};

use crate::stream::Limits;
use report::Catalogue;

/// Reports what rules match, and drops it where it is told to.
#[derive(Debug)]
pub struct Ids {
    rules: RuleSet,
    catalogue: Catalogue,
    limits: Limits,
    /// Bytes of a stream to look back at.
    window: usize,
    /// A rule looks at streams.
    streams: bool,
    midstream: bool,
}
