//! Chains cut into stages do what they do as written.

mod common;

use common::line::{Line, Made, Told, config, cut, written};
use proptest::prelude::*;
use weir_nf::host::{FlowOptions, Stage, WhenFull};
use weir_nf::prelude::*;
use weir_packet::{FrameKind, FrameMeta};
use weir_runtime::harness::Craft;
use weir_runtime::{Report, Role, Runtime};

#[derive(Clone, Debug)]
struct Step {
    client: u8,
    server: u8,
    kind: u8,
    back: bool,
    flags: u8,
    what: u8,
    wait_ms: u64,
    /// The burst ends here.
    flush: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![
        8 => Just(0u64), 4 => 0u64..2_000, 1 => 9_000u64..11_000, 1 => 230_000u64..310_000
    ];
    let step = (
        (0u8..5, 0u8..3, 0u8..8, any::<bool>()),
        (0u8..7, any::<u8>(), wait, prop::bool::weighted(0.1)),
    );
    let step = step.prop_map(
        |((client, server, kind, back), (flags, what, wait_ms, flush))| Step {
            client,
            server,
            kind,
            back,
            flags,
            what,
            wait_ms,
            flush,
        },
    );
    prop::collection::vec(step, 1..250)
}

impl Step {
    fn packet(&self, number: usize) -> Vec<u8> {
        let client = format!("10.0.0.{}:1000", self.client);
        let server = format!("192.0.2.{}:80", self.server);
        let (from, to) = if self.back {
            (server, client)
        } else {
            (client, server)
        };
        let payload = [self.what, 0, number as u8, 4, 5, 6, 7, 8];
        let fragment = [0x2000, 2, 0x2002][usize::from(self.flags) % 3];
        let craft = match self.kind {
            0..4 => {
                let flags = ["S", "SA", "R", "FA", "A", "A", "A"][usize::from(self.flags)];
                Craft::tcp(&from, &to).flags(flags)
            }
            4 => Craft::udp(&from, &to)
                .ip_id(u16::from(self.what % 4))
                .fragment(fragment),
            _ => Craft::udp(&from, &to),
        };
        let mut bytes = craft.payload(&payload).build();
        if self.kind == 7 {
            // not IP, or cut
            match self.flags {
                0 => bytes.truncate(usize::from(self.what) % 40 + 4),
                1 => bytes[12..14].copy_from_slice(&[0x88, 0xb5]),
                _ => {}
            }
        }
        bytes
    }
}

fn run(stages: &[Stage], steps: &[Step], frames: u32, portions: u64) -> (Told, Report) {
    let mut line = Line::new(stages, frames, portions);
    let mut told = Told::default();
    let mut now = Time::from_secs(1_700_000_000);
    for (number, step) in steps.iter().enumerate() {
        now = now.plus(step.wait_ms * 1_000_000);
        line.push(&step.packet(number), now, number as u64 + 1);
        if step.flush {
            line.run(&mut told);
        }
    }
    let report = line.finish(&mut told);
    assert!(report.balances(), "{report:?}");
    (told, report)
}

fn starts(len: usize, cuts: &[usize]) -> Vec<usize> {
    let mut starts: Vec<usize> = cuts.iter().map(|cut| cut % len).chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn stages_do_what_the_chain_as_written_does(
        made in prop::collection::vec((any::<u8>(), any::<u8>()), 2..8),
        cuts in prop::collection::vec(any::<usize>(), 1..4),
        steps in steps(),
        max in prop_oneof![1u32..9, Just(64u32)],
        refuse: bool,
        held in prop_oneof![Just(0u32), Just(4), Just(64)],
        portions: u64,
    ) {
        let made: Vec<Made> = made;
        let flows = FlowOptions {
            max,
            when_full: if refuse { WhenFull::Refuse } else { WhenFull::Evict },
            held_fragments: held,
            buffer_bytes: 1 << 20,
            ..FlowOptions::default()
        };
        let whole = written(&made, flows);
        let stages = cut(&whole, &starts(made.len(), &cuts));
        let (want, want_report) = run(&[whole], &steps, 4_096, 0);
        let (got, mut report) = run(&stages, &steps, 4_096, portions);
        prop_assert_eq!(&got.packets, &want.packets);
        prop_assert_eq!(&got.emitted, &want.emitted);
        prop_assert_eq!(&got.events, &want.events);
        prop_assert_eq!(&got.states, &want.states);
        report.bad_notices = 0;
        prop_assert_eq!(report, want_report);
    }
}

