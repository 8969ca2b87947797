//! Every header's values survive being written and read, views show what was written, and no
//! octets make a view panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weir_packet::actor_frame::{ActorFrameRepr, ActorFrameView, flags};
use weir_packet::arp::{ArpRepr, ArpView};
use weir_packet::checksum::{Sum, Verdict, check_ipv4, check_transport};
use weir_packet::ethernet::{EthernetRepr, EthernetView, EthernetViewMut, MacAddr};
use weir_packet::geneve::{GeneveRepr, GeneveView};
use weir_packet::gre::{GreRepr, GreView, GreViewMut};
use weir_packet::icmp::{IcmpRepr, IcmpView, IcmpViewMut};
use weir_packet::icmpv6::{Icmpv6Repr, Icmpv6View, Icmpv6ViewMut};
use weir_packet::ipv4::{Ipv4Options, Ipv4Repr, Ipv4View, Ipv4ViewMut};
use weir_packet::ipv6::{Extensions, FragmentRepr, FragmentView, Ipv6Repr, Ipv6View, Ipv6ViewMut};
use weir_packet::mpls::{Labels, MplsRepr, MplsView};
use weir_packet::nsh::{NshContext, NshRepr, NshView, NshViewMut};
use weir_packet::pppoe::{PppoeRepr, PppoeView};
use weir_packet::protocol::{ethertype, ip};
use weir_packet::sctp::{SctpRepr, SctpView, SctpViewMut};
use weir_packet::tcp::{TcpOption, TcpOptions, TcpRepr, TcpView, TcpViewMut, flag};
use weir_packet::udp::{UdpRepr, UdpView, UdpViewMut};
use weir_packet::vlan::{Tags, VlanRepr, VlanView, VlanViewMut};
use weir_packet::vxlan::{VxlanRepr, VxlanView};
use weir_packet::weir_header::{WeirRepr, WeirView};
use weir_packet::{
    BufferTooSmall, Disposition, LinkType, Malformed, ParseOptions, Quoted, Side, Time, parse,
};

