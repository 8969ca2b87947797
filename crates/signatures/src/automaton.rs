//! The Aho-Corasick automaton over all fast patterns of four bytes and more, as one dense table.
//!
//! Its states are numbered by depth (the length of the longest pattern prefix that the bytes read so far
//! end with), so that one comparison tells that fewer than four bytes of any pattern have been seen. In such
//! a state no pattern can go on unless one *begins* within the last three bytes or later. The scan then
//! leaves the table and looks, four positions at a time, for the next place where the first four bytes of
//! some pattern may stand, by a hash of four bytes (then of eight) and bitmaps that fit the first-level
//! cache. Ordinary traffic spends most of its bytes there. Crafted traffic can force the table to be used for every byte, at
//! most four times per byte, and no worse.
//!
//! Letters are folded to lower case. The state after the last byte is exact, so that a scan may be
//! interrupted anywhere and resumed with nothing but that state.

use std::collections::VecDeque;

/// Patterns must be at least this long.
pub(crate) const SHORTEST: usize = 4;

/// Set in a transition to a state in which a pattern ends. Never part of a state's number elsewhere.
const ENDS_HERE: u32 = 1 << 31;

/// Bits of the hash that the bitmap is indexed by.
const HASH_BITS: u32 = 16;

#[derive(Debug, Clone)]
pub(crate) struct Automaton {
    /// Column of each byte in a row of `table`.
    classes: [u8; 256],
    /// Columns of a row.
    columns: u32,
    /// Rows of next states, each the place of its row in this table.
    table: Vec<u32>,
    /// For depths 0 to 3: the first state that is deeper. Ascending.
    deeper: [u32; SHORTEST],
    /// Patterns that end in a state: a range of `ends` from this place to the next.
    end_ranges: Vec<u32>,
    ends: Vec<u32>,
    /// Hashes of the first four bytes of patterns.
    starts: Box<Bitmap>,
    /// Hashes of the first four bytes of patterns with fewer than eight.
    short_starts: Box<Bitmap>,
    /// Hashes of the first eight bytes of the other patterns.
    long_starts: Box<Bitmap>,
}

/// One bit per hash.
type Bitmap = [u64; (1 << HASH_BITS) / 64];

/// The bit of a hash. The hash has as many bits as the bitmap's index, so that it is always in range.
#[inline(always)]
fn bit(bitmap: &Bitmap, hash: usize) -> u64 {
    bitmap[hash / 64] >> (hash % 64) & 1
}

fn set_bit(bitmap: &mut Bitmap, hash: usize) {
    bitmap[hash / 64] |= 1 << (hash % 64);
}

/// Bytes that only differ in case become the same (and a few others as well, which does no harm).
const FOLD: u32 = 0x2020_2020;

#[inline(always)]
fn hash(four: u32) -> usize {
    ((four | FOLD).wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize
}

#[inline(always)]
fn hash_eight(eight: u64) -> usize {
    const FOLD_EIGHT: u64 = (FOLD as u64) << 32 | FOLD as u64;
    ((eight | FOLD_EIGHT).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

struct Node {
    /// (byte, node), in order of insertion.
    children: Vec<(u8, u32)>,
    patterns: Vec<u32>,
}

struct Trie {
    nodes: Vec<Node>,
}

impl Trie {
    fn new<'a>(patterns: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut trie = Trie {
            nodes: vec![Node {
                children: Vec::new(),
                patterns: Vec::new(),
            }],
        };
        for (number, pattern) in patterns.enumerate() {
            let mut at = 0usize;
            for &byte in pattern {
                let byte = byte.to_ascii_lowercase();
                let known = trie.nodes[at].children.iter().find(|child| child.0 == byte);
                at = match known {
                    Some(&(_, child)) => child as usize,
                    None => {
                        let child = trie.nodes.len();
                        trie.nodes.push(Node {
                            children: Vec::new(),
                            patterns: Vec::new(),
                        });
                        trie.nodes[at].children.push((byte, child as u32));
                        child
                    }
                };
            }
            trie.nodes[at].patterns.push(number as u32);
        }
        trie
    }

    /// The nodes breadth first, so that a state's number grows with its depth; the depth of each; and the state of each node.
    fn breadth_first(&self) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut depths = Vec::with_capacity(self.nodes.len());
        let mut rank = vec![0; self.nodes.len()];
        let mut queue = VecDeque::from([(0u32, 0u32)]);
        while let Some((node, depth)) = queue.pop_front() {
            rank[node as usize] = order.len() as u32;
            order.push(node);
            depths.push(depth);
            let children = self.nodes[node as usize].children.iter();
            queue.extend(children.map(|&(_, child)| (child, depth + 1)));
        }
        (order, depths, rank)
    }
}

