//! Bits of hosts and of pairs of hosts, which rules on other flows see: `xbits` and `hostbits`.

use std::net::IpAddr;

use crate::bit_kind::FlowbitKind;
use crate::compare::parse_number;
use crate::error::{Fault, SkipReason};
use crate::raw_option::RawOption;
use crate::threshold::parts;

/// How long a bit of `xbits`, and one of `hostbits`, stays set where the rule does not say it, in seconds (as in
/// Suricata).
const EXPIRE: u32 = 30;
const HOST_EXPIRE: u32 = 300;

/// The owner of a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOwner {
    /// The packet's source (`ip_src`, `src`).
    Source,
    /// The packet's destination (`ip_dst`, `dst`).
    Destination,
    /// Both, in either order (`ip_pair`).
    Pair,
}

impl BitOwner {
    /// The addresses that own the bit of a packet between these, the smaller one first.
    pub fn addresses(self, source: IpAddr, destination: IpAddr) -> (IpAddr, Option<IpAddr>) {
        match self {
            BitOwner::Source => (source, None),
            BitOwner::Destination => (destination, None),
            BitOwner::Pair => (source.min(destination), Some(source.max(destination))),
        }
    }
}

/// One `xbits` or `hostbits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBit {
    /// Operation on the bit.
    pub kind: FlowbitKind,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: BitOwner,
    /// How long it stays set.
    pub seconds: u32,
}

/// Reads the option; `None` is `noalert`.
pub(crate) fn parse(text: &str, option: &RawOption) -> Result<Option<SharedBit>, Fault> {
    let keyword = option.keyword.as_str();
    let help = match keyword {
        "xbits" => "write `xbits:set,NAME,track ip_src,expire 60`",
        _ => "write `hostbits:set,NAME,src,60`",
    };
    let fault = |why: String| {
        Fault::new(option.value, format!("the value of `{keyword}`: {why}")).help(help)
    };
    let mut parts = parts(text, option.value).map(|part| part.of(text));
    let command = parts.next().unwrap_or("");
    if command == "noalert" && parts.next().is_none() {
        return Ok(None);
    }
    let kind = FlowbitKind::named(command);
    let kind = kind.ok_or_else(|| fault(format!("unknown command `{command}`")))?;
    let name = parts.next().unwrap_or("");
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | ';');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(fault(format!("`{name}` is not the name of a bit")));
    }
    let (mut owner, mut seconds) = (None, None);
    for part in parts {
        let (word, value) = match part.split_once(char::is_whitespace) {
            Some((word, value)) if keyword == "xbits" => (word, value.trim()),
            // `hostbits` has the values alone.
            _ if part.bytes().all(|byte| byte.is_ascii_digit()) => ("expire", part),
            _ => ("track", part),
        };
        match (word, value) {
            ("track", "ip_src" | "src") => owner = Some(BitOwner::Source),
            ("track", "ip_dst" | "dst") => owner = Some(BitOwner::Destination),
            ("track", "ip_pair") => owner = Some(BitOwner::Pair),
            ("track", other) => {
                let skip = SkipReason::Keywords(vec![format!("{keyword}:{other}")]);
                return Err(fault(format!("`{other}` owns no bits")).skip(skip));
            }
            ("expire", number) => {
                seconds = Some(parse_number(number, u32::MAX).map_err(fault)?);
            }
            (other, _) => return Err(fault(format!("unknown word `{other}`"))),
        }
    }
    let owner = match owner {
        Some(owner) => owner,
        None if keyword == "hostbits" => BitOwner::Source,
        None => return Err(fault("its owner is missing".to_owned())),
    };
    Ok(Some(SharedBit {
        kind,
        name: name.to_owned(),
        owner,
        seconds: seconds.unwrap_or(match keyword {
            "xbits" => EXPIRE,
            _ => HOST_EXPIRE,
        }),
    }))
}
