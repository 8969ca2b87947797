//! Lists of addresses and of ports in a rule's header: literals, ranges, negation, nesting, variables.

use std::net::{IpAddr, Ipv4Addr};

use crate::error::{Fault, SkipReason, Span};
use crate::ranges::{AddressSet, PortSet, RangeSet};
use crate::variables::Variables;

/// Lists and variables may be nested this deep; a variable that names itself ends here.
const DEEPEST: usize = 16;

/// Common interface of address lists and port lists.
pub(crate) trait HeaderSet: Sized {
    /// Word for one element in messages.
    const WHAT: &'static str;
    /// The same with its article.
    const A_WHAT: &'static str;
    fn none() -> Self;
    fn all() -> Self;
    fn literal(text: &str) -> Result<Self, String>;
    fn union(&self, other: &Self) -> Self;
    fn difference(&self, other: &Self) -> Self;
    fn is_none(&self) -> bool;
    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str>;
}

impl HeaderSet for PortSet {
    const WHAT: &'static str = "port";
    const A_WHAT: &'static str = "a port";

    fn none() -> Self {
        RangeSet::empty()
    }

    fn all() -> Self {
        RangeSet::full()
    }

    fn literal(text: &str) -> Result<Self, String> {
        let port = |part: &str, default: u16| -> Result<u16, String> {
            let part = part.trim();
            if part.is_empty() {
                return Ok(default);
            }
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                part.parse()
                    .map_err(|_| format!("port {part} is above 65535"))
            } else {
                Err(format!("`{part}` is not a port"))
            }
        };
        match text.split_once(':') {
            None => port(text, 0).map(|port| RangeSet::range(port, port)),
            Some((low, high)) if low.trim().is_empty() && high.trim().is_empty() => {
                Err("a range of ports needs at least one end".to_string())
            }
            Some((low, high)) => {
                let (low, high) = (port(low, 0)?, port(high, u16::MAX)?);
                if low > high {
                    Err(format!("range of ports {low}:{high} runs backwards"))
                } else {
                    Ok(RangeSet::range(low, high))
                }
            }
        }
    }

    fn union(&self, other: &Self) -> Self {
        RangeSet::union(self, other)
    }

    fn difference(&self, other: &Self) -> Self {
        RangeSet::difference(self, other)
    }

    fn is_none(&self) -> bool {
        self.is_empty()
    }

    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
        variables.port(name)
    }
}

impl HeaderSet for AddressSet {
    const WHAT: &'static str = "address";
    const A_WHAT: &'static str = "an address";

    fn none() -> Self {
        AddressSet {
            v4: RangeSet::empty(),
            v6: RangeSet::empty(),
        }
    }

    fn all() -> Self {
        AddressSet::full()
    }

    fn literal(text: &str) -> Result<Self, String> {
        let address = |part: &str| -> Result<IpAddr, String> {
            let part = part.trim();
            part.parse()
                .map_err(|_| format!("`{part}` is not an IP address"))
        };
        if let Some((network, length)) = text.split_once('/') {
            return match address(network)? {
                IpAddr::V4(network) => {
                    let length = v4_prefix(length.trim())?;
                    let (low, high) = prefix(u128::from(network.to_bits()), length, 32);
                    // Both ends of an IPv4 prefix fit in 32 bits.
                    Ok(v4_range(low as u32, high as u32))
                }
                IpAddr::V6(network) => {
                    let length = prefix_length(length.trim(), 128)?;
                    let (low, high) = prefix(network.to_bits(), length, 128);
                    Ok(v6_range(low, high))
                }
            };
        }
        if let Some((low, high)) = text.split_once('-') {
            let set = match (address(low)?, address(high)?) {
                (IpAddr::V4(low), IpAddr::V4(high)) => v4_range(low.to_bits(), high.to_bits()),
                (IpAddr::V6(low), IpAddr::V6(high)) => v6_range(low.to_bits(), high.to_bits()),
                _ => return Err("the two ends of a range are of different IP versions".to_string()),
            };
            return if set.is_none() {
                Err(format!("range of addresses {text} runs backwards"))
            } else {
                Ok(set)
            };
        }
        Ok(match address(text)? {
            IpAddr::V4(address) => v4_range(address.to_bits(), address.to_bits()),
            IpAddr::V6(address) => v6_range(address.to_bits(), address.to_bits()),
        })
    }

    fn union(&self, other: &Self) -> Self {
        AddressSet {
            v4: self.v4.union(&other.v4),
            v6: self.v6.union(&other.v6),
        }
    }

