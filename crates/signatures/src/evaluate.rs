//! Checks if the conditions of a [`Section`] hold on a buffer, one after the other, trying the next
//! occurrence of a content or expression when what depends on its place fails.
//!
//! Trying again takes exponential time at worst, so that the steps of one evaluation are bounded
//! ([`STEPS`]). Of a buffer to which more bytes may come, what they can make untrue does not hold yet.

use crate::buffers::Buffer;
use crate::byte_options::most_bytes;
use crate::condition::{
    Base64, ByteOperator, Condition, Field, Jump, JumpFrom, MAX_VARIABLES, MathOperator, Number,
    Section,
};
use crate::content::{Content, Place};
use crate::matcher::CHUNK;
use crate::pcre::{Pcre, Search};
use crate::search::Needle;
use crate::transform::Changes;

/// Most steps of one evaluation: conditions tried, and 64-byte blocks searched.
const STEPS: u32 = 20_000;

/// Most bytes of a buffer that one `pcre` looks at.
const PCRE_BYTES: usize = 64 << 10;

/// The bytes that conditions look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area<'a> {
    pub(crate) data: &'a [u8],
    /// Offset of the first byte from the start of the buffer or stream.
    pub(crate) base: u64,
    /// Offset before which nothing may begin.
    pub(crate) from: u64,
    /// More bytes may follow.
    pub(crate) more: bool,
}

/// The result of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All conditions hold; contents end at this index.
    Holds(usize),
    /// They do not, and more bytes cannot change that.
    Fails,
    /// More bytes may change that they do not hold.
    Undecided,
}

/// Counts of evaluations, and memory that they use again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    /// Evaluations that took more than [`STEPS`].
    pub(crate) steps: u64,
    /// Expressions that took too many steps, or had more than [`PCRE_BYTES`] to look at.
    pub(crate) pcre: u64,
    /// What `base64_decode` gave.
    decoded: Vec<u8>,
}

/// A condition's needle or inner conditions, made when the rule is loaded.
#[derive(Debug, Clone)]
enum Ready {
    Nothing,
    Needle(Needle),
    /// The conditions on what `base64_decode` gives.
    Decoded(Prepared),
}

/// A section with its contents ready to be looked for.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    section: Section,
    /// By condition.
    ready: Vec<Ready>,
    /// The buffer's changes.
    changes: Option<Changes>,
}

impl Prepared {
    /// `changes` are those of the section's buffer.
    pub(crate) fn new(section: &Section, changes: Option<Changes>) -> Self {
        let ready = |condition: &Condition| match condition {
            Condition::Content(content) => {
                Ready::Needle(Needle::new(&content.bytes, content.nocase))
            }
            Condition::Base64(base64) => {
                let section = Section {
                    buffer: None,
                    transforms: Vec::new(),
                    conditions: base64.decoded.clone(),
                };
                Ready::Decoded(Prepared::new(&section, None))
            }
            _ => Ready::Nothing,
        };
        Prepared {
            ready: section.conditions.iter().map(ready).collect(),
            changes,
            section: section.clone(),
        }
    }

    /// The buffer that the conditions look at; `None` is the payload or stream.
    pub(crate) fn buffer(&self) -> Option<Buffer> {
        self.section.buffer
    }

    /// The conditions.
    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.section.conditions
    }

    /// The changes of the buffer.
    pub(crate) fn changes(&self) -> Option<Changes> {
        self.changes
    }

    /// Evaluates the conditions. `variables` holds what the rule's earlier sections have read.
    pub(crate) fn evaluate(
        &self,
        area: Area<'_>,
        variables: &mut [i64; MAX_VARIABLES],
        workspace: &mut Workspace,
    ) -> Verdict {
        self.evaluate_within(&mut { STEPS }, area, variables, workspace)
    }

    /// The same within `steps`, of which it takes those that it needs.
    fn evaluate_within(
        &self,
        steps: &mut u32,
        area: Area<'_>,
        variables: &mut [i64; MAX_VARIABLES],
        workspace: &mut Workspace,
    ) -> Verdict {
        let mut evaluation = Evaluation {
            prepared: self,
            area,
            variables,
            workspace,
            steps,
            undecided: false,
            farthest: 0,
        };
        let start = evaluation.index(area.from);
        if evaluation.run(0, start, start) {
            Verdict::Holds(evaluation.farthest.min(area.data.len()))
        } else if evaluation.undecided && area.more {
            Verdict::Undecided
        } else {
            Verdict::Fails
        }
    }
}

