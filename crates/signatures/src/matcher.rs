//! Checks if all contents of a rule are in a buffer.
//!
//! The contents fall into *chains*: a content with an absolute place, and those that follow it by `distance`
//! and `within`. A chain matches when some choice of occurrences fits all of its contents, as if every
//! earlier choice were tried again when a later content fails. Instead of trying again, which can take
//! exponential time, the search keeps the set of all places where a content of the chain may end and goes
//! from set to set. The time is proportional to the length of the buffer times the number of contents.
//!
//! For a stream the answer may be "not yet": a content may still come with later bytes, or bytes must come
//! before it is known that a negated content is absent.

use crate::content::Content;
use crate::search::Needle;

/// Most places per content that are kept. A rule whose content occurs more often than that in one buffer,
/// with a `within` after it, may not be found past them.
pub(crate) const MOST_ENDS: usize = 16_384;

/// In a stream, how many bytes after the last content a negated content without `depth` or `within` looks
/// at, at most. The size of a chunk that Suricata's stream inspection works on by default.
pub(crate) const CHUNK: u64 = 2_560;

/// The offsets at which a content may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// From the start of payload or stream: not before `from`, not past `to`.
    Absolute { from: u64, to: Option<u64> },
    /// From the end of the content before in the chain.
    Relative { distance: i64, within: Option<u64> },
}

#[derive(Debug, Clone)]
struct Part {
    needle: Needle,
    place: Place,
    negated: bool,
    ends_with: bool,
    /// The bit that stands for this content in [`Outcome::Open`].
    bit: u32,
    /// This is the content of which the prefilter looks for a part.
    is_fast: bool,
}

impl Part {
    fn looks_back(&self) -> bool {
        matches!(self.place, Place::Relative { distance, .. } if distance < 0)
    }

    /// True if it has to be, or must not be, within some bytes of the content before it.
    fn is_bounded(&self) -> bool {
        self.negated
            || matches!(
                self.place,
                Place::Relative {
                    within: Some(_),
                    ..
                }
            )
    }

    /// Whether, when more bytes may follow, the content may yet be found before `limit`. With `endswith`
    /// that is so even if all bytes before the limit are there, since it takes the end of the message.
    fn may_end_later<T: Ord>(&self, limit: T, data_end: T) -> bool {
        limit > data_end || self.ends_with && limit == data_end
    }
}

/// The contents of a rule, ready to be looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matcher {
    /// Chains that begin with a content to be found.
    chains: Vec<Vec<Part>>,
    /// Negated contents with an absolute place.
    absent: Vec<Part>,
    /// Chain, and place in it, of the fast pattern's content.
    fast: Option<(usize, usize)>,
    /// Its length; 0 when there is none.
    fast_length: u64,
}

/// The buffer to be searched. Places and offsets count from the start of payload or stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Haystack<'a> {
    pub(crate) data: &'a [u8],
    /// Offset of the first byte of `data`.
    pub(crate) base: u64,
    /// A chain may not begin before.
    pub(crate) from: u64,
    /// The match must end behind this, and so must the part of the fast pattern's content that the
    /// prefilter has found.
    pub(crate) fresh: u64,
    /// End of the last match of that part; used when more bytes may follow.
    pub(crate) hit: u64,
    /// Negated contents without a place are looked for from here.
    pub(crate) message_start: u64,
    /// More bytes may follow.
    pub(crate) more: bool,
    /// The buffer is part of a stream.
    pub(crate) stream: bool,
}

impl<'a> Haystack<'a> {
    /// A payload, complete as it is.
    pub(crate) fn packet(data: &'a [u8]) -> Self {
        Haystack {
            data,
            base: 0,
            from: 0,
            fresh: 0,
            hit: 0,
            message_start: 0,
            more: false,
            stream: false,
        }
    }

    fn end(&self) -> u64 {
        self.offset(self.data.len())
    }

    /// The offset of an index.
    fn offset(&self, index: usize) -> u64 {
        self.base.saturating_add(index as u64)
    }

