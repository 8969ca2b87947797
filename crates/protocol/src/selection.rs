//! Matching of flow keys against a selection, without side effects: for the switch that
//! looks through its units and for a program that wants to say beforehand what
//! a move would take.

use std::net::IpAddr;

use weir_packet::{FlowKey, Prefix};

use crate::message::FlowSpace;

impl FlowSpace {
    /// True where the flow under `key` lies in the space.
    ///
    /// Both directions of a conversation share one key, so there is no source
    /// and no destination here: one of the flow's addresses has to be in one of
    /// the prefixes, one of its ports in one of the ranges (of the same end or
    /// of the other), and its protocol among the protocols; an empty list asks
    /// for nothing. Ranges include both bounds; one whose bounds are the wrong
    /// way round holds no port. A flow without ports has port 0 at both ends.
    /// IPv4 prefixes hold IPv4 addresses only (mapped ones are IPv6).
    ///
    /// # Example
    ///
    /// ```
    /// use weir_packet::FlowKey;
    /// use weir_protocol::message::FlowSpace;
    ///
    /// let web = FlowSpace {
    ///     prefixes: vec!["10.0.0.0/8".parse()?],
    ///     ports: vec![(80, 80), (443, 443)],
    ///     protocols: vec![6],
    /// };
    /// let (client, server) = ("192.0.2.9".parse()?, "10.0.0.1".parse()?);
    /// let (key, _) = FlowKey::new(client, 40_000, server, 443, 6, 0, 0);
    /// assert!(web.contains(&key));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: &FlowKey) -> bool {
        let ends = [key.a(), key.b()];
        let address = |prefix: &Prefix| ends.iter().any(|&(address, _)| holds(prefix, address));
        let port = |&(low, high): &(u16, u16)| ends.iter().any(|(_, p)| (low..=high).contains(p));
        (self.protocols.is_empty() || self.protocols.contains(&key.proto()))
            && (self.ports.is_empty() || self.ports.iter().any(port))
            && (self.prefixes.is_empty() || self.prefixes.iter().any(address))
    }

    /// True where every flow lies in the space.
    pub fn is_everything(&self) -> bool {
        self.prefixes.is_empty() && self.ports.is_empty() && self.protocols.is_empty()
    }
}

/// True where `address` is of the prefix' family and begins with its bits.
fn holds(prefix: &Prefix, address: IpAddr) -> bool {
    let rest = |bits: u32| bits - u32::from(prefix.length()).min(bits);
    match (prefix.address(), address) {
        // A shift by all bits there are compares none of them.
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differ = u32::from(network) ^ u32::from(address);
            differ.checked_shr(rest(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differ = u128::from(network) ^ u128::from(address);
            differ.checked_shr(rest(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(a: &str, a_port: u16, b: &str, b_port: u16, proto: u8) -> FlowKey {
        FlowKey::new(
            a.parse().unwrap(),
            a_port,
            b.parse().unwrap(),
            b_port,
            proto,
            7,
            1,
        )
        .0
    }

    fn space(prefixes: &[&str], ports: &[(u16, u16)], protocols: &[u8]) -> FlowSpace {
        FlowSpace {
            prefixes: prefixes.iter().map(|p| p.parse().unwrap()).collect(),
            ports: ports.to_vec(),
            protocols: protocols.to_vec(),
        }
    }

    #[test]
    fn empty_lists_ask_for_nothing() {
        let all = FlowSpace::default();
        assert!(all.is_everything());
        assert!(all.contains(&key("10.0.0.1", 1, "10.0.0.2", 2, 17)));
        assert!(all.contains(&key("2001:db8::1", 0, "2001:db8::2", 0, 58)));
        assert!(!space(&[], &[], &[6]).is_everything());
    }

    #[test]
    fn either_end_and_either_direction_counts() {
        let net = space(&["192.0.2.0/24"], &[], &[]);
        let there = key("192.0.2.200", 1, "203.0.113.5", 2, 6);
        let back = key("203.0.113.5", 2, "192.0.2.200", 1, 6);
        assert!(net.contains(&there) && net.contains(&back));
        assert!(!net.contains(&key("192.0.3.0", 1, "203.0.113.5", 2, 6)));
    }

    #[test]
    fn bounds_of_prefixes() {
        let flow = |a| key(a, 1, "203.0.113.5", 2, 6);
        assert!(space(&["0.0.0.0/0"], &[], &[]).contains(&flow("10.9.8.7")));
        assert!(space(&["10.9.8.7"], &[], &[]).contains(&flow("10.9.8.7")));
        assert!(!space(&["10.9.8.6"], &[], &[]).contains(&flow("10.9.8.7")));
        let half = space(&["128.0.0.0/1"], &[], &[]);
        assert!(half.contains(&key("127.0.0.1", 1, "128.0.0.0", 1, 6)));
        assert!(!half.contains(&key("127.0.0.1", 1, "126.0.0.0", 1, 6)));
        let v6 = |a| key(a, 1, "2001:db8::5", 2, 6);
        assert!(space(&["::/0"], &[], &[]).contains(&v6("fe80::1")));
        assert!(space(&["fe80::/10"], &[], &[]).contains(&v6("febf::1")));
        assert!(!space(&["fe80::/10"], &[], &[]).contains(&v6("fec0::1")));
        assert!(space(&["fe80::1/128"], &[], &[]).contains(&v6("fe80::1")));
    }

    #[test]
    fn families_do_not_meet() {
        assert!(!space(&["0.0.0.0/0"], &[], &[]).contains(&key("::1", 1, "::2", 1, 6)));
        assert!(!space(&["::/0"], &[], &[]).contains(&key("10.0.0.1", 1, "10.0.0.2", 1, 6)));
        let mapped = key("::ffff:10.0.0.1", 1, "::2", 1, 6);
        assert!(!space(&["10.0.0.0/8"], &[], &[]).contains(&mapped));
    }

    #[test]
    fn ports_include_their_bounds() {
        let range = space(&[], &[(100, 200), (9, 8)], &[]);
        for (port, fits) in [
            (99, false),
            (100, true),
            (200, true),
            (201, false),
            (8, false),
        ] {
            let flow = key("10.0.0.1", 50_000, "10.0.0.2", port, 17);
            assert_eq!(range.contains(&flow), fits, "{port}");
        }
        // No ports at all is port 0.
        assert!(space(&[], &[(0, 0)], &[]).contains(&key("10.0.0.1", 0, "10.0.0.2", 0, 1)));
    }

    #[test]
    fn all_lists_have_to_agree() {
        let web = space(
            &["10.0.0.0/8", "172.16.0.0/12"],
            &[(80, 80), (443, 443)],
            &[6, 17],
        );
        let flow = |server, port, proto| key("192.0.2.1", 40_000, server, port, proto);
        assert!(web.contains(&flow("172.31.255.255", 443, 17)));
        assert!(!web.contains(&flow("172.32.0.0", 443, 17)));
        assert!(!web.contains(&flow("10.0.0.1", 81, 6)));
        assert!(!web.contains(&flow("10.0.0.1", 80, 132)));
    }
}
