//! Settings of the NAT in a chain file.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::SettingsError;

use crate::words::Words;
use weir_nf::packet::{Prefix, PrefixError, Prefixes};

/// Settings of [`super::Nat44`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// External addresses: IPv4 addresses and prefixes, at most 4,096
    /// addresses in all. All addresses of a prefix are used. Must be given.
    pub pool: Words,
    /// External ports, as `FIRST-LAST`; 1024-65535 if missing.
    pub ports: String,
    /// Ports that are leased to a runtime at a time, a multiple of 64; 256 if
    /// missing.
    pub block: u16,
    /// Prefixes whose hosts are translated; the private ones (RFC 1918) and
    /// the carriers' (RFC 6598) if missing. All else passes untouched.
    pub inside: Words,
    /// `endpoint-independent` (the default; RFC 4787 REQ-1): a client's
    /// address and port has one external address and port, whatever it talks
    /// to. `address-and-port-dependent`: one for each connection.
    pub mapping: Behaviour,
    /// `endpoint-independent` (the default where mapping is): anybody may send
    /// to a mapping from outside. `address-and-port-dependent`: only those
    /// whom the client sent to (RFC 4787 section 5).
    pub filtering: Option<Behaviour>,
    /// `paired` (the default; RFC 4787 REQ-2): all mappings of a client have
    /// the same external address. `arbitrary`: another address of the pool is
    /// taken when that one has no port left.
    pub pooling: Pooling,
    /// Take the client's own port where it is free; true if missing.
    pub preserve_port: bool,
    /// Take an even port for an even one and an odd for an odd, if one is free
    /// (RFC 4787 REQ-4); true if missing.
    pub parity: bool,
    /// Clients inside may reach each other by their external addresses (RFC
    /// 4787 REQ-9); true if missing. Otherwise such packets are dropped.
    pub hairpin: bool,
    /// Record a `nat` event when a mapping is made and when it ends (RFC 6888
    /// REQ-12); true if missing.
    pub log: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            pool: Words::default(),
            ports: "1024-65535".to_owned(),
            block: 256,
            inside: Words::from("10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10"),
            mapping: Behaviour::EndpointIndependent,
            filtering: None,
            pooling: Pooling::Paired,
            preserve_port: true,
            parity: true,
            hairpin: true,
            log: true,
        }
    }
}

/// Dependence of mappings and filters on the remote end (RFC 4787 sections 4.1, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// It does not.
    #[default]
    EndpointIndependent,
    /// Its address and port do.
    AddressAndPortDependent,
}

/// How external addresses are given to clients (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// One per client.
    #[default]
    Paired,
    /// Another one where the first is used up.
    Arbitrary,
}

/// The addresses of `pool`, in order.
pub(super) fn addresses(
    settings: &Settings,
    inside: &Prefixes,
) -> Result<Vec<Ipv4Addr>, SettingsError> {
    let bad = |message: String| SettingsError::new("pool", message);
    if settings.pool.is_empty() {
        return Err(bad("the NAT has no external address".into())
            .help("give addresses or prefixes, such as `pool: 192.0.2.0/28`"));
    }
    let mut all = Vec::new();
    for word in settings.pool.iter() {
        let prefix: Prefix = word
            .parse()
            .map_err(|why: PrefixError| bad(format!("`{word}` {why}")))?;
        let IpAddr::V4(first) = prefix.address() else {
            return Err(bad(format!("`{word}` is not IPv4")).help("NAT44 is for IPv4 only"));
        };
        if prefix.length() < 20 {
            return Err(bad(format!("`{word}` has more than 4,096 addresses")));
        }
        let count = 1u32 << (32 - u32::from(prefix.length()));
        all.extend((0..count).map(|i| Ipv4Addr::from(u32::from(first) + i)));
    }
    let given = all.len();
    all.sort_unstable();
    all.dedup();
    if all.len() != given {
        return Err(bad("an address is in the pool twice".into()));
    }
    if all.len() > 4_096 {
        return Err(bad("a pool has at most 4,096 addresses".into()));
    }
    if let Some(address) = all.iter().find(|a| inside.has_ipv4(**a)) {
        return Err(bad(format!("{address} is both in the pool and inside"))
            .help("leave the pool's addresses out of `inside`"));
    }
    Ok(all)
}

/// First and last port.
pub(super) fn ports(settings: &Settings) -> Result<(u16, u16), SettingsError> {
    settings
        .ports
        .split_once('-')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .filter(|&(a, b): &(u16, u16)| a <= b && a > 0)
        .ok_or_else(|| {
            SettingsError::new(
                "ports",
                format!("`{}` is no range such as 1024-65535", settings.ports),
            )
        })
}
