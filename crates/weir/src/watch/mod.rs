//! Looking on: `weir trace` and `weir tap`, on captures and on a running weir.
//!
//! The engine's side is [`weir_runtime::watch`]. Here is who listens to it:
//! engines put what they see into bounded rings, one each, and never wait;
//! whoever looks on empties them. What is seen is told in the messages of the
//! control interface, whether it comes through a socket or not, so that both
//! look alike.

mod arm;
mod ask;
mod captures;
mod convert;
mod json;
mod pcapng;
mod points;
mod serve;
mod tap;
mod text;
mod trace;

use weir_api::v1;
use weir_nf::host::Kind;
use weir_packet::filter::{Ends, Facts, Filter};
use weir_runtime::watch::Seen;

use crate::Outcome;
use crate::args::{self, Format};

pub(crate) use arm::Arm;
pub(crate) use points::{Places, Unseen};
pub(crate) use serve::{Engines, TapStream, TraceStream, Watchers};
pub(crate) use tap::{TapFeed, TapSpec, Taps};
pub(crate) use trace::{TraceFeed, TraceSpec, Traces};

/// `weir trace`.
pub(crate) fn trace(args: &args::Trace, kinds: &[Kind]) -> Outcome {
    if !args.captures.input.is_empty() {
        return captures::trace(args, kinds);
    }
    ask::trace(args)
}

/// `weir tap`.
pub(crate) fn tap(args: &args::Tap, kinds: &[Kind]) -> Outcome {
    if !args.captures.input.is_empty() {
        return captures::tap(args, kinds);
    }
    ask::tap(args)
}

/// A traced packet, or a part of one, as it is printed; `more` where it is not
/// the first.
fn told(part: &v1::PacketTrace, format: Format, full: bool, more: bool) -> String {
    match format {
        Format::Json => json::line(part),
        Format::Text if more => format!("\n{}", text::packet(part, full)),
        Format::Text => text::packet(part, full),
    }
}

/// By how many more the packets are that have something to tell yet, after
/// this part of one: those that wait, are turned, or go on elsewhere.
fn waits(part: &v1::PacketTrace) -> i64 {
    use v1::trace_disposition::Disposition;
    let disposition = part
        .disposition
        .as_ref()
        .and_then(|disposition| disposition.disposition.as_ref());
    let goes_on = matches!(
        disposition,
        Some(Disposition::Turned(_) | Disposition::Held(_) | Disposition::Later(_))
    );
    i64::from(goes_on) - i64::from(part.again || part.first_function > 0)
}

/// Whether a packet matches: under its own addresses, those of a packet that
/// it quotes, or those of its flow.
fn matches(filter: &Filter, seen: &Seen<'_>) -> bool {
    if filter.takes_all() {
        return true;
    }
    let Some(headers) = seen.headers else {
        return false;
    };
    let own = Facts::of_packet(seen.bytes, headers);
    let mut facts = own.facts();
    facts.chain = Some(seen.chain);
    let mut names = [Ends {
        source: ([0, 0, 0, 0].into(), 0),
        destination: ([0, 0, 0, 0].into(), 0),
        protocol: 0,
    }; 3];
    let mut known = 0;
    for (place, name) in names.iter_mut().zip(facts.names) {
        *place = *name;
        known += 1;
    }
    if let Some(flow) = &seen.flow {
        if let Some(place) = names.get_mut(known) {
            *place = Ends::of(&flow.key, flow.direction);
            known += 1;
        }
        facts.phase = Some(flow.phase);
        facts.id = Some(flow.id);
        facts.to_server = Some(flow.to_server);
    }
    facts.names = names.get(..known).unwrap_or(&[]);
    filter.matches(&facts)
}
