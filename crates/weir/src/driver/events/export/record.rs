//! What IPFIX tells of an event: read from its line.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::Deserialize;
use weir_packet::Time;

/// An event's line.
#[derive(Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow)]
    pub(super) timestamp: Cow<'a, str>,
    #[serde(default)]
    pub(super) flow_id: u64,
    #[serde(borrow)]
    pub(super) event_type: Cow<'a, str>,
    pub(super) src_ip: Option<IpAddr>,
    #[serde(default)]
    pub(super) src_port: u16,
    pub(super) dest_ip: Option<IpAddr>,
    #[serde(default)]
    pub(super) dest_port: u16,
    #[serde(borrow)]
    pub(super) proto: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) flow: Option<Flow<'a>>,
    pub(super) tcp: Option<Tcp>,
    #[serde(borrow)]
    pub(super) nat: Option<Nat<'a>>,
}

/// The counts of a flow.
#[derive(Debug, Deserialize)]
pub(super) struct Flow<'a> {
    pub(super) pkts_toserver: u64,
    pub(super) pkts_toclient: u64,
    pub(super) bytes_toserver: u64,
    pub(super) bytes_toclient: u64,
    #[serde(borrow)]
    pub(super) start: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) end: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) reason: Cow<'a, str>,
}

/// TCP flags, each as two hexadecimal digits.
#[derive(Debug, Deserialize)]
pub(super) struct Tcp {
    tcp_flags_ts: String,
    tcp_flags_tc: String,
}

impl Tcp {
    /// Those seen from the client, and from the server.
    pub(super) fn flags(&self) -> [u16; 2] {
        [&self.tcp_flags_ts, &self.tcp_flags_tc]
            .map(|text| u16::from_str_radix(text, 16).unwrap_or(0))
    }
}

/// A NAT's mapping.
#[derive(Debug, Deserialize)]
pub(super) struct Nat<'a> {
    #[serde(borrow)]
    pub(super) event: Cow<'a, str>,
    pub(super) internal_ip: IpAddr,
    pub(super) internal_port: u16,
    pub(super) external_ip: IpAddr,
    pub(super) external_port: u16,
}

impl Record<'_> {
    /// The number of the IP protocol; 0 where none is told.
    pub(super) fn protocol(&self) -> u8 {
        match self.proto.as_deref() {
            Some("ICMP") => 1,
            Some("TCP") => 6,
            Some("UDP") => 17,
            Some("IPv6-ICMP") => 58,
            Some("SCTP") => 132,
            Some(number) => number.parse().unwrap_or(0),
            None => 0,
        }
    }
}

/// Milliseconds since 1970; 0 for what is no time.
pub(super) fn milliseconds(time: &str) -> u64 {
    time.parse().map_or(0, |Time(at)| at / 1_000_000)
}
