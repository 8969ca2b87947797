//! Rules made ready for matching.

use std::net::IpAddr;

use weir_nf::packet::{ByteSet, Prefixes, Side, protocol::ip};
use weir_nf::{NamedSet, SettingsError};

use super::facts::{Facts, state};
use super::rule::{Action, PROTOCOLS, Rule};
use crate::words::Words;

/// Source, destination, source port, destination port, protocol: what many rules are searched by.
pub(super) const AXES: usize = 5;
/// The values that a rule takes, on each axis.
pub(super) type Taken = [Vec<(u128, u128)>; AXES];

#[derive(Clone, Debug, Default)]
struct Ranges {
    not: bool,
    ranges: Vec<(u16, u16)>,
}

impl Ranges {
    /// The values that it holds, in order and apart from each other; all where
    /// nothing is asked for.
    fn values(&self) -> Vec<(u16, u16)> {
        if self.ranges.is_empty() {
            return vec![(0, u16::MAX)];
        }
        let mut written = self.ranges.clone();
        written.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(written.len());
        for (first, last) in written {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => merged.push((first, last)),
            }
        }
        if !self.not {
            return merged;
        }
        let mut between = Vec::with_capacity(merged.len() + 1);
        let mut next = Some(0u16);
        for (first, last) in merged {
            between.extend(
                next.filter(|next| *next < first)
                    .map(|next| (next, first - 1)),
            );
            next = last.checked_add(1);
        }
        between.extend(next.map(|next| (next, u16::MAX)));
        between
    }

    fn covers(&self, other: &Ranges) -> bool {
        if self.ranges.is_empty() {
            return true;
        }
        // A rule that asks for a port also asks that there is one.
        let mine = self.values();
        let within = |(a, b): &(u16, u16)| mine.iter().any(|(c, d)| c <= a && b <= d);
        !other.ranges.is_empty() && other.values().iter().all(within)
    }

    fn holds(&self, value: Option<u16>) -> bool {
        self.ranges.is_empty()
            || value
                .is_some_and(|v| self.ranges.iter().any(|&(a, b)| (a..=b).contains(&v)) != self.not)
    }
}

#[derive(Clone, Debug, Default)]
struct Networks {
    any: bool,
    not: bool,
    set: Prefixes,
    /// Sets of the chain file, whose addresses are in it as well.
    named: Vec<NamedSet>,
}

impl Networks {
    /// True where it has all the sets that `other` has: what else is in them changes.
    fn names_all(&self, other: &Networks) -> bool {
        let mine = |set: &NamedSet| self.named.iter().any(|named| named.name == set.name);
        other.named.iter().all(mine)
    }

    /// True where it holds each address that `other` holds; may be false though
    /// it does.
    fn covers(&self, other: &Networks) -> bool {
        match (self.any, other.any, self.not, other.not) {
            (true, ..) => true,
            (_, true, ..) => false,
            (_, _, false, false) => self.set.covers(&other.set) && self.names_all(other),
            (_, _, true, true) => other.set.covers(&self.set) && other.names_all(self),
            (_, _, true, false) => {
                !self.set.meets(&other.set) && self.named.is_empty() && other.named.is_empty()
            }
            (_, _, false, true) => false,
        }
    }

    /// False where it holds no address of the family.
    fn has_family(&self, ipv4: bool) -> bool {
        self.any || self.not || !self.named.is_empty() || self.set.has_family(ipv4)
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.any || self.has(address) != self.not
    }

    fn has(&self, address: IpAddr) -> bool {
        self.set.contains(address) || self.named.iter().any(|named| named.set.contains(address))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) action: Action,
    pub(crate) log: bool,
    pub(crate) name: String,
    states: u8,
    side: Option<Side>,
    protocols: Option<ByteSet>,
    from: Networks,
    to: Networks,
    from_port: Ranges,
    to_port: Ranges,
    icmp_types: Option<ByteSet>,
    /// Flags that count, and the values that they must have.
    tcp_flags: Option<(u8, u8)>,
    vlan: Ranges,
    ethertype: Ranges,
    from_mac: Vec<[u8; 6]>,
    to_mac: Vec<[u8; 6]>,
    asks_ip: bool,
    asks_link: bool,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const LLDP: u16 = 0x88cc;

impl Compiled {
    /// True where the rule asks for what differs between the packets of one
    /// connection.
    pub(crate) fn is_per_packet(&self) -> bool {
        self.icmp_types.is_some() || self.tcp_flags.is_some()
    }

    /// True where the rule names the state in so many words.
    pub(crate) fn asks_related(&self) -> bool {
        self.states != state::ANY && self.states & state::RELATED != 0
    }

