//! The rule language of Suricata and Snort: parser, typed tree, matcher.
//!
//! [`parse_rules`] reads rules, [`RuleSet::compile`] makes them ready, and [`RuleSet::inspect_packet`],
//! [`RuleSet::inspect_stream`] and [`RuleSet::inspect_segment`] try them. The crate knows nothing of frames:
//! the caller fills a [`PacketView`], reassembles TCP streams and keeps, per flow, a [`FlowVars`] and, per
//! direction, a [`StreamState`]. Both are plain data of fixed layout, valid when zeroed, safe whatever their
//! bytes are, and tied to the rule set by its [generation](RuleSet::generation). Inspection neither
//! allocates nor panics.
//!
//! # What a rule looks at
//!
//! * Packets, if it has no content, or a condition that only a packet can meet (`dsize`, `flags`, `ttl`,
//!   ...), or `flow:no_stream`, or protocol `tcp-pkt`, or a protocol other than TCP.
//! * Otherwise, in TCP, the reassembled stream. A rule with `offset`, `depth` or `startswith` looks at the
//!   stream and at each packet. If a segment is not part of a stream ([`PacketView::in_stream`]) the rule
//!   looks at the packet, unless it has `flow:only_stream` or protocol `tcp-stream`.
//! * A rule with nothing but addresses and protocol is tried on the first packet of each direction
//!   ([`PacketView::first_in_direction`]).
//!
//! # Streams
//!
//! New bytes are scanned once; the state of the automaton is carried from segment to segment, so that a
//! pattern is found however it is cut. A rule whose fast pattern has been found and which may be completed
//! by later bytes waits for them, for as long as the fast pattern is in the window. All its contents must be
//! in one window.
//!
//! The number of alerts does not depend on how the stream is cut into segments. A rule reports a match, and
//! does not match again in the same direction until 2,560 bytes later (the chunk that Suricata inspects at a
//! time), or until the next message: what the caller says by [`StreamBytes::last`], when the other side
//! begins to answer. Matches that are reported do not overlap. What can only be known at the end of a
//! message waits for it: `endswith`, negated contents within a span that is not full yet. A negated content
//! without a bound looks at the message up to 2,560 bytes behind the other contents.
//!
//! # Application protocols
//!
//! A rule whose header names an application's protocol, or with `app-layer-protocol`, looks at messages,
//! streams and packets of flows that speak it, which the caller says by [`FlowContext::application`]. When
//! that is decided, the caller has such rules look again at the packet and at what the windows of both
//! directions have ([`RuleSet::inspect_packet_again`], [`RuleSet::inspect_stream_again`]).
//!
//! # Differences from Suricata
//!
//! * Suricata inspects streams in chunks when they are acknowledged, and may miss what is cut by a chunk.
//! * It reports rules that look at packets and streams twice for the same bytes; see
//!   [`CompileOptions::report_packet_and_stream`].
//! * It does not try all occurrences of a content before a negated one; here all are tried.
//!
//! ```
//! use weir_signatures::*;
//!
//! let rules = parse_rules(
//!     r#"alert tcp any any -> any 80 (msg:"split"; content:"passwd"; nocase; sid:1;)"#,
//!     &Variables::stock(),
//! )
//! .unwrap();
//! let set = RuleSet::compile(rules, CompileOptions::default()).unwrap();
//! let flow = FlowContext {
//!     source: "10.0.0.1".parse().unwrap(),
//!     destination: "192.0.2.1".parse().unwrap(),
//!     source_port: 50000,
//!     destination_port: 80,
//!     protocol: view::TCP,
//!     to_server: true,
//!     established: true,
//!     application: Application::Undecided,
//! };
//! let (mut state, mut bits) = (StreamState::default(), FlowVars::default());
//! let mut scratch = Scratch::new(set.len());
//! let mut sids = Vec::new();
//! let stream = b"GET /etc/PASSwd";
//! for (from, to) in [(0, 12), (12, 15)] {
//!     let bytes = StreamBytes { window: &stream[..to], new_from: from, offset: 0, last: false };
//!     set.inspect_stream(&flow, &mut state, &bytes, &mut bits, &mut scratch, &mut |alert| {
//!         sids.push(alert.rule.sid);
//!     });
//! }
//! assert_eq!(sids, [1]);
//! ```

mod app_protocol;
mod application;
mod automaton;
mod bit_kind;
pub mod buffers;
mod byte_options;
mod classification;
mod compare;
pub mod condition;
mod content;
mod content_options;
mod data;
mod error;
mod evaluate;
mod events;
mod fingerprint;
mod flow_vars;
mod frequency;
mod header;
mod inspect;
mod lists;
mod literal;
mod matcher;
#[cfg(test)]
mod matcher_model;
mod message_filters;
mod messages;
mod numbers;
mod options;
mod packet_options;
mod packet_tests;
mod parse;
mod pcre;
mod prefilter;
mod profile;
mod ranges;
mod raw_option;
mod requires;
mod rule;
mod ruleset;
mod scratch;
mod search;
mod sections;
mod sets;
mod shared_bits;
mod short;
mod source;
mod state;
mod threshold;
mod threshold_file;
mod transform;
mod unfiltered;
mod variables;
pub mod view;

pub use app_protocol::{AppProtocol, AppProtocols};
pub use application::AppTest;
pub use bit_kind::FlowbitKind;
pub use buffers::{Buffer, Bytes, Phase, Transaction};
pub use classification::{Classification, Classifications, DEFAULT_PRIORITY};
pub use compare::Compare;
pub use content::{Content, FastPattern, Place};
pub use data::{
    AddressTest, DataKind, DataSet, DataTest, DataUse, ReputationTest, Reputations, Which,
};
pub use error::{RuleError, SkipReason, Skipped};
pub use events::{AppEvent, AppEvents, DecodeEvent, DecodeEvents, StreamEvent, StreamEvents};
pub use flow_vars::{FlowInt, FlowIntKind, FlowIntValue, FlowVars, MAX_FLOW_VARS};
pub use inspect::{Alert, Inspection, MatchedIn};
pub use lists::{Applied, ListKind, RuleLists};
pub use messages::MessageState;
pub use numbers::{AppNumber, NumberTest};
pub use parse::{
    ParseOptions, Parsed, Unsupported, parse_rules, parse_rules_lossy, parse_rules_with,
};
pub use profile::Watch;
pub use ranges::{AddressSet, Element, PortSet, RangeSet};
pub use rule::{
    Action, Direction, FlagsMode, FlagsTest, FlowCondition, FlowbitOperation, IpOption, PacketTest,
    Protocol, Rule, StreamSide, Target,
};
pub use ruleset::{CompileError, CompileOptions, RuleSet};
pub use scratch::{Scratch, ScratchCounters};
pub use shared_bits::{BitOwner, SharedBit};
pub use state::StreamState;
pub use threshold::{Threshold, ThresholdKind, Track};
pub use threshold_file::{Suppression, ThresholdLists};
pub use transform::Transform;
pub use variables::Variables;
pub use view::{Application, FlowContext, IcmpFields, PacketView, StreamBytes, TcpFields};