/// A number for each byte that the patterns contain, case aside, and 0 for all others; and one more than the highest.
fn byte_classes(patterns: &[Vec<u8>]) -> ([u8; 256], u32) {
    let mut classes = [0u8; 256];
    let mut columns = 1;
    for byte in patterns.iter().flatten() {
        let byte = byte.to_ascii_lowercase();
        if classes[usize::from(byte)] == 0 {
            // At most 230 bytes differ when case does not count.
            classes[usize::from(byte)] = columns as u8;
            classes[usize::from(byte.to_ascii_uppercase())] = columns as u8;
            columns += 1;
        }
    }
    (classes, columns)
}

impl Automaton {
    /// Builds the automaton of `patterns`, each of at least [`SHORTEST`] bytes. `None` when its table would
    /// take more than `limit` bytes.
    pub(crate) fn new(patterns: &[Vec<u8>], limit: usize) -> Option<Self> {
        let trie = Trie::new(patterns.iter().map(Vec::as_slice));
        let (classes, columns) = byte_classes(patterns);
        let cells = trie.nodes.len().checked_mul(columns as usize)?;
        if cells.checked_mul(4)? > limit || cells >= ENDS_HERE as usize {
            return None;
        }

        let (order, depths, rank) = trie.breadth_first();
        let row = |state: u32| (state * columns) as usize;
        let mut table = vec![0u32; cells];
        // By state: the state of the longest proper suffix, and the patterns that end here.
        let mut suffix = vec![0u32; order.len()];
        let mut ends_by_state: Vec<Vec<u32>> = vec![Vec::new(); order.len()];
        for state in 0..order.len() as u32 {
            let node = &trie.nodes[order[state as usize] as usize];
            let back = suffix[state as usize];
            if state != 0 {
                // The suffix is shallower, so that its row is complete.
                table.copy_within(row(back)..row(back) + columns as usize, row(state));
            }
            let mut ends = node.patterns.clone();
            if state != 0 {
                ends.extend_from_slice(&ends_by_state[back as usize]);
            }
            ends_by_state[state as usize] = ends;
            for &(byte, child) in &node.children {
                let child = rank[child as usize];
                let cell = row(state) + usize::from(classes[usize::from(byte)]);
                // The cell still holds where the suffix goes with this byte.
                suffix[child as usize] = if state == 0 { 0 } else { table[cell] / columns };
                table[cell] = child * columns;
            }
        }
        for cell in &mut table {
            if !ends_by_state[(*cell / columns) as usize].is_empty() {
                *cell |= ENDS_HERE;
            }
        }

        let mut deeper = [0; SHORTEST];
        for (depth, first) in deeper.iter_mut().enumerate() {
            let states = depths.partition_point(|&known| known as usize <= depth);
            *first = states as u32 * columns;
        }
        let mut end_ranges = vec![0];
        let mut ends = Vec::new();
        for state_ends in ends_by_state {
            ends.extend(state_ends);
            end_ranges.push(ends.len() as u32);
        }
        let mut automaton = Automaton {
            classes,
            columns,
            table,
            deeper,
            end_ranges,
            ends,
            starts: Box::new([0; _]),
            short_starts: Box::new([0; _]),
            long_starts: Box::new([0; _]),
        };
        automaton.add_starts(patterns);
        Some(automaton)
    }

    fn add_starts(&mut self, patterns: &[Vec<u8>]) {
        for pattern in patterns {
            let Some(&four) = pattern.first_chunk::<4>() else {
                continue;
            };
            let four = hash(u32::from_le_bytes(four));
            set_bit(&mut self.starts, four);
            match pattern.first_chunk::<8>() {
                Some(&eight) => {
                    let eight = hash_eight(u64::from_le_bytes(eight));
                    set_bit(&mut self.long_starts, eight);
                }
                None => set_bit(&mut self.short_starts, four),
            }
        }
    }

