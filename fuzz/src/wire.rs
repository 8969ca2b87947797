//! Every header type on any bytes: a view does not panic, and what was parsed
//! is parsed again from what it writes.

use weir_packet::LinkType;
use weir_packet::arp::ArpRepr;
use weir_packet::checksum::Sum;
use weir_packet::ethernet::{EthernetRepr, EthernetViewMut};
use weir_packet::geneve::{GeneveRepr, GeneveView};
use weir_packet::gre::{GreRepr, GreView, GreViewMut};
use weir_packet::icmp::{IcmpRepr, IcmpView, IcmpViewMut};
use weir_packet::icmpv6::{Icmpv6Repr, Icmpv6View, Icmpv6ViewMut};
use weir_packet::ipv4::{Ipv4Options, Ipv4Repr, Ipv4View, Ipv4ViewMut};
use weir_packet::ipv6::{Extensions, FragmentRepr, Ipv6Repr, Ipv6View, Ipv6ViewMut};
use weir_packet::mpls::{Labels, MplsRepr};
use weir_packet::pppoe::{PppoeRepr, PppoeView};
use weir_packet::sctp::{SctpRepr, SctpView, SctpViewMut};
use weir_packet::tcp::{TcpOptions, TcpRepr, TcpView, TcpViewMut};
use weir_packet::udp::{UdpRepr, UdpView, UdpViewMut};
use weir_packet::vlan::{Tags, VlanRepr, VlanViewMut};
use weir_packet::vxlan::VxlanRepr;

use crate::input::Input;

/// Parses, writes, parses again.
macro_rules! there_and_back {
    ($bytes:expr, $type:ident) => {
        if let Ok(repr) = $type::parse($bytes) {
            let mut buffer = vec![0xaa; repr.header_len()];
            let length = buffer.len();
            assert_eq!(repr.emit(&mut buffer), Ok(length), "{repr:?}");
            assert_eq!($type::parse(&buffer), Ok(repr), "there and back");
            if let Some(less) = buffer.get_mut(..length.saturating_sub(1)) {
                assert!(repr.emit(less).is_err(), "no room for {repr:?}");
            }
        }
    };
}

/// The first byte chooses the header type, the rest is read as one.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let b = input.0;
    let mut copy = b.to_vec();
    let c = &mut copy[..];
    match choice % 17 {
        0 => {
            there_and_back!(b, EthernetRepr);
            let _ = (
                Tags::of_ethernet(b, 0).count(),
                EthernetViewMut::new(c).map(|mut v| v.swap_addresses()),
            );
        }
        1 => {
            there_and_back!(b, VlanRepr);
            let _ = VlanViewMut::new(c).map(|mut v| v.set_id(77));
        }
        2 => {
            there_and_back!(b, MplsRepr);
            let _ = Labels::new(b).count();
        }
        3 => {
            there_and_back!(b, PppoeRepr);
            let _ = PppoeView::new(b).map(|v| v.payload().len());
        }
        4 => there_and_back!(b, ArpRepr),
        5 => ipv4(b, c),
        6 => {
            there_and_back!(b, Ipv6Repr);
            let _ = Ipv6View::new(b).map(|v| (v.payload().len(), v.extensions().count()));
            let _ = Ipv6ViewMut::new(c).map(|mut v| v.decrement_hop_limit());
        }
        7 => {
            there_and_back!(b, FragmentRepr);
            let _ = Extensions::new(choice / 17, b).count();
        }
        8 => {
            there_and_back!(b, TcpRepr);
            let _ =
                TcpView::new(b).map(|v| (v.payload().len(), v.options().count(), v.sequence_end()));
            let _ = TcpOptions::new(b).count();
        }
        9 => clamp(c),
        10 => {
            there_and_back!(b, UdpRepr);
            let _ = UdpView::new(b).map(|v| v.payload().len());
            let _ = UdpViewMut::new(c).map(|mut v| v.fill_checksum(Sum::new()));
        }
        11 => {
            there_and_back!(b, SctpRepr);
            let _ = SctpView::new(b).map(|v| v.chunks().count());
            let _ = SctpViewMut::new(c).map(|mut v| v.fill_checksum());
        }
        12 => {
            there_and_back!(b, IcmpRepr);
            let _ = IcmpView::new(b).map(|v| (v.quoted().map(<[u8]>::len), v.checksum_is_right()));
            let _ = IcmpViewMut::new(c).map(|mut v| v.fill_checksum());
        }
        13 => {
            there_and_back!(b, Icmpv6Repr);
            let _ = Icmpv6View::new(b).map(|v| v.quoted().map(<[u8]>::len));
            let _ = Icmpv6ViewMut::new(c).map(|mut v| v.fill_checksum(Sum::new()));
        }
        14 => there_and_back!(b, VxlanRepr),
        15 => {
            if let Ok(repr) = GeneveRepr::parse(b) {
                let mut buffer = vec![0; repr.header_len()];
                assert_eq!(repr.emit(&mut buffer), Ok(repr.header_len()));
                assert_eq!(GeneveRepr::parse(&buffer), Ok(repr));
            }
            let _ = GeneveView::new(b).map(|v| (v.vni(), v.options().count(), v.payload().len()));
        }
        _ => {
            there_and_back!(b, GreRepr);
            let _ =
                GreView::new(b).map(|v| (v.key(), v.sequence(), v.checksum(), v.payload().len()));
            let _ = GreViewMut::new(c).map(|mut v| v.fill_checksum());
        }
    }
    // Numbers of link types name each other, whatever they are.
    let dlt = u32::from(choice) << 4 | u32::from(b.first().copied().unwrap_or(0));
    if let Some(number) = LinkType::from_dlt(dlt).to_dlt() {
        assert_eq!(LinkType::from_dlt(number), LinkType::from_dlt(dlt));
    }
}

fn ipv4(b: &[u8], c: &mut [u8]) {
    if let Ok(repr) = Ipv4Repr::parse(b) {
        let mut buffer = vec![0; repr.header_len()];
        assert_eq!(repr.emit(&mut buffer), Ok(repr.header_len()));
        assert_eq!(Ipv4Repr::parse(&buffer), Ok(repr));
    }
    let _ = Ipv4View::new(b).map(|v| (v.payload().len(), v.options().count(), v.fragment_offset()));
    let _ = Ipv4Options::new(b).count();
    if let Ok(mut view) = Ipv4ViewMut::new(c) {
        view.fill_checksum();
        view.decrement_ttl();
        assert!(view.view().checksum_is_right(), "an updated checksum");
    }
}

/// A clamped MSS keeps a right checksum right.
fn clamp(c: &mut [u8]) {
    let Ok(mut view) = TcpViewMut::new(c) else {
        return;
    };
    view.fill_checksum(Sum::new());
    view.clamp_mss(500);
    let updated = view.checksum();
    view.fill_checksum(Sum::new());
    assert_eq!(updated, view.checksum(), "an updated checksum");
}
