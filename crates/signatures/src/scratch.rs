//! Memory that inspection works in, kept by the caller from packet to packet so that none is allocated.

use std::sync::Arc;

use crate::evaluate::Workspace;
use crate::matcher::Ends;
use crate::profile::{Clock, Watch};
use crate::transform::Changed;

/// Counts of what inspection could not remember or search to the end, since the scratch was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScratchCounters {
    /// Rules that waited for more bytes of a stream and were dropped because too many waited.
    pub waiting_dropped: u64,
    /// Rules that waited for more bytes until their first content had left the window.
    pub waiting_expired: u64,
    /// Rules whose last alert in a stream was forgotten because too many had alerted.
    pub alerts_forgotten: u64,
    /// Searches that gave up on some of the places of a content because it occurs too often.
    pub searches_cut: u64,
    /// Searches of `pcre` that took too many steps, or had too many bytes to look at; they did not match.
    pub pcre_cut: u64,
    /// Changed buffers that rules did not see, because a message had too many bytes of them.
    pub changes_cut: u64,
    /// Flowbits and flowints that a flow had no room for.
    pub flow_vars_lost: u64,
}

/// Work space of one worker. Holds nothing that outlives a call, apart from its counters.
#[derive(Debug, Clone)]
pub struct Scratch {
    pub(crate) candidates: Candidates,
    pub(crate) ends: Ends,
    pub(crate) workspace: Workspace,
    /// Buffers of the message at hand, with changes.
    pub(crate) changed: Changed,
    pub(crate) counters: ScratchCounters,
    pub(crate) clock: Clock,
}

impl Scratch {
    /// Work space for rule sets of up to `rules` rules. It grows by itself when a larger rule set is used,
    /// which is the only time it allocates.
    pub fn new(rules: usize) -> Self {
        let mut scratch = Scratch {
            candidates: Candidates::default(),
            ends: Ends::new(),
            workspace: Workspace::default(),
            changed: Changed::default(),
            counters: ScratchCounters::default(),
            clock: Clock::default(),
        };
        scratch.candidates.begin(rules);
        scratch
    }

    /// The same, which tells somebody of each attempt of a rule.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn Watch>) -> Self {
        self.clock = Clock::of(watch);
        self
    }

    /// The counters so far.
    pub fn counters(&self) -> ScratchCounters {
        ScratchCounters {
            searches_cut: self.ends.truncated + self.workspace.steps,
            pcre_cut: self.workspace.pcre,
            changes_cut: self.changed.cut,
            ..self.counters
        }
    }
}

/// The rule is to be tried on the packet.
pub(crate) const ON_PACKET: u8 = 1;
/// The rule is to be tried on the stream.
pub(crate) const ON_STREAM: u8 = 2;

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// The call this mark belongs to.
    call: u64,
    /// Stream offset behind the last occurrence of the fast pattern.
    hit: u64,
    sources: u8,
}

/// The rules to be tried in a call, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates {
    call: u64,
    marks: Vec<Mark>,
    list: Vec<u32>,
}

impl Candidates {
    pub(crate) fn begin(&mut self, rules: usize) {
        self.call += 1;
        self.list.clear();
        if self.marks.len() < rules {
            self.marks.resize(rules, Mark::default());
            self.list.reserve(rules);
        }
    }

    /// Adds a rule; `hit` is of use for streams only.
    #[inline]
    pub(crate) fn add(&mut self, rule: u32, source: u8, hit: u64) {
        let Some(mark) = self.marks.get_mut(rule as usize) else {
            return;
        };
        if mark.call != self.call {
            *mark = Mark {
                call: self.call,
                hit: 0,
                sources: 0,
            };
            self.list.push(rule);
        }
        mark.sources |= source;
        mark.hit = mark.hit.max(hit);
    }

    /// Puts the rules into the order of evaluation.
    pub(crate) fn sort(&mut self) {
        self.list.sort_unstable();
    }

    /// The rule in this place, what it is to be tried on, and its last hit.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<(u32, u8, u64)> {
        let &rule = self.list.get(place)?;
        let mark = self.marks.get(rule as usize)?;
        Some((rule, mark.sources, mark.hit))
    }
}
