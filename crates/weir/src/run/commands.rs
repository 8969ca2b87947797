//! The command channels of a run's threads.

use weir_ctl::command::{CommandHandler, CommandSender};

use crate::exit::Failure;

/// A command channel for a thread; `sleeps` as in [`CommandHandler::new`].
pub(super) fn command_channel(sleeps: bool) -> Result<(CommandSender, CommandHandler), Failure> {
    CommandHandler::new(sleeps)
        .map_err(|error| Failure::outside(format!("can't make an event descriptor: {error}")))
}