/// Writes into exactly enough room and reads back; one octet less is refused by both sides.
macro_rules! there_and_back {
    ($repr:expr, $type:ident) => {{
        let repr = $repr;
        let length = repr.header_len();
        let mut buffer = vec![0xaa; length];
        prop_assert_eq!(repr.emit(&mut buffer), Ok(length));
        prop_assert_eq!($type::parse(&buffer), Ok(repr));
        let available = length - 1;
        let refused = Err(BufferTooSmall {
            needed: length,
            available,
        });
        prop_assert_eq!(repr.emit(&mut buffer[..available]), refused);
        prop_assert!($type::parse(&buffer[..available]).is_err());
        buffer
    }};
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn tcp() -> impl Strategy<Value = TcpRepr> {
    let ports = (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>());
    let rest = (any::<u8>(), any::<u16>(), any::<u16>());
    let options = (option::of(any::<u16>()), option::of(0u8..15), any::<bool>());
    let times = option::of((any::<u32>(), any::<u32>()));
    (ports, rest, options, times).prop_map(
        |(
            (source_port, destination_port, sequence, acknowledgement),
            rest,
            options,
            timestamps,
        )| {
            let (flags, window, urgent) = rest;
            let (mss, window_scale, sack_permitted) = options;
            TcpRepr {
                source_port,
                destination_port,
                sequence,
                acknowledgement,
                flags,
                window,
                urgent,
                mss,
                window_scale,
                sack_permitted,
                timestamps,
            }
        },
    )
}

proptest! {
    #[test]
    fn link_headers(
        destination in mac(), source in mac(), kind: u16, id in 0u16..4096, priority in 0u8..8,
        flag: bool, label in 0u32..1 << 20, ttl: u8, session: u16, length: u16,
        a: [u8; 4], b: [u8; 4],
    ) {
        there_and_back!(EthernetRepr { destination, source, ethertype: kind }, EthernetRepr);
        there_and_back!(
            VlanRepr { id, priority, drop_eligible: flag, ethertype: kind },
            VlanRepr
        );
        there_and_back!(MplsRepr { label, class: priority, bottom: flag, ttl }, MplsRepr);
        there_and_back!(PppoeRepr { code: ttl, session, length }, PppoeRepr);
        let arp = ArpRepr {
            operation: kind,
            sender_mac: source,
            sender: a.into(),
            target_mac: destination,
            target: b.into(),
        };
        let mut bytes = there_and_back!(arp, ArpRepr);
        bytes[0] = 1; // no such hardware
        prop_assert_eq!(ArpRepr::parse(&bytes), Err(Malformed::WrongKind));
    }

    #[test]
    fn network_headers(
        a: [u8; 4], b: [u8; 4], proto: u8, ttl: u8, tos: u8, id: u16, dont_fragment: bool,
        more_fragments: bool, units in 0u16..0x2000, payload_len in 0u16..65_000,
        words in 0usize..=10, filler: u8, c: [u8; 16], d: [u8; 16], label in 0u32..1 << 20,
        long_id: u32,
    ) {
        let options = vec![filler; words * 4];
        let repr = Ipv4Repr {
            source: a.into(),
            destination: b.into(),
            proto,
            ttl,
            tos,
            id,
            dont_fragment,
            more_fragments,
            fragment_offset: units * 8,
            payload_len,
            options: &options,
        };
        let length = repr.header_len();
        let mut bytes = vec![0; length];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(length));
        prop_assert_eq!(Ipv4Repr::parse(&bytes), Ok(repr));
        prop_assert_eq!(Ipv4Repr::parse(&bytes[..length - 1]), Err(Malformed::Ipv4Truncated));
        let view = Ipv4View::new(&bytes).expect("a header");
        prop_assert!(view.checksum_is_right());
        prop_assert_eq!(view.fragment_offset(), u32::from(units) * 8);
        // Counted down and checked again.
        let mut view = Ipv4ViewMut::new(&mut bytes).expect("a header");
        prop_assert_eq!(view.decrement_ttl(), ttl.checked_sub(1));
        prop_assert!(view.view().checksum_is_right());
        prop_assert_eq!(view.ttl(), ttl.saturating_sub(1));

        let six = Ipv6Repr {
            source: c.into(),
            destination: d.into(),
            next_header: proto,
            hop_limit: ttl,
            traffic_class: tos,
            flow_label: label,
            payload_len,
        };
        let mut bytes = there_and_back!(six, Ipv6Repr);
        let mut view = Ipv6ViewMut::new(&mut bytes).expect("a header");
        prop_assert_eq!(view.decrement_hop_limit(), ttl.checked_sub(1));
        view.set_flow_label(!label);
        prop_assert_eq!((view.view().traffic_class(), view.view().flow_label()), (tos, !label & 0xf_ffff));
        there_and_back!(
            FragmentRepr { next_header: proto, offset: units * 8, more_fragments, id: long_id },
            FragmentRepr
        );
    }

    #[test]
    fn transport_headers(
        repr in tcp(), source_port: u16, destination_port: u16, tag: u32, code in 1u8..255,
        id: u16, sequence: u16, pointer: u8, word: u32, vni in 0u32..1 << 24, key: Option<u32>,
        number: Option<u32>, checksum: bool, words in 0usize..=63,
    ) {
        there_and_back!(repr, TcpRepr);
        there_and_back!(SctpRepr { source_port, destination_port, tag }, SctpRepr);
        there_and_back!(
            UdpRepr { source_port, destination_port, payload_len: id.min(65_527) },
            UdpRepr
        );
        for reply in [false, true] {
            there_and_back!(IcmpRepr::Echo { reply, id, sequence }, IcmpRepr);
            there_and_back!(Icmpv6Repr::Echo { reply, id, sequence }, Icmpv6Repr);
        }
        there_and_back!(IcmpRepr::Unreachable { code, mtu: id }, IcmpRepr);
        there_and_back!(IcmpRepr::Redirect { code, gateway: word.into() }, IcmpRepr);
        there_and_back!(IcmpRepr::TimeExceeded { code }, IcmpRepr);
        there_and_back!(IcmpRepr::Parameter { code, pointer }, IcmpRepr);
        there_and_back!(IcmpRepr::Other { kind: 13, code, word }, IcmpRepr);
        there_and_back!(Icmpv6Repr::Unreachable { code }, Icmpv6Repr);
        there_and_back!(Icmpv6Repr::TooBig { mtu: word }, Icmpv6Repr);
        there_and_back!(Icmpv6Repr::TimeExceeded { code }, Icmpv6Repr);
        there_and_back!(Icmpv6Repr::Parameter { code, pointer: word }, Icmpv6Repr);
        there_and_back!(Icmpv6Repr::Other { kind: 135, code, word }, Icmpv6Repr);
        there_and_back!(VxlanRepr { vni }, VxlanRepr);
        there_and_back!(GreRepr { protocol: id, checksum, key, sequence: number }, GreRepr);
        let options = vec![pointer; words * 4];
        let repr = GeneveRepr { vni, protocol: id, control: checksum, critical: !checksum, options: &options };
        let mut bytes = vec![0; repr.header_len()];
        prop_assert_eq!(repr.emit(&mut bytes), Ok(8 + words * 4));
        prop_assert_eq!(GeneveRepr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn weirs_own_headers(
        oam: bool, ttl in 0u8..64, index: u8, path in 0u32..1 << 24, next: u8, a: u64, b: u64,
        c: u64, d: u64, source: u16, replica: u16, marks: u8, view in 0u64..1 << 48,
        clock in 0u64..1 << 40, disposition in 0u8..=6, outside: bool, link in 0u8..12, e: u64, mac: [u8; 16],
        behind in vec(any::<u8>(), 1..40),
    ) {
        let context = NshContext { view, clock, source, replica, flags: marks };
        let octets = context.to_bytes().expect("it fits");
        prop_assert_eq!(NshContext::from_bytes(octets), context);
        prop_assert_eq!(NshContext { view: view | 1 << 48, ..context }.to_bytes(), None);
        prop_assert_eq!(NshContext { clock: clock | 1 << 40, ..context }.to_bytes(), None);
        let nsh = NshRepr { oam, ttl, next_protocol: next, path, index, context: octets };
        let mut bytes = there_and_back!(nsh, NshRepr);
        let mut counted = NshViewMut::new(&mut bytes).expect("a header");
        let left = if ttl == 0 { 63 } else { ttl - 1 };
        prop_assert_eq!(counted.decrement_ttl(), Some(left).filter(|&left| left > 0));
        prop_assert_eq!(NshRepr::parse(&bytes), Ok(NshRepr { ttl: left, ..nsh }));
        bytes.extend(&behind);
        prop_assert_eq!(NshView::new(&bytes).expect("a header").payload(), &behind[..]);
        bytes[0] |= 0x40;
        prop_assert_eq!(NshRepr::parse(&bytes), Err(Malformed::NshBadVersion));

        let mut header = WeirRepr {
            clock_high: 7,
            view_high: 3,
            disposition: Disposition::from_u8(disposition).expect("a disposition"),
            side: if outside { Side::Outside } else { Side::Inside },
            port: index,
            link: LinkType::from_u8(link),
            dlt: source,
            unit: a,
            time: Time(b),
            sequence: c,
            wire_len: path,
            length: 0,
            tenant: replica,
            tag: d,
        };
        there_and_back!(header, WeirRepr);
        // The header says how long the packet is: not one octet more or less.
        header.length = behind.len() as u32;
        let mut bytes = vec![0; WeirRepr::LEN];
        prop_assert_eq!(header.emit(&mut bytes), Ok(WeirRepr::LEN));
        bytes.extend(&behind);
        prop_assert_eq!(WeirRepr::parse(&bytes), Ok(header));
        prop_assert_eq!(WeirView::new(&bytes).expect("a header").rest(), &behind[..]);
        bytes.push(0);
        prop_assert_eq!(WeirRepr::parse(&bytes), Err(Malformed::WeirTruncated));
        bytes[0] += 1;
        prop_assert_eq!(WeirRepr::parse(&bytes), Err(Malformed::WeirBadVersion));

        let mut frame = ActorFrameRepr {
            flags: marks & flags::ALL,
            length: 0,
            fragment: source,
            source: a,
            destination: b,
            number: c,
            sequence: d,
            acknowledged: e,
            selective: !e,
            mac,
        };
        there_and_back!(frame, ActorFrameRepr);
        frame.length = behind.len() as u16;
        let mut bytes = vec![0; ActorFrameRepr::LEN];
        prop_assert_eq!(frame.emit(&mut bytes), Ok(ActorFrameRepr::LEN));
        bytes.extend(&behind);
        prop_assert_eq!(ActorFrameRepr::parse(&bytes), Ok(frame));
        let view = ActorFrameView::new(&bytes).expect("a header");
        prop_assert_eq!((view.protected(), view.payload()), (&bytes[..56], &behind[..]));
        bytes.pop();
        prop_assert_eq!(ActorFrameRepr::parse(&bytes), Err(Malformed::ActorTruncated));
        bytes[3] |= 0x80;
        prop_assert_eq!(ActorFrameRepr::parse(&bytes), Err(Malformed::ActorBadVersion));
        bytes[1] += 1;
        prop_assert_eq!(ActorFrameRepr::parse(&bytes), Err(Malformed::WrongKind));
    }

    /// Checksums that a view fills in are those that a parse checks.
    #[test]
    fn filled_checksums_are_right(
        tcp in tcp(), a: [u8; 4], b: [u8; 4], c: [u8; 16], d: [u8; 16], most in 500u16..1500,
        payload in vec(any::<u8>(), 0..64), proto in proptest::sample::select(vec![ip::TCP, ip::UDP, ip::SCTP, ip::ICMP]),
        six: bool,
    ) {
        let proto = if six && proto == ip::ICMP { ip::ICMPV6 } else { proto };
        let mut segment = vec![0; 60];
        let length = match proto {
            ip::TCP => tcp.emit(&mut segment),
            ip::UDP => UdpRepr { source_port: 7, destination_port: 9, payload_len: payload.len() as u16 }.emit(&mut segment),
            ip::SCTP => SctpRepr { source_port: 7, destination_port: 9, tag: 5 }.emit(&mut segment),
            ip::ICMP => IcmpRepr::Echo { reply: false, id: 7, sequence: 1 }.emit(&mut segment),
            _ => Icmpv6Repr::Echo { reply: true, id: 7, sequence: 1 }.emit(&mut segment),
        };
        segment.truncate(length.expect("room"));
        segment.extend(&payload);
        let total = segment.len() as u32;
        let pseudo = if six {
            Sum::new().pseudo_ipv6(c.into(), d.into(), proto, total)
        } else {
            Sum::new().pseudo_ipv4(a.into(), b.into(), proto, total)
        };
        match proto {
            ip::TCP => {
                let mut view = TcpViewMut::new(&mut segment).expect("a header");
                view.fill_checksum(pseudo);
                // The checksum stays right when the option is rewritten.
                prop_assert_eq!(view.clamp_mss(most), tcp.mss.is_some_and(|mss| mss > most));
            }
            ip::UDP => UdpViewMut::new(&mut segment).expect("a header").fill_checksum(pseudo),
            ip::SCTP => SctpViewMut::new(&mut segment).expect("a header").fill_checksum(),
            ip::ICMP => IcmpViewMut::new(&mut segment).expect("a header").fill_checksum(),
            _ => Icmpv6ViewMut::new(&mut segment).expect("a header").fill_checksum(pseudo),
        }
        let mut packet = vec![0; 60];
        let length = if six {
            Ipv6Repr { source: c.into(), destination: d.into(), next_header: proto, payload_len: total as u16, ..Default::default() }.emit(&mut packet)
        } else {
            Ipv4Repr { source: a.into(), destination: b.into(), proto, payload_len: total as u16, ..Default::default() }.emit(&mut packet)
        };
        packet.truncate(length.expect("room"));
        packet.extend(segment);
        let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
        prop_assert_eq!(check_transport(&packet, &headers), Verdict::Good);
        if !six {
            prop_assert_eq!(check_ipv4(&packet, &headers), Verdict::Good);
        }
        prop_assert_eq!(headers.payload_of(&packet), &payload[..]);
    }

    #[test]
    fn no_octets_make_a_view_panic(mut bytes in vec(any::<u8>(), 0..120), first: Option<u8>) {
        if let (Some(first), Some(place)) = (first, bytes.first_mut()) {
            *place = first & 0x3f | 0x40; // IPv4 or IPv6 more often than not
        }
        let b = &bytes[..];
        let _ = EthernetView::new(b).map(|v| (v.source(), v.destination(), v.ethertype()));
        let _ = VlanView::new(b).map(|v| (v.id(), v.priority(), v.drop_eligible()));
        let _ = MplsView::new(b).map(|v| (v.label(), v.class(), v.is_bottom(), v.ttl()));
        let _ = Labels::new(b).count();
        let _ = PppoeView::new(b).map(|v| v.payload().len());
        let _ = ArpView::new(b).map(|v| (v.operation(), v.sender(), v.target_mac()));
        let _ = Ipv4View::new(b).map(|v| {
            (v.payload().len(), v.options().count(), v.right_checksum(), v.fragment_offset())
        });
        let _ = Ipv4Options::new(b).count();
        let _ = Ipv6View::new(b).map(|v| (v.payload().len(), v.extensions().count()));
        for next in [ip::HOP_BY_HOP, ip::ROUTING, ip::FRAGMENT, ip::AH, ip::DESTINATION] {
            let _ = Extensions::new(next, b).count();
        }
        let _ = FragmentView::new(b).map(|v| (v.offset(), v.more_fragments(), v.id()));
        let _ = TcpView::new(b).map(|v| (v.payload().len(), v.options().count(), v.sequence_end()));
        let _ = TcpOptions::new(b).count();
        let _ = UdpView::new(b).map(|v| v.payload().len());
        let _ = SctpView::new(b).map(|v| v.chunks().count());
        let _ = IcmpView::new(b).map(|v| (v.quoted().map(<[u8]>::len), v.checksum_is_right()));
        let _ = Icmpv6View::new(b).map(|v| v.quoted().map(<[u8]>::len));
        let _ = VxlanView::new(b).map(|v| v.vni());
        let _ = GeneveView::new(b).map(|v| (v.vni(), v.options().count(), v.payload().len()));
        let _ = GreView::new(b).map(|v| (v.key(), v.sequence(), v.checksum(), v.payload().len()));
        let _ = NshView::new(b).map(|v| (v.metadata().len(), v.payload().len(), v.ttl()));
        let _ = NshRepr::parse(b).map(|r| NshContext::from_bytes(r.context));
        let _ = WeirRepr::parse(b);
        let _ = ActorFrameRepr::parse(b);
        let _ = Tags::of_ethernet(b, 0).count();
        let mut copy = bytes.clone();
        let c = &mut copy[..];
        let _ = EthernetViewMut::new(c).map(|mut v| v.swap_addresses());
        let _ = VlanViewMut::new(c).map(|mut v| v.set_id(77));
        let _ = Ipv4ViewMut::new(c).map(|mut v| (v.decrement_ttl(), v.fill_checksum()));
        let _ = Ipv6ViewMut::new(c).map(|mut v| v.decrement_hop_limit());
        let _ = NshViewMut::new(c).map(|mut v| v.decrement_ttl());
        let _ = TcpViewMut::new(c).map(|mut v| (v.clamp_mss(500), v.fill_checksum(Sum::new())));
        let _ = UdpViewMut::new(c).map(|mut v| v.fill_checksum(Sum::new()));
        let _ = SctpViewMut::new(c).map(|mut v| v.fill_checksum());
        let _ = GreViewMut::new(c).map(|mut v| v.fill_checksum());
    }
}

#[test]
fn setters_write_what_getters_read() {
    let mut bytes = vec![0x45; 60];
    let mut view = Ipv4ViewMut::new(&mut bytes).expect("a header");
    view.set_source([1, 2, 3, 4].into());
    view.set_destination([5, 6, 7, 8].into());
    view.set_ttl(9);
    view.set_id(0x1234);
    let view = view.view();
    assert_eq!(
        (view.source(), view.destination()),
        ([1, 2, 3, 4].into(), [5, 6, 7, 8].into())
    );
    assert_eq!((view.ttl(), view.id()), (9, 0x1234));
    assert_eq!(&bytes[12..20], [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn tcp_options_are_told_apart() {
    let bytes = [
        2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, // as in a SYN
        5, 10, 0, 0, 0, 1, 0, 0, 0, 9, 30, 4, 0, 0x81, 34, 3, 0xcc, 2, 3, 0, 0, 99,
    ];
    let options: Vec<_> = TcpOptions::new(&bytes)
        .map(|o| o.expect("an option"))
        .collect();
    let expected = [
        TcpOption::Mss(1460),
        TcpOption::WindowScale(7),
        TcpOption::SackPermitted,
        TcpOption::Timestamps { value: 1, echo: 2 },
        TcpOption::Sack(&[0, 0, 0, 1, 0, 0, 0, 9]),
        TcpOption::Mptcp(&[0, 0x81]),
        TcpOption::FastOpen(&[0xcc]),
        TcpOption::Other {
            kind: 2,
            data: &[0],
        },
    ];
    assert_eq!(options, expected);
    let faulty: Vec<_> = TcpOptions::new(&[1, 2, 1, 1, 1]).collect();
    assert_eq!(faulty, [Err(Malformed::TcpBadOption)]);
    let faulty: Vec<_> = TcpOptions::new(&[8, 10, 0]).collect();
    assert_eq!(faulty, [Err(Malformed::TcpBadOption)]);
}

#[test]
fn mss_is_clamped_at_an_odd_place_too() {
    for padding in [0, 1] {
        let mut segment = vec![0; 20];
        segment[12] = 0x70;
        segment.extend([1].repeat(padding));
        segment.extend([2, 4, 5, 0xb4]);
        segment.resize(28, 0);
        let pseudo = Sum::new().pseudo_ipv4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), ip::TCP, 28);
        let mut view = TcpViewMut::new(&mut segment).expect("a header");
        view.fill_checksum(pseudo);
        assert!(view.clamp_mss(1400));
        assert!(!view.clamp_mss(1400));
        let clamped = view.checksum();
        view.fill_checksum(pseudo);
        assert_eq!(clamped, view.checksum());
        assert_eq!(view.view().options().next(), Some(Ok(TcpOption::Mss(1400))));
    }
}

#[test]
fn sequence_end_counts_syn_and_fin() {
    let repr = TcpRepr {
        sequence: u32::MAX,
        flags: flag::SYN | flag::FIN,
        ..Default::default()
    };
    let mut segment = vec![0; 23];
    repr.emit(&mut segment).expect("room");
    assert_eq!(TcpView::new(&segment).expect("a header").sequence_end(), 4);
}

#[test]
fn extension_headers_are_walked() {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, ip::HOP_BY_HOP, 64];
    bytes.extend([0; 32]);
    bytes.extend([ip::ROUTING, 0, 1, 4, 0, 0, 0, 0]);
    bytes.extend([ip::FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([ip::AH, 0, 0, 1, 0, 0, 0, 9]);
    bytes.extend([ip::UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 7, 0, 9, 0, 8, 0, 0]);
    let view = Ipv6View::new(&bytes).expect("a header");
    let mut extensions = view.extensions();
    let kinds: Vec<u8> = extensions
        .by_ref()
        .map(|e| e.expect("a header").kind)
        .collect();
    assert_eq!(kinds, [ip::HOP_BY_HOP, ip::ROUTING, ip::FRAGMENT, ip::AH]);
    assert_eq!(
        (extensions.next_header(), extensions.rest().len()),
        (ip::UDP, 8)
    );
    let fragment = view
        .extensions()
        .flatten()
        .find_map(|e| e.fragment())
        .expect("a fragment");
    assert_eq!((fragment.id(), fragment.more_fragments()), (9, true));
}

#[test]
fn sctp_chunks_and_tags_are_listed() {
    let mut bytes = vec![0; 12];
    bytes.extend([0, 3, 0, 5, 0xaa, 0, 0, 0, 7, 0, 0, 4]);
    let chunks: Vec<_> = SctpView::new(&bytes)
        .expect("a header")
        .chunks()
        .map(|c| c.expect("a chunk"))
        .collect();
    assert_eq!(chunks.len(), 2);
    assert_eq!(
        (chunks[0].kind, chunks[0].flags, chunks[0].data),
        (0, 3, &[0xaa][..])
    );
    bytes[15] = 3;
    let first = SctpView::new(&bytes).expect("a header").chunks().next();
    assert_eq!(first, Some(Err(Malformed::SctpBadChunk)));

    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xa8, 0x20, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0]);
    let tags: Vec<_> = Tags::of_ethernet(&frame, 0)
        .map(|(kind, tag)| (kind, tag.id))
        .collect();
    assert_eq!(
        tags,
        [
            (ethertype::QINQ, 5),
            (ethertype::VLAN, 6),
            (ethertype::VLAN, 7)
        ]
    );
}

#[test]
fn a_quoted_packet_is_found_in_place() {
    let mut packet = vec![
        0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
    ];
    packet.extend([3, 4, 0, 0, 0, 0, 5, 0]);
    packet.extend([
        0x45, 0, 5, 0, 0, 0, 0, 0, 9, 6, 0, 0, 2, 2, 2, 2, 3, 3, 3, 3,
    ]);
    packet.extend([0, 80, 0x9c, 0x40, 0, 0, 0, 1]);
    let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    let quoted = Quoted::of(&packet, &headers).expect("a quote");
    assert_eq!(
        (quoted.l3, quoted.l4, quoted.proto, quoted.ipv6),
        (28, 48, ip::TCP, false)
    );
    assert_eq!((quoted.source_port, quoted.destination_port), (80, 40_000));
    let view = IcmpView::of(&packet, &headers).expect("ICMP");
    assert_eq!(view.quoted(), Some(&packet[28..]));
    assert_eq!(
        IcmpRepr::parse(&packet[20..]),
        Ok(IcmpRepr::Unreachable { code: 4, mtu: 1280 })
    );
    assert!(UdpView::of(&packet, &headers).is_none());
}
