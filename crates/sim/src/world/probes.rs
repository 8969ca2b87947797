//! What streams and wire formats carry arrives as it was sent, once and in order; what is
//! damaged, or comes again, is refused. The protocol repeats what it misses, so a fault there
//! shows nowhere else.

use std::collections::VecDeque;

use weir_packet::{Frame, FramePool};
use weir_protocol::auth::Key;
use weir_protocol::message::Message;
use weir_protocol::wire::decode_data;

use super::World;
use super::links::ProcessNo;
use super::process::Process;
use crate::check::Invariant;
use crate::random::mix;
use crate::slip::Slip;

/// One frame in so many is damaged, and sent again.
const ONE_IN: u64 = 16;
/// Octets of an Ethernet header: no code covers them.
const ETHERNET: usize = 14;
/// Bits of a network service header's time to live, which each hop may change.
const TTL: [(usize, u8); 2] = [(ETHERNET, 0x0f), (ETHERNET + 1, 0xc0)];

/// A number for the content of a message.
fn digest(bytes: &[u8]) -> u64 {
    let chunks = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut()
            .zip(chunk)
            .for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    chunks.fold(bytes.len() as u64, mix)
}

/// The bytes with one bit changed, of those that a code covers.
pub(super) fn damaged(bytes: &[u8], drawn: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let covered = bytes.len().saturating_sub(ETHERNET) as u64;
    let at = ETHERNET + drawn.checked_rem(covered).unwrap_or(0) as usize;
    let bit = 1 << (drawn >> 32 & 7);
    let is_free = TTL
        .iter()
        .any(|(place, bits)| *place == at && bits & bit != 0);
    let at = if is_free { at + 2 } else { at };
    if let Some(octet) = bytes.get_mut(at) {
        *octet ^= bit;
    }
    bytes
}

impl World<'_> {
    /// A stream has taken a message: its bytes say the same to who reads them.
    pub(super) fn stream_takes(&mut self, from: ProcessNo, to: ProcessNo, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if self.settings.slip() == Some(Slip::MessageMisread)
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 1;
        }
        let is_same = match Message::decode(&bytes) {
            Ok((read, rest)) => rest == bytes.len() && read == *message,
            Err(_) => false,
        };
        if !is_same {
            let text = format!("a message is read as another one: {message:?}");
            self.checker.violated(Invariant::Carriage, None, text);
        }
        let under_way = self.carried.under_way.entry((from, to)).or_default();
        under_way.push_back(digest(&bytes));
    }

    /// A stream gives a message out.
    pub(super) fn stream_gives(&mut self, from: ProcessNo, to: ProcessNo, bytes: &[u8]) {
        let under_way = self.carried.under_way.get_mut(&(from, to));
        let next = under_way.and_then(VecDeque::pop_front);
        if next != Some(digest(bytes)) {
            let (from, to) = (self.name_of(from), self.name_of(to));
            let text = format!("{to} gets another message of {from} than the next one");
            self.checker.violated(Invariant::Carriage, None, text);
        }
    }

    /// Streams of a process are closed: what was under way to it and from it is lost.
    pub(super) fn streams_close(&mut self, no: ProcessNo) {
        let is_its = |from: ProcessNo, to: ProcessNo| from == no || to == no;
        let under_way = &mut self.carried.under_way;
        under_way.retain(|(from, to), _| !is_its(*from, *to));
    }

    /// Messages that streams between living processes have not delivered.
    pub(super) fn messages_under_way(&self) -> usize {
        let lives = |no: &ProcessNo| self.processes.get(*no).is_some_and(Process::is_alive);
        let under_way = self.carried.under_way.iter();
        let between = under_way.filter(|((from, to), _)| lives(from) && lives(to));
        between.map(|(_, messages)| messages.len()).sum()
    }

    /// Where the next frame is probed, too: what decides how.
    pub(super) fn probe(&mut self) -> Option<u64> {
        self.carried.frames += 1;
        let drawn = mix(self.plan.seed, self.carried.frames);
        drawn.is_multiple_of(ONE_IN).then_some(drawn / ONE_IN)
    }

    /// A data frame arrives; damaged it would be refused.
    pub(super) fn probe_data(&mut self, to: ProcessNo, key: &Key, bytes: &[u8], drawn: u64) {
        let bytes = match self.settings.slip() {
            Some(Slip::DataDamageTaken) => bytes.to_vec(),
            _ => damaged(bytes, drawn),
        };
        let living = self.processes.get_mut(to).and_then(|p| p.living.as_mut());
        let Some((_, pool)) = living else { return };
        if let Ok((frame, _)) = decode_data(pool, key, &bytes) {
            pool.give(frame);
            let text = "a data frame that was changed is taken".to_owned();
            self.checker.violated(Invariant::Carriage, None, text);
        }
    }

    pub(super) fn name_of(&self, no: ProcessNo) -> String {
        let process = self.processes.get(no);
        process.map(Process::name).unwrap_or_default()
    }
}

/// A data frame as it travels says all of the frame; what differs, in words.
pub(super) fn compare_data(
    pool: &mut FramePool,
    frame: &Frame,
    key: &Key,
    bytes: &[u8],
) -> Option<String> {
    let (read, _) = match decode_data(pool, key, bytes) {
        Ok(read) => read,
        Err(weir_protocol::wire::WireError::NoFrame) => return None,
        Err(error) => return Some(format!("a data frame is not read: {error}")),
    };
    let (sent, packet) = pool.memory().read(frame);
    let (got, content) = pool.memory().read(&read);
    let of = |meta: &weir_packet::FrameMeta| {
        (
            (meta.unit, meta.view, meta.clock, meta.time, meta.sequence),
            (meta.flags, meta.side, meta.port, meta.link, meta.dlt),
            (
                meta.len,
                meta.wire_len,
                meta.disposition,
                meta.chain,
                meta.tenant,
            ),
        )
    };
    let is_same = of(sent) == of(got) && packet == content;
    let text = format!("a data frame is read as another one: {got:?}, and was {sent:?}");
    pool.give(read);
    (!is_same).then_some(text)
}
