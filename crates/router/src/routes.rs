//! The routing table: finds the longest prefix of an address in one search.
//!
//! Prefixes nest, so a table of them is cut into ranges of addresses that lead
//! to one place each. A look-up is then a search among the ranges' first
//! addresses: two or three steps for a handful of routes, seventeen for 65,536.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::Prefix;

/// Result of a route look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// No route.
    None,
    /// An address of weir's own, as a host.
    Local {
        /// A function of the chain wants what is sent to it, too.
        owned: bool,
    },
    /// An address that a function of the chain stands for.
    Owned,
    /// All hosts of a port's network (RFC 919), or the network itself.
    Broadcast,
    /// A host on a port's link.
    Link {
        /// The port.
        port: u8,
    },
    /// Behind a router.
    Via {
        /// The port that it is on.
        port: u8,
        /// Its slot among the neighbours.
        neighbour: u32,
    },
}

/// The routes of both families.
#[derive(Debug)]
pub(crate) struct Routes {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

impl Routes {
    /// Of these prefixes; of two equal ones the later holds.
    pub(crate) fn new(entries: &[(Prefix, Hop)]) -> Routes {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (prefix, hop) in entries {
            match prefix.address() {
                IpAddr::V4(a) => v4.push((u32::from(a), prefix.length(), *hop)),
                IpAddr::V6(a) => v6.push((u128::from(a), prefix.length(), *hop)),
            }
        }
        Routes {
            v4: Ranges::new(v4, 32),
            v6: Ranges::new(v6, 128),
        }
    }

    #[inline]
    pub(crate) fn v4(&self, address: Ipv4Addr) -> Hop {
        self.v4.of(u32::from(address))
    }

    #[inline]
    pub(crate) fn v6(&self, address: Ipv6Addr) -> Hop {
        self.v6.of(u128::from(address))
    }

    pub(crate) fn of(&self, address: IpAddr) -> Hop {
        match address {
            IpAddr::V4(a) => self.v4(a),
            IpAddr::V6(a) => self.v6(a),
        }
    }
}

/// An address as a number.
trait Number: Copy + Ord {
    const ZERO: Self;
    /// The address after the last of a prefix; none after the very last.
    fn after(self, length: u8) -> Option<Self>;
}

impl Number for u32 {
    const ZERO: u32 = 0;
    fn after(self, length: u8) -> Option<u32> {
        let size = 1u32.checked_shl(32 - u32::from(length))?;
        self.checked_add(size)
    }
}

impl Number for u128 {
    const ZERO: u128 = 0;
    fn after(self, length: u8) -> Option<u128> {
        let size = 1u128.checked_shl(128 - u32::from(length))?;
        self.checked_add(size)
    }
}

/// Ranges of addresses, in order, without gaps.
#[derive(Debug)]
struct Ranges<T> {
    /// First addresses; the first is zero.
    starts: Vec<T>,
    hops: Vec<Hop>,
}

impl<T: Number> Ranges<T> {
    fn new(mut prefixes: Vec<(T, u8, Hop)>, bits: u8) -> Ranges<T> {
        prefixes.retain(|(_, length, _)| *length <= bits);
        // Stable, so that of equal prefixes the later stays later.
        prefixes.sort_by_key(|&(first, length, _)| (first, length));
        let mut ranges = Ranges {
            starts: vec![T::ZERO],
            hops: vec![Hop::None],
        };
        // The prefixes around the place that the sweep is at, widest first,
        // each with where it ends.
        let mut around: Vec<(Option<T>, Hop)> = Vec::new();
        for (first, length, hop) in prefixes {
            ranges.close(&mut around, Some(first));
            ranges.begin(first, hop);
            around.push((first.after(length), hop));
        }
        ranges.close(&mut around, None);
        ranges
    }

    /// Ends the prefixes that end at or before `until` (all of them without).
    fn close(&mut self, around: &mut Vec<(Option<T>, Hop)>, until: Option<T>) {
        while let Some(&(Some(end), _)) = around.last() {
            if until.is_some_and(|until| end > until) {
                break;
            }
            around.pop();
            let outer = around.last().map_or(Hop::None, |(_, hop)| *hop);
            self.begin(end, outer);
        }
    }

