//! Address prefixes, and sets of them.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr};

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// First address.
    pub(crate) address: IpAddr,
    /// Leading bits that count.
    pub(crate) length: u8,
}

impl Prefix {
    fn mask4(length: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }

    fn mask6(length: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            format!("`{text}` is no address or prefix (like 10.0.0.0/8 or 2001:db8::/32)")
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|&length| length <= most)
                .ok_or_else(|| format!("`{text}` has no prefix length of 0 to {most}"))?,
        };
        let rest = match address {
            IpAddr::V4(a) => u128::from(u32::from(a) & !Prefix::mask4(length)),
            IpAddr::V6(a) => u128::from(a) & !Prefix::mask6(length),
        };
        if rest != 0 {
            return Err(format!("`{text}` has bits set after its prefix length"));
        }
        Ok(Prefix { address, length })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A set of networks of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefixes {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Prefixes {
    /// The prefixes written as `words`.
    pub(crate) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Prefixes, String> {
        let mut set = Prefixes::default();
        for word in words {
            set.add(word.parse()?);
        }
        Ok(set)
    }

    pub(crate) fn add(&mut self, prefix: Prefix) {
        match prefix.address {
            IpAddr::V4(a) => self.v4.push((u32::from(a), Prefix::mask4(prefix.length))),
            IpAddr::V6(a) => self.v6.push((u128::from(a), Prefix::mask6(prefix.length))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    #[inline]
    pub(crate) fn has_ipv4(&self, address: Ipv4Addr) -> bool {
        let address = u32::from(address);
        self.v4.iter().any(|&(net, mask)| address & mask == net)
    }

    #[inline]
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
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
        for (text, part) in [
            ("10.0.0/8", "no address"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.1/8", "bits set"),
            ("::1/129", "0 to 128"),
        ] {
            assert!(text.parse::<Prefix>().unwrap_err().contains(part), "{text}");
        }
    }
}
