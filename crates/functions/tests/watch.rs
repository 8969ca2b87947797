//! Watches on an engine: whoever looks on changes nothing, and sees everything
//! that becomes of a packet.

use std::sync::{Arc, Mutex};

use weir_functions::firewall::{self, Firewall};
use weir_functions::monitor::{self, Monitor};
use weir_functions::nat44::{self, Nat44};
use weir_nf::packet::Side;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::watch::{
    DispositionTrace, PacketTrace, Seen, StepVerdict, Taken, Tap, TapPoint, Tapped, Tapper, Tracer,
};

/// Takes every packet whose number is a multiple of `each`.
struct Every {
    each: u64,
    seen: Arc<Mutex<Vec<PacketTrace>>>,
}

impl Tracer for Every {
    fn wants(&mut self, seen: &Seen<'_>) -> bool {
        seen.meta.sequence.is_multiple_of(self.each)
    }

    fn put(&mut self, trace: PacketTrace) -> Taken {
        self.seen.lock().unwrap().push(trace);
        Taken::More
    }
}

/// Point, bytes, comment.
type Copies = Arc<Mutex<Vec<(usize, Vec<u8>, String)>>>;

struct All(Copies);

impl Tapper for All {
    fn wants(&mut self, _: &Seen<'_>) -> bool {
        true
    }

    fn put(&mut self, packet: &Tapped<'_>) -> Taken {
        let comment = packet.comment.map_or_else(String::new, |c| c.to_string());
        let copy = (packet.point, packet.bytes.to_vec(), comment);
        self.0.lock().unwrap().push(copy);
        Taken::More
    }
}

fn settings<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn chain() -> Harness {
    Harness::builder()
        .with::<Monitor>(monitor::Settings::default())
        .unwrap()
        .with::<Firewall>(settings::<firewall::Settings>(
            r#"{"default":"drop","rules":["accept out udp from 10.0.0.0/8","accept out tcp from 10.0.0.0/8","reject out icmp from 10.0.0.0/8"]}"#,
        ))
        .unwrap()
        .with::<Nat44>(settings::<nat44::Settings>(
            r#"{"pool":"203.0.113.0/30","inside":"10.0.0.0/8"}"#,
        ))
        .unwrap()
        .build()
}

fn traced(harness: &mut Harness, each: u64) -> Arc<Mutex<Vec<PacketTrace>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tracer = Every {
        each,
        seen: seen.clone(),
    };
    harness.runtime().trace(0, Box::new(tracer)).unwrap();
    seen
}

fn tapped(harness: &mut Harness, points: Vec<TapPoint>) -> Copies {
    let copies = Copies::default();
    let tap = Tap {
        number: 1,
        points,
        tapper: Box::new(All(copies.clone())),
    };
    harness.runtime().tap(tap).unwrap();
    copies
}

fn broken() -> Vec<u8> {
    let mut frame = Craft::udp("10.0.0.9:1", "192.0.2.1:9").build();
    frame.truncate(20);
    frame
}

/// Packets of many kinds: known and new flows, drops, fragments out of order,
/// what can't be read, in bursts.
fn traffic(harness: &mut Harness) -> Vec<(Vec<u8>, Side)> {
    let mut out = Vec::new();
    for round in 0..40u16 {
        for host in 1..=5 {
            let client = format!("10.0.0.{host}:{}", 1_000 + round % 7);
            harness.queue(Side::Inside, &Craft::udp(&client, "192.0.2.1:53").build());
            let syn = Craft::tcp(&client, "192.0.2.1:80").flags("S");
            harness.queue(Side::Inside, &syn.build());
            let stranger = Craft::udp("192.0.2.7:7", &format!("203.0.113.1:{round}"));
            harness.queue(Side::Outside, &stranger.build());
            let datagram = Craft::udp(&client, "192.0.2.1:9").ip_id(round * 8 + host);
            harness.queue(Side::Inside, &datagram.clone().fragment(0x0010).build());
            harness.queue(Side::Inside, &datagram.fragment(0x2000).build());
        }
        harness.queue(Side::Inside, &broken());
        let ping = Craft::ping("10.0.0.1:7", "192.0.2.1:1");
        harness.queue(Side::Inside, &ping.build());
        harness.advance_ms(300);
        let flushed = harness.flush();
        out.extend(flushed.into_iter().map(|out| (out.bytes, out.from)));
    }
    out
}

