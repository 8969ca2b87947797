//! What stock functions say of themselves is what they do: the graph compiler believes it.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::settings::{busy, needed};
use support::{load, traces};
use weir_functions::compression::PayloadCompressor;
use weir_functions::kinds;
use weir_io::capture::OwnedRecord;
use weir_nf::host::{FlowOptions, Kind, MAX_LABELS, Settings, Target};
use weir_nf::packet::{HeaderFlags, Headers, LinkType, ParseOptions, Side, Time, parse};
use weir_nf::{Descriptor, Needs, NoSources, Parts, SetUp};
use weir_runtime::harness::{Craft, Harness};

/// Captures of all sorts; of each the first packets.
const CAPTURES: [&str; 8] = [
    "a-mixed/pcapplusplus__example.pcap",
    "a-mixed/snabb__sanitized4k.pcap",
    "a-mixed/arkime__arkime_synthetic.pcap",
    "a-mixed/zeek__wikipedia.pcap",
    "a-mixed/ipfixprobe__mixed.pcap",
    "b-http/zeek__methods.pcap",
    "b-http/zeek__pipelined-requests.pcap",
    "a-mixed/ndpi__reddit.pcap",
];
const MOST: usize = 700;

/// A packet to send.
struct Input {
    time: Time,
    link: LinkType,
    side: Side,
    bytes: Vec<u8>,
}

fn inputs() -> Option<Vec<Input>> {
    let folder = traces()?;
    let mut inputs: Vec<Input> = Vec::new();
    let mut compressor = Harness::of::<PayloadCompressor>(Default::default());
    for name in CAPTURES {
        let records = load(&folder.join("traces").join(name));
        for OwnedRecord {
            time_ns, dlt, data, ..
        } in records.into_iter().take(MOST)
        {
            let link = LinkType::from_dlt(dlt);
            let input = |bytes| Input {
                time: Time(time_ns),
                link,
                side: Side::Inside,
                bytes,
            };
            compressor.queue_link(Side::Inside, link, &data);
            for out in compressor.flush() {
                if out.bytes != data {
                    inputs.push(input(out.bytes));
                }
            }
            inputs.push(input(data));
        }
    }
    inputs.extend(by_hand(inputs.last().map_or(Time::ZERO, |last| last.time)));
    Some(inputs)
}

/// What is rare in captures: a load balancer's service, a packet that expires, a stranger at a
/// NAT.
fn by_hand(time: Time) -> Vec<Input> {
    let mut inputs = Vec::new();
    let mut push = |side, bytes| {
        inputs.push(Input {
            time,
            link: LinkType::Ethernet,
            side,
            bytes,
        })
    };
    let (a, b) = ("10.0.0.9:5000", "10.0.2.2:80");
    let question = Craft::tcp(a, b).flags("S").build();
    push(Side::Inside, question);
    push(Side::Inside, Craft::tcp(a, b).flags("S").ttl(1).build());
    push(
        Side::Inside,
        Craft::udp("10.0.0.9:5000", "192.0.2.1:53")
            .payload(b"x")
            .build(),
    );
    push(
        Side::Outside,
        Craft::udp("192.0.2.1:53", "198.18.0.1:7")
            .payload(b"x")
            .build(),
    );
    inputs
}

/// A chain of one function; its links lead out but for the one `dropped`, and links for labels that
/// it has not said lead nowhere.
fn chain(kind: &Kind, settings: Settings, dropped: Option<usize>) -> Harness {
    let (mut pools, mut warnings) = (Vec::new(), Vec::new());
    let mut sources = NoSources;
    let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 7);
    let name = kind.descriptor.name;
    let processor = (kind.make)(settings, &mut set_up).unwrap_or_else(|e| panic!("{name}: {e}"));
    let known = kind.descriptor.labels.len() + 1;
    let next = (0..MAX_LABELS).map(|link| {
        if link < known && Some(link) != dropped {
            Target::Out
        } else {
            Target::Drop
        }
    });
    let builder = Harness::builder()
        .with_processor(processor)
        .links(next.collect())
        .flows(FlowOptions {
            max: 2_000,
            ..FlowOptions::default()
        });
    let mut stage = builder.stage();
    stage.pools = pools;
    Harness::of_stage(&stage)
}

/// All settings under which a function is tried.
fn tries(kind: &Kind) -> Vec<Settings> {
    let name = kind.descriptor.name;
    let mut all = busy(name);
    all.push(needed(name).unwrap_or_else(kind.default));
    all
}