    /// The index of an offset, and 0 for offsets before the buffer.
    fn index(&self, offset: u64) -> usize {
        // An offset past the buffer stays past it, whatever the size of usize.
        usize::try_from(offset.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All contents are found (or absent, as asked for), up to this offset.
    Found(u64),
    /// Not found, and more bytes of this stream cannot change that.
    Never,
    /// Not found; one of the contents whose bits are set may still be found, or decided by more bytes.
    Open(u32),
}

/// Memory for the sets of places, kept from search to search.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    current: Vec<u32>,
    next: Vec<u32>,
    /// How many times a set was cut at [`MOST_ENDS`].
    pub(crate) truncated: u64,
}

impl Ends {
    pub(crate) fn new() -> Self {
        Ends {
            current: Vec::with_capacity(MOST_ENDS),
            next: Vec::with_capacity(MOST_ENDS),
            truncated: 0,
        }
    }
}

/// Result of one chain.
enum ChainOutcome {
    /// End of the first match, and of the first new one.
    Found(u64, Option<u64>),
    Never,
    Open(u32),
}

fn bit(number: usize) -> u32 {
    1 << number.min(31)
}

impl Matcher {
    /// `fast` is the place among `contents` of the one that the prefilter looks for.
    pub(crate) fn new(contents: &[Content], fast: Option<usize>) -> Self {
        let mut matcher = Matcher::default();
        for (number, content) in contents.iter().enumerate() {
            let length = content.bytes.len() as u64;
            let distance = i64::from(content.distance.unwrap_or(0));
            let within = content.within.map(u64::from);
            let follows = content.is_relative() && !matcher.chains.is_empty();
            let place = if follows {
                Place::Relative { distance, within }
            } else if content.is_relative() {
                // Nothing was found before: relative to the start.
                Place::Absolute {
                    from: distance.max(0).unsigned_abs(),
                    to: within.map(|within| within.saturating_add_signed(distance)),
                }
            } else if content.starts_with {
                Place::Absolute {
                    from: 0,
                    to: Some(length),
                }
            } else {
                let from = u64::from(content.offset.unwrap_or(0));
                Place::Absolute {
                    from,
                    to: content.depth.map(|depth| from + u64::from(depth)),
                }
            };
            let part = Part {
                needle: Needle::new(&content.bytes, content.nocase),
                place,
                negated: content.negated,
                ends_with: content.ends_with,
                bit: bit(number),
                is_fast: fast == Some(number),
            };
            match matcher.chains.last_mut() {
                Some(chain) if follows => chain.push(part),
                _ if content.negated => matcher.absent.push(part),
                _ => matcher.chains.push(vec![part]),
            }
        }
        matcher.order_chains();
        matcher
    }

    /// Puts the chains first that are likely to tell soon that the rule does not match: those bounded by a
    /// depth, then those with rare contents, and last the one that the prefilter has found already.
    fn order_chains(&mut self) {
        self.chains.sort_by_cached_key(|chain| {
            let bounded = chain
                .first()
                .is_some_and(|part| matches!(part.place, Place::Absolute { to: Some(_), .. }));
            let has_fast = chain.iter().any(|part| part.is_fast);
            let rarity = chain
                .iter()
                .filter(|part| !part.negated)
                .map(|part| part.needle.rarity())
                .max();
            (!bounded, has_fast, std::cmp::Reverse(rarity))
        });
        for (number, chain) in self.chains.iter().enumerate() {
            if let Some(place) = chain.iter().position(|part| part.is_fast) {
                self.fast = Some((number, place));
                self.fast_length = chain.get(place).map_or(0, |part| part.needle.len() as u64);
            }
        }
    }

    /// True if there is a content that must be found, rather than absent.
    pub(crate) fn has_positive(&self) -> bool {
        !self.chains.is_empty()
    }

    /// True if the fast pattern's content may stand in `data` such that its first `seen` bytes end at
    /// `end`. Bytes that are not in `data` are taken to fit.
    pub(crate) fn fast_fits(&self, data: &[u8], end: usize, seen: u32) -> bool {
        let Some((chain, part)) = self.fast else {
            return true;
        };
        let part = self.chains.get(chain).and_then(|chain| chain.get(part));
        match (part, end.checked_sub(seen as usize)) {
            (Some(part), Some(start)) => part.needle.may_stand_at(data, start),
            _ => true,
        }
    }