    /// Bytes of the table.
    pub(crate) fn table_bytes(&self) -> usize {
        self.table.len() * 4
    }

    /// Reads `data` from `start` on, beginning in `state` (0 at the beginning; any number is safe), and
    /// calls `found` with each pattern that ends, and the index behind its last byte. Returns the state
    /// after the last byte.
    #[inline]
    pub(crate) fn scan(
        &self,
        state: u32,
        data: &[u8],
        start: usize,
        found: &mut impl FnMut(u32, usize),
    ) -> u32 {
        let mut at = start.min(data.len());
        let mut state = state;
        if state != 0 {
            // Not a row of this table: the bytes of the state were tampered with. Start afresh.
            let row_exists =
                state.checked_rem(self.columns) == Some(0) && (state as usize) < self.table.len();
            if !row_exists {
                state = 0;
            }
            (state, at) = self.follow(state, data, start, at, found);
        }
        while let Some(next) = self.next_start(data, at) {
            at = next;
            state = 0;
            for _ in 0..SHORTEST {
                state = self.step(state, data, at, found);
                at += 1;
            }
            (state, at) = self.follow_from_shallow(state, data, start, at, found);
        }
        // Nothing can begin before the last three bytes, or the table was followed to the very end.
        if at < data.len() {
            at = at.max(data.len().saturating_sub(SHORTEST - 1));
            state = 0;
            while at < data.len() {
                state = self.step(state, data, at, found);
                at += 1;
            }
        }
        state
    }

    /// Follows the table until fewer than four bytes of a pattern have been seen, or the data end. Gives
    /// the state and the index from which a pattern may begin (the end of the data when they ended).
    #[inline]
    fn follow(
        &self,
        mut state: u32,
        data: &[u8],
        start: usize,
        mut at: usize,
        found: &mut impl FnMut(u32, usize),
    ) -> (u32, usize) {
        while at < data.len() {
            state = self.step(state, data, at, found);
            at += 1;
            if let Some(back) = self.shallow(state, start, at) {
                return (0, back);
            }
        }
        (state, at)
    }

    #[inline]
    fn follow_from_shallow(
        &self,
        state: u32,
        data: &[u8],
        start: usize,
        at: usize,
        found: &mut impl FnMut(u32, usize),
    ) -> (u32, usize) {
        match self.shallow(state, start, at) {
            Some(back) => (0, back),
            None => self.follow(state, data, start, at, found),
        }
    }

    /// Start of the pattern prefix that `state`, reached before `at`, stands for, if the prefix is shorter than
    /// four bytes and lies within the data.
    #[inline(always)]
    fn shallow(&self, state: u32, start: usize, at: usize) -> Option<usize> {
        let [root, one, two, three] = self.deeper;
        if state >= three {
            return None;
        }
        let depth =
            usize::from(state >= root) + usize::from(state >= one) + usize::from(state >= two);
        at.checked_sub(depth).filter(|&back| back >= start)
    }

    #[inline(always)]
    fn step(&self, state: u32, data: &[u8], at: usize, found: &mut impl FnMut(u32, usize)) -> u32 {
        let byte = data.get(at).copied().unwrap_or(0);
        let class = u32::from(self.classes[usize::from(byte)]);
        let next = self
            .table
            .get((state + class) as usize)
            .copied()
            .unwrap_or(0);
        if next & ENDS_HERE == 0 {
            return next;
        }
        let next = next & !ENDS_HERE;
        self.report(next, at + 1, found);
        next
    }

    #[cold]
    fn report(&self, state: u32, end: usize, found: &mut impl FnMut(u32, usize)) {
        let number = (state / self.columns) as usize;
        if let Some(&[from, to]) = self.end_ranges.get(number..number + 2) {
            for &pattern in self.ends.get(from as usize..to as usize).unwrap_or(&[]) {
                found(pattern, end);
            }
        }
    }

