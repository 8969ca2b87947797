//! In the place of the control socket, where weir is built without it.

mod about;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::driver::command::CommandSender;
use crate::exit::Failure;

pub(crate) use about::{About, Wanted};

/// A control socket: there is none.
#[derive(Debug)]
pub(crate) enum Control {}

impl Wanted {
    /// None; a failure where one was asked for.
    pub(crate) fn open(
        &self,
        _: About<'_>,
        _: Vec<CommandSender>,
    ) -> Result<Option<Control>, Failure> {
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

impl Drop for Control {
    /// The one that is there closes its socket: callers drop it at a certain moment.
    fn drop(&mut self) {
        match *self {}
    }
}

/// Why nothing is asked or answered.
pub(crate) fn absent() -> Failure {
    Failure::built_without("control")
}
