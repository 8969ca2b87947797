//! The control socket of a run.

use weir_graph::ChainFile;

use crate::args::Run;
use crate::control::{About, Control, Wanted};
use crate::driver::command::{CommandHandler, CommandSender};
use crate::exit::Failure;
use crate::observe::Unseen;
use crate::say::say;

use super::ports::{Ports, RunPort};

/// A command channel for a thread; `sleeps` as in [`CommandHandler::new`].
pub(super) fn command_channel(sleeps: bool) -> Result<(CommandSender, CommandHandler), Failure> {
    CommandHandler::new(sleeps)
        .map_err(|error| Failure::outside(format!("can't make an event descriptor: {error}")))
}

/// Opens the control socket where one is wanted, and says where it is.
pub(super) fn open_control(
    args: &Run,
    file: &ChainFile,
    mode: &str,
    ports: &Ports,
    senders: Vec<CommandSender>,
    unseen: Vec<Unseen>,
) -> Result<Option<Control>, Failure> {
    let wanted = Wanted {
        path: args.control.clone(),
        name: args.name.clone(),
        metrics: args.metrics,
    };
    let of = |ports: &[RunPort]| ports.iter().map(RunPort::info).collect();
    let about = About {
        file,
        chain: &args.chain,
        mode,
        unseen,
        inputs: of(&ports.inputs),
        outputs: of(&ports.outputs),
    };
    let control = wanted.open(about, senders)?;
    if let Some(control) = control.as_ref().filter(|_| !args.quiet) {
        if let Some(path) = control.path() {
            say(format_args!("control socket: {}", path.display()));
        }
        if let Some(address) = control.metrics() {
            say(format_args!("metrics: http://{address}/metrics"));
        }
    }
    Ok(control)
}
