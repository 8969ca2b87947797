//! Units move between runtimes as bytes.

mod common;

use common::{BUFFER, PASS, Probe, numbers};
use proptest::prelude::*;
use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_runtime::SnapshotError;
use weir_runtime::harness::{Craft, Harness};

fn stage() -> Stage {
    let builder = Harness::builder().with::<Probe<0>>(()).expect("none");
    builder.with::<Probe<0>>(()).expect("none").stage()
}

fn wide() -> Stage {
    let builder = Harness::builder().with::<Probe<1>>(()).expect("none");
    let builder = builder.with::<Probe<2>>(()).expect("none");
    builder.with::<Probe<0>>(()).expect("none").stage()
}

fn packet(client: u8, port: u16, server: u8, what: u8) -> Vec<u8> {
    Craft::udp(
        &format!("10.0.0.{client}:{port}"),
        &format!("192.0.2.{server}:53"),
    )
    .payload(&[what; 300])
    .build()
}

fn key(client: u8, port: u16, server: u8) -> FlowKey {
    let (a, b) = ([10, 0, 0, client].into(), [192, 0, 2, server].into());
    FlowKey::new(a, port, b, 53, 17, 0, 0).0
}

const FIELDS: [&str; 7] = [
    "n",
    "clock",
    "seen",
    "buffered",
    "random",
    "phase",
    "to_server",
];

fn seen(harness: &mut Harness) -> Vec<Vec<u64>> {
    let events = harness.events();
    ["probe", "by-client", "by-pair"]
        .iter()
        .flat_map(|kind| FIELDS.map(|field| numbers(&events, kind, field)))
        .collect()
}

#[test]
fn a_unit_goes_on_elsewhere_as_if_it_had_never_moved() {
    let flows = [(1, 1, 1), (1, 2, 1), (1, 1, 2)];
    for (stage, count) in [(stage(), 1), (wide(), 3)] {
        let flows = &flows[..count];
        let mut stays = Harness::of_stage(&stage);
        let mut leaves = Harness::of_stage(&stage);
        let mut gets = Harness::of_stage(&stage);
        gets.send(&packet(9, 9, 9, PASS));
        gets.events();
        for round in 0..6 {
            for &(client, port, server) in flows {
                let what = if round % 2 == 0 { BUFFER } else { PASS };
                stays.send(&packet(client, port, server, what));
                let here = if round < 3 { &mut leaves } else { &mut gets };
                here.send(&packet(client, port, server, what));
            }
            if round == 2 {
                assert_eq!(seen(&mut leaves), seen(&mut stays));
                let bytes = leaves.runtime().export(&key(1, 1, 1)).expect("it is there");
                assert_eq!(leaves.runtime().active_flows(), count);
                assert!(leaves.runtime().forget(&key(1, 1, 1)));
                assert_eq!(leaves.runtime().active_flows(), 0);
                gets.runtime().install(&bytes).expect("there is room");
                assert_eq!(gets.runtime().export(&key(1, 1, 1)), Ok(bytes.clone()));
                assert_eq!(gets.runtime().install(&bytes), Err(SnapshotError::Exists));
                assert_eq!(gets.runtime().export(&key(1, 1, 1)), Ok(bytes));
            }
        }
        assert_eq!(seen(&mut gets), seen(&mut stays));
        let left = leaves.finish();
        assert_eq!((left.flows.units, left.flows.buffer_bytes), (0, 0));
        assert_eq!(left.functions[0].counters[1], ("closed", 0));
        let got = gets.finish();
        assert_eq!((got.flows.units, got.flows.buffer_bytes), (0, 0));
        let closed = got.functions.last().map(|f| f.counters[1].1);
        assert_eq!(closed, Some(1 + count as u64), "closed where they ended");
    }
}

#[test]
fn an_installed_flow_expires_by_its_own_time() {
    let mut here = Harness::of_stage(&stage());
    let mut there = Harness::of_stage(&stage());
    here.send(&packet(1, 1, 1, PASS));
    let bytes = here.runtime().export(&key(1, 1, 1)).expect("it is there");
    there.runtime().install(&bytes).expect("there is room");
    there.advance_ms(302_000);
    there.send(&packet(2, 2, 2, PASS));
    assert_eq!(there.runtime().active_flows(), 1);
}

#[test]
fn refusals_name_what_is_wrong_and_leave_nothing_behind() {
    let mut here = Harness::of_stage(&stage());
    here.send(&packet(1, 1, 1, BUFFER));
    let bytes = here.runtime().export(&key(1, 1, 1)).expect("it is there");
    assert_eq!(
        here.runtime().export(&key(2, 2, 2)),
        Err(SnapshotError::NoFlow)
    );
    let mut other = Harness::of_stage(&wide());
    let error = other.runtime().install(&bytes).expect_err("another stage");
    assert!(matches!(error, SnapshotError::Layout(_)), "{error}");
    for length in 0..bytes.len() {
        let mut there = Harness::of_stage(&stage());
        let error = there.runtime().install(&bytes[..length]);
        assert_eq!(error, Err(SnapshotError::Corrupt), "{length}");
        if length > 40 {
            break;
        }
    }
    let cut = &bytes[..bytes.len() - 1];
    let mut there = Harness::of_stage(&stage());
    assert_eq!(there.runtime().install(cut), Err(SnapshotError::Corrupt));
    // no side buffer is free
    let mut small = stage();
    small.flows = FlowOptions {
        buffer_bytes: 0,
        max: 1,
        ..small.flows
    };
    let mut there = Harness::of_stage(&small);
    assert_eq!(there.runtime().install(&bytes), Err(SnapshotError::Full));
    assert_eq!(there.runtime().active_flows(), 0);
    // no flow is free
    there.send(&packet(7, 7, 7, PASS));
    assert_eq!(there.runtime().install(&bytes), Err(SnapshotError::Full));
    there.finish();
}

