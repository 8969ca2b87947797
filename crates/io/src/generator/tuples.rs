//! Addresses and ports of the n-th flow, computed instead of stored: a table for a million flows
//! would cost a cache miss per packet.

use super::random::mix;
use super::spec::{Family, GeneratorSpec, Protocol};
use super::values::{Range, Weighted};

/// Division by a number that is not known at compile time, by multiplication (Lemire, Kaser,
/// Kurz: Faster remainder by direct computation, 2019); exact for all 32-bit numbers.
#[derive(Clone, Copy)]
struct Divisor {
    number: u32,
    reciprocal: u64,
}

impl Divisor {
    fn new(number: u32) -> Self {
        let number = number.max(1);
        Self {
            number,
            // 2^64 for 1 does not fit; 0 marks it.
            reciprocal: (u64::MAX / u64::from(number)).wrapping_add(1),
        }
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(self, value: u32) -> (u32, u32) {
        if self.reciprocal == 0 {
            return (value, 0);
        }
        let quotient = ((u128::from(self.reciprocal) * u128::from(value)) >> 64) as u32;
        (
            quotient,
            value.wrapping_sub(quotient.wrapping_mul(self.number)),
        )
    }
}

/// Addresses and ports of a flow, seen from inside. Addresses are the last 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) sport: u16,
    pub(super) dport: u16,
}

/// Numbers the flows of one class.
#[derive(Clone, Copy)]
pub(super) struct ClassTuples {
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    src_hosts: Divisor,
    dst_hosts: Divisor,
    sports: Divisor,
    dports: u32,
}

impl ClassTuples {
    fn new(spec: &GeneratorSpec, class: Class) -> Self {
        let (src, dst, src_hosts, dst_hosts) = match class.family {
            Family::V4 => (
                spec.src.first,
                spec.dst.first,
                spec.src.hosts,
                spec.dst.hosts,
            ),
            Family::V6 => {
                let (src, dst) = (spec.src6.first as u32, spec.dst6.first as u32);
                (src, dst, spec.src6.hosts, spec.dst6.hosts)
            }
        };
        let one = |low| Range { low, high: low };
        let dports = match class.protocol {
            Protocol::Tcp => spec.dports.unwrap_or(one(80)),
            Protocol::Udp => spec.dports.unwrap_or(one(443)),
            Protocol::Icmp => one(0), // an echo has one number only
        };
        Self {
            src,
            dst,
            sport: spec.sports.low as u16,
            dport: dports.low as u16,
            src_hosts: Divisor::new(src_hosts),
            dst_hosts: Divisor::new(dst_hosts),
            sports: Divisor::new(spec.sports.count()),
            dports: dports.count(),
        }
    }

    fn capacity(&self) -> u64 {
        let inside = u64::from(self.src_hosts.number) * u64::from(self.sports.number);
        let outside = u64::from(self.dst_hosts.number) * u64::from(self.dports);
        inside.saturating_mul(outside)
    }

    /// Addresses and ports of flow `number`, which is below the capacity.
    ///
    /// The inside end is the number itself, host first, then port. The outside end is scattered;
    /// flows with the same inside end get outside ends that follow one another.
    #[inline(always)]
    pub(super) fn tuple(&self, number: u32) -> Tuple {
        let (above, host) = self.src_hosts.divide(number);
        if above >= self.sports.number {
            return self.tuple_of_later_lap(above, host);
        }
        let scattered = number.wrapping_mul(SCATTER);
        Tuple {
            src: self.src.wrapping_add(host),
            dst: self
                .dst
                .wrapping_add(high_product(scattered, self.dst_hosts.number)),
            sport: self.sport.wrapping_add(above as u16),
            dport: self
                .dport
                .wrapping_add(self.scattered_port(scattered) as u16),
        }
    }

    /// The same once all inside ends were used, `above` times the number of hosts ago.
    #[inline(never)]
    fn tuple_of_later_lap(&self, above: u32, host: u32) -> Tuple {
        let (lap, port) = self.sports.divide(above);
        // Depends on the inside end alone, so that laps of it differ by `lap` and nothing else.
        let inside = port.wrapping_mul(self.src_hosts.number).wrapping_add(host);
        let scattered = inside.wrapping_mul(SCATTER);
        let (port_lap, host_lap) = self.dst_hosts.divide(lap);
        let outside = high_product(scattered, self.dst_hosts.number);
        let outside = add_within(outside, host_lap, self.dst_hosts.number);
        let dport = add_within(self.scattered_port(scattered), port_lap, self.dports);
        Tuple {
            src: self.src.wrapping_add(host),
            dst: self.dst.wrapping_add(outside),
            sport: self.sport.wrapping_add(port as u16),
            dport: self.dport.wrapping_add(dport as u16),
        }
    }

    #[inline(always)]
    fn scattered_port(&self, scattered: u32) -> u32 {
        if self.dports == 1 {
            return 0;
        }
        high_product(scattered.rotate_left(16), self.dports)
    }
}

/// 2^32 divided by the golden ratio: multiples of it are spread evenly (Knuth, volume 3, 6.4).
const SCATTER: u32 = 0x9e37_79b9;

/// IP version and protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) family: Family,
    pub(super) protocol: Protocol,
}

