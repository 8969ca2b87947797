//! In the place of the control socket, where weir is built without it.

use weir_ctl::command::CommandSender;
use weir_ctl::observe::Unseen;
use weir_graph::ChainFile;

use crate::args::Run;
use crate::exit::Failure;

use super::ports::Ports;

/// A control socket: there is none.
pub(super) enum Control {}

impl Drop for Control {
    /// The one that is there closes its socket: callers drop it at a certain moment.
    fn drop(&mut self) {
        match *self {}
    }
}

/// None; a failure where one was asked for.
pub(super) fn open_control(
    args: &Run,
    _: &ChainFile,
    _: &str,
    _: &Ports,
    _: Vec<CommandSender>,
    _: Vec<Unseen>,
) -> Result<Option<Control>, Failure> {
    let path = args.control.as_ref();
    let path = path.is_some_and(|path| path.as_os_str() != "none");
    match path || args.name.is_some() || args.metrics.is_some() {
        true => Err(Failure::built_without("control")),
        false => Ok(None),
    }
}
