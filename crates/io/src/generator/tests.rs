use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::check::{Seen, checksums_hold, lengths_hold};
use super::{Generated, Generator, GeneratorSpec};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn generate(text: &str) -> Vec<(Generated, Vec<u8>)> {
    let spec = GeneratorSpec::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut generator = Generator::new(&spec);
    let mut buffer = vec![0xcc; generator.max_frame_len()];
    let mut frames = Vec::new();
    while let Some(made) = generator.next(&mut buffer) {
        frames.push((made, buffer[..made.len].to_vec()));
    }
    frames
}

/// The two ends of a packet, in both directions the same.
fn flow(seen: &Seen) -> (u8, [(std::net::IpAddr, u16); 2]) {
    let [from, to] = seen.addresses;
    let [sport, dport] = seen.ports();
    let mut ends = [(from, sport), (to, dport)];
    ends.sort_unstable();
    let protocol = if seen.protocol == 58 {
        1
    } else {
        seen.protocol
    };
    (protocol, ends)
}

const KINDS: [&str; 12] = [
    "size=64",
    "size=64,both=yes,vlan=7",
    "size=imix,ip=mix,proto=mix,both=yes",
    "size=60-1514,proto=mix,payload=random,both=yes",
    "size=512,proto=tcp,payload=http,both=yes",
    "size=61-63,proto=mix,ip=mix,payload=text",
    "size=9216,payload=random,ip=6",
    "life=tcp",
    "life=tcp,ip=mix,proto=mix,payload=random,size=60-1514,vlan=4094",
    "life=tcp,payload=http,size=imix",
    "life=tcp,payload=http,size=60,ip=6,response=1-2k",
    "life=tcp,payload=text,both=no,proto=mix",
];

#[test]
fn all_frames_are_valid() {
    for kind in KINDS {
        let frames = generate(&format!("{kind},flows=300,packets=20k"));
        assert_eq!(frames.len(), 20_000, "{kind}");
        for (made, frame) in frames {
            assert!(frame.len() >= 60, "{kind}");
            assert!(checksums_hold(1, &frame), "{kind}: {frame:02x?}");
            assert!(lengths_hold(1, &frame), "{kind}: {frame:02x?}");
            let seen = Seen::new(1, &frame);
            let vlan = kind
                .split("vlan=")
                .nth(1)
                .map(|id| id.parse::<u16>().unwrap());
            assert_eq!(seen.vlan, vlan, "{kind}");
            let inside = match seen.addresses[0] {
                std::net::IpAddr::V4(address) => address.octets()[..2] == [10, 0],
                std::net::IpAddr::V6(address) => address.segments()[..2] == [0xfd00, 1],
            };
            assert_eq!(inside, !made.side_outside, "{kind}");
            assert!(!made.side_outside || !kind.contains("both=no"), "{kind}");
        }
    }
}

#[test]
fn the_seed_decides_over_every_byte() {
    for kind in KINDS {
        let text = format!("{kind},flows=100,packets=2k");
        assert_eq!(
            generate(&text),
            generate(&format!("{text},seed=1")),
            "{kind}"
        );
        assert_ne!(
            generate(&text),
            generate(&format!("{text},seed=2")),
            "{kind}"
        );
    }
}

/// A list of one size takes the general way, the bare size the quick one.
#[test]
fn the_quick_way_writes_what_the_general_one_does() {
    for rest in [
        "proto=udp",
        "proto=tcp",
        "proto=udp,dport=1-9,sport=5,src=10.0.0.0/24",
    ] {
        for size in [60, 64, 65, 1_514] {
            let rest = format!("{rest},popularity=sequential,packets=3k,flows=2k");
            let quick = generate(&format!("size={size},{rest}"));
            assert_eq!(
                quick,
                generate(&format!("size={size}:1,{rest}")),
                "{size},{rest}"
            );
        }
    }
}