    /// From `first` on addresses lead to `hop`.
    fn begin(&mut self, first: T, hop: Hop) {
        if let (Some(last), Some(at)) = (self.starts.last(), self.hops.last_mut())
            && *last == first
        {
            *at = hop;
            return;
        }
        self.starts.push(first);
        self.hops.push(hop);
    }

    #[inline]
    fn of(&self, address: T) -> Hop {
        let after = self.starts.partition_point(|start| *start <= address);
        let hop = self.hops.get(after.wrapping_sub(1));
        hop.copied().unwrap_or(Hop::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(port: u8) -> Hop {
        Hop::Link { port }
    }

    fn table(entries: &[(&str, Hop)]) -> Routes {
        let entries: Vec<(Prefix, Hop)> = entries
            .iter()
            .map(|(prefix, hop)| (prefix.parse().unwrap(), *hop))
            .collect();
        Routes::new(&entries)
    }

    #[test]
    fn the_longest_prefix_wins_rfc1812_5_2_4_3() {
        let routes = table(&[
            ("0.0.0.0/0", link(0)),
            ("10.0.0.0/8", link(1)),
            ("10.1.0.0/16", link(2)),
            ("10.1.2.3/32", link(3)),
            ("255.255.255.255/32", Hop::Broadcast),
            ("::/0", link(4)),
            ("fd00::/16", link(5)),
        ]);
        for (address, hop) in [
            ("9.255.255.255", link(0)),
            ("10.0.0.0", link(1)),
            ("10.0.255.255", link(1)),
            ("10.1.0.0", link(2)),
            ("10.1.2.3", link(3)),
            ("10.1.2.4", link(2)),
            ("10.2.0.0", link(1)),
            ("11.0.0.0", link(0)),
            ("255.255.255.255", Hop::Broadcast),
            ("255.255.255.254", link(0)),
            ("fd00:1::1", link(5)),
            ("fd01::", link(4)),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", link(4)),
        ] {
            assert_eq!(routes.of(address.parse().unwrap()), hop, "{address}");
        }
        assert_eq!(Routes::new(&[]).of("10.0.0.1".parse().unwrap()), Hop::None);
    }

    proptest! {
        /// Compares the look-up with a scan of all prefixes.
        #[test]
        fn ranges_say_what_the_prefixes_say(
            prefixes in prop::collection::vec((any::<u32>(), 0u8..=32), 0..40),
            addresses in prop::collection::vec(any::<u32>(), 1..40),
        ) {
            let prefixes: Vec<(Prefix, Hop)> = prefixes
                .iter()
                .enumerate()
                .map(|(n, (address, length))| {
                    // Few leading bits vary, so that prefixes nest.
                    let address = IpAddr::from(Ipv4Addr::from(address & 0xc0c0_c0c0));
                    let prefix = match Prefix::new(address, *length) {
                        Ok(prefix) | Err(weir_packet::PrefixError::HostBits(prefix)) => prefix,
                        Err(other) => panic!("{other}"),
                    };
                    (prefix, link(n as u8))
                })
                .collect();
            let routes = Routes::new(&prefixes);
            let edges = prefixes.iter().filter_map(|(prefix, _)| match prefix.address() {
                IpAddr::V4(a) => Some(u32::from(a)),
                IpAddr::V6(_) => None,
            });
            let around = edges.flat_map(|e| [e, e.wrapping_sub(1), e.wrapping_add(1)]);
            for address in addresses.iter().copied().chain(around) {
                let address = IpAddr::from(Ipv4Addr::from(address));
                let best = prefixes
                    .iter()
                    .filter(|(prefix, _)| prefix.contains(address))
                    .max_by_key(|(prefix, _)| prefix.length());
                prop_assert_eq!(routes.of(address), best.map_or(Hop::None, |(_, hop)| *hop));
            }
        }
    }
}