/// The parts of a packet, as far as it has them.
fn parts<'a>(bytes: &'a [u8], headers: &Headers) -> [(Parts, &'a [u8]); 4] {
    let [l3, l4, payload] = [headers.l3, headers.l4, headers.payload].map(usize::from);
    let end = headers.end as usize;
    let at = |from: usize, to: usize| bytes.get(from..to.min(bytes.len())).unwrap_or(&[]);
    if headers.is_ip() {
        [
            (Parts::LINK, at(0, l3)),
            (Parts::NETWORK, at(l3, l4)),
            (Parts::TRANSPORT, at(l4, payload)),
            (Parts::PAYLOAD, at(payload, end)),
        ]
    } else {
        [
            (Parts::LINK, at(0, l3)),
            (Parts::NETWORK, &[]),
            (Parts::TRANSPORT, &[]),
            (Parts::PAYLOAD, at(l3, end)),
        ]
    }
}

fn parsed(input: &Input, bytes: &[u8]) -> Option<Headers> {
    parse(bytes, input.link, &ParseOptions::default()).ok()
}

/// What a function was seen to do.
#[derive(Default)]
struct Seen {
    writes: BTreeSet<&'static str>,
    drops: BTreeSet<String>,
    emits: bool,
    events: bool,
}

fn watch(harness: &mut Harness, inputs: &[Input], seen: &mut Seen) {
    for (number, input) in inputs.iter().enumerate() {
        let out = watch_one(harness, input, seen);
        // Some packets are answered by a router that could not pass them on.
        if number % 8 == 0
            && let Some(error) = out.and_then(|out| error_about(input, &out))
        {
            watch_one(harness, &error, seen);
        }
    }
    let report = harness.finish();
    seen.emits |= report.emitted > 0;
    seen.events |= report.events > 0;
    let name = report.functions[0].name.clone() + ".";
    let own = |(drop, _): &(String, u64)| drop.strip_prefix(&name).map(str::to_owned);
    seen.drops.extend(report.drops.iter().filter_map(own));
}

/// Gives the packet that came out, if one did.
fn watch_one(harness: &mut Harness, input: &Input, seen: &mut Seen) -> Option<Vec<u8>> {
    let emitted = harness.report().emitted;
    harness.set_time(input.time);
    harness.queue_link(input.side, input.link, &input.bytes);
    let mut out = harness.flush();
    seen.events |= !harness.events().is_empty();
    // Only where one packet came of one: held fragments come in twos.
    if out.len() != 1 || out[0].from != input.side || harness.report().emitted != emitted {
        return None;
    }
    let out = out.remove(0).bytes;
    let (Some(before), Some(after)) = (parsed(input, &input.bytes), parsed(input, &out)) else {
        assert_eq!(out, input.bytes, "what can't be read is left alone");
        return None;
    };
    for ((part, before), (_, after)) in parts(&input.bytes, &before)
        .into_iter()
        .zip(parts(&out, &after))
    {
        if before != after {
            seen.writes.extend(part.names());
        }
    }
    Some(out)
}

/// An ICMP error about a packet that has passed.
fn error_about(input: &Input, out: &[u8]) -> Option<Input> {
    let headers = parsed(input, out).filter(|h| h.is_ipv4() && h.has_ports())?;
    let quoted = out.get(usize::from(headers.l3)..)?;
    let [a, b, c, d] = *quoted.get(12..)?.first_chunk::<4>()?;
    let error = Craft::ping("203.0.113.1:0", &format!("{a}.{b}.{c}.{d}:0")).icmp(3, 1);
    Some(Input {
        time: input.time,
        link: LinkType::Ethernet,
        side: input.side.opposite(),
        bytes: error.payload(quoted.get(..60).unwrap_or(quoted)).build(),
    })
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn yes(flag: bool) -> BTreeSet<String> {
    words(flag.then_some("yes"))
}

#[test]
fn functions_do_what_they_declare_and_declare_what_they_do() {
    let Some(inputs) = inputs() else { return };
    let mut lies = Vec::new();
    for kind in kinds() {
        let d = kind.descriptor;
        let mut seen = Seen::default();
        for settings in tries(kind) {
            watch(&mut chain(kind, settings, None), &inputs, &mut seen);
        }
        // A reason for a drop may be hard to come by: each has a test of its own elsewhere.
        for (what, declared, done, all) in [
            ("emits", yes(d.emits), yes(seen.emits), true),
            ("events", yes(d.events), yes(seen.events), true),
            ("writes", words(d.writes.names()), words(seen.writes), true),
            (
                "drops",
                words(d.drops.iter().map(|drop| drop.name())),
                seen.drops,
                false,
            ),
        ] {
            for word in done.difference(&declared) {
                lies.push(format!("{}: {what}: {word} is not declared", d.name));
            }
            for word in declared.difference(&done).filter(|_| all) {
                lies.push(format!("{}: {what}: {word} was not seen", d.name));
            }
        }
    }
    assert!(lies.is_empty(), "{}", lies.join("\n"));
}

/// Changes what a function says it does not read, and the engine does not need to find flows and
/// to follow connections.
fn scramble(input: &Input, about: &Descriptor) -> Vec<u8> {
    let Descriptor { reads, needs, .. } = *about;
    let mut bytes = input.bytes.clone();
    let Some(headers) = parsed(input, &input.bytes) else {
        return bytes;
    };
    let [l3, l4, payload] = [headers.l3, headers.l4, headers.payload].map(usize::from);
    let end = headers.end as usize;
    let mut flip = |from: usize, to: usize| {
        if let Some(place) = bytes.get_mut(from..to) {
            place.iter_mut().for_each(|byte| *byte ^= 0x55);
        }
    };
    if !reads.meets(Parts::LINK) && input.link == LinkType::Ethernet {
        flip(0, 12);
    }
    if !reads.meets(Parts::NETWORK) && headers.is_ipv4() && !headers.is_fragment() {
        // DSCP, identification, time to live, checksum.
        for (from, to) in [(1, 2), (4, 6), (8, 9), (10, 12)] {
            flip(l3 + from, l3 + to);
        }
        if needs < Needs::Flow {
            flip(l3 + 12, l3 + 20);
        }
    }
    if !reads.meets(Parts::TRANSPORT) && headers.is_tcp() && !headers.is_later_fragment() {
        // Window, checksum, urgent pointer.
        flip(l4 + 14, l4 + 20);
        if needs < Needs::Flow {
            flip(l4, l4 + 4);
        }
    }
    // An ICMP error's payload says which flow it is about.
    let known = headers.has_ports() && !headers.flags.contains(HeaderFlags::FRAGMENT);
    if !reads.meets(Parts::PAYLOAD) && known {
        flip(payload, end);
    }
    bytes
}

/// How long each packet came out, and what was counted and said.
type Trail = (Vec<Vec<usize>>, Vec<String>, BTreeMap<String, u64>);

fn trail(mut harness: Harness, inputs: &[Input], about: Option<&Descriptor>) -> Trail {
    let (mut lengths, mut events, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    for input in inputs {
        harness.set_time(input.time);
        let bytes = about.map_or_else(|| input.bytes.clone(), |about| scramble(input, about));
        harness.queue_link(input.side, input.link, &bytes);
        lengths.push(harness.flush().iter().map(|out| out.bytes.len()).collect());
        events.extend(harness.events());
    }
    let report = harness.finish();
    events.extend(harness.events());
    counts.extend(report.drops);
    for function in report.functions {
        counts.extend(
            function
                .counters
                .iter()
                .map(|(name, n)| (format!("c {name}"), *n)),
        );
        counts.extend(
            function
                .tally
                .iter()
                .map(|(name, n)| (format!("t {name}"), *n)),
        );
    }
    (lengths, events, counts)
}

#[test]
fn what_functions_do_not_read_makes_no_difference() {
    let Some(inputs) = inputs() else { return };
    let mut changed = 0;
    for kind in kinds() {
        let d = kind.descriptor;
        if d.reads == Parts::ALL {
            continue;
        }
        changed += inputs.iter().filter(|i| scramble(i, d) != i.bytes).count();
        // By which link a packet leaves is seen where that link leads nowhere.
        let links = 0..if d.labels.is_empty() {
            0
        } else {
            d.labels.len() + 1
        };
        for dropped in links.map(Some).chain([None]) {
            for (plain, other) in tries(kind).into_iter().zip(tries(kind)) {
                let plain = trail(chain(kind, plain, dropped), &inputs, None);
                let other = trail(chain(kind, other, dropped), &inputs, Some(d));
                assert!(plain.0 == other.0, "{}: other packets came out", d.name);
                assert!(plain.1 == other.1, "{}: other events", d.name);
                assert_eq!(plain.2, other.2, "{}", d.name);
            }
        }
    }
    assert!(changed > 20_000, "the packets differ: {changed}");
}

/// What follows from one thing that is declared for another.
#[test]
fn declarations_agree_with_each_other() {
    for kind in kinds() {
        let d = kind.descriptor;
        let needs = |part, least| !d.reads.and(d.writes).meets(part) || d.needs >= least;
        assert!(needs(Parts::NETWORK, Needs::Network), "{}", d.name);
        assert!(!d.aliases || d.needs == Needs::Flow, "{}", d.name);
        assert!(!d.shares || d.needs == Needs::Flow, "{}", d.name);
        assert_eq!(d.buffers > 0, d.buffer_bytes > 0, "{}", d.name);
        let mut names: Vec<&str> = d.drops.iter().map(|drop| drop.name()).collect();
        names.extend(d.labels);
        names.retain(|name| name.is_empty() || name.contains(' '));
        assert!(names.is_empty(), "{}: {names:?}", d.name);
    }
}
