//! Selects the rules to try on a buffer: those whose fast pattern, one chosen content, is in it.

use crate::automaton::{Automaton, SHORTEST};
use crate::content::{Content, FastPattern};
use crate::frequency::{CommonStrings, byte_rarity};
use crate::short::Shorts;

/// Longest part of a content that is looked for. More would make the automaton larger and no more choosy.
const LONGEST_PART: usize = 12;

/// Parts of this length are hardly ever found by chance.
const LONG_ENOUGH: usize = 10;

/// The pattern that the prefilter searches for one rule.
#[derive(Debug, Clone)]
pub(crate) struct FastPart {
    /// The rule's number in order of evaluation.
    pub(crate) rule: u32,
    /// Place of the content among those of the rule.
    pub(crate) content: usize,
    /// In lower case.
    bytes: Vec<u8>,
    /// Offsets, from the start of payload or stream, between which an occurrence must end.
    earliest_end: u64,
    latest_end: u64,
    /// End of the part in the content.
    to: u32,
}

/// The part of a content that is looked for.
fn part_of(content: &Content, common: &CommonStrings) -> (usize, usize) {
    let (from, to) = match content.fast_pattern {
        Some(FastPattern::Part { offset, length }) => {
            // Checked when the rule was read, as far as it was; rules can be made by hand.
            let from = (offset as usize).min(content.bytes.len());
            let to = from
                .saturating_add(length as usize)
                .min(content.bytes.len());
            if from < to {
                (from, to)
            } else {
                (0, content.bytes.len())
            }
        }
        _ => (0, content.bytes.len()),
    };
    if to - from < SHORTEST {
        return (from, to);
    }
    // Begin where the first four bytes are rarest, since they are what most of the scan looks at.
    let lower = content.bytes.to_ascii_lowercase();
    // A longer part is less often found by chance.
    let best = (from..=to - SHORTEST)
        .max_by_key(|&at| {
            let length = (to - at).min(LONG_ENOUGH) as u32;
            (
                common.rarity(&lower, at) + 2 * length,
                std::cmp::Reverse(at),
            )
        })
        .unwrap_or(from);
    (best, to.min(best + LONGEST_PART))
}

/// The higher, the better a content is suited to be the fast pattern.
fn worth(content: &Content, common: &CommonStrings) -> (usize, u32, usize) {
    let (from, to) = part_of(content, common);
    let lower = content.bytes.to_ascii_lowercase();
    let rarity = if to - from >= SHORTEST {
        common.rarity(&lower, from)
    } else {
        lower
            .get(from..to)
            .unwrap_or(&[])
            .iter()
            .map(|&byte| byte_rarity(byte))
            .sum()
    };
    (
        (to - from).min(SHORTEST),
        rarity + (to - from) as u32,
        content.bytes.len(),
    )
}

/// Chooses what to look for on behalf of a rule; `None` when it has no content that must be found.
pub(crate) fn choose(rule: u32, contents: &[Content], common: &CommonStrings) -> Option<FastPart> {
    let positive = || {
        contents
            .iter()
            .enumerate()
            .filter(|(_, content)| !content.negated)
    };
    let (number, content) = positive()
        .find(|(_, content)| content.fast_pattern.is_some())
        .or_else(|| positive().max_by_key(|(_, content)| worth(content, common)))?;
    let (from, to) = part_of(content, common);
    let length = content.bytes.len() as u64;
    let (mut earliest_end, mut latest_end) = (0, u64::MAX);
    if !content.is_relative() {
        let offset = u64::from(content.offset.unwrap_or(0));
        earliest_end = offset + to as u64;
        let limit = if content.starts_with {
            Some(length)
        } else {
            content.depth.map(|depth| offset + u64::from(depth))
        };
        // Where it is known only while the rule is tried, `depth` alone says nothing.
        if let Some(limit) = limit.filter(|_| content.variables.is_empty()) {
            latest_end = limit.saturating_sub(length - to as u64);
        }
    }
    Some(FastPart {
        rule,
        content: number,
        bytes: content.bytes.get(from..to)?.to_ascii_lowercase(),
        earliest_end,
        latest_end,
        // Contents have at most 8192 bytes.
        to: to as u32,
    })
}

/// A rule behind a pattern.
#[derive(Debug, Clone, Copy)]
struct Use {
    rule: u32,
    to: u32,
    earliest_end: u64,
    latest_end: u64,
}

/// The fast patterns of a group of rules, ready to be looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefilter {
    automaton: Option<Automaton>,
    shorts: Option<Shorts>,
    /// By pattern: a range of `uses` from this place to the next. Patterns of the automaton come first.
    use_ranges: Vec<u32>,
    uses: Vec<Use>,
    /// Number of the first pattern that is in `shorts`.
    first_short: u32,
    /// No pattern can end behind this offset.
    latest_end: u64,
    patterns: usize,
}

