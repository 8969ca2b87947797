//! The side of an engine's process towards the main one, of stages and runtimes alike.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_io::shared::Channel;

/// Interval of reports to the main process, if counters have changed.
pub(in super::super) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Rounds between two reads of the system clock.
pub(in super::super) const ROUNDS_PER_CLOCK_READ: u32 = 256;

/// Sends a message, and raises the counter that the main process polls.
pub(in super::super) fn send(
    channel: &mut Channel,
    count: &AtomicU32,
    kind: u8,
    bytes: &[u8],
) -> Result<(), String> {
    // Before, because a long message must be read while it is sent; and after, because
    // a read in between may have got only a part of it.
    count.fetch_add(1, Ordering::Release);
    let sent = channel.send(kind, bytes, &[], true);
    count.fetch_add(1, Ordering::Release);
    sent.map_err(|_| "the main process is gone".to_owned())
}

/// Gives the calling thread real-time priority. To be called when the set-up is done, which may
/// take long.
pub(in super::super) fn go_first() -> Result<(), String> {
    let first = weir_io::live::go_first();
    first.map_err(|error| format!("can't get real-time priority: {error}"))
}
