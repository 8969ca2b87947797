//! Inspection of messages of application protocols.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::app_protocol::{AppProtocol, AppProtocols};
use crate::buffers::{Buffer, Origin, Transaction};
use crate::condition::MAX_VARIABLES;
use crate::evaluate::{Area, Verdict};
use crate::flow_vars::FlowVars;
use crate::inspect::{Alert, Inspection, MatchedIn};
use crate::message_filters::each;
use crate::rule::PacketTest;
use crate::ruleset::{Compiled, RuleSet};
use crate::scratch::Scratch;
use crate::transform::Changed;
use crate::view::{Application, FlowContext};

/// How many rules are remembered to have matched on one message.
const MATCHED: usize = 8;

/// The memory of one message: the rules that have matched on it, so that they do not match again when more of
/// its body comes. To be zeroed when the next message of the direction begins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct MessageState {
    generation: u64,
    /// Numbers of rules plus 1; 0 is free.
    rules: [u32; MATCHED],
}

impl MessageState {
    /// Notes a match; true if there was no room for it.
    fn note(&mut self, key: u32) -> bool {
        match self.rules.iter_mut().find(|known| **known == 0) {
            Some(free) => *free = key,
            None => return true,
        }
        false
    }
}

impl RuleSet {
    /// True if a rule looks at messages of application protocols at all.
    pub fn needs_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// True if a rule asks for events of packets ([`PacketView::events`](crate::PacketView::events)).
    pub fn needs_decode_events(&self) -> bool {
        let mut tests = self.rules.iter().flat_map(|rule| &rule.rule.tests);
        tests.any(|test| matches!(test, PacketTest::Event(_)))
    }

    /// True if a rule asks for events of segments ([`PacketView::stream_events`](crate::PacketView::stream_events)).
    pub fn needs_stream_events(&self) -> bool {
        let mut tests = self.rules.iter().flat_map(|rule| &rule.rule.tests);
        tests.any(|test| matches!(test, PacketTest::StreamEvent(_)))
    }

    /// True if a rule asks what a flow speaks ([`FlowContext::application`]).
    pub fn needs_application(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| !rule.rule.applications.is_empty())
    }

    /// True if a rule looks at the names of files.
    pub fn needs_file_names(&self) -> bool {
        let sections = self.rules.iter().flat_map(|rule| &rule.rule.sections);
        let mut buffers = sections.filter_map(|section| section.buffer);
        buffers.any(|buffer| buffer == Buffer::FileName)
    }

    /// The protocols at whose messages rules look. Files (`file.data`) are in those of HTTP and SMTP.
    pub fn message_protocols(&self) -> AppProtocols {
        let sections = self.rules.iter().flat_map(|rule| &rule.rule.sections);
        let buffers = sections.filter_map(|section| section.buffer);
        let heads = self
            .rules
            .iter()
            .filter_map(|rule| rule.rule.head_protocol());
        let asked = heads.fold(AppProtocols::NONE, AppProtocols::with);
        buffers.fold(asked, |set, buffer| match buffer.info().origin {
            Origin::App(protocol) => set.with(protocol),
            Origin::Files => set.with(AppProtocol::Http).with(AppProtocol::Smtp),
            Origin::Packet => set,
        })
    }

    /// Tries the rules on a message of an application protocol. Each rule matches a message once, as far as
    /// `state` has room.
    pub fn inspect_transaction(
        &self,
        flow: &FlowContext,
        message: &Transaction<'_>,
        state: &mut MessageState,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) -> Inspection {
        bits.adopt(self.generation());
        if state.generation != self.generation() {
            *state = MessageState {
                generation: self.generation(),
                ..MessageState::default()
            };
        }
        scratch.candidates.begin(self.rules.len());
        // Taken out while the rest of the scratch is written.
        let mut changed = std::mem::take(&mut scratch.changed);
        changed.fill(message, &self.variants);
        self.messages
            .find(message, &changed, &mut scratch.candidates);
        let mut inspection = Inspection::default();
        let mut place = 0;
        while let Some((number, _, _)) = scratch.candidates.get(place) {
            place += 1;
            let Some(rule) = self.rules.get(number as usize) else {
                continue;
            };
            let start = scratch.clock.start();
            let (numbers, events) = (&rule.rule.numbers, &rule.rule.events);
            if state.rules.contains(&(number + 1))
                || !events.iter().all(|&event| message.events.contains(event))
                || !numbers.iter().all(|test| test.holds(message.numbers))
                || !rule.directions[usize::from(!flow.to_server)]
                || !rule.header_matches(flow)
                || !rule.speaks(Application::Known(message.protocol))
                || !rule.bits_hold(bits)
                || !rule.holds_on(message, &changed, scratch)
            {
                scratch.clock.stop(start, &rule.rule, false);
                continue;
            }
            scratch.clock.stop(start, &rule.rule, true);
            scratch.counters.alerts_forgotten += u64::from(state.note(number + 1));
            rule.report(MatchedIn::Message, bits, &mut inspection, on_alert);
            if inspection.passed {
                break;
            }
        }
        scratch.changed = changed;
        scratch.counters.flow_vars_lost += inspection.vars_lost;
        inspection
    }
}

impl Compiled {
    /// True if all sections hold, each on one of the bytes of its buffer.
    fn holds_on(
        &self,
        message: &Transaction<'_>,
        changed: &Changed,
        scratch: &mut Scratch,
    ) -> bool {
        let mut variables = [0; MAX_VARIABLES];
        self.sections.iter().all(|section| {
            let mut holds = |data: &[u8], base, more| {
                let area = Area {
                    data,
                    base,
                    from: base,
                    more,
                };
                let verdict = section.evaluate(area, &mut variables, &mut scratch.workspace);
                matches!(verdict, Verdict::Holds(_))
            };
            match section.buffer() {
                None => holds(message.payload, 0, false),
                Some(buffer) => {
                    let looked = (buffer, section.changes());
                    each(message, changed, looked, |bytes, offset, complete| {
                        holds(bytes, offset, !complete)
                    })
                }
            }
        })
    }
}