    /// Looks for all contents.
    pub(crate) fn search(&self, hay: &Haystack<'_>, ends: &mut Ends) -> Outcome {
        let mut open = 0;
        let mut found_to = 0;
        let mut first_new: Option<u64> = None;
        let setting = Setting {
            only_chain: self.chains.len() == 1,
            fast_may_go_on: hay.more && hay.hit.saturating_add(self.fast_length) > hay.end(),
        };
        for chain in &self.chains {
            match find_chain(chain, hay, setting, ends) {
                ChainOutcome::Found(end, new) => {
                    found_to = found_to.max(end);
                    first_new = match (first_new, new) {
                        (Some(known), Some(new)) => Some(known.min(new)),
                        (known, new) => known.or(new),
                    };
                }
                ChainOutcome::Never => return Outcome::Never,
                // As long as this one is not found, the others do not matter.
                ChainOutcome::Open(bits) => return Outcome::Open(bits),
            }
        }
        if found_to <= hay.fresh && self.has_positive() {
            // All chains had matched before. One of them has to match once more.
            match first_new {
                Some(new) => found_to = new,
                None => return Outcome::Never,
            }
        }
        let positive_end = found_to.max(hay.message_start).max(hay.from);
        for part in &self.absent {
            match is_absent(part, hay, positive_end) {
                Some(true) => {}
                Some(false) => return Outcome::Never,
                None => open |= part.bit,
            }
        }
        if open != 0 {
            Outcome::Open(open)
        } else if self.has_positive() {
            Outcome::Found(found_to)
        } else {
            Outcome::Found(hay.end())
        }
    }

