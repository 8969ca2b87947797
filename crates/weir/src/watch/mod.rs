//! `weir trace` and `weir tap`, on captures and on a running weir.

#[cfg(feature = "control")]
mod ask;
mod captures;
mod json;
mod pcapng;
mod print;
mod text;

use weir_nf::host::Kind;

use crate::args;
use crate::exit::Outcome;

/// `weir trace`.
pub(crate) fn trace(args: &args::Trace, kinds: &[Kind]) -> Outcome {
    if !args.captures.input.is_empty() {
        return captures::trace(args, kinds);
    }
    #[cfg(feature = "control")]
    return ask::trace(args);
    #[cfg(not(feature = "control"))]
    Err(crate::exit::Failure::built_without("control"))
}

/// `weir tap`.
pub(crate) fn tap(args: &args::Tap, kinds: &[Kind]) -> Outcome {
    if !args.captures.input.is_empty() {
        return captures::tap(args, kinds);
    }
    #[cfg(feature = "control")]
    return ask::tap(args);
    #[cfg(not(feature = "control"))]
    Err(crate::exit::Failure::built_without("control"))
}