    /// True where these TCP flags may meet the rule.
    pub(crate) fn may_meet_flags(&self, flags: u8) -> bool {
        self.tcp_flags
            .is_some_and(|(mask, value)| flags & mask == value)
    }

    /// True where the rule is for what is invalid.
    pub(crate) fn asks_invalid(&self) -> bool {
        self.states & state::INVALID != 0
    }

    /// True where the rule asks for ICMP types.
    pub(crate) fn asks_icmp(&self) -> bool {
        self.icmp_types.is_some()
    }

    /// True where each packet that meets `other` meets this rule; may be false
    /// though it is so.
    pub(crate) fn covers(&self, other: &Compiled) -> bool {
        let all = |mine: &Option<ByteSet>, theirs: &Option<ByteSet>| match (mine, theirs) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
        };
        let macs = |mine: &[[u8; 6]], theirs: &[[u8; 6]]| {
            mine.is_empty() || !theirs.is_empty() && theirs.iter().all(|mac| mine.contains(mac))
        };
        let flags = match (self.tcp_flags, other.tcp_flags) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((mask, value)), Some((their_mask, their_value))) => {
                their_mask & mask == mask && their_value & mask == value
            }
        };
        (self.takes_non_ip() || !other.takes_non_ip())
            && other.states & !self.states == 0
            && (self.side.is_none() || self.side == other.side)
            && all(&self.protocols, &other.protocols)
            && all(&self.icmp_types, &other.icmp_types)
            && flags
            && self.from.covers(&other.from)
            && self.to.covers(&other.to)
            && self.from_port.covers(&other.from_port)
            && self.to_port.covers(&other.to_port)
            && self.vlan.covers(&other.vlan)
            && self.ethertype.covers(&other.ethertype)
            && macs(&self.from_mac, &other.from_mac)
            && macs(&self.to_mac, &other.to_mac)
    }

    /// True where it may match a packet that is not IP.
    pub(super) fn may_take_non_ip(&self) -> bool {
        !self.asks_ip && self.asks_link
    }

    /// The values that it takes of an IP packet, on each axis.
    pub(super) fn taken(&self) -> Taken {
        // Any address may come into a set.
        let networks = |of: &Networks| match of.any || of.not || !of.named.is_empty() {
            true => vec![(0, u128::MAX)],
            false => of.set.ranges().collect(),
        };
        let ports = |of: &Ranges| -> Vec<(u128, u128)> {
            let values = of.values().into_iter();
            values.map(|(a, b)| (a.into(), b.into())).collect()
        };
        let protocols = match &self.protocols {
            None => vec![(0, u8::MAX.into())],
            Some(set) => (0..=u8::MAX)
                .filter(|proto| set.contains(*proto))
                .map(|proto| (proto.into(), proto.into()))
                .collect(),
        };
        [
            networks(&self.from),
            networks(&self.to),
            ports(&self.from_port),
            ports(&self.to_port),
            protocols,
        ]
    }

    /// True if packets that are not IP may match it.
    fn takes_non_ip(&self) -> bool {
        !self.asks_ip && self.asks_link && !self.asks_only(&[IPV4, IPV6])
    }

    /// True where it asks for one of these EtherTypes.
    fn asks_only(&self, types: &[u16]) -> bool {
        let mut values = self.ethertype.values().into_iter();
        values.all(|(first, last)| first == last && types.contains(&first))
    }

    /// Why no packet meets the rule.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let families = [true, false].map(|v4| self.from.has_family(v4) && self.to.has_family(v4));
        let ranges = [&self.from_port, &self.to_port, &self.vlan, &self.ethertype];
        if families == [false; 2] {
            Some("its source and its destination are of different IP versions")
        } else if ranges.iter().any(|ranges| ranges.values().is_empty()) {
            Some("a range holds no value")
        } else if self.asks_ip && self.asks_only(&[ARP, LLDP]) {
            Some("it asks for something of IP, and for an EtherType that is not IP")
        } else if self.asks_only(&[IPV4]) && !families[0] || self.asks_only(&[IPV6]) && !families[1]
        {
            Some("its addresses are not of the IP version that its EtherType says")
        } else if self.icmp_types.is_some() && self.tcp_flags.is_some() {
            Some("it asks for an ICMP type and for TCP flags")
        } else {
            None
        }
    }

    fn matches_ip(&self, facts: &Facts, (source, destination): (IpAddr, IpAddr)) -> bool {
        self.protocols.is_none_or(|set| set.contains(facts.proto))
            && self.from.holds(source)
            && self.to.holds(destination)
            && self.from_port.holds(facts.ports.map(|p| p.0))
            && self.to_port.holds(facts.ports.map(|p| p.1))
    }

    pub(crate) fn matches(&self, facts: &Facts) -> bool {
        if self.states & facts.state == 0 || self.side.is_some_and(|side| side != facts.side) {
            return false;
        }
        if facts.state == state::OPEN
            && self.action != Action::Accept
            && self.states & state::ESTABLISHED == 0
        {
            return false;
        }
        match facts.ip {
            // A rule about nothing in particular is a rule about IP.
            None if self.asks_ip || !self.asks_link => return false,
            Some(ends) if !self.matches_ip(facts, ends) => return false,
            _ => {}
        }
        if let Some(types) = &self.icmp_types
            && !facts.icmp_type.is_some_and(|kind| types.contains(kind))
        {
            return false;
        }
        if let Some((mask, value)) = self.tcp_flags
            && facts.tcp_flags.is_none_or(|flags| flags & mask != value)
        {
            return false;
        }
        if !self.asks_link {
            return true;
        }
        let mac = |list: &[[u8; 6]], mac: Option<[u8; 6]>| {
            list.is_empty() || mac.is_some_and(|mac| list.contains(&mac))
        };
        self.vlan.holds(Some(facts.vlan))
            && self.ethertype.holds(Some(facts.ethertype))
            && mac(&self.to_mac, facts.macs.map(|m| m.0))
            && mac(&self.from_mac, facts.macs.map(|m| m.1))
    }

    /// The sets that it looks into for a source.
    pub(super) fn sources(&self) -> &[NamedSet] {
        &self.from.named
    }

    /// Those for a destination.
    pub(super) fn destinations(&self) -> &[NamedSet] {
        &self.to.named
    }

    /// The sets that it looks into.
    pub(super) fn sets(&self) -> impl Iterator<Item = &NamedSet> {
        self.from.named.iter().chain(&self.to.named)
    }

    /// Makes rule number `index` ready, which names no set.
    #[cfg(test)]
    pub(crate) fn new(index: usize, rule: &Rule) -> Result<Compiled, SettingsError> {
        let none = |name: &str| Err(SettingsError::new("", format!("there is no set `{name}`")));
        Compiled::with_sets(index, rule, &none)
    }

    /// Makes rule number `index` ready; `find` gives the sets that it names.
    pub(crate) fn with_sets(
        index: usize,
        rule: &Rule,
        find: &FindSet<'_>,
    ) -> Result<Compiled, SettingsError> {
        let bad = |field: &str| {
            let path = format!("rules[{index}].{field}");
            move |message: String| SettingsError::new(path, message)
        };
        let ports = |field, words| ranges(words, u16::MAX, "port", |_| None).map_err(bad(field));
        let macs = |field: &str, words: &Words| -> Result<Vec<_>, _> {
            words
                .iter()
                .map(|word| mac(word).map_err(bad(field)))
                .collect()
        };
        let protocols = numbers(&rule.protocol, "protocol", protocol).map_err(bad("protocol"))?;
        let icmp_types =
            numbers(&rule.icmp_type, "ICMP type", icmp_type).map_err(bad("icmp-type"))?;
        let tcp_flags = flags(&rule.tcp_flags).map_err(bad("tcp-flags"))?;
        if let Some((field, message, help)) = contradicts_protocol(rule, protocols) {
            let error = bad(field)(message.into());
            return Err(match help {
                Some(help) => error.help(help),
                None => error,
            });
        }
        let from = networks(index, "from", &rule.from, find)?;
        let to = networks(index, "to", &rule.to, find)?;
        Ok(Compiled {
            action: rule.action,
            log: rule.log,
            name: rule
                .name
                .clone()
                .unwrap_or_else(|| format!("rule {}", index + 1)),
            states: states(rule).map_err(|word| {
                bad("state")(format!("`{word}` is no state"))
                    .help("there are `new`, `established`, `related` and `invalid`")
            })?,
            side: side(rule).map_err(|words| {
                bad("direction")(format!("`{words}` is no direction"))
                    .help("`in` (from outside) or `out` (from inside)")
            })?,
            asks_ip: protocols.is_some()
                || icmp_types.is_some()
                || tcp_flags.is_some()
                || !from.any
                || !to.any
                || !rule.from_port.is_empty()
                || !rule.to_port.is_empty(),
            asks_link: ![&rule.vlan, &rule.ethertype, &rule.from_mac, &rule.to_mac]
                .into_iter()
                .all(Words::is_empty),
            protocols,
            from,
            to,
            from_port: ports("from-port", &rule.from_port)?,
            to_port: ports("to-port", &rule.to_port)?,
            icmp_types,
            tcp_flags,
            vlan: ranges(&rule.vlan, 4095, "VLAN id", |_| None).map_err(bad("vlan"))?,
            ethertype: ranges(&rule.ethertype, u16::MAX, "EtherType", ethertype)
                .map_err(bad("ethertype"))?,
            from_mac: macs("from-mac", &rule.from_mac)?,
            to_mac: macs("to-mac", &rule.to_mac)?,
        })
    }
}

