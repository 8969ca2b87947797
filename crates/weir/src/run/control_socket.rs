//! The control socket of a run.

use weir_graph::ChainFile;

use crate::args::Run;
use crate::control::{About, Control, Wanted};
use crate::driver::inbox::{Inbox, Post};
use crate::exit::Failure;
use crate::observe::Unseen;
use crate::say::say;

use super::ports::{Ports, RunPort};

/// An inbox for a thread; the failure says that there is none to be had.
pub(super) fn inbox(sleeps: bool) -> Result<(Post, Inbox), Failure> {
    Inbox::new(sleeps)
        .map_err(|error| Failure::outside(format!("can't make an event descriptor: {error}")))
}

/// Opens the control socket where one is wanted, and says where it is.
pub(super) fn open_control(
    args: &Run,
    file: &ChainFile,
    mode: &str,
    ports: &Ports,
    posts: Vec<Post>,
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
    let control = wanted.open(about, posts)?;
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
