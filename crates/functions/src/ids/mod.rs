//! `ids`: rules of Suricata and Snort over packets and reassembled streams.

#[cfg(test)]
mod across_tests;
mod collect;
mod counts;
mod data;
mod decode;
mod function;
mod inspect;
mod lists;
mod loading;
mod messages;
mod parser;
mod protocols;
mod records;
#[cfg(test)]
mod records_tests;
mod report;
mod seen;
mod settings;
mod side_buffers;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod threshold_tests;
mod told;
mod view;

use std::sync::Arc;

use weir_nf::prelude::*;
use weir_signatures::{AppProtocol, AppProtocols, Buffer, DecodeEvents, RuleSet};

pub use collect::Replaced;
pub use weir_signatures::{Applied, ListKind, Rule, Watch};

pub use loading::{File, Loaded, Loading, Reason, Refused};
pub use records::{AlertField, FileHash, RecordKind};
pub use settings::{Act, OnUnsupported, Settings, parse_options, variables};
pub use state::{IdsState, Progress, SideState};

use crate::stream::Limits;
use records::Recording;
use report::Catalogue;
use seen::Seen;

/// Reports what rules match, and drops it where it is told to.
#[derive(Debug)]
pub struct Ids {
    rules: RuleSet,
    catalogue: Catalogue,
    limits: Limits,
    /// Bytes of a stream to look back at.
    window: usize,
    /// A rule looks at streams, or at messages in them.
    streams: bool,
    midstream: bool,
    /// Protocols at whose messages a rule looks.
    messages: AppProtocols,
    /// Those, and the ones that records are of.
    parsed: AppProtocols,
    recording: Recording,
    /// A rule asks what flows speak.
    asks: bool,
    /// A rule asks for events of packets.
    decodes: bool,
    /// A rule asks for events of segments.
    watches: bool,
    /// What rules call a field of a message, by the field's number.
    buffers: Vec<Option<Buffer>>,
    watch: Option<Arc<dyn Watch>>,
}

impl Ids {
    /// True where a rule or a record looks at messages, or a rule asks what flows speak.
    #[inline]
    fn parses(&self) -> bool {
        self.asks || self.parsed != AppProtocols::NONE
    }

    /// True of a flow that one of these rules has passed.
    #[inline]
    fn has_passed(&self, state: &IdsState) -> bool {
        state.progress.is_passed() && state.bits.is_of(self.rules.generation())
    }

    /// Anomalies of a packet's headers; none where no rule names any.
    #[inline]
    fn decode_events(&self, packet: &Packet<'_>, seen: &mut Seen) -> DecodeEvents {
        if !self.decodes {
            return DecodeEvents::NONE;
        }
        let (events, fragment) = decode::events(packet);
        fragment.map_or(events, |fragment| events.and(seen.fragment(fragment)))
    }

    /// True where datagrams are parsed: they are DNS or unknown.
    #[inline]
    fn parses_datagrams(&self) -> bool {
        self.asks || self.parsed.contains(AppProtocol::Dns)
    }
}
