//! Address prefixes as people write them (RFC 4632, RFC 4291 §2.3), and sets of
//! them.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address and how many of its leading bits count.
///
/// ```
/// use weir_packet::{Prefix, PrefixError};
///
/// let prefix: Prefix = "10.0.0.0/8".parse()?;
/// assert_eq!(prefix.length(), 8);
/// let slip = "10.1.2.3/8".parse::<Prefix>();
/// assert_eq!(slip, Err(PrefixError::HostBits(prefix)));
/// # Ok::<(), PrefixError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// It is no address, or the length is none that the address can have.
    NotAPrefix,
    /// Bits after its length are set, a slip of the address or of the length;
    /// this is the network that the address is in.
    HostBits(Prefix),
    /// It is an IPv4 prefix in the spelling of IPv6 (RFC 4291 section 2.5.5.2), in which no packet has
    /// it; this is the one that packets have.
    Mapped(Prefix),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixError::NotAPrefix => {
                f.write_str("is not a prefix: write one like `10.0.0.0/8` or `2001:db8::/32`")
            }
            PrefixError::Mapped(prefix) => {
                write!(f, "is in no packet in this spelling: write `{prefix}`")
            }
            PrefixError::HostBits(prefix) => write!(
                f,
                "has bits set after its first {}: write `{prefix}`",
                prefix.length
            ),
        }
    }
}

impl core::error::Error for PrefixError {}