    fn difference(&self, other: &Self) -> Self {
        AddressSet {
            v4: self.v4.difference(&other.v4),
            v6: self.v6.difference(&other.v6),
        }
    }

    fn is_none(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
        variables.address(name)
    }
}

fn v4_range(low: u32, high: u32) -> AddressSet {
    AddressSet {
        v4: RangeSet::range(low, high),
        v6: RangeSet::empty(),
    }
}

fn v6_range(low: u128, high: u128) -> AddressSet {
    AddressSet {
        v4: RangeSet::empty(),
        v6: RangeSet::range(low, high),
    }
}

/// First and last address of a network; bits of `network` past the prefix are ignored.
fn prefix(network: u128, length: u32, bits: u32) -> (u128, u128) {
    let host_bits = bits - length;
    let host = if host_bits >= 128 {
        u128::MAX
    } else {
        (1u128 << host_bits) - 1
    };
    (network & !host, network | host)
}

fn prefix_length(text: &str, bits: u32) -> Result<u32, String> {
    crate::compare::parse_number(text, bits).map_err(|reason| format!("prefix length: {reason}"))
}

/// A prefix length, or a netmask as `255.255.0.0`.
fn v4_prefix(text: &str) -> Result<u32, String> {
    if !text.contains('.') {
        return prefix_length(text, 32);
    }
    let mask: Ipv4Addr = text
        .parse()
        .map_err(|_| format!("`{text}` is not a netmask"))?;
    let mask = mask.to_bits();
    if mask.leading_ones() + mask.trailing_zeros() < 32 {
        return Err(format!(
            "`{text}` is not a netmask: its ones are not in one piece"
        ));
    }
    Ok(mask.leading_ones())
}

/// Reads the set that `span` of `text` names.
pub(crate) fn parse_set<S: HeaderSet>(
    text: &str,
    span: Span,
    variables: &Variables,
) -> Result<S, Fault> {
    let set: S = parse_list(text, span, variables, 0)?;
    if set.is_none() {
        return Err(Fault::new(span, format!("no {} is left to match", S::WHAT))
            .help("a negation takes everything away; check the values of the variables")
            .skip(SkipReason::NothingLeft));
    }
    Ok(set)
}

/// A list without its brackets: what the plain entries add, less what the negated ones take away. With
/// negated entries only, they are taken from everything.
fn parse_list<S: HeaderSet>(
    text: &str,
    span: Span,
    variables: &Variables,
    depth: usize,
) -> Result<S, Fault> {
    if depth > DEEPEST {
        return Err(Fault::new(span, "lists or variables are nested too deep")
            .help("a variable may name itself through another one"));
    }
    let mut added: Option<S> = None;
    let mut taken = S::none();
    for entry in split_list(text, span)? {
        let mut entry = entry.trim(text);
        let mut negated = false;
        while entry.of(text).starts_with('!') {
            negated = !negated;
            entry = Span::new(entry.start + 1, entry.end).trim(text);
        }
        let set: S = parse_entry(text, entry, variables, depth)?;
        if negated {
            taken = taken.union(&set);
        } else {
            added = Some(match added {
                Some(before) => before.union(&set),
                None => set,
            });
        }
    }
    Ok(added.unwrap_or_else(S::all).difference(&taken))
}

fn parse_entry<S: HeaderSet>(
    text: &str,
    entry: Span,
    variables: &Variables,
    depth: usize,
) -> Result<S, Fault> {
    let written = entry.of(text);
    if written.is_empty() {
        return Err(Fault::new(entry, format!("{} is missing", S::A_WHAT)));
    }
    if written.eq_ignore_ascii_case("any") {
        return Ok(S::all());
    }
    if written.starts_with('[') {
        // split_list has seen that brackets are in pairs.
        let inner = Span::new(entry.start + 1, entry.end.saturating_sub(1));
        if !written.ends_with(']') {
            return Err(Fault::new(entry, "text follows the closing `]`"));
        }
        return parse_list(text, inner, variables, depth + 1);
    }
    if let Some(name) = written.strip_prefix('$') {
        let Some(value) = S::variable(variables, name) else {
            return Err(
                Fault::new(entry, format!("unknown {} variable `${name}`", S::WHAT))
                    .help("define it among the variables of the rule set"),
            );
        };
        return parse_list(value, Span::new(0, value.len()), variables, depth + 1).map_err(
            |inner| Fault {
                start: entry.start,
                end: entry.end,
                message: format!("in the value of `${name}`: {}", inner.message),
                help: inner.help,
                duplicate: false,
                skip: inner.skip,
            },
        );
    }
    S::literal(written).map_err(|reason| Fault::new(entry, reason))
}