fn udp(client: usize, what: u8) -> Vec<u8> {
    let client = format!("10.0.{}.{}:9", client / 200, client % 200);
    let craft = Craft::udp(&client, "192.0.2.1:80");
    craft.payload(&[what, 0, 1, 2]).build()
}

/// Flows that are neither emitted for nor refused: payload byte 7 passes both.
fn two_stages(max: u32) -> (Stage, Vec<Stage>) {
    let flows = FlowOptions {
        max,
        buffer_bytes: 1 << 20,
        ..FlowOptions::default()
    };
    let whole = written(&[(0, 3), (1, 3), (0, 3)], flows);
    let stages = cut(&whole, &[0, 1]);
    (whole, stages)
}

#[test]
fn notices_that_find_no_frame_wait_and_hold_up_what_is_behind_them() {
    let (whole, stages) = two_stages(4_096);
    let mut first = Line::new(&stages, 256, 0);
    let mut told = Told::default();
    let now = Time::from_secs(1_000);
    // Every frame holds a packet, and each opens a flow.
    for i in 0..256 {
        first.push(&udp(i, 7), now, i as u64 + 1);
    }
    let mut input = core::mem::take(&mut first.queues[0]);
    let mut output = Vec::new();
    let stage = &mut first.stages[0];
    stage.process(&mut first.pool, &mut input, &mut output);
    assert!(stage.waits_for_frames());
    assert_eq!((input.len(), output.len()), (192, 0), "one burst waits");
    stage.process(&mut first.pool, &mut input, &mut output);
    assert_eq!((input.len(), output.len()), (192, 0), "nothing has changed");
    let report = stage.report();
    assert!(report.balances() && report.packets_in == 64);
    // A few frames come back: it goes on where it stopped.
    let away: Vec<_> = input.split_off(160);
    let memory = first.pool.memory().clone();
    let kept: Vec<_> = away
        .iter()
        .map(|frame| (*memory.meta(frame), memory.bytes(frame).to_vec()))
        .collect();
    away.into_iter().for_each(|frame| first.pool.give(frame));
    first.queues[0] = input;
    first.queues[1] = output;
    first.run(&mut told);
    for (meta, bytes) in kept {
        first.push(&bytes, meta.time, meta.sequence);
    }
    first.run(&mut told);
    let report = first.finish(&mut told);
    let mut want = Told::default();
    let mut alone = Line::new(&[whole], 1_024, 0);
    for i in 0..256 {
        alone.push(&udp(i, 7), now, i as u64 + 1);
    }
    let want_report = alone.finish(&mut want);
    assert_eq!(
        (report.packets_in, report.packets_out),
        (256, want_report.packets_out)
    );
    assert_eq!(told.packets, want.packets);
    assert_eq!(told.events, want.events);
    assert_eq!(told.states, want.states);
}

#[test]
fn a_place_that_is_not_the_packets_own_is_counted_and_goes_nowhere() {
    let (_, stages) = two_stages(64);
    let mut line = Line::new(&stages, 1_024, 0);
    let now = Time::from_secs(1_000);
    for i in 0..8 {
        line.push(&udp(i, 7), now, i as u64 + 1);
    }
    let mut input = core::mem::take(&mut line.queues[0]);
    let mut fed = Vec::new();
    line.stages[0].process(&mut line.pool, &mut input, &mut fed);
    let memory = line.pool.memory().clone();
    let mut wrong = 0;
    for (number, frame) in fed.iter_mut().enumerate() {
        let meta = memory.meta_mut(frame);
        if meta.kind != FrameKind::Packet {
            continue;
        }
        let mut place = meta.place();
        match number % 8 {
            1 => place.record = 63,                     // not open
            2 => place.record = 64,                     // none
            3 => place.record = u32::MAX - 1,           // none by far
            4 => place.record = (place.record + 1) % 8, // another's
            5 => meta.unit += 1,
            6 => meta.next = 99,
            7 => meta.next = 1, // of the stage before
            _ => continue,
        }
        if number % 8 < 5 {
            meta.set_place(place);
        }
        wrong += 1;
    }
    let mut output = Vec::new();
    line.stages[1].process(&mut line.pool, &mut fed, &mut output);
    let report = line.stages[1].report();
    assert!(report.balances());
    assert_eq!(
        (wrong, report.drops),
        (7, vec![("misplaced".to_owned(), 7)])
    );
    assert_eq!(output.len(), 1);
    line.pool.give_all(&mut output);
}

