//! Whose the router's addresses are: asked when it begins, told to the links, and
//! remembered where somebody else has one (RFC 5227, RFC 4862 section 5.4, RFC
//! 4861 section 7.2.6).
//!
//! A router that comes back must not be silent for the seconds that a host takes
//! before it uses an address. So it forwards and answers from the first moment
//! (as RFC 4429 does), asks once, and puts its addresses forward a tenth of a
//! second later: those that nobody has defended by then.

use std::net::IpAddr;

use weir_packet::{FramePool, MacAddr, Time};

use crate::{Router, bits};

/// Addresses of a port that are asked for and announced, at most.
const ANNOUNCED: usize = 256;
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
    /// Who claimed it last.
    pub mac: MacAddr,
    /// How often it was claimed.
    pub times: u64,
    /// They said that they have it, not only that they would like to.
    pub held: bool,
}

/// What is known of others' claims, and what is to be announced.
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
}

impl Router {
    /// Begins: asks the links whether somebody has one of its addresses. What it
    /// has to tell them follows from [`Router::tick`]; frames wait in
    /// [`Router::output`].
    pub fn begin(&mut self, now: Time, pool: &mut FramePool) {
        self.claims.left = TIMES;
        self.claims.due = now.plus(WAIT);
        for at in 0..self.ports.len() {
            for address in self.shown(at) {
                match address {
                    IpAddr::V4(address) => self.probe_v4(now, pool, at, address),
                    IpAddr::V6(address) => self.probe_v6(now, pool, at, address),
                }
            }
        }
    }

    /// Tells the links where its addresses are, so that neighbours of an earlier
    /// life learn the hardware address of this one.
    pub(crate) fn announce(&mut self, now: Time, pool: &mut FramePool) {
        if now < self.claims.due {
            return;
        }
        self.claims.left = self.claims.left.saturating_sub(1);
        self.claims.due = match self.claims.left {
            0 => Time(u64::MAX),
            _ => now.plus(BETWEEN),
        };
        for at in 0..self.ports.len() {
            for address in self.shown(at) {
                let mut others = self.claims.conflicts.iter();
                if others.any(|c| c.held && (c.port, c.address) == (at, address)) {
                    continue;
                }
                match address {
                    IpAddr::V4(address) => self.announce_v4(now, pool, at, address),
                    IpAddr::V6(address) => self.announce_v6(now, pool, at, address),
                }
            }
        }
    }

    /// The addresses that a port's link is told of: the port's, and single ones
    /// of functions.
    fn shown(&self, at: usize) -> Vec<IpAddr> {
        let Some(port) = self.ports.get(at).filter(|port| port.wire) else {
            return Vec::new();
        };
        let owned = self.owned.iter().filter(|owned| {
            let single = owned.addresses.length() == bits(owned.addresses.address());
            single && owned.side.is_none_or(|side| side == port.side)
        });
        let owned = owned.map(|owned| owned.addresses.address());
        port.addresses().chain(owned).take(ANNOUNCED).collect()
    }

    /// Somebody else says that an address of the router's is theirs (`held`), or
    /// would like it to be. Its place among those that are remembered.
    pub(crate) fn claimed(
        &mut self,
        at: usize,
        address: IpAddr,
        mac: MacAddr,
        held: bool,
    ) -> Option<usize> {
        self.counts.conflicts += 1;
        let conflicts = &mut self.claims.conflicts;
        let same = |c: &Conflict| (c.port, c.address) == (at, address);
        if let Some(place) = conflicts.iter().position(same) {
            let known = conflicts.get_mut(place)?;
            known.mac = mac;
            known.times += 1;
            known.held |= held;
            return Some(place);
        }
        if conflicts.len() == REMEMBERED {
            return None;
        }
        conflicts.push(Conflict {
            port: at,
            address,
            mac,
            times: 1,
            held,
        });
        self.claims.defended.push(None);
        Some(conflicts.len() - 1)
    }

    /// Somebody else uses an address of the router's: it says once more whose it
    /// is, not too often, and goes on using it (RFC 5227 section 2.4 (c)).
    pub(crate) fn taken(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        at: usize,
        address: IpAddr,
        mac: MacAddr,
    ) {
        let place = self.claimed(at, address, mac, true);
        let own = place.and_then(|place| self.claims.defended.get_mut(place));
        let last = own.unwrap_or(&mut self.claims.others_defended);
        if last.is_some_and(|last| now.since(last) < DEFEND) {
            return;
        }
        *last = Some(now);
        match address {
            IpAddr::V4(address) => self.announce_v4(now, pool, at, address),
            IpAddr::V6(address) => self.announce_v6(now, pool, at, address),
        }
    }

    /// True for the hardware address of one of the router's ports: two of them may
    /// be on one link, and hear each other.
    pub(crate) fn is_own(&self, mac: MacAddr) -> bool {
        self.ports.iter().any(|port| port.mac == mac)
    }

    /// Addresses of the router's that others claim too, in the order in which
    /// that was noticed; 64 at most.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.claims.conflicts
    }
}
