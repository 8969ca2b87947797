//! The functions that work on headers, run by the engine over packets made for the purpose.

use weir_functions::filter::{Filter, Match, Otherwise, Settings as FilterSettings};
use weir_functions::ip_check::{IpCheck, OnBad, Settings as CheckSettings};
use weir_functions::mac_swap::MacSwap;
use weir_functions::nop::{FlowNop, Nop};
use weir_functions::size_histogram::{Settings as SizeSettings, SizeHistogram};
use weir_functions::ttl::{Settings as TtlSettings, Ttl};
use weir_functions::words::Words;
use weir_nf::host::{FlowOptions, OnMalformed, Target};
use weir_packet::{Headers, LinkType, ParseOptions, Side, checksum, parse};
use weir_runtime::harness::{Craft, Harness};

const V4: (&str, &str) = ("10.0.0.1:1000", "192.0.2.1:53");
const V6: (&str, &str) = ("[2001:db8::1]:1000", "[2001:db8::2]:53");

fn parsed(frame: &[u8]) -> Headers {
    parse(frame, LinkType::Ethernet, &ParseOptions::default()).expect("a packet of ours")
}

#[test]
fn nothing_is_done_by_nop() {
    let frame = Craft::udp(V4.0, V4.1).payload(b"hello").build();
    let mut harness = Harness::of::<Nop>(Default::default());
    assert_eq!(harness.send(&frame), std::slice::from_ref(&frame));
    assert!(!harness.finish().flows.tracked);
    let mut harness = Harness::of::<FlowNop>(Default::default());
    assert_eq!(harness.send(&frame), std::slice::from_ref(&frame));
    assert_eq!(harness.send(&[0; 60]), [vec![0; 60]]);
    assert_eq!(harness.finish().flows.seen, 1);
}

#[test]
fn addresses_are_swapped_and_nothing_else() {
    let frame = Craft::udp(V4.0, V4.1).vlan(7).payload(b"hello").build();
    let mut harness = Harness::of::<MacSwap>(Default::default());
    let out = harness.send(&frame);
    assert_eq!(out[0][..6], frame[6..12]);
    assert_eq!(out[0][6..12], frame[..6]);
    assert_eq!(out[0][12..], frame[12..]);
    // Too short, and not Ethernet.
    assert_eq!(harness.send(&frame[..11]), [frame[..11].to_vec()]);
    harness.queue_link(Side::Inside, LinkType::RawIp, &frame[18..]);
    assert_eq!(harness.flush()[0].bytes, frame[18..]);
    assert_eq!(harness.counter("mac-swap", "not_ethernet"), 2);
    harness.finish();
}

#[test]
fn sizes_are_counted() {
    for (check_sequence, expected) in [(false, [1, 2]), (true, [0, 3])] {
        let mut harness = Harness::of::<SizeHistogram>(SizeSettings { check_sequence });
        for len in [64, 65, 123] {
            harness.queue(Side::Inside, &vec![0; len]);
        }
        harness.queue(Side::Inside, &vec![0; 20_000]);
        assert_eq!(harness.flush().len(), 4);
        let counted =
            ["size_to_64", "size_65_to_127"].map(|c| harness.counter("size-histogram", c));
        assert_eq!(counted, expected);
        assert_eq!(harness.counter("size-histogram", "size_over_9216"), 1);
    }
}