#[test]
fn as_many_flows_are_seen_as_were_asked_for() {
    for (flows, text) in [
        (1, "flows=1,packets=100"),
        (1_000, "packets=30k"),
        (70_000, "flows=70k,packets=70k,popularity=sequential"),
        (5_000, "flows=5k,packets=100k,proto=mix,ip=mix,both=yes"),
        (200, "flows=200,packets=10k,proto=icmp,ip=6"),
        (
            48,
            "flows=48,packets=5k,src=10.9.0.0/30,dst=10.8.0.1,sport=1-8,dport=1-3,proto=tcp",
        ),
    ] {
        let seen: BTreeSet<_> = generate(text)
            .iter()
            .map(|(_, frame)| flow(&Seen::new(1, frame)))
            .collect();
        assert_eq!(seen.len(), flows, "{text}");
    }
}

#[test]
fn in_each_flow_the_inside_speaks_first() {
    for text in [
        "both=yes,flows=200,packets=5k",
        "life=tcp,flows=200,packets=5k,proto=mix",
    ] {
        let mut known = BTreeSet::new();
        let mut from_outside = 0;
        for (made, frame) in generate(text) {
            let new = known.insert(flow(&Seen::new(1, &frame)));
            assert!(!new || !made.side_outside, "{text}");
            from_outside += u32::from(made.side_outside);
        }
        assert!(
            (1_500..3_500).contains(&from_outside),
            "{text}: {from_outside}"
        );
    }
}

#[test]
fn sizes_follow_the_list() {
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    for (made, _) in generate("size=64:7/594:4/1514:1,packets=24k") {
        *counts.entry(made.len).or_default() += 1;
    }
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [64, 594, 1_514]);
    for (size, expected) in [(64, 14_000), (594, 8_000), (1_514, 2_000)] {
        assert!(
            counts[&size].abs_diff(expected) < expected / 10,
            "{counts:?}"
        );
    }
    let lengths: BTreeSet<usize> = generate("size=100-110,packets=2k")
        .iter()
        .map(|(made, _)| made.len)
        .collect();
    assert_eq!(lengths, (100..=110).collect());
    let headers_need_more = generate("size=60,ip=6,proto=tcp,vlan=1,packets=1");
    assert_eq!(headers_need_more[0].0.len, 78);
}

#[test]
fn protocols_and_versions_follow_the_list() {
    let mut counts: BTreeMap<(u8, bool), u32> = BTreeMap::new();
    let text = "flows=20k,packets=20k,popularity=sequential,proto=tcp:2/udp:1/icmp:1,ip=4:3/6:1";
    for (_, frame) in generate(text) {
        let (protocol, ends) = flow(&Seen::new(1, &frame));
        *counts.entry((protocol, ends[0].0.is_ipv4())).or_default() += 1;
    }
    for (kind, expected) in [((6, true), 7_500), ((17, true), 3_750), ((1, false), 1_250)] {
        assert!(
            counts[&kind].abs_diff(expected) < expected / 8,
            "{counts:?}"
        );
    }
}

#[test]
fn zipf_is_as_skewed_as_asked() {
    for exponent in [0.0f64, 0.8, 1.1, 2.0] {
        let packets = 400_000;
        let text = format!("flows=1000,packets={packets},popularity=zipf:{exponent}");
        let mut counts: BTreeMap<_, u32> = BTreeMap::new();
        for (_, frame) in generate(&text) {
            // With 1000 flows the inside address tells the rank.
            let rank = u32::from_be_bytes(frame[26..30].try_into().unwrap()) - 0x0a00_0000;
            *counts.entry(rank).or_default() += 1;
        }
        let total: f64 = (1..=1_000)
            .map(|rank| f64::from(rank).powf(-exponent))
            .sum();
        for rank in [1u32, 2, 3, 10, 30, 100, 999] {
            let share = f64::from(rank).powf(-exponent) / total;
            let expected = share * f64::from(packets);
            let got = f64::from(counts.get(&rank).copied().unwrap_or(0));
            let tolerance = 5.0 * expected.sqrt() + 1.0;
            assert!(
                (got - expected).abs() < tolerance,
                "{exponent} {rank}: {got}, {expected}"
            );
        }
    }
}

