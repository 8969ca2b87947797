//! A packet's headers by the names of their fields, for people who look at
//! one: what a trace prints and compares.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::read::chunk;
use crate::{Headers, LinkType, MacAddr};

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// Its name, as `ipv4.src`.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

struct Fields<'a> {
    bytes: &'a [u8],
    list: Vec<HeaderField>,
}

impl Fields<'_> {
    fn add(&mut self, name: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            let value = value.to_string();
            self.list.push(HeaderField { name, value });
        }
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        chunk::<2>(self.bytes, at).map(|b| u16::from_be_bytes(*b))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        chunk::<4>(self.bytes, at).map(|b| u32::from_be_bytes(*b))
    }

    fn hex(&mut self, name: &'static str, value: Option<u16>) {
        self.add(name, value.map(|value| format!("0x{value:04x}")));
    }

    fn mac(&mut self, name: &'static str, at: usize) {
        let mac = chunk::<6>(self.bytes, at).map(|mac| MacAddr(*mac));
        self.add(name, mac);
    }

    fn v4(&mut self, name: &'static str, at: usize) {
        let address = chunk::<4>(self.bytes, at).map(|b| Ipv4Addr::from(*b));
        self.add(name, address);
    }

    fn v6(&mut self, name: &'static str, at: usize) {
        let address = chunk::<16>(self.bytes, at).map(|b| Ipv6Addr::from(*b));
        self.add(name, address);
    }
}

/// The fields of the headers that one parse found, from the link header to
/// the transport's; of the innermost packet, where a tunnel was opened. Fields that
/// the frame does not hold are left out.
pub fn header_fields(bytes: &[u8], headers: &Headers) -> Vec<HeaderField> {
    let mut fields = Fields {
        bytes,
        list: Vec::new(),
    };
    if headers.link == LinkType::Ethernet {
        let l2 = usize::from(headers.l2);
        fields.mac("eth.dst", l2);
        fields.mac("eth.src", l2 + 6);
        for (vlan, name) in headers.vlan.iter().zip(["vlan.id", "vlan.inner_id"]) {
            if usize::from(headers.vlans) > usize::from(name == "vlan.inner_id") {
                fields.add(name, Some(vlan));
            }
        }
        fields.hex("eth.type", Some(headers.ethertype));
    }
    network_fields(&mut fields, headers);
    if !headers.is_later_fragment() {
        transport_fields(&mut fields, headers);
    }
    fields.list
}

fn network_fields(fields: &mut Fields<'_>, headers: &Headers) {
    let l3 = usize::from(headers.l3);
    if headers.is_ipv4() {
        fields.v4("ipv4.src", l3 + 12);
        fields.v4("ipv4.dst", l3 + 16);
        fields.add("ipv4.ttl", fields.u8(l3 + 8));
        fields.add("ipv4.protocol", fields.u8(l3 + 9));
        fields.add("ipv4.dscp", fields.u8(l3 + 1).map(|tos| tos >> 2));
        fields.add("ipv4.ecn", fields.u8(l3 + 1).map(|tos| tos & 3));
        fields.add("ipv4.length", fields.u16(l3 + 2));
        fields.hex("ipv4.id", fields.u16(l3 + 4));
        fields.hex("ipv4.fragment", fields.u16(l3 + 6));
        fields.hex("ipv4.checksum", fields.u16(l3 + 10));
    } else if headers.is_ipv6() {
        fields.v6("ipv6.src", l3 + 8);
        fields.v6("ipv6.dst", l3 + 24);
        fields.add("ipv6.hop_limit", fields.u8(l3 + 7));
        fields.add("ipv6.next_header", fields.u8(l3 + 6));
        let class = fields.u16(l3).map(|word| word >> 4 & 0xff);
        fields.add("ipv6.dscp", class.map(|class| class >> 2));
        fields.add("ipv6.ecn", class.map(|class| class & 3));
        fields.add("ipv6.length", fields.u16(l3 + 4));
        fields.add(
            "ipv6.flow_label",
            fields.u32(l3).map(|word| word & 0xf_ffff),
        );
    } else if headers.is_arp() {
        fields.add("arp.operation", fields.u16(l3 + 6));
        fields.mac("arp.sender_mac", l3 + 8);
        fields.v4("arp.sender", l3 + 14);
        fields.mac("arp.target_mac", l3 + 18);
        fields.v4("arp.target", l3 + 24);
    }
}