impl Class {
    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    pub(super) fn index(self) -> usize {
        self.family as usize * 3 + self.protocol as usize
    }

    /// All, in the order of their index.
    pub(super) const ALL: [Self; 6] = [
        Self::new(Family::V4, Protocol::Tcp),
        Self::new(Family::V4, Protocol::Udp),
        Self::new(Family::V4, Protocol::Icmp),
        Self::new(Family::V6, Protocol::Tcp),
        Self::new(Family::V6, Protocol::Udp),
        Self::new(Family::V6, Protocol::Icmp),
    ];

    const fn new(family: Family, protocol: Protocol) -> Self {
        Self { family, protocol }
    }
}

/// Gives each flow number its class, addresses and ports; no two are alike.
pub(super) struct Tuples {
    /// By class.
    by_class: [ClassTuples; 6],
    only: Option<Class>,
    families: Weighted<Family>,
    protocols: Weighted<Protocol>,
    seed: u64,
}

impl Tuples {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let mut families = spec.families.choices();
        let mut protocols = spec.protocols.choices();
        let only = match (
            families.next(),
            families.next(),
            protocols.next(),
            protocols.next(),
        ) {
            (Some(family), None, Some(protocol), None) => Some(Class { family, protocol }),
            _ => None,
        };
        Self {
            by_class: Class::ALL.map(|class| ClassTuples::new(spec, class)),
            only,
            families: spec.families.clone(),
            protocols: spec.protocols.clone(),
            seed: spec.seed,
        }
    }

    /// The classes that flows can have.
    pub(super) fn classes(&self) -> impl Iterator<Item = Class> {
        self.families.choices().flat_map(|family| {
            let protocols = self.protocols.choices();
            protocols.map(move |protocol| Class { family, protocol })
        })
    }

    /// How many flows can be told apart, whatever their class.
    pub(super) fn capacity(&self) -> u32 {
        let by_class = self.classes().map(|class| self.of_class(class).capacity());
        by_class
            .min()
            .map_or(0, |least| least.min(u64::from(u32::MAX)) as u32)
    }

    #[inline]
    pub(super) fn of_class(&self, class: Class) -> &ClassTuples {
        let [tcp4, udp4, icmp4, tcp6, udp6, icmp6] = &self.by_class;
        match (class.family, class.protocol) {
            (Family::V4, Protocol::Tcp) => tcp4,
            (Family::V4, Protocol::Udp) => udp4,
            (Family::V4, Protocol::Icmp) => icmp4,
            (Family::V6, Protocol::Tcp) => tcp6,
            (Family::V6, Protocol::Udp) => udp6,
            (Family::V6, Protocol::Icmp) => icmp6,
        }
    }

    /// IP version and protocol of flow `number`.
    #[inline]
    pub(super) fn class(&self, number: u32) -> Class {
        if let Some(class) = self.only {
            return class;
        }
        let random = mix(self.seed, u64::from(number));
        Class {
            family: self.families.pick(random).unwrap_or(Family::V4),
            protocol: self.protocols.pick(random << 32).unwrap_or(Protocol::Udp),
        }
    }

    /// Addresses and ports of flow `number`, which is below [`capacity`](Self::capacity).
    #[inline]
    pub(super) fn tuple(&self, class: Class, number: u32) -> Tuple {
        self.of_class(class).tuple(number)
    }
}

/// `value` of 2^32, brought below `bound`.
#[inline]
fn high_product(value: u32, bound: u32) -> u32 {
    ((u64::from(value) * u64::from(bound)) >> 32) as u32
}

/// The sum of two numbers below `bound`, wrapped round at `bound`.
#[inline]
fn add_within(a: u32, b: u32, bound: u32) -> u32 {
    ((u64::from(a) + u64::from(b)) % u64::from(bound)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_is_exact(number in 1u32.., value: u32) {
            let expected = (value / number, value % number);
            prop_assert_eq!(Divisor::new(number).divide(value), expected);
        }

        #[test]
        fn small_divisors_are_exact(number in 1u32..100, value: u32) {
            let expected = (value / number, value % number);
            prop_assert_eq!(Divisor::new(number).divide(value), expected);
        }
    }

    #[test]
    fn each_number_is_another_flow_until_all_are_used() {
        let text = "src=10.0.0.0/29,dst=10.1.0.0/29,sport=7-11,dport=80-82,flows=540,proto=tcp";
        let tuples = Tuples::new(&GeneratorSpec::parse(text).unwrap());
        assert_eq!(tuples.capacity(), 6 * 5 * 6 * 3);
        let seen: BTreeSet<_> = (0..tuples.capacity())
            .map(|number| {
                let tuple = tuples.tuple(tuples.class(number), number);
                assert!((0x0a00_0001..=0x0a00_0006).contains(&tuple.src));
                assert!((0x0a01_0001..=0x0a01_0006).contains(&tuple.dst));
                assert!((7..=11).contains(&tuple.sport) && (80..=82).contains(&tuple.dport));
                (tuple.src, tuple.dst, tuple.sport, tuple.dport)
            })
            .collect();
        assert_eq!(seen.len(), 540);
        let error = GeneratorSpec::parse(&text.replace("540", "541")).unwrap_err();
        assert!(error.allowed.contains("at most 540"), "{error}");
    }
}