#[test]
fn times_are_evenly_spaced_and_exact() {
    let frames = generate("rate=3,packets=7,start=10.5");
    let times: Vec<u64> = frames.iter().map(|(made, _)| made.time_ns).collect();
    let third = 333_333_333;
    let start = 10_500_000_000;
    assert_eq!(times[..3], [start, start + third, start + 2 * third]);
    assert_eq!(times[6], start + 2_000_000_000);
    assert_eq!(generate("rate=1k,duration=2s").len(), 2_000);
    assert_eq!(generate("rate=1k,duration=1.5s,packets=10k").len(), 1_500);
    assert_eq!(generate("rate=1k,duration=2s,packets=10").len(), 10);
    assert_eq!(generate("packets=0").len(), 0);
    let fast = generate("rate=2G,packets=5");
    let gaps: Vec<u64> = fast
        .iter()
        .map(|(made, _)| made.time_ns - fast[0].0.time_ns)
        .collect();
    assert_eq!(gaps, [0, 0, 1, 1, 2]);
}

#[test]
fn a_short_buffer_changes_nothing() {
    let spec = GeneratorSpec::parse("size=128,packets=2").unwrap();
    let mut generator = Generator::new(&spec);
    assert_eq!(generator.next(&mut [0; 127]), None);
    assert!(generator.next(&mut [0; 128]).is_some());
    assert!(generator.next(&mut [0; 200]).is_some());
    assert_eq!(generator.next(&mut [0; 200]), None);
}

/// One life of a TCP flow as a careful receiver sees it.
#[derive(Default)]
struct Life {
    begun: bool,
    handshake: u8,
    next: [u32; 2],
    fins: [bool; 2],
    bytes: [Vec<u8>; 2],
    ended: bool,
}

impl Life {
    fn packet(&mut self, outside: bool, seen: &Seen) {
        let (flags, me, peer) = (seen.flags(), usize::from(outside), usize::from(!outside));
        let (sequence, acknowledgement) = (seen.number(4), seen.number(8));
        assert!(!self.ended, "a packet after the end");
        let payload = seen.payload();
        if flags & SYN != 0 {
            assert_eq!(
                (self.handshake, flags),
                (me as u8, if outside { SYN | ACK } else { SYN })
            );
            assert_eq!(
                &seen.segment()[20..22],
                [2, 4],
                "the SYN announces its segment size"
            );
            assert!(payload.is_empty());
            self.handshake += 1;
            self.begun = true;
            self.next[me] = sequence;
        } else {
            assert!(self.begun && self.handshake >= 2);
            self.handshake = 3;
        }
        assert_eq!(sequence, self.next[me]);
        if flags & ACK != 0 {
            assert_eq!(acknowledgement, self.next[peer]);
        }
        assert!(payload.is_empty() || !self.fins[me], "data after FIN");
        self.bytes[me].extend(payload);
        let counted = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[me] = sequence.wrapping_add(counted);
        if flags & RST != 0 {
            self.ended = true;
        } else if self.fins == [true, true] {
            assert!(payload.is_empty() && flags == ACK);
            self.ended = true;
        }
        self.fins[me] |= flags & FIN != 0;
    }
}

/// All finished lives of the TCP flows, and how many were open at most.
fn lives(text: &str) -> (Vec<Life>, usize) {
    let mut open: BTreeMap<_, Life> = BTreeMap::new();
    let mut finished = Vec::new();
    let mut most = 0;
    for (made, frame) in generate(text) {
        let seen = Seen::new(1, &frame);
        let key = flow(&seen);
        let life = open.entry(key).or_default();
        life.packet(made.side_outside, &seen);
        if life.ended {
            finished.extend(open.remove(&key));
        }
        most = most.max(open.len());
    }
    (finished, most)
}