/// Finds a set of the chain file by its name.
pub(crate) type FindSet<'a> = dyn Fn(&str) -> Result<NamedSet, SettingsError> + 'a;

/// A set, and whether it is looked into for a source, and for a destination.
pub(super) type Fetched = (NamedSet, bool, bool);

/// The sets that rules name, each once, and what is fetched of them.
pub(super) fn sets_of(rules: &[Compiled]) -> (Vec<NamedSet>, Vec<Fetched>) {
    let mut sets: Vec<NamedSet> = Vec::new();
    for set in rules.iter().flat_map(Compiled::sets) {
        if !sets.iter().any(|known| known.name == set.name) {
            sets.push(set.clone());
        }
    }
    let has = |set: &NamedSet, of: fn(&Compiled) -> &[NamedSet]| {
        let mut named = rules.iter().flat_map(of);
        named.any(|named| named.name == set.name)
    };
    let fetched = sets.iter().map(|set| {
        let ends = (
            has(set, Compiled::sources),
            has(set, Compiled::destinations),
        );
        (set.clone(), ends.0, ends.1)
    });
    let fetched = fetched.collect();
    (sets, fetched)
}

/// A condition that no packet of the rule's protocols meets: its field, what is wrong, and advice.
fn contradicts_protocol(
    rule: &Rule,
    protocols: Option<ByteSet>,
) -> Option<(&'static str, &'static str, Option<&'static str>)> {
    let protocols = protocols?;
    let ported = rule.from_port.is_empty() && rule.to_port.is_empty()
        || protocols.is_within(&[ip::TCP, ip::UDP, ip::SCTP]);
    if !ported {
        let field = match rule.to_port.is_empty() {
            true => "from-port",
            false => "to-port",
        };
        Some((
            field,
            "only tcp, udp and sctp have ports; this rule's protocol has none",
            Some("take the ports or the protocol out of the rule"),
        ))
    } else if !asks_all(&rule.icmp_type) && !protocols.is_within(&[ip::ICMP, ip::ICMPV6]) {
        Some(("icmp-type", "this rule's protocol has no ICMP type", None))
    } else if !rule.tcp_flags.is_empty() && !protocols.is_within(&[ip::TCP]) {
        Some(("tcp-flags", "this rule's protocol has no TCP flags", None))
    } else {
        None
    }
}

