//! Facts of a run that its control socket tells.

use std::path::Path;

use weir_api::v1;
use weir_graph::ChainFile;

use crate::observe::Unseen;

/// Facts of a run beside its counts.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) file: &'a ChainFile,
    pub(crate) chain: &'a Path,
    /// How it runs, in a word.
    pub(crate) mode: &'a str,
    /// Stages that can't be looked into.
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) inputs: Vec<v1::PortInfo>,
    pub(crate) outputs: Vec<v1::PortInfo>,
}