#[test]
fn tcp_flows_live_from_handshake_to_end() {
    for text in [
        "life=tcp,flows=50,packets=60k",
        "life=tcp,flows=50,packets=60k,payload=random,popularity=zipf:1,ip=mix,size=60-1514",
        "life=tcp,flows=3,packets=30k,src=10.7.0.1,sport=5-8,response=1-100",
    ] {
        let (finished, most) = lives(text);
        let asked = if text.contains("flows=50") { 50 } else { 3 };
        assert_eq!(most, asked, "{text}");
        assert!(finished.len() > 500, "{text}: {}", finished.len());
        let reset = finished
            .iter()
            .filter(|life| life.fins == [false, false])
            .count();
        let share = reset * 100 / finished.len();
        assert!((4..=16).contains(&share), "{text}: {share} % reset");
        assert!(
            finished
                .iter()
                .all(|life| life.fins == [true, true] || !life.fins[0])
        );
        assert!(
            finished.iter().all(|life| !life.bytes[1].is_empty()),
            "{text}"
        );
    }
}

/// Reads whole HTTP messages off a stream: their first lines, and whether nothing is left over.
fn http_messages(mut stream: &[u8]) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    while !stream.is_empty() {
        let Some(end) = stream.windows(4).position(|w| w == b"\r\n\r\n") else {
            return (lines, false);
        };
        let head = std::str::from_utf8(&stream[..end]).unwrap();
        let length = head
            .split("\r\n")
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |length| length.parse::<usize>().unwrap());
        if stream.len() < end + 4 + length {
            return (lines, false);
        }
        lines.push(head.lines().next().unwrap().to_owned());
        stream = &stream[end + 4 + length..];
    }
    (lines, true)
}

#[test]
fn http_flows_carry_whole_requests_and_responses() {
    for size in ["1514", "imix", "60-100"] {
        let text =
            format!("life=tcp,payload=http,flows=20,packets=100k,response=50-5k,size={size}");
        let (finished, _) = lives(&text);
        let mut uris = BTreeSet::new();
        let mut methods = BTreeSet::new();
        for life in &finished {
            let (requests, whole) = http_messages(&life.bytes[0]);
            let (responses, also_whole) = http_messages(&life.bytes[1]);
            assert!(whole && also_whole, "{text}");
            assert_eq!(requests.len(), responses.len());
            assert!((1..=4).contains(&requests.len()));
            assert!(responses.iter().all(|line| line.starts_with("HTTP/1.1 ")));
            for line in requests {
                let parts: Vec<&str> = line.split(' ').collect();
                assert_eq!((parts.len(), parts[2]), (3, "HTTP/1.1"), "{line}");
                methods.insert(parts[0].to_owned());
                uris.insert(parts[1].to_owned());
            }
        }
        assert!(finished.len() > 50, "{text}: {}", finished.len());
        assert!(uris.len() > 100, "{text}: {}", uris.len());
        assert_eq!(methods.into_iter().collect::<Vec<_>>(), ["GET", "POST"]);
    }
}

#[test]
fn echo_replies_return_the_question() {
    let mut asked: BTreeMap<_, (u32, Vec<u8>)> = BTreeMap::new();
    let mut answers = 0;
    let text = "life=tcp,proto=icmp,ip=mix,flows=20,packets=3k,payload=random,size=60-300";
    for (made, frame) in generate(text) {
        let seen = Seen::new(1, &frame);
        let question = (seen.number(4), seen.payload().to_vec());
        if made.side_outside {
            assert_eq!(asked.remove(&flow(&seen)), Some(question));
            answers += 1;
        } else {
            asked.insert(flow(&seen), question);
        }
    }
    assert!(answers > 1_000);
}

