//! The router tells the links which addresses are its own, and defends them
//! (RFC 5227, RFC 4862 section 5.4, RFC 4861 section 7.2.6).
//!
//! A router that comes back must not be silent for the seconds that a host takes
//! before it uses an address. So it forwards and answers from the first moment
//! (as RFC 4429 does), asks once, and announces its addresses a tenth of a
//! second later: those that nobody has defended by then.

use std::net::IpAddr;

use weir_packet::{FramePool, MacAddr, Prefix, Time};

use crate::claims::Conflict;
use crate::{Router, bits};

/// Addresses of a port that are asked for and announced, at most.
const ANNOUNCED: usize = 256;

impl Router {
    /// Begins: asks the links whether another host has one of its addresses.
    /// Announcements follow from [`Router::tick`]; frames wait in
    /// [`Router::output`].
    pub fn begin(&mut self, now: Time, pool: &mut FramePool) {
        self.claims.begin(now);
        for at in 0..self.ports.len() {
            for address in self.shown(at) {
                match address {
                    IpAddr::V4(address) => self.probe_v4(now, pool, at, address),
                    IpAddr::V6(address) => self.probe_v6(now, pool, at, address),
                }
            }
        }
    }

    /// Begins in the place of another router, which is gone, with its addresses: neighbours have
    /// its hardware address, and send nothing here before they are told. So this one asks for
    /// nothing, and announces all addresses with the next [`Router::tick`], those of prefixes of
    /// functions too; once more a tenth of a second later, and once more after that: each may be
    /// lost.
    pub fn take_over(&mut self, now: Time) {
        self.claims.take_over(now);
        self.took_over = true;
    }

    /// Tells the links where its addresses are, so that neighbours of an earlier
    /// life learn the hardware address of this one.
    pub(crate) fn announce(&mut self, now: Time, pool: &mut FramePool) {
        if !self.claims.take_due(now) {
            return;
        }
        for at in 0..self.ports.len() {
            for address in self.shown(at) {
                if self.claims.is_held(at, address) {
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
    /// of functions; all of these in the place of another router.
    fn shown(&self, at: usize) -> Vec<IpAddr> {
        let Some(port) = self.ports.get(at).filter(|port| port.wire) else {
            return Vec::new();
        };
        let owned = self.owned.iter().filter(|owned| {
            let single = owned.addresses.length() == bits(owned.addresses.address());
            (single || self.took_over) && owned.side.is_none_or(|side| side == port.side)
        });
        let owned = owned.flat_map(|owned| each(owned.addresses));
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
        self.claims.note(at, address, mac, held)
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
        if !self.claims.take_defence(now, place) {
            return;
        }
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
        self.claims.conflicts()
    }
}

/// The addresses of a prefix, from the lowest on.
fn each(prefix: Prefix) -> impl Iterator<Item = IpAddr> {
    let bits = bits(prefix.address()) - prefix.length();
    let last = 1u128
        .checked_shl(u32::from(bits))
        .map_or(u128::MAX, |count| count - 1);
    (0..=last).map_while(move |step| {
        Some(match prefix.address() {
            IpAddr::V4(first) => {
                let step = u32::try_from(step).ok()?;
                IpAddr::V4(first.to_bits().checked_add(step)?.into())
            }
            IpAddr::V6(first) => IpAddr::V6(first.to_bits().checked_add(step)?.into()),
        })
    })
}