const fn mask4(length: u8) -> u32 {
    match u32::MAX.checked_shl(32 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

const fn mask6(length: u8) -> u128 {
    match u128::MAX.checked_shl(128 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

impl Prefix {
    /// The network of this address and length.
    ///
    /// # Errors
    ///
    /// As where it is read from a text.
    pub fn new(written: IpAddr, length: u8) -> Result<Prefix, PrefixError> {
        let address = match written {
            IpAddr::V4(a) if length <= 32 => Ipv4Addr::from(u32::from(a) & mask4(length)).into(),
            IpAddr::V6(a) if length <= 128 => Ipv6Addr::from(u128::from(a) & mask6(length)).into(),
            _ => return Err(PrefixError::NotAPrefix),
        };
        let prefix = Prefix { address, length };
        if address == written {
            Ok(prefix)
        } else {
            Err(PrefixError::HostBits(prefix))
        }
    }

    /// First address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Leading bits that count: 0 to 32, or to 128.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Refuses an IPv4 prefix that is written as IPv6 (`::ffff:192.0.2.7`), as some servers log
    /// addresses: no packet has it so.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Mapped`].
    pub fn unmapped(self) -> Result<Prefix, PrefixError> {
        let IpAddr::V6(address) = self.address else {
            return Ok(self);
        };
        match (address.to_ipv4_mapped(), self.length.checked_sub(96)) {
            (Some(address), Some(length)) => {
                let prefix = Prefix::new(address.into(), length)?;
                Err(PrefixError::Mapped(prefix))
            }
            _ => Ok(self),
        }
    }

    /// True where the address is in the network.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(a)) => u32::from(a) & mask4(self.length) == u32::from(net),
            (IpAddr::V6(net), IpAddr::V6(a)) => {
                u128::from(a) & mask6(self.length) == u128::from(net)
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, digits) = match text.split_once('/') {
            Some((address, digits)) => (address, Some(digits)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| PrefixError::NotAPrefix)?;
        let most = if written.is_ipv4() { 32 } else { 128 };
        let length = match digits {
            None => most,
            Some(digits) => Some(digits)
                .filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .filter(|&length| length <= most)
                .ok_or(PrefixError::NotAPrefix)?,
        };
        Prefix::new(written, length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A set of networks of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Address and mask.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Prefixes {
    /// The prefixes written as `words`.
    ///
    /// # Errors
    ///
    /// The first word that is no prefix, quoted, and why.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Prefixes, String> {
        let mut set = Prefixes::default();
        for word in words {
            set.add(word.parse().map_err(|why| format!("`{word}` {why}"))?);
        }
        Ok(set)
    }

    /// Adds a network.
    pub fn add(&mut self, prefix: Prefix) {
        match prefix.address {
            IpAddr::V4(a) => self.v4.push((u32::from(a), mask4(prefix.length))),
            IpAddr::V6(a) => self.v6.push((u128::from(a), mask6(prefix.length))),
        }
    }

    /// True where no network is in the set.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// True where each network of `other` lies in one of this set.
    pub fn covers(&self, other: &Prefixes) -> bool {
        let v4 = |(net, mask): &(u32, u32)| {
            let mut all = self.v4.iter();
            all.any(|(wider, wide)| wide & mask == *wide && net & wide == *wider)
        };
        let v6 = |(net, mask): &(u128, u128)| {
            let mut all = self.v6.iter();
            all.any(|(wider, wide)| wide & mask == *wide && net & wide == *wider)
        };
        other.v4.iter().all(v4) && other.v6.iter().all(v6)
    }

    /// True where an address is in both sets.
    pub fn meets(&self, other: &Prefixes) -> bool {
        let v4 = |(net, mask): &(u32, u32)| {
            let mut all = self.v4.iter();
            all.any(|(other, theirs)| net & mask & theirs == other & mask & theirs)
        };
        let v6 = |(net, mask): &(u128, u128)| {
            let mut all = self.v6.iter();
            all.any(|(other, theirs)| net & mask & theirs == other & mask & theirs)
        };
        other.v4.iter().any(v4) || other.v6.iter().any(v6)
    }

    /// The first and the last address of each network, as numbers; IPv4 has the place that
    /// RFC 4291 (section 2.5.5.2) gives it among IPv6's.
    pub fn ranges(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        let number = |address: u32| u128::from(Ipv4Addr::from(address).to_ipv6_mapped());
        let v4 = self.v4.iter();
        let v4 = v4.map(move |&(net, mask)| (number(net), number(net | !mask)));
        v4.chain(self.v6.iter().map(|&(net, mask)| (net, net | !mask)))
    }

    /// True where the set has networks of this family: IPv4, else IPv6.
    pub fn has_family(&self, ipv4: bool) -> bool {
        match ipv4 {
            true => !self.v4.is_empty(),
            false => !self.v6.is_empty(),
        }
    }

    /// True where a network of the set contains the address.
    #[inline]
    pub fn has_ipv4(&self, address: Ipv4Addr) -> bool {
        let address = u32::from(address);
        self.v4.iter().any(|&(net, mask)| address & mask == net)
    }

    /// True where a network of the set contains the address.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => self.has_ipv4(a),
            IpAddr::V6(a) => {
                let a = u128::from(a);
                self.v6.iter().any(|&(net, mask)| a & mask == net)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_both_families() {
        let set = Prefixes::parse(["10.0.0.0/8", "2001:db8::/127"].into_iter()).unwrap();
        let base = 0xffff_0000_0000;
        let v6 = 0x2001_0db8_u128 << 96;
        let wanted = [(base + 0x0a00_0000, base + 0x0aff_ffff), (v6, v6 + 1)];
        assert_eq!(set.ranges().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn sets_cover_and_meet_each_other_family_by_family() {
        let set = |words: &str| Prefixes::parse(words.split(' ')).unwrap();
        let wide = set("10.0.0.0/8 2001:db8::/32");
        for (inner, covered, met) in [
            ("10.1.0.0/16", true, true),
            ("10.0.0.0/8 2001:db8:1::/48", true, true),
            ("10.1.0.0/16 192.0.2.1", false, true),
            ("0.0.0.0/0", false, true),
            ("192.0.2.0/24 2001:db9::/32", false, false),
        ] {
            assert_eq!(wide.covers(&set(inner)), covered, "{inner}");
            assert_eq!(wide.meets(&set(inner)), met, "{inner}");
        }
        assert!(wide.has_family(true) && wide.has_family(false));
        assert!(!set("::/0").has_family(true));
    }

    #[test]
    fn prefixes_contain_what_they_say() {
        let set =
            Prefixes::parse(["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"].into_iter()).unwrap();
        for (address, inside) in [
            ("10.255.0.1", true),
            ("11.0.0.0", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
        ] {
            assert_eq!(set.contains(address.parse().unwrap()), inside, "{address}");
        }
        let all = Prefixes::parse(["0.0.0.0/0", "::/0"].into_iter()).unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()) && all.contains("::1".parse().unwrap()));
    }

    #[test]
    fn faults_are_named() {
        for text in [
            "",
            "10.0.0/8",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "::1/129",
        ] {
            assert_eq!(
                text.parse::<Prefix>(),
                Err(PrefixError::NotAPrefix),
                "{text}"
            );
        }
        let slip = Prefixes::parse(["::1/128", "2001:db8::1/32"].into_iter());
        assert_eq!(
            slip.unwrap_err(),
            "`2001:db8::1/32` has bits set after its first 32: write `2001:db8::/32`"
        );
    }
}
