//! Duties of the thread of the ports beside packets.

use weir_ctl::command::CommandHandler;
use weir_io::live::{EndSignals, LiveClock};

use super::super::guard::Guardian;
use crate::args::Run;
use crate::driver::live::Looks;

/// Signals, commands, the guardian and the end of `--for`, which counts from when the first engine
/// of a bump that fails open began.
pub(super) fn looks(
    args: &Run,
    signals: EndSignals,
    guardian: Option<Guardian>,
    clock: LiveClock,
    handler: CommandHandler,
) -> Looks {
    let before = guardian.as_ref().map(|guardian| guardian.before.since);
    let most = args.duration;
    let most = most.map(|most| most.saturating_sub(before.unwrap_or_default()));
    let starter = guardian.map(Guardian::into_stream);
    Looks::new(signals, most, starter, clock, handler)
}