struct Evaluation<'a> {
    prepared: &'a Prepared,
    area: Area<'a>,
    variables: &'a mut [i64; MAX_VARIABLES],
    workspace: &'a mut Workspace,
    steps: &'a mut u32,
    /// A condition failed that later bytes may fulfil.
    undecided: bool,
    /// End of the contents found, at their farthest.
    farthest: usize,
}

impl Evaluation<'_> {
    fn index(&self, offset: u64) -> usize {
        let back = offset.saturating_sub(self.area.base);
        usize::try_from(back).unwrap_or(usize::MAX)
    }

    /// Takes steps; false when there are none left.
    fn step(&mut self, bytes: usize) -> bool {
        let cost = 1 + u32::try_from(bytes / 64).unwrap_or(u32::MAX);
        match self.steps.checked_sub(cost) {
            Some(left) => {
                *self.steps = left;
                true
            }
            None => {
                self.workspace.steps += u64::from(*self.steps != 0);
                *self.steps = 0;
                false
            }
        }
    }

    fn number(&self, number: Number) -> i64 {
        match number {
            Number::Fixed(value) => value,
            Number::Variable(index) => self.variables.get(usize::from(index)).copied().unwrap_or(0),
        }
    }

    /// Evaluates the conditions from `place` on, the last match ending at `at`, contents ending at `end`.
    fn run(&mut self, place: usize, at: usize, end: usize) -> bool {
        let prepared = self.prepared;
        let Some(condition) = prepared.section.conditions.get(place) else {
            self.farthest = end;
            return true;
        };
        if !self.step(0) {
            return false;
        }
        let holds = match condition {
            Condition::Content(content) => {
                let Some(Ready::Needle(needle)) = prepared.ready.get(place) else {
                    return false;
                };
                return self.content(place, content, needle, at, end);
            }
            Condition::Pcre(pcre) => return self.pcre(place, pcre, at, end),
            Condition::ByteJump(jump) => {
                let Some(target) = self.jump(jump, at) else {
                    return false;
                };
                return self.run(place + 1, target, end);
            }
            Condition::ByteExtract { .. } | Condition::ByteMath { .. } => {
                return match self.take(condition, at) {
                    Some(behind) => self.run(place + 1, behind, end),
                    None => false,
                };
            }
            Condition::ByteTest {
                field,
                operator,
                negated,
                value,
            } => {
                let Some((left, _)) = self.read(field, at) else {
                    return false;
                };
                compare(left, *operator, self.number(*value)) != *negated
            }
            Condition::DataAt {
                at: offset,
                relative,
                negated,
            } => self.data_at(self.number(*offset), *relative, *negated, at),
            Condition::Base64(base64) => {
                let Some(Ready::Decoded(decoded)) = prepared.ready.get(place) else {
                    return false;
                };
                self.base64(base64, decoded, at)
            }
            Condition::Size(compare) => {
                if self.area.more {
                    self.undecided = true;
                    return false;
                }
                let size = self.area.base.saturating_add(self.area.data.len() as u64);
                compare.holds(u32::try_from(size).unwrap_or(u32::MAX))
            }
            Condition::Data(test) => {
                if self.area.more {
                    self.undecided = true;
                    return false;
                }
                self.area.base == 0 && test.holds(self.area.data)
            }
        };
        holds && self.run(place + 1, at, end)
    }

    /// Reads a number into a variable; gives the index behind it.
    fn take(&mut self, condition: &Condition, at: usize) -> Option<usize> {
        match condition {
            Condition::ByteExtract {
                field,
                multiplier,
                align,
                variable,
            } => {
                let (value, behind) = self.read(field, at)?;
                let mut value = value.wrapping_mul(*multiplier);
                if *align > 0 {
                    let align = i64::from(*align);
                    value = value.wrapping_add((align - value.rem_euclid(align)) % align);
                }
                self.set(*variable, value);
                Some(behind)
            }
            Condition::ByteMath {
                field,
                operator,
                value,
                variable,
            } => {
                let (left, behind) = self.read(field, at)?;
                let result = calculate(left, *operator, self.number(*value))?;
                self.set(*variable, result);
                Some(behind)
            }
            _ => None,
        }
    }

    fn set(&mut self, variable: u8, value: i64) {
        if let Some(slot) = self.variables.get_mut(usize::from(variable)) {
            *slot = value;
        }
    }

    /// True if what follows `place` depends on where it matches.
    fn is_followed(&self, place: usize) -> bool {
        let next = self.prepared.section.conditions.get(place + 1);
        next.is_some_and(Condition::is_relative)
    }

    /// A modifier of a content: its number, that of a variable if it names one.
    fn modifier(&self, content: &Content, place: Place, written: Option<i64>) -> Option<i64> {
        let named = content.variables.iter().find(|(known, _)| *known == place);
        match named {
            Some(&(_, variable)) => Some(self.number(Number::Variable(variable))),
            None => written,
        }
    }

    /// Lower and upper bound, as indices, of where a content may stand.
    fn span(&self, content: &Content, at: usize) -> (usize, usize) {
        let add = |index: usize, offset: i64| {
            usize::try_from(
                i64::try_from(index)
                    .unwrap_or(i64::MAX)
                    .saturating_add(offset),
            )
            .unwrap_or(0)
        };
        if content.is_relative() {
            let distance = self.modifier(content, Place::Distance, content.distance.map(i64::from));
            let within = self.modifier(content, Place::Within, content.within.map(i64::from));
            let distance = distance.unwrap_or(0);
            let low = add(at, distance);
            let high = within.map_or(usize::MAX, |within| {
                add(at, distance.saturating_add(within))
            });
            return (low, high);
        }
        if content.starts_with {
            let length = content.bytes.len() as u64;
            let high = if self.area.base > 0 { 0 } else { length };
            return (0, usize::try_from(high).unwrap_or(0));
        }
        let offset = self.modifier(content, Place::Offset, content.offset.map(i64::from));
        let depth = self.modifier(content, Place::Depth, content.depth.map(i64::from));
        let offset = offset.unwrap_or(0).max(0).unsigned_abs();
        let low = self.index(offset.max(self.area.from));
        let high = depth.map_or(usize::MAX, |depth| {
            let end = offset.saturating_add(depth.max(0).unsigned_abs());
            if end <= self.area.base {
                0
            } else {
                self.index(end)
            }
        });
        (low, high)
    }

    fn content(
        &mut self,
        place: usize,
        content: &Content,
        needle: &Needle,
        at: usize,
        end: usize,
    ) -> bool {
        let data = self.area.data;
        let (mut low, high) = self.span(content, at);
        if content.negated {
            return self.absent(content, needle, low, high, at) && self.run(place + 1, at, end);
        }
        if high > data.len() || content.ends_with && self.area.more {
            self.undecided = true;
        }
        if content.ends_with {
            if self.area.more || high < data.len() {
                return false;
            }
            low = low.max(data.len().saturating_sub(needle.len()));
        }
        loop {
            if !self.step(data.len().min(high).saturating_sub(low)) {
                return false;
            }
            let Some(start) = needle.find(data, low, high) else {
                return false;
            };
            let found = start + needle.len();
            if self.run(place + 1, found, end.max(found)) {
                return true;
            }
            if !self.is_followed(place) {
                return false;
            }
            low = start + 1;
        }
    }

    /// True if a content is known to be absent from a span.
    fn absent(
        &mut self,
        content: &Content,
        needle: &Needle,
        low: usize,
        high: usize,
        at: usize,
    ) -> bool {
        let data = self.area.data;
        // Without a bound it looks at the chunk that follows, where more may follow.
        let chunk = at.max(low).saturating_add(CHUNK as usize);
        let high = if self.area.more {
            high.min(chunk)
        } else {
            high
        };
        if !self.step(data.len().min(high).saturating_sub(low)) {
            return false;
        }
        if content.ends_with {
            if self.area.more {
                self.undecided = true;
                return false;
            }
            let start = low.max(data.len().saturating_sub(needle.len()));
            return high < data.len() || needle.find(data, start, high).is_none();
        }
        if needle.find(data, low, high).is_some() {
            return false;
        }
        if self.area.more && high > data.len() {
            self.undecided = true;
            return false;
        }
        true
    }

    fn pcre(&mut self, place: usize, pcre: &Pcre, at: usize, end: usize) -> bool {
        let start = if pcre.relative {
            at
        } else {
            self.index(self.area.from)
        };
        let Some(mut data) = self.area.data.get(start..) else {
            return false;
        };
        let mut more = self.area.more;
        if data.len() > PCRE_BYTES {
            self.workspace.pcre += 1;
            data = data.get(..PCRE_BYTES).unwrap_or(data);
        }
        let chunk = CHUNK as usize;
        if pcre.negated && more && data.len() >= chunk {
            data = data.get(..chunk).unwrap_or(data);
            more = false;
        }
        let mut from = 0;
        loop {
            if !self.step(data.len().saturating_sub(from)) {
                return false;
            }
            let found = match pcre.pattern.find(data, from) {
                Search::Found(begin, behind) => Some((begin, behind)),
                Search::Absent => None,
                Search::Limit => {
                    self.workspace.pcre += 1;
                    return false;
                }
            };
            if pcre.negated {
                self.undecided |= more;
                return found.is_none() && !more && self.run(place + 1, at, end);
            }
            self.undecided |= more;
            let Some((begin, behind)) = found else {
                return false;
            };
            let may_change = more && pcre.looks_ahead && behind + 1 >= data.len();
            if !may_change && self.run(place + 1, start + behind, end) {
                return true;
            }
            if !self.is_followed(place) {
                return false;
            }
            from = begin + 1;
            if from > data.len() {
                return false;
            }
        }
    }

    fn data_at(&mut self, offset: i64, relative: bool, negated: bool, at: usize) -> bool {
        let size = i64::try_from(self.area.data.len()).unwrap_or(i64::MAX);
        let there = if relative {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            at.saturating_add(offset) <= size
        } else {
            let base = i64::try_from(self.area.base).unwrap_or(i64::MAX);
            offset < base.saturating_add(size)
        };
        if !there && self.area.more {
            self.undecided = true;
            return false;
        }
        there != negated
    }

    /// Decodes bytes, and evaluates the conditions on them.
    fn base64(&mut self, base64: &Base64, prepared: &Prepared, at: usize) -> bool {
        let from = if base64.relative {
            at
        } else {
            self.index(self.area.from)
        };
        let from = from.saturating_add(base64.offset as usize);
        let Some(coded) = self.area.data.get(from..) else {
            self.undecided = true;
            return false;
        };
        let most = base64.bytes.map_or(Base64::MOST, |bytes| bytes as usize);
        self.undecided |= coded.len() < most;
        let coded = coded.get(..most).unwrap_or(coded);
        if !self.step(coded.len()) {
            return false;
        }
        // Taken out while the rest is written; the memory is used again for the next packet.
        let mut data = std::mem::take(&mut self.workspace.decoded);
        data.clear();
        decode_base64(coded, &mut data);
        let area = Area {
            data: &data,
            base: 0,
            from: 0,
            more: false,
        };
        // Without a digit nothing was decoded, and no condition holds, not even a negated one.
        let holds = !data.is_empty()
            && matches!(
                prepared.evaluate_within(self.steps, area, self.variables, self.workspace),
                Verdict::Holds(_)
            );
        self.workspace.decoded = data;
        holds
    }

    /// Reads a number; gives it, and the index behind it.
    fn read(&mut self, field: &Field, at: usize) -> Option<(i64, usize)> {
        let offset = self.number(field.offset);
        let start = if field.relative {
            i64::try_from(at).ok()?.checked_add(offset)?
        } else {
            let base = i64::try_from(self.area.base).ok()?;
            offset.checked_sub(base)?
        };
        let start = usize::try_from(start).ok()?;
        let bytes = self.number(field.bytes);
        if bytes > most_bytes(field) {
            return None;
        }
        let count = usize::try_from(bytes).ok()?;
        if start.saturating_add(count) > self.area.data.len() {
            self.undecided = true;
            // Digits may be fewer than asked for, at the end of a buffer.
            if field.digits.is_none() || self.area.more {
                return None;
            }
        }
        let rest = self.area.data.get(start..)?;
        let bytes = rest.get(..count.min(rest.len()))?;
        match field.digits {
            Some(base) => {
                let (value, used) = digits(bytes, base)?;
                Some((value, start + used))
            }
            None => {
                let mut value: u64 = 0;
                for number in 0..count {
                    let place = if field.little {
                        count - 1 - number
                    } else {
                        number
                    };
                    value = value << 8 | u64::from(*bytes.get(place)?);
                }
                if field.mask != u64::MAX {
                    value = (value & field.mask) >> field.mask.trailing_zeros().min(63);
                }
                Some((value as i64, start + count))
            }
        }
    }

    /// The index that a jump leads to.
    fn jump(&mut self, jump: &Jump, at: usize) -> Option<usize> {
        let (value, behind) = self.read(&jump.field, at)?;
        let mut distance = value.wrapping_mul(jump.multiplier);
        if jump.align {
            distance = distance.checked_add(3)? & !3;
        }
        let size = i64::try_from(self.area.data.len()).ok()?;
        let start = match jump.from {
            JumpFrom::Field => i64::try_from(behind).ok()?,
            JumpFrom::Start => -i64::try_from(self.area.base).ok()?,
            JumpFrom::End => size,
        };
        if jump.from == JumpFrom::End && self.area.more {
            self.undecided = true;
            return None;
        }
        let target = start
            .checked_add(distance)?
            .checked_add(self.number(jump.post))?;
        if target > size {
            self.undecided = true;
            return None;
        }
        // In front of the buffer is its start, as in Suricata.
        usize::try_from(target.max(0)).ok()
    }
}