    /// True if a pattern may begin at `at`, where its first four bytes may stand. A look at eight bytes
    /// saves most of the visits to the table, which is larger than the caches.
    #[inline]
    fn confirm(&self, data: &[u8], at: usize) -> bool {
        let Some(&eight) = data.get(at..).and_then(|rest| rest.first_chunk::<8>()) else {
            return true;
        };
        let eight = u64::from_le_bytes(eight);
        bit(&self.long_starts, hash_eight(eight)) | bit(&self.short_starts, hash(eight as u32)) != 0
    }

    /// The first index from `from` on where a pattern may begin.
    #[inline]
    fn next_start(&self, data: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        let mut rest = data.get(from..)?;
        // Eight bytes hold four bytes at each of five places. Only one branch is taken for all of them.
        while let Some((&eight, _)) = rest.split_first_chunk::<8>() {
            let eight = u64::from_le_bytes(eight);
            let mut hits = 0u64;
            for place in 0..5 {
                hits |= bit(&self.starts, hash((eight >> (8 * place)) as u32)) << place;
            }
            while hits != 0 {
                let place = at + hits.trailing_zeros() as usize;
                if self.confirm(data, place) {
                    return Some(place);
                }
                hits &= hits - 1;
            }
            at += 5;
            rest = rest.get(5..)?;
        }
        while let Some((&four, _)) = rest.split_first_chunk::<4>() {
            if bit(&self.starts, hash(u32::from_le_bytes(four))) != 0 {
                return Some(at);
            }
            at += 1;
            rest = rest.get(1..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aho_corasick::{AhoCorasick, MatchKind};
    use proptest::prelude::*;

    /// (pattern, end) of every occurrence, by the reference implementation.
    fn reference(patterns: &[Vec<u8>], data: &[u8]) -> Vec<(u32, usize)> {
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(patterns)
            .unwrap();
        let mut all: Vec<(u32, usize)> = finder
            .find_overlapping_iter(data)
            .map(|found| (found.pattern().as_u32(), found.end()))
            .collect();
        all.sort_unstable();
        all
    }

    /// Scans `data` in pieces that end at `cuts`; each piece is given with `back` bytes before it.
    fn pieces(
        automaton: &Automaton,
        data: &[u8],
        cuts: &[usize],
        back: usize,
    ) -> Vec<(u32, usize)> {
        let mut all = Vec::new();
        let (mut state, mut from) = (0, 0);
        for &to in cuts.iter().chain([&data.len()]) {
            let to = to.min(data.len());
            if to <= from {
                continue;
            }
            let window = from.saturating_sub(back);
            state = automaton.scan(
                state,
                &data[window..to],
                from - window,
                &mut |pattern, end| {
                    all.push((pattern, window + end));
                },
            );
            from = to;
        }
        all.sort_unstable();
        all
    }

    fn strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::btree_set("[ab]{4,7}|[a-c]{4,12}|x[ab\\x00]{4}", 1..12)
            .prop_map(|all| all.into_iter().map(String::into_bytes).collect())
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference_however_the_data_are_cut(
            patterns in strings(),
            data in "[abAB]{0,60}|[a-cx\\x00]{0,200}",
            mut cuts in prop::collection::vec(0usize..200, 0..8),
            back in 0usize..4,
        ) {
            cuts.sort_unstable();
            let automaton = Automaton::new(&patterns, 1 << 20).unwrap();
            let expected = reference(&patterns, data.as_bytes());
            prop_assert_eq!(pieces(&automaton, data.as_bytes(), &[], 0), expected.clone());
            prop_assert_eq!(pieces(&automaton, data.as_bytes(), &cuts, back), expected);
        }

        #[test]
        fn any_state_is_safe(state: u32, data in prop::collection::vec(any::<u8>(), 0..40)) {
            let automaton = Automaton::new(&[b"abcd".to_vec(), b"bcde".to_vec()], 1 << 20).unwrap();
            let state = automaton.scan(state, &data, 0, &mut |_, _| {});
            prop_assert!((state as usize) < automaton.table.len());
        }
    }

    #[test]
    fn a_table_above_the_limit_is_not_built() {
        let patterns = [b"abcdefgh".to_vec()];
        let automaton = Automaton::new(&patterns, 1 << 20).unwrap();
        assert_eq!(automaton.table_bytes(), 9 * 9 * 4);
        assert!(Automaton::new(&patterns, 9 * 9 * 4 - 1).is_none());
    }
}