/// A right frame, and the same with one thing wrong, in one burst.
#[test]
fn bad_headers_are_dropped_or_counted() {
    let good = Craft::udp(V4.0, V4.1).payload(b"hello").build();
    let good6 = Craft::udp(V6.0, V6.1).payload(b"hello").build();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame
    };
    let refill = |frame: &mut Vec<u8>| {
        frame[24..26].fill(0);
        let sum = checksum::internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    let bad_sum = with(&|frame| frame[25] ^= 1);
    let no_sum = with(&|frame| frame[24..26].fill(0));
    let no_ttl = with(&|frame| {
        frame[22] = 0;
        refill(frame);
    });
    let loopback = with(&|frame| {
        frame[26] = 127;
        refill(frame);
    });
    let bad_udp = with(&|frame| frame[42] ^= 1);
    let options = {
        let mut frame = good.clone();
        frame.splice(34..34, [1, 1, 1, 0]);
        frame[14] = 0x46;
        frame[17] += 4;
        frame[24..26].fill(0);
        let sum = checksum::internet(&frame[14..38]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let bad_options = {
        let mut frame = options.clone();
        frame[35] = 7;
        frame
    };
    let mut no_hops = good6.clone();
    no_hops[21] = 0;
    let all = [
        &good,
        &good6,
        &bad_sum,
        &no_sum,
        &no_ttl,
        &loopback,
        &bad_udp,
        &options,
        &bad_options,
        &no_hops,
    ];
    let run = |settings: CheckSettings| {
        let mut harness = Harness::of::<IpCheck>(settings);
        for frame in all {
            harness.queue(Side::Inside, frame);
        }
        harness.queue(Side::Inside, &[0; 60]);
        let out = harness.flush().len();
        let counts = IpCheckCounts::of(&harness);
        harness.finish();
        (out, counts)
    };
    let plain = IpCheckCounts {
        sum: 3,
        ttl: 2,
        ..Default::default()
    };
    let strict = IpCheckCounts {
        martian: 1,
        transport: 1,
        ..plain
    };
    let settings = CheckSettings::default();
    assert_eq!(run(settings.clone()), (6, plain));
    assert_eq!(
        run(CheckSettings {
            on_bad: OnBad::Count,
            ..settings.clone()
        }),
        (11, plain)
    );
    let settings = CheckSettings {
        martians: true,
        transport: true,
        ..settings
    };
    assert_eq!(run(settings), (4, strict));
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IpCheckCounts {
    sum: u64,
    ttl: u64,
    martian: u64,
    transport: u64,
}

impl IpCheckCounts {
    fn of(harness: &Harness) -> IpCheckCounts {
        let count = |name| harness.counter("ip-check", name);
        IpCheckCounts {
            sum: count("bad_checksum"),
            ttl: count("ttl_zero"),
            martian: count("martian_source"),
            transport: count("bad_transport_checksum"),
        }
    }
}

#[test]
fn time_to_live_runs_out() {
    for (source, destination) in [V4, V6] {
        let mut harness = Harness::of::<Ttl>(TtlSettings::default());
        let packet = |ttl| {
            Craft::udp(source, destination)
                .ttl(ttl)
                .payload(b"hello")
                .build()
        };
        let out = harness.send(&packet(64));
        assert_eq!(
            out,
            [packet(63)],
            "all but the time to live stays, the checksum is right"
        );
        assert_eq!(harness.send(&packet(2)), [packet(1)]);
        assert!(harness.send(&packet(1)).is_empty());
        assert!(harness.send(&packet(0)).is_empty());
        assert_eq!(harness.send(&[9; 60]), [vec![9; 60]]);
        let report = harness.finish();
        assert_eq!(report.drops, [("ttl.ttl_expired".to_owned(), 2)]);
        assert_eq!(report.emitted, 0);
    }
}

fn router() -> TtlSettings {
    TtlSettings {
        icmp: true,
        address: Some("192.0.2.254".parse().unwrap()),
        address6: Some("2001:db8::ffff".parse().unwrap()),
    }
}

#[test]
fn the_sender_is_told() {
    for (source, destination) in [V4, V6] {
        let mut harness = Harness::of::<Ttl>(router());
        let frame = Craft::udp(source, destination)
            .ttl(1)
            .vlan(5)
            .payload(&[7; 1_400])
            .build();
        harness.queue(Side::Inside, &frame);
        let out = harness.flush();
        assert_eq!(out.len(), 1);
        assert_eq!(
            out[0].from,
            Side::Outside,
            "the answer leaves where the packet came in"
        );
        let answer = &out[0].bytes;
        assert_eq!(answer[..6], frame[6..12]);
        assert_eq!(answer[12..18], frame[12..18], "the tag and the EtherType");
        let headers = parsed(answer);
        let (kind, quote) = if headers.is_ipv4() {
            (11, 548)
        } else {
            (3, 1_232)
        };
        assert!(headers.is_icmp() || headers.is_icmpv6());
        let message = headers.l4_of(answer);
        assert_eq!(message[..2], [kind, 0]);
        assert_eq!(
            message[8..],
            frame[18..18 + quote],
            "as much of the packet as may be"
        );
        let good = checksum::Verdict::Good;
        assert_eq!(checksum::check_transport(answer, &headers), good);
        if headers.is_ipv4() {
            assert_eq!(checksum::check_ipv4(answer, &headers), good);
            assert_eq!(answer[30..34], [192, 0, 2, 254]);
            assert_eq!(answer[34..38], frame[30..34], "to the sender");
        } else {
            assert_eq!(answer[42..58], frame[26..42], "to the sender");
        }
        assert_eq!(harness.counter("ttl", "time_exceeded_sent"), 1);
        assert_eq!(harness.finish().emitted, 1);
    }
}

#[test]
fn nobody_is_told_where_that_is_forbidden() {
    let mut harness = Harness::of::<Ttl>(router());
    let silent = [
        Craft::ping("10.0.0.1:1", "192.0.2.1:1")
            .icmp(3, 1)
            .payload(&[0; 28])
            .ttl(1),
        Craft::ping("[2001:db8::1]:1", "[2001:db8::2]:1")
            .icmp(1, 4)
            .payload(&[0; 48])
            .ttl(1),
        Craft::udp("10.0.0.1:1", "224.0.0.251:5353").ttl(1),
        Craft::udp("[2001:db8::1]:1", "[ff02::fb]:5353").ttl(1),
        Craft::udp("0.0.0.0:68", "192.0.2.1:67").ttl(1),
        Craft::udp("[::]:68", "[2001:db8::2]:67").ttl(1),
        Craft::udp(V4.0, V4.1)
            .fragment(0x0010)
            .payload(&[0; 32])
            .ttl(1),
    ];
    for packet in silent {
        assert!(harness.send(&packet.build()).is_empty(), "{packet:?}");
    }
    // A question is answered.
    let ping = Craft::ping("10.0.0.1:1", "192.0.2.1:1").ttl(1).build();
    assert_eq!(harness.send(&ping).len(), 1);
    let ping = Craft::ping("[2001:db8::1]:1", "[2001:db8::2]:1")
        .ttl(1)
        .build();
    assert_eq!(harness.send(&ping).len(), 1);
    let report = harness.finish();
    assert_eq!((report.emitted, report.dropped()), (2, 9));
}

#[test]
fn the_first_entry_decides() {
    let words = |text: &str| Words::from(text);
    let settings = FilterSettings {
        drop: vec![Match {
            to_port: words("23"),
            ..Match::default()
        }],
        accept: vec![Match {
            from: words("10.0.0.0/24"),
            ..Match::default()
        }],
        classes: vec![
            Match {
                protocol: words("tcp"),
                ..Match::default()
            },
            Match {
                from: words("2001:db8::/32"),
                ..Match::default()
            },
        ],
        otherwise: Otherwise::Drop,
    };
    let mut harness = Harness::builder()
        .with::<Filter>(settings)
        .unwrap()
        // class-1 leads nowhere, class-2 out.
        .links(vec![Target::Out, Target::Drop, Target::Out])
        .build();
    let mut send = |craft: Craft| harness.send(&craft.build()).len();
    assert_eq!(send(Craft::tcp("10.0.0.1:9", "192.0.2.1:23")), 0);
    assert_eq!(send(Craft::tcp("10.0.0.1:9", "192.0.2.1:80")), 1);
    assert_eq!(send(Craft::tcp("10.0.1.1:9", "192.0.2.1:80")), 0);
    assert_eq!(send(Craft::udp("[2001:db8::1]:9", "[::2]:80")), 1);
    assert_eq!(send(Craft::udp("10.0.1.1:9", "192.0.2.1:80")), 0);
    // A later fragment has no port, so the first entry does not take it.
    let later = Craft::udp("10.0.0.1:9", "192.0.2.1:23")
        .fragment(0x0010)
        .payload(&[0; 32]);
    assert_eq!(send(later), 1);
    let counted = ["accepted", "class_1", "class_2"].map(|c| harness.counter("filter", c));
    assert_eq!(counted, [2, 1, 1]);
    let drops = harness.finish().drops;
    assert_eq!(drops.len(), 3, "{drops:?}");
    assert!(drops.contains(&("filter.filtered".to_owned(), 1)));
    assert!(drops.contains(&("filter.no_match".to_owned(), 1)));
}

#[test]
fn a_seventh_class_is_refused() {
    let settings = FilterSettings {
        classes: vec![Match::default(); 7],
        ..Default::default()
    };
    let error = Harness::builder().with::<Filter>(settings).err().unwrap();
    assert_eq!(error.path, "classes");
}

/// Whatever the bytes, no function of this file panics, and every packet is accounted for.
#[test]
fn broken_packets_break_nothing() {
    let flows = FlowOptions {
        malformed: OnMalformed::Pass,
        max: 1 << 16,
        ..FlowOptions::default()
    };
    let mut harness = Harness::builder()
        .with::<IpCheck>(CheckSettings {
            martians: true,
            transport: true,
            on_bad: OnBad::Count,
        })
        .unwrap()
        .with::<Ttl>(router())
        .unwrap()
        .with::<Filter>(FilterSettings {
            classes: vec![Match {
                to_port: Words::from("53"),
                ..Match::default()
            }],
            ..FilterSettings::default()
        })
        .unwrap()
        .with::<MacSwap>(Default::default())
        .unwrap()
        .with::<SizeHistogram>(SizeSettings::default())
        .unwrap()
        .flows(flows)
        .build();
    let mut random = 3u64;
    let frames = [
        Craft::udp(V4.0, V4.1).payload(b"hello").ttl(1).build(),
        Craft::tcp(V6.0, V6.1)
            .options(&[2, 4, 5, 0xb4])
            .ttl(1)
            .build(),
    ];
    for frame in frames {
        for end in 0..=frame.len() {
            harness.send(&frame[..end]);
            let mut damaged = frame.clone();
            for _ in 0..4 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let place = (random >> 33) as usize % damaged.len();
                damaged[place] = (random >> 24) as u8;
            }
            harness.send(&damaged);
        }
    }
    harness.finish();
}
