//! Claims of others to the router's addresses, and when the next announcement
//! and defence are due.

use std::net::IpAddr;

use weir_packet::{MacAddr, Time};

/// Addresses that others claim, at most, that are remembered.
const REMEMBERED: usize = 64;
/// How long others have to say that they have an address.
const WAIT: u64 = 100_000_000;
/// Between two announcements, and how many there are (RFC 5227 section 1.1,
/// ANNOUNCE_INTERVAL and ANNOUNCE_NUM).
const BETWEEN: u64 = 2_000_000_000;
const TIMES: u8 = 2;
/// At most one defence of an address in this time (RFC 5227 section 1.1,
/// DEFEND_INTERVAL).
const DEFEND: u64 = 10_000_000_000;

/// An address of the router's that somebody else claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Number of the port where it was heard.
    pub port: usize,
    /// The address.
    pub address: IpAddr,
    /// MAC address of the last claimant.
    pub mac: MacAddr,
    /// How often it was claimed.
    pub times: u64,
    /// They said that they have it, not only that they would like to.
    pub held: bool,
}

/// Claims of others to the router's addresses, and announcements to make.
#[derive(Debug)]
pub(crate) struct Claims {
    conflicts: Vec<Conflict>,
    /// When the address of each was last defended (RFC 5227 section 2.4: each has
    /// a time of its own), and last any of those that are not remembered.
    defended: Vec<Option<Time>>,
    others_defended: Option<Time>,
    /// Announcements still to be made, and when the next is due.
    left: u8,
    due: Time,
}

impl Claims {
    pub(crate) fn new() -> Claims {
        Claims {
            conflicts: Vec::with_capacity(REMEMBERED),
            defended: Vec::with_capacity(REMEMBERED),
            others_defended: None,
            left: 0,
            due: Time(u64::MAX),
        }
    }

    pub(crate) const fn next_due(&self) -> Time {
        self.due
    }

    /// Begins the announcements: the first is due when others have had time to
    /// defend their addresses.
    pub(crate) fn begin(&mut self, now: Time) {
        self.left = TIMES;
        self.due = now.plus(WAIT);
    }

    /// Begins the announcements of a router in another one's place: the first is due at once.
    pub(crate) fn take_over(&mut self, now: Time) {
        self.left = TIMES + 1;
        self.due = now;
    }

    /// True where an announcement is due; the next one is due later.
    pub(crate) fn take_due(&mut self, now: Time) -> bool {
        if now < self.due {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.due = match self.left {
            0 => Time(u64::MAX),
            TIMES => now.plus(WAIT),
            _ => now.plus(BETWEEN),
        };
        true
    }

    /// True where somebody else said that they have this address of the port's.
    pub(crate) fn is_held(&self, port: usize, address: IpAddr) -> bool {
        let mut conflicts = self.conflicts.iter();
        conflicts.any(|c| c.held && (c.port, c.address) == (port, address))
    }

    /// Remembers that somebody else has an address of the port's (`held`), or
    /// would like to have it. Its place among those that are remembered.
    pub(crate) fn note(
        &mut self,
        port: usize,
        address: IpAddr,
        mac: MacAddr,
        held: bool,
    ) -> Option<usize> {
        let same = |c: &Conflict| (c.port, c.address) == (port, address);
        if let Some(place) = self.conflicts.iter().position(same) {
            let known = self.conflicts.get_mut(place)?;
            known.mac = mac;
            known.times += 1;
            known.held |= held;
            return Some(place);
        }
        if self.conflicts.len() == REMEMBERED {
            return None;
        }
        self.conflicts.push(Conflict {
            port,
            address,
            mac,
            times: 1,
            held,
        });
        self.defended.push(None);
        Some(self.conflicts.len() - 1)
    }

    /// True where the address at `place` (see [`Claims::note`]) may be defended
    /// now; if so, the time counts as its last defence.
    pub(crate) fn take_defence(&mut self, now: Time, place: Option<usize>) -> bool {
        let own = place.and_then(|place| self.defended.get_mut(place));
        let last = own.unwrap_or(&mut self.others_defended);
        if last.is_some_and(|last| now.since(last) < DEFEND) {
            return false;
        }
        *last = Some(now);
        true
    }

    /// All that are remembered, in the order in which they were noticed.
    pub(crate) fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }
}
