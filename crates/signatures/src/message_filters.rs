//! Selects the rules to try on a message of an application protocol: prefilters by buffer and phase.

use std::collections::BTreeMap;

use crate::buffers::{Buffer, Bytes, Phase, Transaction};
use crate::condition::Condition;
use crate::content::Content;
use crate::events::AppEvents;
use crate::frequency::CommonStrings;
use crate::prefilter::{self, FastPart, Prefilter};
use crate::rule::Rule;
use crate::scratch::{Candidates, ON_PACKET};

/// What the prefilters of messages are to look for.
#[derive(Debug, Default)]
pub(crate) struct MessageParts {
    parts: BTreeMap<(Buffer, Phase), Vec<FastPart>>,
    others: BTreeMap<(Buffer, Phase), Vec<u32>>,
    by_event: Vec<u32>,
}

impl MessageParts {
    /// Adds a rule.
    pub(crate) fn add(&mut self, number: u32, rule: &Rule, phase: Phase, common: &CommonStrings) {
        let mut best: Option<(bool, usize, Buffer, Vec<Content>)> = None;
        for section in &rule.sections {
            let Some(buffer) = section.buffer else {
                continue;
            };
            let contents = section
                .conditions
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
                best = Some((rank.0, rank.1, buffer, contents));
            }
        }
        let Some((_, _, buffer, contents)) = best else {
            self.by_event.push(number);
            return;
        };
        match prefilter::choose(number, &contents, common) {
            Some(part) => self.parts.entry((buffer, phase)).or_default().push(part),
            None => self.others.entry((buffer, phase)).or_default().push(number),
        }
    }

    /// The prefilters; `None` when one does not fit `bytes`.
    pub(crate) fn build(self, bytes: usize) -> Option<Messages> {
        let share = bytes / self.parts.len().max(1);
        let filters = self
            .parts
            .into_iter()
            .map(|((buffer, phase), parts)| Some((buffer, phase, Prefilter::new(&parts, share)?)));
        Some(Messages {
            filters: filters.collect::<Option<_>>()?,
            others: self.others.into_iter().collect(),
            by_event: self.by_event,
        })
    }
}

/// The rules on messages, by what finds them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    filters: Vec<(Buffer, Phase, Prefilter)>,
    /// Rules without a content to look for, tried whenever their first buffer is there.
    others: Vec<((Buffer, Phase), Vec<u32>)>,
    /// Rules without a buffer, tried on messages with events.
    by_event: Vec<u32>,
}

impl Messages {
    /// True if there are no rules on messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.others.is_empty() && self.by_event.is_empty()
    }

    /// Adds the rules to be tried on a message, in order of evaluation.
    pub(crate) fn find(&self, message: &Transaction<'_>, candidates: &mut Candidates) {
        let here = |buffer: Buffer, phase: Phase| {
            let wanted = move |bytes: &&Bytes<'_>| bytes.buffer == buffer;
            let buffers = if phase == message.phase {
                message.buffers
            } else {
                &[]
            };
            buffers.iter().filter(wanted)
        };
        for (buffer, phase, filter) in &self.filters {
            for bytes in here(*buffer, *phase) {
                filter.scan(0, bytes.bytes, 0, bytes.offset, &mut |rule, _, _| {
                    candidates.add(rule, ON_PACKET, 0);
                });
            }
        }
        for ((buffer, phase), rules) in &self.others {
            if here(*buffer, *phase).next().is_some() {
                for &rule in rules {
                    candidates.add(rule, ON_PACKET, 0);
                }
            }
        }
        if message.events != AppEvents::NONE && message.phase == Phase::Head {
            for &rule in &self.by_event {
                candidates.add(rule, ON_PACKET, 0);
            }
        }
        candidates.sort();
    }
}