#[test]
fn whoever_looks_on_changes_nothing() {
    let mut alone = chain();
    let expected = traffic(&mut alone);
    let events = alone.events();
    let states = alone.runtime().states();
    let report = alone.finish();
    assert!(report.dropped() > 0 && report.packets_out > 0);
    for each in [1, 2, 3, 7] {
        let mut watched = chain();
        let seen = traced(&mut watched, each);
        let copies = tapped(
            &mut watched,
            vec![TapPoint::Before("nat44".into()), TapPoint::Drops(None)],
        );
        let out = traffic(&mut watched);
        assert_eq!(out, expected, "every packet {each}");
        assert_eq!(watched.events(), events, "every packet {each}");
        assert_eq!(watched.runtime().states(), states, "every packet {each}");
        let now = watched.finish();
        let counted = |report: &weir_runtime::Report| {
            let functions = report.functions.iter();
            let functions: Vec<_> = functions
                .map(|f| (f.name.clone(), f.packets, f.dropped, f.counters.clone()))
                .collect();
            (report.drops.clone(), report.events, functions)
        };
        assert_eq!(counted(&now), counted(&report), "every packet {each}");
        assert!(!seen.lock().unwrap().is_empty() && !copies.lock().unwrap().is_empty());
    }
}

#[test]
fn every_drop_is_tapped_and_every_disposition_is_told() {
    let mut harness = chain();
    let seen = traced(&mut harness, 1);
    let copies = tapped(
        &mut harness,
        vec![
            TapPoint::Drops(None),
            TapPoint::In(u64::MAX),
            TapPoint::Out(None),
        ],
    );
    let out = traffic(&mut harness);
    // A fragment whose first one never comes.
    let lost = Craft::udp("10.0.0.3:3", "192.0.2.1:9").fragment(0x0010);
    harness.send(&lost.build());
    harness.advance_ms(31_000);
    harness.send(&Craft::udp("10.0.0.3:3", "192.0.2.1:9").build());
    let report = harness.finish();
    let copies = copies.lock().unwrap();
    let at = |point: usize| copies.iter().filter(move |copy| copy.0 == point);
    let mut by_reason = std::collections::BTreeMap::new();
    for (_, _, comment) in at(0) {
        let reason = comment.strip_prefix("dropped: ").unwrap().to_owned();
        *by_reason.entry(reason).or_insert(0) += 1;
    }
    let counted: std::collections::BTreeMap<_, _> = report.drops.iter().cloned().collect();
    assert_eq!(by_reason, counted);
    assert!(
        counted
            .keys()
            .any(|reason| reason.starts_with("malformed."))
    );
    assert!(counted.contains_key("fragment_timeout"), "{counted:?}");
    assert_eq!(at(2).count() as u64, report.packets_out);
    assert_eq!(at(2).count(), out.len() + 1);
    // Traces: each packet's last part says how it ended.
    let seen = seen.lock().unwrap();
    let mut dispositions = std::collections::BTreeMap::new();
    for part in seen.iter() {
        dispositions.insert(part.sequence, part.disposition.clone());
    }
    let ended = |wanted: &dyn Fn(&DispositionTrace) -> bool| {
        dispositions
            .values()
            .filter(|disposition| wanted(disposition))
            .count() as u64
    };
    assert_eq!(dispositions.len() as u64, report.packets_in);
    assert_eq!(
        ended(&|disposition| matches!(disposition, DispositionTrace::Out(_))),
        report.packets_out - report.emitted
    );
    for (reason, count) in &report.drops {
        let told = ended(
            &|disposition| matches!(disposition, DispositionTrace::Dropped(r) if r == reason),
        );
        assert_eq!(told, *count, "{reason}");
    }
    let held = seen
        .iter()
        .filter(|part| part.disposition == DispositionTrace::Held);
    assert!(held.count() > 0);
}