    /// True if one of the contents of `open` occurs in `data` with its end behind `from`, or waits for
    /// bytes rather than for an occurrence.
    pub(crate) fn may_go_on(&self, open: u32, data: &[u8], from: usize) -> bool {
        let mut parts = self.chains.iter().flatten().chain(&self.absent);
        parts.any(|part| {
            part.bit & open != 0
                && (part.negated || part.ends_with || {
                    let from = (from + 1).saturating_sub(part.needle.len());
                    part.needle.find(data, from, data.len()).is_some()
                })
        })
    }
}

/// True if a negated content with an absolute place is absent; `None` if that depends on bytes to come.
/// `found_to` is the end of the contents that were found.
fn is_absent(part: &Part, hay: &Haystack<'_>, found_to: u64) -> Option<bool> {
    let Place::Absolute { from, to } = part.place else {
        return Some(true);
    };
    let (from, to) = match to {
        Some(to) => (from, to),
        None if hay.stream => (from.max(hay.message_start), found_to.saturating_add(CHUNK)),
        None => (from, u64::MAX),
    };
    let (low, high) = (hay.index(from), hay.index(to));
    let mut at = low;
    while let Some(start) = part.needle.find(hay.data, at, high) {
        let at_end = start + part.needle.len() == hay.data.len();
        if !part.ends_with || at_end && !hay.more {
            return Some(false);
        }
        at = start + 1;
    }
    // With `endswith` only the end of the message tells.
    let undecided = to > hay.end() || part.ends_with;
    if hay.more && undecided {
        None
    } else {
        Some(true)
    }
}

/// Inputs of a chain of contents beside the chain itself.
#[derive(Clone, Copy)]
struct Setting {
    /// There is no other chain that could make an old match of this one a new match of the rule.
    only_chain: bool,
    /// The fast pattern's content may reach beyond the bytes at hand.
    fast_may_go_on: bool,
}

/// How the occurrences of a content are wanted.
#[derive(Clone, Copy)]
enum Wanted {
    /// All of them.
    All,
    /// The first one.
    First,
    /// The first one that ends in the new bytes and, if `old` says so, the first one.
    New { old: bool },
}

/// Goes through a chain from set of ends to set of ends.
fn find_chain(
    chain: &[Part],
    hay: &Haystack<'_>,
    setting: Setting,
    ends: &mut Ends,
) -> ChainOutcome {
    let looks_back = chain.iter().any(Part::looks_back);
    let fast = chain.iter().position(|part| part.is_fast);
    let mut open = 0;
    // The bits of the negated contents so far.
    let mut absence = 0;
    ends.current.clear();
    for (number, part) in chain.iter().enumerate() {
        ends.next.clear();
        if part.negated {
            absence |= part.bit;
        }
        // The first end is as good as all of them unless a later content is bounded by it.
        let wanted = match chain.get(number + 1) {
            Some(next) if next.is_bounded() => Wanted::All,
            Some(_) => Wanted::First,
            None => Wanted::New {
                old: !setting.only_chain || looks_back,
            },
        };
        let (current, next) = (&ends.current, &mut ends.next);
        let truncated = match part.place {
            Place::Absolute { from, to } => {
                if hay.more && to.is_none_or(|to| part.may_end_later(to, hay.end())) {
                    open |= part.bit;
                }
                collect_absolute(part, hay, (from, to), wanted, next)
            }
            Place::Relative { distance, within } if part.negated => {
                keep_absent(part, hay, distance, within, &mut open, current, next);
                false
            }
            Place::Relative { distance, within } => {
                let place = (distance, within);
                follow(part, hay, place, wanted, &mut open, current, next)
            }
        };
        ends.truncated += u64::from(truncated);
        std::mem::swap(&mut ends.current, &mut ends.next);
        if let Some(fast) = fast
            && number <= fast
            && !looks_back
            && !setting.fast_may_go_on
        {
            // It is not worth waiting for contents up to here: with the next occurrence of the fast pattern,
            // the prefilter will tell. Absence, though, is decided by bytes that tell nothing else.
            open &= absence;
        }
        if ends.current.is_empty() {
            return match open {
                0 => ChainOutcome::Never,
                open => ChainOutcome::Open(open),
            };
        }
    }
    outcome(ends, hay, looks_back)
}

/// The outcome of a chain whose last content ends at `ends.current`.
fn outcome(ends: &Ends, hay: &Haystack<'_>, looks_back: bool) -> ChainOutcome {
    let Some(&first) = ends.current.first() else {
        return ChainOutcome::Never;
    };
    let first = hay.offset(first as usize);
    let mut found = ends.current.iter().map(|&end| hay.offset(end as usize));
    let mut new = found.find(|&end| end > hay.fresh);
    if looks_back && new.is_none() {
        // An earlier content of the chain may end behind the last one; that it is new cannot be told.
        new = Some(hay.fresh.saturating_add(1).min(hay.end()));
    }
    ChainOutcome::Found(first, new)
}

/// [`collect`] between two offsets of the message.
fn collect_absolute(
    part: &Part,
    hay: &Haystack<'_>,
    (from, to): (u64, Option<u64>),
    wanted: Wanted,
    into: &mut Vec<u32>,
) -> bool {
    // Bytes before the buffer are lost; a place that begins there is searched from the buffer's start.
    if to.is_some_and(|to| to <= hay.base) {
        return false;
    }
    let mut from = from.max(hay.from);
    if part.is_fast && hay.fresh >= hay.base {
        // Occurrences before were dealt with when they were new.
        let new = hay.fresh.saturating_add(1);
        from = from.max(new.saturating_sub(part.needle.len() as u64));
    }
    let (low, high) = (hay.index(from), to.map_or(usize::MAX, |to| hay.index(to)));
    collect(part, hay, (low, high), wanted, into)
}

/// Adds the ends of occurrences between `low` and `high` to `into`; true when it got full.
fn collect(
    part: &Part,
    hay: &Haystack<'_>,
    (low, high): (usize, usize),
    wanted: Wanted,
    into: &mut Vec<u32>,
) -> bool {
    let length = part.needle.len();
    let high = high.min(hay.data.len());
    if part.ends_with {
        let start = hay.data.len().checked_sub(length);
        if let Some(start) = start
            && !hay.more
            && high == hay.data.len()
            && start >= low
            && part.needle.find(hay.data, start, high).is_some()
        {
            push(into, high);
        }
        return false;
    }
    let mut at = low;
    if let Wanted::New { old } = wanted {
        let new_from = hay
            .index(hay.fresh.saturating_add(1))
            .saturating_sub(length);
        if hay.fresh >= hay.base && new_from > low {
            let first = if old {
                part.needle.find(hay.data, low, high)
            } else {
                None
            };
            if let Some(start) = first {
                push(into, start + length);
                at = start + 1;
            }
            at = at.max(new_from);
        }
    }
    while let Some(start) = part.needle.find(hay.data, at, high) {
        if !push(into, start + length) {
            return true;
        }
        if !matches!(wanted, Wanted::All) {
            break;
        }
        at = start + 1;
    }
    false
}

/// Ends are kept in 32 bits: buffers are far smaller. False when the set is full.
fn push(into: &mut Vec<u32>, end: usize) -> bool {
    if into.len() >= MOST_ENDS {
        return false;
    }
    if let Ok(end) = u32::try_from(end) {
        into.push(end);
    }
    true
}

/// The span, as indices into the buffer, in which a content may stand that follows a match that ends at
/// `end`; the upper bound may lie behind the buffer.
fn span_after(end: u32, distance: i64, within: Option<u64>, hay: &Haystack<'_>) -> (usize, usize) {
    // Before the start of payload or stream, a distance is cut off, as far as the lower bound goes.
    let start = hay.offset(end as usize).saturating_add_signed(distance);
    let limit = within.map(|within| {
        hay.offset(end as usize)
            .saturating_add(within)
            .saturating_add_signed(distance)
    });
    (
        hay.index(start),
        limit.map_or(usize::MAX, |limit| hay.index(limit)),
    )
}

/// From the ends of one content to those of the next. Both sets ascend.
fn follow(
    part: &Part,
    hay: &Haystack<'_>,
    (distance, within): (i64, Option<u64>),
    wanted: Wanted,
    open: &mut u32,
    from: &[u32],
    into: &mut Vec<u32>,
) -> bool {
    // Without a bound, what follows the first end includes what follows all others.
    let from = if within.is_none() {
        from.get(..1).unwrap_or(from)
    } else {
        from
    };
    let mut scanned = 0;
    for &end in from {
        let (low, high) = span_after(end, distance, within, hay);
        if hay.more && part.may_end_later(high, hay.data.len()) {
            *open |= part.bit;
        }
        if within.is_none() {
            return collect(part, hay, (low, high), wanted, into);
        }
        if part.ends_with {
            if collect(part, hay, (low, high), Wanted::All, into) {
                return true;
            }
            if !into.is_empty() {
                break;
            }
            continue;
        }
        let mut at = low.max(scanned);
        while let Some(start) = part.needle.find(hay.data, at, high) {
            if !push(into, start + part.needle.len()) {
                return true;
            }
            at = start + 1;
        }
        // Occurrences that begin before `at` are known; the next span may begin before the end of this.
        scanned = at.max(scanned).max(
            high.saturating_add(1)
                .saturating_sub(part.needle.len())
                .min(hay.data.len()),
        );
    }
    false
}

/// Keeps the ends after which a negated content is absent.
fn keep_absent(
    part: &Part,
    hay: &Haystack<'_>,
    distance: i64,
    within: Option<u64>,
    open: &mut u32,
    from: &[u32],
    into: &mut Vec<u32>,
) {
    // The last occurrence found, valid for all spans that begin between where it was looked for and it.
    let mut known: Option<(usize, Option<usize>)> = None;
    for &end in from {
        let (low, mut high) = span_after(end, distance, within, hay);
        if hay.stream && within.is_none() {
            let chunk = hay.offset(end as usize).saturating_add(CHUNK);
            high = high.min(hay.index(chunk));
        }
        let found = match known {
            Some((since, Some(start))) if since <= low && low <= start => Some(start),
            Some((since, None)) if since <= low => None,
            _ => {
                let start = part.needle.find(hay.data, low, hay.data.len());
                known = Some((low, start));
                start
            }
        };
        let present = found.is_some_and(|start| start + part.needle.len() <= high)
            && (!part.ends_with || ends_at_end(part, hay, low, high));
        if present {
            continue;
        }
        if hay.more && (high > hay.data.len() || part.ends_with) {
            *open |= part.bit;
            continue;
        }
        push(into, end as usize);
    }
}

/// True if the content stands at the end of the data, within the span.
fn ends_at_end(part: &Part, hay: &Haystack<'_>, low: usize, high: usize) -> bool {
    let start = hay.data.len().checked_sub(part.needle.len());
    !hay.more
        && high >= hay.data.len()
        && start.is_some_and(|start| {
            start >= low && part.needle.find(hay.data, start, hay.data.len()).is_some()
        })
}
