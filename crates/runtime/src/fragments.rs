//! Finds the flow of a datagram's fragments, and holds later fragments that
//! come before the first.

use weir_packet::{Direction, FragmentKey, Frame, Headers, KeyOptions, PacketMemory};

/// How long a datagram's fragments may trickle in (RFC 791 §3.2 suggests 15 s
/// and up, RFC 8200 §4.5 says 60 s).
pub(crate) const LIFETIME_NS: u64 = 30_000_000_000;

/// Datagrams remembered at a time.
const DATAGRAMS: usize = 1_024;
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Datagram {
    key: FragmentKey,
    seen: u64,
    flow: Owner,
}

/// The flow of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) flow: u32,
    /// Its id: the record may have got another flow since.
    pub(crate) id: u64,
    pub(crate) direction: Direction,
}

#[derive(Debug)]
struct Held {
    key: FragmentKey,
    since: u64,
    frame: Frame,
}

/// The fragment memory of one runtime.
#[derive(Debug)]
pub(crate) struct Fragments {
    /// Sets of `WAYS`, newest first.
    datagrams: Vec<Option<Datagram>>,
    held: Vec<Held>,
    max_held: usize,
    seed: u64,
}

impl Fragments {
    pub(crate) fn new(max_held: u32, seed: u64) -> Fragments {
        Fragments {
            datagrams: vec![None; DATAGRAMS],
            held: Vec::with_capacity(max_held as usize),
            max_held: max_held as usize,
            seed,
        }
    }

    fn set(&mut self, key: &FragmentKey) -> &mut [Option<Datagram>] {
        let at = key.hash(self.seed) as usize % (DATAGRAMS / WAYS) * WAYS;
        &mut self.datagrams[at..at + WAYS]
    }

    /// Notes the flow of a datagram whose first fragment came; the oldest one
    /// of the set is forgotten.
    pub(crate) fn first(&mut self, key: FragmentKey, flow: Owner, now: u64) {
        let set = self.set(&key);
        let place = set
            .iter()
            .position(|d| d.is_none_or(|d| d.key == key))
            .unwrap_or(WAYS - 1);
        set[..=place].rotate_right(1);
        set[0] = Some(Datagram {
            key,
            seen: now,
            flow,
        });
    }

    /// The flow of a later fragment.
    pub(crate) fn later(&mut self, key: &FragmentKey, now: u64) -> Option<Owner> {
        self.set(key)
            .iter()
            .flatten()
            .find(|d| d.key == *key && now.saturating_sub(d.seen) <= LIFETIME_NS)
            .map(|d| d.flow)
    }

    /// Fragments that wait.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// True where a further fragment can wait beside `others` that are on
    /// their way in.
    pub(crate) fn has_room_for(&self, others: u32) -> bool {
        self.held.len() + (others as usize) < self.max_held
    }

    /// Keeps a later fragment until its first one comes. There must be room.
    pub(crate) fn hold(&mut self, key: FragmentKey, frame: Frame, now: u64) {
        self.held.push(Held {
            key,
            since: now,
            frame,
        });
    }

    /// True where a fragment of this datagram waits.
    pub(crate) fn waits_for(&self, key: &FragmentKey) -> bool {
        self.held.iter().any(|h| h.key == *key)
    }

    /// Gives out the fragments that wait for this datagram, in order.
    pub(crate) fn release(&mut self, key: &FragmentKey, into: &mut Vec<Frame>) {
        into.extend(self.held.extract_if(.., |h| h.key == *key).map(|h| h.frame));
    }

    /// Gives out the fragments that have waited too long by `now`, or all.
    pub(crate) fn expired(&mut self, now: Option<u64>, into: &mut Vec<Frame>) {
        let over = |held: &Held| now.is_none_or(|now| now.saturating_sub(held.since) > LIFETIME_NS);
        into.extend(self.held.extract_if(.., |h| over(h)).map(|h| h.frame));
    }
}

/// True where one of the `held` packets of a burst is of datagram `key`.
pub(crate) fn is_among(
    key: &FragmentKey,
    memory: &PacketMemory,
    frames: &[Frame],
    headers: &[Headers],
    options: &KeyOptions,
    mut held: u64,
) -> bool {
    while held != 0 {
        let i = held.trailing_zeros() as usize;
        held &= held - 1;
        let bytes = memory.bytes(&frames[i]);
        if FragmentKey::of(bytes, &headers[i], options) == Some(*key) {
            return true;
        }
    }
    false
}