/// Decodes digits of base 64, up to the first byte that is none; of the last ones as many as give whole bytes.
fn decode_base64(coded: &[u8], into: &mut Vec<u8>) {
    let digit = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let (mut bits, mut count) = (0u32, 0);
    for digit in coded.iter().map_while(|&byte| digit(byte)) {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            // The lowest eight of the bits that are left over the rest.
            into.push((bits >> count) as u8);
        }
    }
}

/// A number in digits, after white space, and how many bytes it takes.
fn digits(bytes: &[u8], base: u32) -> Option<(i64, usize)> {
    let mut at = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    if base == 16 {
        let prefix = bytes.get(at..).unwrap_or(&[]);
        if prefix.starts_with(b"0x") || prefix.starts_with(b"0X") {
            at += 2;
        }
    }
    let first = at;
    let mut value: u64 = 0;
    while let Some(digit) = bytes
        .get(at)
        .and_then(|&byte| char::from(byte).to_digit(base))
    {
        value = value
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > first).then_some((value as i64, at))
}

fn compare(left: i64, operator: ByteOperator, right: i64) -> bool {
    let (left, right) = (left as u64, right as u64);
    match operator {
        ByteOperator::Less => left < right,
        ByteOperator::Greater => left > right,
        ByteOperator::Equal => left == right,
        ByteOperator::LessEqual => left <= right,
        ByteOperator::GreaterEqual => left >= right,
        ByteOperator::And => left & right != 0,
        ByteOperator::Xor => left ^ right != 0,
    }
}

fn calculate(left: i64, operator: MathOperator, right: i64) -> Option<i64> {
    Some(match operator {
        MathOperator::Add => left.wrapping_add(right),
        MathOperator::Subtract => left.wrapping_sub(right),
        MathOperator::Multiply => left.wrapping_mul(right),
        MathOperator::Divide => left.checked_div(right)?,
        MathOperator::Left => left.wrapping_shl(u32::try_from(right).ok()?),
        MathOperator::Right => left.wrapping_shr(u32::try_from(right).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::decode_base64;

    #[test]
    fn base64_ends_at_the_first_byte_that_is_no_digit() {
        for (coded, decoded) in [
            (&b"dGhpc2lzYXRlc3QK"[..], &b"thisisatest\n"[..]),
            (b"dGhpcw==x", b"this"),
            (b"dGhpc", b"thi"),
            (b"dG hp", b"t"),
            (b"", b""),
            (b"=", b""),
        ] {
            let mut out = Vec::new();
            decode_base64(coded, &mut out);
            assert_eq!(out, decoded, "{coded:?}");
        }
    }
}