/// The entries of a list, split at the commas outside brackets.
fn split_list(text: &str, span: Span) -> Result<Vec<Span>, Fault> {
    let mut entries = Vec::new();
    let mut open = 0usize;
    let mut start = span.start;
    for (at, byte) in span.of(text).bytes().enumerate() {
        let at = span.start + at;
        match byte {
            b'[' => open += 1,
            b']' => {
                open = open.checked_sub(1).ok_or_else(|| {
                    Fault::new(Span::new(at, at + 1), "`]` without a `[` before it")
                })?;
            }
            b',' if open == 0 => {
                entries.push(Span::new(start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    if open > 0 {
        return Err(Fault::new(span, "`[` is not closed"));
    }
    entries.push(Span::new(start, span.end));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Result<AddressSet, Fault> {
        parse_set(text, Span::new(0, text.len()), &Variables::stock())
    }

    fn ports(text: &str) -> Result<PortSet, Fault> {
        parse_set(text, Span::new(0, text.len()), &Variables::stock())
    }

    fn has(set: &AddressSet, address: &str) -> bool {
        set.contains(address.parse().unwrap())
    }

    #[test]
    fn lists_negate_and_nest() {
        let set = addresses("[10.0.0.0/8, ![10.1.0.0/16, !10.1.1.0/24], 2001:db8::/32]").unwrap();
        for (address, inside) in [
            ("10.2.3.4", true),
            ("10.1.3.4", false),
            ("10.1.1.7", true),
            ("11.0.0.0", false),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
        ] {
            assert_eq!(has(&set, address), inside, "{address}");
        }
        let set = addresses("!192.168.51.206").unwrap();
        assert!(has(&set, "192.168.51.205") && has(&set, "::1") && !has(&set, "192.168.51.206"));
    }

    #[test]
    fn every_form_of_literal() {
        assert!(has(&addresses("1.2.3.4-1.2.4.0").unwrap(), "1.2.3.255"));
        assert!(has(&addresses("1.2.3.4/255.255.0.0").unwrap(), "1.2.255.1"));
        assert!(has(&addresses("ff00::/8").unwrap(), "ff02::1"));
        assert!(addresses("0.0.0.0/0").unwrap().v4.is_full());
        assert!(addresses("::/0").unwrap().v6.is_full());
        assert!(addresses("any").unwrap().is_full());
        assert_eq!(ports("1024:").unwrap().ranges(), [(1024, 65535)]);
        assert_eq!(ports(":1023").unwrap().ranges(), [(0, 1023)]);
        assert_eq!(
            ports("[80,8000:8010,!8005]").unwrap().ranges(),
            [(80, 80), (8000, 8004), (8006, 8010)]
        );
        assert_eq!(
            ports("$SHELLCODE_PORTS").unwrap().ranges(),
            [(0, 79), (81, 65535)]
        );
        assert_eq!(
            ports("$FILE_DATA_PORTS").unwrap().ranges(),
            [(80, 80), (110, 110), (143, 143)]
        );
    }

    #[test]
    fn faults_say_what_is_wrong() {
        for (text, words) in [
            ("!any", "no address is left"),
            ("$NOWHERE", "unknown address variable `$NOWHERE`"),
            ("10.0.0.0/33", "above 32"),
            ("10.0.0.256", "not an IP address"),
            ("[10.0.0.1", "not closed"),
            ("10.0.0.1]", "without a `[`"),
            ("[10.0.0.1]x", "follows the closing"),
            ("[10.0.0.1,,10.0.0.2]", "missing"),
            ("1.2.3.4-::1", "different IP versions"),
            ("1.2.3.4/255.0.255.0", "not in one piece"),
        ] {
            let fault = addresses(text).unwrap_err();
            assert!(fault.message.contains(words), "{text}: {}", fault.message);
        }
        for (text, words) in [
            ("65536", "above 65535"),
            ("90:80", "backwards"),
            (":", "at least one end"),
            ("http", "not a port"),
            ("[!80,80]", "no port is left"),
        ] {
            let fault = ports(text).unwrap_err();
            assert!(fault.message.contains(words), "{text}: {}", fault.message);
        }
    }

    #[test]
    fn a_variable_that_names_itself_is_refused() {
        let mut variables = Variables::none();
        variables.set_address("A", "$B").set_address("B", "[$A]");
        let fault = parse_set::<AddressSet>("$A", Span::new(0, 2), &variables).unwrap_err();
        assert!(
            fault.message.contains("nested too deep"),
            "{}",
            fault.message
        );
    }
}
