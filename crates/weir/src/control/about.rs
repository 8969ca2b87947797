//! What a control socket is made of: the wishes of the command line, and the facts of
//! the run that it tells.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_api::v1;
use weir_graph::ChainFile;

use crate::observe::Unseen;

/// The command line's wishes for the control socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// `--control`: a path, or `none`.
    pub(crate) path: Option<PathBuf>,
    /// `--name`.
    pub(crate) name: Option<String>,
    /// `--metrics`: where Prometheus asks.
    pub(crate) metrics: Option<SocketAddr>,
}

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