/// The states that a rule names as bits, all of them if it names none; or a word that is no state.
fn states(rule: &Rule) -> Result<u8, &str> {
    let mut states = 0;
    for word in rule.state.iter() {
        states |= match word {
            "new" => state::NEW,
            "established" => state::ESTABLISHED,
            "related" => state::RELATED,
            "invalid" => state::INVALID,
            _ => return Err(word),
        };
    }
    Ok(if states == 0 { state::ANY } else { states })
}

/// The side from which a rule's packets come, if it names one of them; or words that name none.
fn side(rule: &Rule) -> Result<Option<Side>, String> {
    match rule.direction.0.as_slice() {
        [] => Ok(None),
        [one] if one == "in" => Ok(Some(Side::Outside)),
        [one] if one == "out" => Ok(Some(Side::Inside)),
        [a, b] if a != b && [a, b].iter().all(|w| *w == "in" || *w == "out") => Ok(None),
        other => Err(other.join(",")),
    }
}

fn protocol(word: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|&&(name, _)| name == word);
    named.map(|&(_, number)| number)
}

fn icmp_type(word: &str) -> Option<u8> {
    match word {
        "echo-reply" => Some(0),
        "unreachable" => Some(3),
        "echo-request" => Some(8),
        "time-exceeded" => Some(11),
        _ => None,
    }
}

fn ethertype(word: &str) -> Option<u16> {
    match word {
        "ipv4" => Some(IPV4),
        "ipv6" => Some(IPV6),
        "arp" => Some(ARP),
        "lldp" => Some(LLDP),
        _ => None,
    }
}