impl Prefilter {
    /// Builds the prefilter of these parts. `None` when its table would take more than `limit` bytes even
    /// with the patterns cut to four bytes.
    pub(crate) fn new(parts: &[FastPart], limit: usize) -> Option<Self> {
        let cuts = [LONGEST_PART, 10, 8, 7, 6, 5, SHORTEST];
        cuts.into_iter()
            .find_map(|cut| Prefilter::with_cut(parts, cut, limit))
    }

    /// Looks for the first `cut` bytes of each part only.
    fn with_cut(parts: &[FastPart], cut: usize, limit: usize) -> Option<Self> {
        let mut sorted: Vec<(&[u8], Use)> = parts
            .iter()
            .map(|part| {
                let kept = part.bytes.len().min(cut);
                let lost = (part.bytes.len() - kept) as u64;
                let bytes = part.bytes.get(..kept).unwrap_or(&[]);
                let end = |end: u64| {
                    if end == u64::MAX {
                        end
                    } else {
                        end.saturating_sub(lost)
                    }
                };
                let part = Use {
                    rule: part.rule,
                    to: part.to.saturating_sub(lost as u32),
                    earliest_end: end(part.earliest_end),
                    latest_end: end(part.latest_end),
                };
                (bytes, part)
            })
            .collect();
        sorted.sort_by_key(|&(bytes, part)| (bytes.len() < SHORTEST, bytes, part.rule));
        let mut prefilter = Prefilter::default();
        let mut patterns: Vec<Vec<u8>> = Vec::new();
        for (bytes, part) in sorted {
            if patterns.last().is_none_or(|last| last != bytes) {
                prefilter.use_ranges.push(prefilter.uses.len() as u32);
                patterns.push(bytes.to_vec());
            }
            prefilter.latest_end = prefilter.latest_end.max(part.latest_end);
            prefilter.uses.push(part);
        }
        prefilter.use_ranges.push(prefilter.uses.len() as u32);
        prefilter.patterns = patterns.len();
        let first_short = patterns.partition_point(|pattern| pattern.len() >= SHORTEST);
        prefilter.first_short = first_short as u32;
        let short = patterns.split_off(first_short);
        if !patterns.is_empty() {
            prefilter.automaton = Some(Automaton::new(&patterns, limit)?);
        }
        if !short.is_empty() {
            let numbered = short.iter().map(Vec::as_slice).zip(prefilter.first_short..);
            prefilter.shorts = Some(Shorts::new(numbered));
        }
        Some(prefilter)
    }

    /// How many different patterns are looked for.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns
    }

    /// Bytes of the automaton's table.
    pub(crate) fn table_bytes(&self) -> usize {
        self.automaton.as_ref().map_or(0, Automaton::table_bytes)
    }

    /// Looks at `data` from `start` on, where `base` is the offset of its first byte from the start of
    /// payload or stream, and calls `found` with each rule whose fast pattern ends there, the offset behind
    /// it, and how many bytes of its content have been seen by then; with the same rule more than once, it
    /// may be. Takes and gives the automaton's state.
    #[inline]
    pub(crate) fn scan(
        &self,
        state: u32,
        data: &[u8],
        start: usize,
        base: u64,
        found: &mut impl FnMut(u32, u64, u32),
    ) -> u32 {
        let mut pattern_found = |pattern: u32, end: usize| {
            let end = base.saturating_add(end as u64);
            let Some(&[from, to]) = self.use_ranges.get(pattern as usize..pattern as usize + 2)
            else {
                return;
            };
            for part in self.uses.get(from as usize..to as usize).unwrap_or(&[]) {
                if part.earliest_end <= end && end <= part.latest_end {
                    found(part.rule, end, part.to);
                }
            }
        };
        let state = match &self.automaton {
            Some(automaton) => automaton.scan(state, data, start, &mut pattern_found),
            None => 0,
        };
        if let Some(shorts) = &self.shorts {
            shorts.scan(data, start, &mut pattern_found);
        }
        state
    }

    /// Looks at a payload as a whole.
    #[inline]
    pub(crate) fn scan_payload(&self, payload: &[u8], found: &mut impl FnMut(u32, u64, u32)) {
        let end = usize::try_from(self.latest_end)
            .unwrap_or(usize::MAX)
            .min(payload.len());
        if let Some(payload) = payload.get(..end) {
            self.scan(0, payload, 0, 0, found);
        }
    }
}