fn transport_fields(fields: &mut Fields<'_>, headers: &Headers) {
    let l4 = usize::from(headers.l4);
    if headers.is_tcp() {
        fields.add("tcp.src_port", fields.u16(l4));
        fields.add("tcp.dst_port", fields.u16(l4 + 2));
        fields.add("tcp.flags", Some(tcp_flags(headers.tcp_flags)));
        fields.add("tcp.seq", fields.u32(l4 + 4));
        fields.add("tcp.ack", fields.u32(l4 + 8));
        fields.add("tcp.window", fields.u16(l4 + 14));
        fields.hex("tcp.checksum", fields.u16(l4 + 16));
    } else if headers.is_udp() {
        fields.add("udp.src_port", fields.u16(l4));
        fields.add("udp.dst_port", fields.u16(l4 + 2));
        fields.add("udp.length", fields.u16(l4 + 4));
        fields.hex("udp.checksum", fields.u16(l4 + 6));
    } else if headers.is_sctp() {
        fields.add("sctp.src_port", fields.u16(l4));
        fields.add("sctp.dst_port", fields.u16(l4 + 2));
    } else if headers.is_icmp() || headers.is_icmpv6() {
        let [kind, code, checksum, rest] = if headers.is_icmp() {
            ["icmp.type", "icmp.code", "icmp.checksum", "icmp.rest"]
        } else {
            [
                "icmpv6.type",
                "icmpv6.code",
                "icmpv6.checksum",
                "icmpv6.rest",
            ]
        };
        fields.add(kind, fields.u8(l4));
        fields.add(code, fields.u8(l4 + 1));
        fields.hex(checksum, fields.u16(l4 + 2));
        let word = fields.u32(l4 + 4);
        fields.add(rest, word.map(|word| format!("0x{word:08x}")));
    }
}

/// Names of the flags that are set, as `SYN ACK`; `-` for none.
fn tcp_flags(flags: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = NAMES.iter().enumerate();
    let set: Vec<&str> = set
        .filter(|(bit, _)| flags >> bit & 1 != 0)
        .map(|(_, name)| *name)
        .collect();
    if set.is_empty() {
        "-".to_owned()
    } else {
        set.join(" ")
    }
}

/// A packet in one line: ends, protocol, what it says, bytes of payload.
pub fn one_line(bytes: &[u8], headers: &Headers) -> String {
    let fields = Fields {
        bytes,
        list: Vec::new(),
    };
    let l3 = usize::from(headers.l3);
    let address = |at: usize| -> Option<IpAddr> {
        if headers.is_ipv4() {
            chunk::<4>(bytes, l3 + 12 + 4 * at).map(|b| Ipv4Addr::from(*b).into())
        } else {
            chunk::<16>(bytes, l3 + 8 + 16 * at).map(|b| Ipv6Addr::from(*b).into())
        }
    };
    let (true, Some(source), Some(destination)) = (headers.is_ip(), address(0), address(1)) else {
        return if headers.is_arp() {
            let what = match fields.u16(l3 + 6) {
                Some(1) => "request",
                Some(2) => "reply",
                _ => "packet",
            };
            format!("ARP {what}, {} bytes", bytes.len())
        } else {
            let ethertype = headers.ethertype;
            format!("EtherType 0x{ethertype:04x}, {} bytes", bytes.len())
        };
    };
    let whole = !headers.is_later_fragment();
    let end = |address: IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    let ports = headers.ports(bytes).filter(|_| whole);
    let (from, to) = (
        end(source, ports.map(|ports| ports.0)),
        end(destination, ports.map(|ports| ports.1)),
    );
    let l4 = usize::from(headers.l4);
    let what = if !whole {
        format!("later fragment of protocol {}", headers.proto)
    } else if headers.is_tcp() {
        format!("TCP {}", tcp_flags(headers.tcp_flags))
    } else if headers.is_udp() {
        "UDP".to_owned()
    } else if headers.is_sctp() {
        "SCTP".to_owned()
    } else if headers.is_icmp() || headers.is_icmpv6() {
        let (kind, code) = (fields.u8(l4).unwrap_or(0), fields.u8(l4 + 1).unwrap_or(0));
        let name = if headers.is_icmp() { "ICMP" } else { "ICMPv6" };
        format!("{name} type {kind} code {code}")
    } else {
        format!("protocol {}", headers.proto)
    };
    format!(
        "{from} → {to} {what}, {} bytes of payload",
        headers.payload_len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseOptions, parse};

    fn udp() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 31, 0, 1, 0x40, 0, 64, 17, 0x12, 0x34];
        packet.extend([
            10, 0, 0, 1, 10, 0, 0, 2, 0x03, 0xe8, 0, 53, 0, 11, 0xab, 0xcd,
        ]);
        packet.extend(b"abc");
        packet
    }

    #[test]
    fn fields_are_those_of_the_bytes() {
        let packet = udp();
        let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).unwrap();
        let fields = header_fields(&packet, &headers);
        let value = |name: &str| {
            let field = fields.iter().find(|field| field.name == name);
            field.map(|field| field.value.as_str())
        };
        for (name, expected) in [
            ("ipv4.src", "10.0.0.1"),
            ("ipv4.dst", "10.0.0.2"),
            ("ipv4.ttl", "64"),
            ("ipv4.checksum", "0x1234"),
            ("udp.src_port", "1000"),
            ("udp.checksum", "0xabcd"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        assert_eq!(value("eth.src"), None);
        assert_eq!(
            one_line(&packet, &headers),
            "10.0.0.1:1000 → 10.0.0.2:53 UDP, 3 bytes of payload"
        );
    }

    #[test]
    fn headers_that_do_not_fit_the_bytes_are_left_out() {
        let packet = udp();
        let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).unwrap();
        for len in 0..packet.len() {
            let _ = header_fields(&packet[..len], &headers);
            let _ = one_line(&packet[..len], &headers);
        }
    }
}