fn negated(words: &Words) -> (bool, &[String]) {
    match words.0.split_first() {
        Some((first, rest)) if first == "not" || first == "!" => (true, rest),
        _ => (false, &words.0),
    }
}

fn networks(
    index: usize,
    field: &str,
    words: &Words,
    find: &FindSet<'_>,
) -> Result<Networks, SettingsError> {
    let path = format!("rules[{index}].{field}");
    let (mut plain, mut named) = (Words::default(), Vec::new());
    let (not, rest) = negated(words);
    plain.0.extend(not.then(|| "not".to_owned()));
    for word in rest {
        if rest.len() > 1 && matches!(word.as_str(), "not" | "!" | "any") {
            let message = format!("`{word}` does not go with others: `not` comes first");
            return Err(SettingsError::new(path, message));
        }
        match word.strip_prefix('@') {
            None => plain.0.push(word.to_owned()),
            Some(name) => named.push(find(name).map_err(|error| match error.path.is_empty() {
                true => error.at_path(&path),
                false => error,
            })?),
        }
    }
    let has_sets = !named.is_empty();
    let found = prefixes(&plain, has_sets);
    let networks = found.map_err(|message| SettingsError::new(path, message))?;
    Ok(Networks { named, ..networks })
}

fn prefixes(words: &Words, has_sets: bool) -> Result<Networks, String> {
    let (not, rest) = negated(words);
    if has_sets && rest.is_empty() {
        return Ok(Networks {
            not,
            ..Networks::default()
        });
    }
    if rest.is_empty() && !not || rest == ["any"] {
        if not {
            return Err("`not any` matches nothing".into());
        }
        return Ok(Networks {
            any: true,
            ..Networks::default()
        });
    }
    if rest.is_empty() {
        return Err("`not` needs a prefix".into());
    }
    Ok(Networks {
        not,
        set: Prefixes::parse(rest.iter().map(String::as_str))?,
        ..Networks::default()
    })
}

fn number(word: &str) -> Option<u16> {
    match word.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn ranges(
    words: &Words,
    most: u16,
    what: &str,
    named: impl Fn(&str) -> Option<u16>,
) -> Result<Ranges, String> {
    let (not, rest) = negated(words);
    if not && rest.is_empty() {
        return Err(format!("`not` needs a {what}"));
    }
    if rest == ["any"] && !not {
        return Ok(Ranges::default());
    }
    let ranges = rest
        .iter()
        .map(|word| {
            let (a, b) = word.split_once('-').unwrap_or((word, word));
            let one = |w: &str| named(w).or_else(|| number(w)).filter(|&n| n <= most);
            match (one(a), one(b)) {
                (Some(a), Some(b)) if a <= b => Ok((a, b)),
                _ => Err(format!("`{word}` is no {what} or range of 0 to {most}")),
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(Ranges { not, ranges })
}

fn asks_all(words: &Words) -> bool {
    words.is_empty() || words.0 == ["any"] || words.0 == ["ip"]
}

fn numbers(
    words: &Words,
    what: &str,
    named: impl Fn(&str) -> Option<u8>,
) -> Result<Option<ByteSet>, String> {
    if asks_all(words) {
        return Ok(None);
    }
    let mut set = ByteSet::default();
    for word in words.iter() {
        let value = named(word)
            .or_else(|| word.parse().ok())
            .ok_or_else(|| format!("`{word}` is no {what}"))?;
        set.insert(value);
    }
    Ok(Some(set))
}

fn flags(words: &Words) -> Result<Option<(u8, u8)>, String> {
    const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let (mut mask, mut value) = (0, 0);
    for word in words.iter() {
        let (clear, name) = match word.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, word),
        };
        let place = NAMES.iter().position(|&n| n == name).ok_or_else(|| {
            format!("`{word}` is no TCP flag (fin, syn, rst, psh, ack, urg, ece, cwr)")
        })?;
        if mask >> place & 1 == 1 {
            return Err(format!("`{name}` is given twice"));
        }
        mask |= 1 << place;
        value |= u8::from(!clear) << place;
    }
    Ok((mask != 0).then_some((mask, value)))
}

fn mac(word: &str) -> Result<[u8; 6], String> {
    let mut octets = [0; 6];
    let parts: Vec<&str> = word.split([':', '-']).collect();
    if parts.len() == 6
        && parts.iter().zip(&mut octets).all(|(part, octet)| {
            part.len() == 2 && u8::from_str_radix(part, 16).map(|v| *octet = v).is_ok()
        })
    {
        return Ok(octets);
    }
    Err(format!(
        "`{word}` is no MAC address (like 02:00:5e:10:00:01)"
    ))
}
