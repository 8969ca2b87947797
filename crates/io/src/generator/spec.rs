//! Settings of the traffic.

use std::fmt;

use super::values::{Hosts, Range, Sizes, Weighted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Popularity {
    Uniform,
    Sequential,
    Zipf(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    None,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Zero,
    Random,
    Text,
    Http,
}

/// Settings of the traffic. The [module](super) lists the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorSpec {
    pub(super) flows: u32,
    pub(super) packets: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    pub(super) sizes: Sizes,
    pub(super) rate: u64,
    pub(super) protocols: Weighted<Protocol>,
    pub(super) families: Weighted<Family>,
    pub(super) popularity: Popularity,
    pub(super) life: Life,
    pub(super) payload: Payload,
    pub(super) both: bool,
    pub(super) src: Hosts<u32>,
    pub(super) dst: Hosts<u32>,
    pub(super) src6: Hosts<u128>,
    pub(super) dst6: Hosts<u128>,
    pub(super) sports: Range,
    /// `None`: 80 for TCP, 443 for UDP.
    pub(super) dports: Option<Range>,
    pub(super) vlan: Option<u16>,
    pub(super) requests: Range,
    pub(super) response: Range,
    pub(super) seed: u64,
    pub(super) start_ns: u64,
}

/// A setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The setting's key as written.
    pub key: String,
    /// Its value as written; `None` if there is none.
    pub value: Option<String>,
    /// Its place in the text: character, counted from 1.
    pub position: usize,
    /// Values that are allowed there.
    pub allowed: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.as_ref().map(|value| format!("={value}"));
        write!(
            f,
            "generator setting `{}{}` at character {}: expected {}",
            self.key,
            value.unwrap_or_default(),
            self.position,
            self.allowed
        )
    }
}

impl std::error::Error for SpecError {}

impl GeneratorSpec {
    /// Packets in all; `None` if only the duration limits them.
    pub fn packets(&self) -> Option<u64> {
        self.packets
    }

    /// Flows that are open at the same time.
    pub fn flows(&self) -> u32 {
        self.flows
    }
}
