//! In the place of the control socket, where weir is built without it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_api::v1;
use weir_graph::ChainFile;

use crate::driver::inbox::Post;
use crate::exit::Failure;
use crate::observe::Unseen;

/// What the command line says of the control socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) path: Option<PathBuf>,
    pub(crate) name: Option<String>,
    pub(crate) metrics: Option<SocketAddr>,
}

/// What an instance would say of itself.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) file: &'a ChainFile,
    pub(crate) chain: &'a Path,
    pub(crate) mode: &'a str,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) inputs: Vec<v1::PortInfo>,
    pub(crate) outputs: Vec<v1::PortInfo>,
}

/// A control socket: there is none.
#[derive(Debug)]
pub(crate) enum Control {}

impl Wanted {
    /// None; a failure where one was asked for.
    pub(crate) fn open(&self, _: About<'_>, _: Vec<Post>) -> Result<Option<Control>, Failure> {
        let path = self
            .path
            .as_ref()
            .is_some_and(|path| path.as_os_str() != "none");
        match path || self.name.is_some() || self.metrics.is_some() {
            true => Err(absent()),
            false => Ok(None),
        }
    }
}

impl Control {
    pub(crate) fn path(&self) -> Option<&Path> {
        match *self {}
    }

    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        match *self {}
    }
}

/// Why nothing is asked or answered.
pub(crate) fn absent() -> Failure {
    Failure::built_without("control")
}