#[test]
fn errors_name_the_setting_its_place_and_what_is_allowed() {
    for (text, key, position, allowed) in [
        ("flows=10,size=tiny", "size", 10, "60 to 9216"),
        ("size=59", "size", 1, "60 to 9216"),
        ("size=64:0", "size", 1, "list such as"),
        ("size=100-99", "size", 1, "min-max"),
        ("flows=0", "flows", 1, "1 to 4294967294"),
        ("flows=-5", "flows", 1, "1 to 4294967294"),
        ("flows=+5", "flows", 1, "1 to 4294967294"),
        ("flows=99999999999G", "flows", 1, "1 to 4294967294"),
        (
            " flows=1 , colour=red",
            "colour",
            12,
            "one of the keys flows, packets",
        ),
        ("flows=1,flows=2", "flows", 9, "only once"),
        ("flows=1,,seed=2", "", 9, "key=value"),
        ("flows", "flows", 1, "key=value"),
        ("popularity=zipf:x", "popularity", 1, "zipf:S"),
        ("popularity=zipf:NaN", "popularity", 1, "zipf:S"),
        ("life=long", "life", 1, "none or tcp"),
        ("payload=music", "payload", 1, "http"),
        ("both=maybe", "both", 1, "yes or no"),
        ("proto=sctp", "proto", 1, "tcp, udp, icmp"),
        ("ip=5", "ip", 1, "4, 6"),
        ("src=10.0.0.0/33", "src", 1, "IPv4 prefix"),
        ("src=fd00::/8", "src", 1, "IPv4 prefix"),
        ("dst6=10.0.0.0/8", "dst6", 1, "IPv6 prefix"),
        ("src=10.0.0.0/8,dst=10.1.0.0/16", "dst", 16, "don't overlap"),
        ("src=0.0.0.0/0", "src", 1, "don't overlap"),
        ("src6=fd00::/16", "src6", 1, "don't overlap"),
        ("sport=0", "sport", 1, "1 to 65535"),
        ("vlan=4095", "vlan", 1, "1 to 4094"),
        ("rate=0", "rate", 1, "packets per second"),
        ("duration=10", "duration", 1, "10s"),
        ("start=noon", "start", 1, "seconds since 1970"),
        ("requests=251", "requests", 1, "1 to 250"),
        ("response=0", "response", 1, "1 to 16M"),
        ("seed=x", "seed", 1, "a number"),
        (
            "flows=2,src=10.0.0.1,dst=10.1.0.1,sport=9",
            "flows",
            1,
            "at most 1,",
        ),
        ("flows=1G,life=tcp", "flows", 1, "life=tcp"),
    ] {
        let error = match GeneratorSpec::parse(text) {
            Ok(spec) => panic!("{text}: {spec:?}"),
            Err(error) => error,
        };
        assert_eq!(
            (error.key.as_str(), error.position),
            (key, position),
            "{text}: {error}"
        );
        assert!(error.allowed.contains(allowed), "{text}: {error}");
        assert!(
            error
                .to_string()
                .contains(&format!("at character {position}")),
            "{error}"
        );
    }
}

#[test]
fn settings_may_be_left_out() {
    let spec = GeneratorSpec::parse("").unwrap();
    assert_eq!(
        (spec.flows(), spec.packets(), spec.max_frame_len()),
        (1_000, Some(1_000_000), 64)
    );
    assert_eq!(
        spec,
        GeneratorSpec::parse("flows=1k,packets=1M,size=64,proto=udp").unwrap()
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([a-z0-9]{0,9}[=:/,.-]?){0,12}") {
        let _ = GeneratorSpec::parse(&text);
    }

    #[test]
    fn any_value_is_read_or_refused(
        key in prop::sample::select(super::read::KEYS.map(|known| known.0).to_vec()),
        value in "[0-9a-z:./-]{0,24}",
    ) {
        if let Err(error) = GeneratorSpec::parse(&format!("seed=1,{key}={value}")) {
            prop_assert!(!error.allowed.is_empty());
        }
    }
}