#[test]
fn a_step_says_what_changed() {
    let mut harness = chain();
    let seen = traced(&mut harness, 1);
    let sent = Craft::udp("10.0.0.2:5000", "192.0.2.1:53").build();
    harness.send(&sent);
    let seen = seen.lock().unwrap();
    let [part] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert!(part.flow.as_ref().unwrap().is_new);
    let names: Vec<_> = part
        .steps
        .iter()
        .map(|step| step.function.as_str())
        .collect();
    assert_eq!(names, ["monitor", "firewall", "nat44"]);
    let nat = &part.steps[2];
    let change = |name: &str| {
        let found = nat.changed.iter().find(|change| change.name == name);
        found.map(|change| {
            (
                change.before.clone().unwrap(),
                change.after.clone().unwrap(),
            )
        })
    };
    let (before, after) = change("ipv4.src").unwrap();
    assert_eq!(before, "10.0.0.2");
    assert!(after.starts_with("203.0.113."));
    assert!(change("ipv4.checksum").is_some() && change("ipv4.dst").is_none());
    assert!(nat.state.iter().any(|change| change.name == "internal"
        && change.before.is_none()
        && change.after.as_deref() == Some("10.0.0.2:5000")));
    assert!(!nat.aliases.is_empty());
    assert!(nat.events.iter().any(|line| line.contains("\"nat\"")));
    assert_eq!(part.disposition, DispositionTrace::Out(Side::Outside));
    let StepVerdict::On { label, to } = &part.steps[0].verdict else {
        panic!("{part:?}")
    };
    assert_eq!((*label, to.as_str()), ("pass", "firewall"));
    let firewall = &part.steps[1];
    let rule = firewall
        .state
        .iter()
        .find(|change| change.name == "verdict");
    assert_eq!(rule.unwrap().after.as_deref(), Some("accept"));
}

#[test]
fn a_hairpin_is_told_twice_and_an_answer_is_shown() {
    let mut harness = chain();
    let seen = traced(&mut harness, 1);
    let host = "10.0.0.2:6000";
    let out = harness.send(&Craft::udp(host, "192.0.2.1:80").build());
    let external = {
        let bytes = &out[0];
        let port = u16::from_be_bytes([bytes[34], bytes[35]]);
        format!(
            "{}.{}.{}.{}:{port}",
            bytes[26], bytes[27], bytes[28], bytes[29]
        )
    };
    // A rule lets it in: `out` is what comes from the inside.
    harness.send(&Craft::udp("10.0.0.1:5000", &external).build());
    let parts: Vec<PacketTrace> = seen.lock().unwrap().drain(..).collect();
    let parts: Vec<_> = parts.iter().filter(|part| part.sequence == 2).collect();
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!(parts[0].disposition, DispositionTrace::Turned);
    assert!(!parts[0].again && parts[1].again);
    assert_eq!(parts[0].steps.last().unwrap().verdict, StepVerdict::Turned);
    // The firewall answers what it rejects.
    harness.send(&Craft::ping("10.0.0.5:7", "192.0.2.1:1").build());
    let parts = seen.lock().unwrap();
    let rejected = parts.last().unwrap();
    assert_eq!(
        rejected.disposition,
        DispositionTrace::Dropped("firewall.rejected".to_owned())
    );
    let made = &rejected.steps.last().unwrap().made;
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].towards, Side::Inside);
}

#[test]
fn watches_are_taken_off() {
    let mut harness = chain();
    let seen = traced(&mut harness, 1);
    let copies = tapped(&mut harness, vec![TapPoint::In(u64::MAX)]);
    assert_eq!(harness.runtime().watches(), 2);
    harness.send(&Craft::udp("10.0.0.2:1", "192.0.2.1:1").build());
    harness.runtime().end_trace(0);
    harness.runtime().end_tap(1);
    assert_eq!(harness.runtime().watches(), 0);
    harness.send(&Craft::udp("10.0.0.2:1", "192.0.2.1:1").build());
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert_eq!(copies.lock().unwrap().len(), 1);
    let many = (0..100).map(|number| Tap {
        number,
        points: vec![TapPoint::In(u64::MAX)],
        tapper: Box::new(All(Copies::default())),
    });
    let refused = many
        .map(|tap| harness.runtime().tap(tap))
        .filter(Result::is_err)
        .count();
    assert_eq!(refused, 100 - weir_runtime::watch::MOST_TAPS);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tracer = Box::new(Every { each: 1, seen });
    assert!(harness.runtime().trace(8, tracer).is_err());
}
