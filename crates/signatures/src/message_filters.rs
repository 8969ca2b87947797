//! Selects the rules to try on a message of an application protocol: prefilters by buffer and phase.

use std::collections::BTreeMap;

use crate::app_protocol::AppProtocol;
use crate::buffers::{Buffer, Phase, Transaction};
use crate::condition::Condition;
use crate::content::Content;
use crate::evaluate::Prepared;
use crate::frequency::CommonStrings;
use crate::prefilter::{self, FastPart, Prefilter};
use crate::scratch::{Candidates, ON_PACKET};
use crate::transform::{Changed, Changes};

/// What a prefilter looks at: a buffer, its changes, and the part of the message in which it is tried.
type Looked = (Buffer, Option<Changes>, Phase);

/// What the prefilters of messages are to look for.
#[derive(Debug, Default)]
pub(crate) struct MessageParts {
    parts: BTreeMap<Looked, Vec<FastPart>>,
    others: BTreeMap<Looked, Vec<u32>>,
    by_protocol: Vec<(AppProtocol, Phase, u32)>,
}

impl MessageParts {
    /// Adds a rule: its sections, and the protocol of numbers and events that it asks for.
    pub(crate) fn add(
        &mut self,
        number: u32,
        (sections, protocol): (&[Prepared], Option<AppProtocol>),
        phase: Phase,
        common: &CommonStrings,
    ) {
        let mut best: Option<(bool, usize, Looked, Vec<Content>)> = None;
        for section in sections {
            let Some(buffer) = section.buffer() else {
                continue;
            };
            let looked = (buffer, section.changes(), phase);
            let contents = section
                .conditions()
                .iter()
                .filter_map(|condition| match condition {
                    Condition::Content(content) => Some(content.clone()),
                    _ => None,
                });
            let contents: Vec<Content> = contents.collect();
            let positive = || contents.iter().filter(|content| !content.negated);
            let asked = positive().any(|content| content.fast_pattern.is_some());
            let longest = positive().map(|content| content.bytes.len()).max();
            let rank = (asked, longest.unwrap_or(0));
            if best.as_ref().is_none_or(|known| (known.0, known.1) < rank) {
                best = Some((rank.0, rank.1, looked, contents));
            }
        }
        let Some((_, _, looked, contents)) = best else {
            self.by_protocol
                .extend(protocol.map(|known| (known, phase, number)));
            return;
        };
        match prefilter::choose(number, &contents, common) {
            Some(part) => self.parts.entry(looked).or_default().push(part),
            None => self.others.entry(looked).or_default().push(number),
        }
    }

    /// The prefilters; `None` when one does not fit `bytes`.
    pub(crate) fn build(self, bytes: usize) -> Option<Messages> {
        let share = bytes / self.parts.len().max(1);
        let filters = self
            .parts
            .into_iter()
            .map(|(looked, parts)| Some((looked, Prefilter::new(&parts, share)?)));
        Some(Messages {
            filters: filters.collect::<Option<_>>()?,
            others: self.others.into_iter().collect(),
            by_protocol: self.by_protocol,
        })
    }
}

/// The rules on messages, by what finds them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    filters: Vec<(Looked, Prefilter)>,
    /// Rules without a content to look for, tried whenever their first buffer is there.
    others: Vec<(Looked, Vec<u32>)>,
    /// Rules without a buffer, which ask for numbers or events: tried on each message of the protocol.
    by_protocol: Vec<(AppProtocol, Phase, u32)>,
}

impl Messages {
    /// True if there are no rules on messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.others.is_empty() && self.by_protocol.is_empty()
    }

    /// Adds the rules to be tried on a message, in order of evaluation.
    pub(crate) fn find(
        &self,
        message: &Transaction<'_>,
        changed: &Changed,
        candidates: &mut Candidates,
    ) {
        for ((buffer, changes, _), filter) in
            self.filters.iter().filter(|of| of.0.2 == message.phase)
        {
            each(message, changed, (*buffer, *changes), |bytes, offset, _| {
                filter.scan(0, bytes, 0, offset, &mut |rule, _, _| {
                    candidates.add(rule, ON_PACKET, 0);
                });
                false
            });
        }
        for ((buffer, changes, _), rules) in self.others.iter().filter(|of| of.0.2 == message.phase)
        {
            if each(message, changed, (*buffer, *changes), |_, _, _| true) {
                for &rule in rules {
                    candidates.add(rule, ON_PACKET, 0);
                }
            }
        }
        for &(protocol, phase, rule) in &self.by_protocol {
            if (protocol, phase) == (message.protocol, message.phase) {
                candidates.add(rule, ON_PACKET, 0);
            }
        }
        candidates.sort();
    }
}

/// Calls `found` with the bytes of a buffer with its changes, their offset, and whether they are complete,
/// until it gives true; false where it never does.
pub(crate) fn each(
    message: &Transaction<'_>,
    changed: &Changed,
    (buffer, changes): (Buffer, Option<Changes>),
    mut found: impl FnMut(&[u8], u64, bool) -> bool,
) -> bool {
    match changes {
        Some(changes) => changed
            .of(changes)
            .any(|(bytes, complete)| found(bytes, 0, complete)),
        None => {
            let mut buffers = message
                .buffers
                .iter()
                .filter(|bytes| bytes.buffer == buffer);
            buffers.any(|bytes| found(bytes.bytes, bytes.offset, bytes.complete))
        }
    }
}
