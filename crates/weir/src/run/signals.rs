//! Signals of a run.

use std::time::Duration;

use weir_io::live::{EndSignals, Hangups};

use crate::exit::Failure;

/// Time in which further signals are the first one's: some senders, GNU `timeout` for one, send to
/// the process and to its group.
pub(super) const ONE_SIGNAL: Duration = Duration::from_millis(50);

/// Blocks the signals that end a run, and waits for them. To be called before
/// threads are started: those inherit it, and would be killed otherwise.
pub(crate) fn end_signals() -> Result<EndSignals, Failure> {
    EndSignals::open().map_err(|error| Failure::outside(format!("can't wait for signals: {error}")))
}

/// SIGHUP ends no process of a run, the engines and stages included that this
/// one starts: it opens the event file again ([`crate::driver::EventFile`]).
pub(super) fn hold_hangups() -> Result<(), Failure> {
    let held = Hangups::open();
    held.map(drop)
        .map_err(|error| Failure::outside(format!("can't hold SIGHUP: {error}")))
}
