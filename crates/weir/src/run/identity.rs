//! A run as its agents know it: its name, its key, the number of its start, its heartbeats.

use weir_protocol::Key;

use super::agent;
use crate::args::Run;
use crate::exit::Failure;
use crate::seed;

/// Heartbeats in a row whose absence makes a runtime on another host suspect.
const MISSED: u32 = 4;

/// The key that the run shares with its agents.
pub(super) fn key(args: &Run) -> Result<Option<Key>, Failure> {
    match (&args.raised, &args.key) {
        (Some(raised), _) => Ok(Some(raised.key)),
        (None, Some(path)) => agent::key(path).map(Some),
        (None, None) => Ok(None),
    }
}

/// A number that no other start of a switch has.
pub(super) fn start_of(args: &Run) -> u32 {
    if let Some(lease) = &args.lease {
        return lease.start();
    }
    match &args.raised {
        Some(raised) => raised.start,
        None => seed::random() as u32,
    }
}

/// Interval of heartbeats in ns, and how many may be missing.
pub(super) fn beats(args: &Run) -> (u64, u32) {
    (args.heartbeat * 1_000_000, MISSED)
}

/// Name of a run among those that share agents: what finds it.
pub(super) fn name_of(args: &Run) -> String {
    let socket = args.control.as_ref().map(|path| path.display().to_string());
    args.name.clone().or(socket).unwrap_or_default()
}
