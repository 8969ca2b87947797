//! Any frame of any link type: parse, key, checksums, quoted packets. No
//! panic; what is found lies inside the frame; the two directions of a packet
//! have one key.

use weir_packet::checksum::{Verdict, check_ipv4, check_transport, fill};
use weir_packet::{
    Depth, FragmentKey, HeaderFlags, Headers, IcmpKey, KeyOptions, KeyOutcome, LinkType,
    ParseOptions, Quoted, classify, flow_key, key_of_plainest, parse, parse_generally, parse_into,
    parse_plainest,
};

use crate::input::Input;

/// The first two bytes choose link type and options, the rest is a frame.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let link = LinkType::from_u8(input.u8() % 12);
    let choice = input.u8();
    let options = ParseOptions {
        depth: [Depth::L4, Depth::L3, Depth::L2, Depth::L4][usize::from(choice & 3)],
        inner: choice & 4 != 0,
        lenient: choice & 8 != 0,
    };
    let key = KeyOptions {
        chain: choice >> 6,
        zone: choice & 16 != 0,
        icmp: if choice & 32 != 0 {
            IcmpKey::Addresses
        } else {
            IcmpKey::Conversation
        },
    };
    let frame = input.0;
    let found = parse(frame, link, &options);
    let mut place = Headers::default();
    assert_eq!(
        parse_into(frame, link, &options, &mut place),
        found.map(|_| ()),
        "both ways of parsing say the same"
    );
    let Ok(headers) = found else {
        return;
    };
    assert_eq!(place, headers);
    check(frame, &headers, &key);
    if options.depth == Depth::L4 {
        check_straight_way(frame, link, &options, &key);
        let mut place = Headers::default();
        let together = classify(frame, link, &options, &key, &mut place);
        assert_eq!(place, headers);
        assert_eq!(
            together,
            Ok(flow_key(frame, &headers, &key)),
            "together as one by one"
        );
    }
    let mut copy = frame.to_vec();
    let written = fill(&mut copy, &headers);
    // Opened tunnels and faults passed over may have lengths that contradict each other.
    if written && !headers.flags.intersects(HeaderFlags::DAMAGED) && !options.inner {
        let again = parse(&copy, link, &options).expect("checksums change no header");
        assert_ne!(
            check_transport(&copy, &again),
            Verdict::Bad,
            "a checksum just written"
        );
        assert_ne!(
            check_ipv4(&copy, &again),
            Verdict::Bad,
            "a checksum just written"
        );
    }
}

/// What goes the straight way goes the general way as well, and comes to the same.
fn check_straight_way(frame: &[u8], link: LinkType, options: &ParseOptions, key: &KeyOptions) {
    let mut straight = Headers::default();
    let Some(head) = parse_plainest(frame, link, options, &mut straight) else {
        return;
    };
    assert_eq!(
        parse_generally(frame, LinkType::Ethernet, options),
        Ok(straight)
    );
    let (found, direction) = key_of_plainest(head, key);
    let general = flow_key(frame, &straight, key);
    assert_eq!(general, KeyOutcome::Flow(found, direction));
}

fn check(frame: &[u8], headers: &Headers, options: &KeyOptions) {
    assert!(headers.payload_of(frame).len() <= frame.len());
    assert!(headers.l4_of(frame).len() <= frame.len());
    let _ = (
        headers.ports(frame),
        check_ipv4(frame, headers),
        check_transport(frame, headers),
    );
    let _ = FragmentKey::of(frame, headers, options);
    if let Some(quoted) = Quoted::of(frame, headers) {
        assert!(usize::from(quoted.l3) <= frame.len());
    }
    if let KeyOutcome::Flow(key, direction) = flow_key(frame, headers, options) {
        let (source, destination) = (key.source(direction), key.destination(direction));
        assert_eq!((source, destination), {
            let back = direction.opposite();
            (key.destination(back), key.source(back))
        });
        let _ = (key.to_string(), key.hash(7));
    }
}
