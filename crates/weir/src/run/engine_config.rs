//! Settings of a run's engines.

use weir_runtime::RuntimeConfig;

use crate::args::Run;

/// Bytes of events that a chain keeps until they are written, once per batch.
const EVENT_BYTES: usize = 4 << 20;

/// Settings of engines, by the command line.
pub(super) fn engine_config(args: &Run, seed: u64) -> RuntimeConfig {
    RuntimeConfig {
        seed,
        advise: weir_io::advise_large_pages,
        cycles: weir_io::cycles,
        event_bytes: if args.events.is_empty() {
            0
        } else {
            EVENT_BYTES
        },
        audit: args.audit,
        ..RuntimeConfig::default()
    }
}