/// The same function in an older and a newer version.
#[derive(Debug)]
struct Aging<const VERSION: u16>;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Age<const VERSION: u16> {
    packets: u64,
}
impl<const VERSION: u16> State for Age<VERSION> {
    const VERSION: u16 = VERSION;
}

impl<const VERSION: u16> NetworkFunction for Aging<VERSION> {
    type Settings = ();
    type State = Age<VERSION>;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("aging", "Has versions")
    };
    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Aging)
    }
    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.state.packets += 1;
        let (info, n) = (flow.info, flow.state.packets);
        cx.event("aging", &info).number("n", n);
        Verdict::Pass
    }
    fn upgrade(&self, version: u16, old: &[u8]) -> Option<Age<VERSION>> {
        // Version 1 counted from 1,000 below.
        let old: [u8; 8] = old.try_into().ok()?;
        (version == 1 && VERSION == 2).then(|| Age {
            packets: u64::from_le_bytes(old) + 1_000,
        })
    }
}

#[test]
fn an_older_state_is_upgraded_and_a_newer_one_refused() {
    let mut old = Harness::of::<Aging<1>>(());
    let mut new = Harness::of::<Aging<2>>(());
    old.send(&packet(1, 1, 1, PASS));
    let bytes = old.runtime().export(&key(1, 1, 1)).expect("it is there");
    new.runtime().install(&bytes).expect("it can be upgraded");
    new.send(&packet(1, 1, 1, PASS));
    assert_eq!(numbers(&new.events(), "aging", "n"), [1_002]);
    let newer = new.runtime().export(&key(1, 1, 1)).expect("it is there");
    assert!(old.runtime().forget(&key(1, 1, 1)));
    assert_eq!(
        old.runtime().install(&newer),
        Err(SnapshotError::Version("aging".to_owned()))
    );
    assert_eq!(old.runtime().active_flows(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Arbitrary damage is refused or gives a unit that can be worked with.
    #[test]
    fn damaged_bytes_break_nothing(
        changes in prop::collection::vec((0usize..3_000, any::<u8>()), 1..4),
        cut in prop::option::of(0usize..3_000),
    ) {
        let mut here = Harness::of_stage(&wide());
        here.send(&packet(1, 1, 1, BUFFER));
        here.send(&packet(1, 2, 1, BUFFER));
        let mut bytes = here.runtime().export(&key(1, 1, 1)).expect("it is there");
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        let mut there = Harness::of_stage(&wide());
        let _ = there.runtime().install(&bytes);
        there.send(&packet(1, 1, 1, PASS));
        there.advance_ms(10_000_000);
        there.send(&packet(1, 2, 1, PASS));
        let report = there.finish();
        prop_assert_eq!((report.flows.units, report.flows.buffer_bytes), (0, 0));
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut there = Harness::of_stage(&stage());
        prop_assert!(there.runtime().install(&bytes).is_err());
        prop_assert_eq!(there.runtime().active_flows(), 0);
    }
}

/// What resets are judged by moves with a connection. An older snapshot has no numbers: they are
/// learned from what comes next.
#[test]
fn windows_move_and_are_learned_after_an_older_version() {
    let (a, b) = ("10.0.0.1:1000", "192.0.2.1:80");
    let (client, server) = (0x1122_3344_u32, 0x5566_7788_u32);
    let mut here = Harness::of_stage(&stage());
    here.send(&Craft::tcp(a, b).flags("S").seq(client).build());
    let answer = Craft::tcp(b, a).flags("SA").seq(server).ack(client + 1);
    here.send(&answer.build());
    let data = |seq| Craft::tcp(a, b).seq(seq).ack(server + 1).payload(&[PASS]);
    here.send(&data(client + 1).build());
    let key = FlowKey::new(
        [10, 0, 0, 1].into(),
        1000,
        [192, 0, 2, 1].into(),
        80,
        6,
        0,
        0,
    )
    .0;
    let now = here.runtime().export(&key).expect("it is there");

    let mut old = now.clone();
    let sent = (client + 2).to_le_bytes();
    let at = old
        .windows(4)
        .position(|four| four == sent)
        .expect("the client's number");
    old.drain(at..at + 16);
    old[7] = 2;

    // Marks of one packet alone are of no connection.
    let mut wrong = now.clone();
    wrong[at - 17] |= 4;
    let mut there = Harness::of_stage(&stage());
    assert_eq!(there.runtime().install(&wrong), Err(SnapshotError::Corrupt));

    let reset = |seq| Craft::tcp(b, a).flags("R").seq(seq).build();
    for (bytes, believed_nothing) in [(now, 1), (old, 0)] {
        let mut there = Harness::of_stage(&stage());
        there.runtime().install(&bytes).expect("there is room");
        there.send(&reset(1 << 31));
        assert_eq!(there.report().flows.resets_ignored, believed_nothing);
        there.send(&data(client + 2).build());
        there.send(&reset(server.wrapping_sub(1 << 31)));
        assert_eq!(there.report().flows.resets_ignored, believed_nothing + 1);
        there.advance_ms(300_000);
        there.send(&packet(2, 2, 2, PASS));
        assert_eq!(there.runtime().active_flows(), 2, "it lives on");
        there.send(&reset(server + 1));
        there.advance_ms(11_000);
        there.send(&packet(2, 2, 2, PASS));
        assert_eq!(there.runtime().active_flows(), 1);
    }
}