#[test]
fn notices_that_can_not_be_right_are_counted_and_do_nothing() {
    let (_, stages) = two_stages(16);
    let mut line = Line::new(&stages, 1_024, 0);
    let now = Time::from_secs(1_000);
    for i in 0..4 {
        line.push(&udp(i, 7), now, i as u64 + 1);
    }
    let mut input = core::mem::take(&mut line.queues[0]);
    let mut fed = Vec::new();
    line.stages[0].process(&mut line.pool, &mut input, &mut fed);
    let memory = line.pool.memory().clone();
    let notices = memory.bytes(&fed[0]).to_vec();
    assert_eq!(memory.meta(&fed[0]).kind, FrameKind::Notice);
    let mut output = Vec::new();
    line.stages[1].process(&mut line.pool, &mut fed, &mut output);
    assert_eq!((output.len(), line.stages[1].active_flows()), (4, 4));
    line.pool.give_all(&mut output);
    let before = line.stages[1].states();
    // Once more, and with every byte damaged.
    let mut meta = FrameMeta::received(now, 0);
    meta.kind = FrameKind::Notice;
    let mut last = 0;
    for at in 0..=notices.len() {
        let mut bytes = notices.clone();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 0xff;
        }
        let frame = line.pool.copy(&bytes, meta).expect("a frame is free");
        let mut input = vec![frame];
        line.stages[1].process(&mut line.pool, &mut input, &mut output);
        let bad = line.stages[1].report().bad_notices;
        assert!(bad > last, "at {at}");
        last = bad;
    }
    let after = line.stages[1].states();
    assert_eq!(after, before, "no state was touched");
    assert!(output.is_empty());
}

#[test]
fn what_must_be_in_the_first_stage_is_refused_in_a_later_one() {
    let builder = weir_runtime::harness::Harness::builder();
    let mut aliases = builder.with::<common::Probe<0>>(()).expect("none").stage();
    let later = |stage: &Stage| {
        let config = config(Role::later([stage], true));
        Runtime::new(stage, config).map(|_| ()).map_err(|e| e.0)
    };
    assert_eq!(
        later(&aliases),
        Err("chain harness: function 0 is in the first stage, and in no other".to_owned())
    );
    aliases.first = 3;
    assert_eq!(
        later(&aliases),
        Err("probe gives flows further names: it must be in the first stage".to_owned())
    );
    aliases.first = 254;
    assert!(later(&aliases).is_err());
    let (_, stages) = two_stages(16);
    let mut follows = config(Role::later(&stages, true));
    follows.follows = true;
    assert!(Runtime::new(&stages[1], follows).is_err());
    assert!(Runtime::new(&stages[1], config(Role::Alone)).is_ok());
}

#[test]
fn silence_ends_flows_in_all_stages() {
    let (_, stages) = two_stages(16);
    let mut line = Line::new(&stages, 1_024, 0);
    let mut told = Told::default();
    for i in 0..4 {
        line.push(&udp(i, 7), Time::from_secs(1_000), i as u64 + 1);
    }
    line.run(&mut told);
    let open = |line: &Line| [0, 1].map(|i| line.stages[i].active_flows());
    assert_eq!(open(&line), [4, 4]);
    let later = Time::from_secs(2_000);
    let (first, next) = line.queues.split_at_mut(1);
    assert!(first[0].is_empty());
    let more = line.stages[0].pass_time(&mut line.pool, later, &mut next[0]);
    assert!(!more);
    line.run(&mut told);
    assert_eq!(open(&line), [0, 0]);
    line.finish(&mut told);
}
