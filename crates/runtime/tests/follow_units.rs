//! Units under a switch: the ports they lease, their names, snapshots and states.

mod common;
#[path = "common/follower.rs"]
mod follower;

use common::{ALIAS, BUFFER, OPEN_ALIAS, PASS, Probe};
use follower::{Follower, Numbered, Part, UNIT, numbered, small, special, stage, udp, wide};
use proptest::prelude::*;
use weir_nf::prelude::*;
use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace, Want};
use weir_packet::frame_flags as flags;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, SnapshotError};

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Port(u16);

impl State for Port {}

/// Takes a port for each flow and gives it back.
#[derive(Debug)]
struct Lessee(PoolId);

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// No port was left.
        NoneLeft = "none_left",
    }
}

impl NetworkFunction for Lessee {
    type Settings = ();
    type State = Port;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        shares: true,
        drops: Reason::TABLE,
        ..Descriptor::new("lessee", "Takes a port")
    };

    fn new(_: (), set_up: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        let spec = PoolSpec {
            addresses: vec!["198.51.100.1".parse().expect("an address")],
            first: 1_024,
            last: u16::MAX,
            block: 64,
        };
        Ok(Lessee(set_up.lease("pool", spec)?))
    }

    fn open(
        &self,
        _: &Packet<'_>,
        _: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Port, DropReason> {
        let lease = cx.leases.take(self.0, 0, PortSpace::Udp, Want::default());
        lease
            .map(|lease| Port(lease.port))
            .ok_or(Reason::NoneLeft.into())
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let (info, port) = (flow.info, flow.state.0);
        cx.event("port", &info).number("port", u64::from(port));
        Verdict::Pass
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        let lease = PortLease {
            address: 0,
            port: flow.state.0,
            space: PortSpace::Udp,
        };
        cx.leases.give(self.0, lease);
    }
}

#[test]
fn leases_are_granted_told_and_freed_by_the_switch() {
    let builder = Harness::builder().flows(small());
    let stage = builder.with::<Lessee>(()).expect("none").stage();
    let mut owner = Follower::new(&stage);
    assert!(!owner.engine.is_replayable());
    assert!(Follower::new(&wide()).engine.is_replayable());
    let pool = PoolId(0);
    assert!(owner.engine.leases().is_low(pool));
    let entries = owner.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    assert_eq!(entries[0].parts, [Part::Dropped], "nothing was granted");
    owner.engine.leases_mut().grant(pool, 0, 100);
    assert!(!owner.engine.leases().is_low(pool));
    let packets: Vec<Numbered> = (0..4)
        .map(|n| numbered(1 << 32 | (n + 4), 2, 0, udp(n as u16, PASS)))
        .collect();
    let entries = owner.apply(&packets);
    let ports: Vec<u64> = entries
        .iter()
        .map(|entry| {
            let notes = entry.notes();
            let port = common::numbers(&notes, "port", "port")[0];
            assert!(notes[0].starts_with("Leased") && notes[0].contains(&format!("port: {port}")));
            assert!((6_400..6_464).contains(&port));
            port
        })
        .collect();
    // A second engine, fed in another order, is told what the first took.
    let mut reference = Follower::new(&stage);
    for number in [2, 0, 3, 1] {
        let lease = PortLease {
            address: 0,
            port: ports[number] as u16,
            space: PortSpace::Udp,
        };
        reference.engine.leases_mut().script(pool, lease);
        assert_eq!(
            reference.apply([&packets[number]]),
            [entries[number].clone()]
        );
        assert_eq!(reference.engine.leases().scripted(), 0);
    }
    // The end of the flow frees nothing; the switch's word does.
    assert_eq!(owner.engine.leases().leased(), 4);
    owner.apply([&special(1 << 32 | 4, 3, 400_000, flags::TICK)]);
    assert_eq!(owner.engine.leases().leased(), 4);
    let lease = PortLease {
        address: 0,
        port: ports[0] as u16,
        space: PortSpace::Udp,
    };
    owner.engine.leases_mut().free(pool, lease);
    assert_eq!(owner.engine.leases().leased(), 3);
}

#[test]
fn names_are_read_from_a_snapshot() {
    let mut engine = Follower::new(&wide());
    let mut packets = vec![
        numbered(UNIT, 1, 0, udp(1, ALIAS)),
        numbered(UNIT, 2, 0, udp(2, OPEN_ALIAS)),
    ];
    let back = Craft::udp("192.0.2.9:7", "198.51.100.1:2")
        .payload(&[PASS])
        .build();
    packets.push(Numbered {
        side: Side::Outside,
        ..numbered(UNIT, 3, 0, back)
    });
    let entries = engine.apply(&packets);
    let told = |entry: usize| {
        let notes = entries[entry].notes();
        notes
            .into_iter()
            .filter(|n| n.starts_with("Alias"))
            .collect::<Vec<_>>()
    };
    let bytes = engine.export(UNIT).expect("it is there");
    let (flows, aliases) = engine.engine.read_names(&bytes).expect("it is whole");
    assert_eq!(flows.len(), 3);
    let client: std::net::IpAddr = "10.0.0.1".parse().expect("an address");
    let scope = engine.engine.read_scope_key(&bytes).expect("it is whole");
    let scope = scope.expect("the unit is a client's");
    let ends = [scope.a(), scope.b()];
    assert!(ends.contains(&(client, 0)), "{scope}");
    assert!(ends.contains(&([0, 0, 0, 0].into(), 0)), "{scope}");
    for (key, client_is_b) in &flows[..2] {
        assert_eq!((if *client_is_b { key.b() } else { key.a() }).0, client);
    }
    assert_eq!(aliases.len(), 2);
    let alias = aliases
        .iter()
        .find(|(_, alias)| !alias.open)
        .expect("there is one");
    let open = aliases
        .iter()
        .find(|(_, alias)| alias.open)
        .expect("there is one");
    assert_eq!(alias.0, flows[0].0);
    assert!(
        told(0)[0].contains(&format!("{:?}", alias.1)),
        "{:?}",
        told(0)
    );
    assert!(
        told(1)[0].contains(&format!("{:?}", open.1)),
        "{:?}",
        told(1)
    );
    assert!(flows.iter().any(|(key, _)| *key == open.0));
    assert!(told(2).is_empty(), "it came through the open one");
    let mut other = Follower::new(&stage());
    assert!(matches!(
        other.engine.read_names(&bytes),
        Err(SnapshotError::Layout(_))
    ));
    assert!(matches!(
        other.engine.read_scope_key(&bytes),
        Err(SnapshotError::Layout(_))
    ));
    other.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    let bytes = other.export(UNIT).expect("it is there");
    assert_eq!(other.engine.read_scope_key(&bytes), Ok(None));
}

#[test]
fn touches_fit_their_unit_only() {
    let mut engine = Follower::new(&wide());
    engine.apply(&[
        numbered(UNIT, 1, 0, udp(1, PASS)),
        numbered(UNIT + 1, 1, 0, udp(1, PASS)),
    ]);
    let (mut bytes, touch) = (
        engine.export(UNIT).expect("it is there"),
        engine.touch(UNIT),
    );
    let before = bytes.clone();
    let others = engine.touch(UNIT + 1);
    assert_eq!(
        Runtime::touch_snapshot(&mut bytes, &others),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT, &others),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT + 2, &touch),
        Err(SnapshotError::NoFlow)
    );
    for len in 0..touch.len() {
        assert!(Runtime::touch_snapshot(&mut bytes, &touch[..len]).is_err());
        assert!(engine.engine.install_touch(UNIT, &touch[..len]).is_err());
    }
    assert_eq!(
        (&bytes, engine.export(UNIT).as_ref()),
        (&before, Some(&before))
    );
    // Another life of the same flow in the same unit.
    engine.apply([&numbered(UNIT, 2, 400_000, udp(1, PASS))]);
    let later = engine.touch(UNIT);
    assert_eq!(later.len(), touch.len());
    assert_eq!(
        Runtime::touch_snapshot(&mut bytes, &later),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT, &touch),
        Err(SnapshotError::Corrupt)
    );
}

#[test]
fn an_engine_that_is_alone_takes_no_units_snapshot() {
    let mut engine = Follower::new(&stage());
    engine.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    let bytes = engine.export(UNIT).expect("it is there");
    let mut alone = Harness::of_stage(&stage());
    let refused =
        |result: Result<(), SnapshotError>| matches!(result, Err(SnapshotError::Layout(_)));
    assert!(refused(alone.runtime().install(&bytes)));
    assert!(refused(alone.runtime().install_unit(UNIT, &bytes)));
    alone.send(&udp(1, PASS));
    let key = engine.engine.read_names(&bytes).expect("it is whole").0[0].0;
    let own = alone.runtime().export(&key).expect("it is there");
    assert!(engine.engine.install_unit(0, &own).is_err());
    assert!(refused(engine.engine.install(&own)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever comes is refused or installed, and leaves nothing behind.
    #[test]
    fn damaged_snapshots_and_touches_are_refused(
        at in 0usize..4_000,
        bit in 0u8..8,
        cut in prop::option::of(0usize..4_000),
        wide_one: bool,
    ) {
        let stage = if wide_one { wide() } else { stage() };
        let mut engine = Follower::new(&stage);
        engine.apply(&[
            numbered(UNIT, 1, 0, udp(1, ALIAS)),
            numbered(UNIT, 2, 0, udp(1, BUFFER)),
            numbered(UNIT, 3, 0, udp(1, OPEN_ALIAS)),
        ]);
        let (mut bytes, mut touch) = (engine.export(UNIT).unwrap(), engine.touch(UNIT));
        let whole = bytes.clone();
        for bytes in [&mut bytes, &mut touch] {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Some(cut) = cut {
                bytes.truncate(cut);
            }
        }
        let mut other = Follower::new(&stage);
        let _ = other.engine.read_names(&bytes);
        let _ = Runtime::touch_snapshot(&mut whole.clone(), &touch);
        let _ = engine.engine.install_touch(UNIT, &touch);
        if other.engine.install_unit(UNIT, &bytes).is_ok() {
            other.apply(&[
                numbered(UNIT, 4, 0, udp(1, BUFFER)),
                special(UNIT, 5, 900_000_000, flags::TICK),
            ]);
            other.engine.forget_unit(UNIT);
        }
        let flows = other.engine.report().flows;
        prop_assert_eq!((flows.active, flows.units, flows.aliases, flows.buffer_bytes), (0, 0, 0, 0));
        prop_assert!(other.engine.install_unit(UNIT, &whole).is_ok());
        prop_assert_eq!(other.export(UNIT), Some(whole));
    }
}

/// Writes what the payload says over its state, whether it is that already.
#[derive(Debug)]
struct Writer;

impl NetworkFunction for Writer {
    type Settings = ();
    type State = Port;
    type Stats = [u64; 1];
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        buffers: 1,
        buffer_bytes: 64,
        ..Descriptor::new("writer", "Writes its state")
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Writer)
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.stats[0] += 1;
        let what = packet.payload().first().copied().unwrap_or(0);
        if what < 100 {
            flow.state.0 = u16::from(what);
        } else if let Some(mut buffer) = flow.buffer(0, cx) {
            let _ = buffer.resize(usize::from(what - 100));
        }
        Verdict::Pass
    }
}

#[test]
fn a_state_written_with_what_it_was_has_not_changed() {
    let builder = Harness::builder().flows(small());
    let stage = builder.with::<Writer>(()).expect("none").stage();
    let mut engine = Follower::new(&stage);
    let whats = [5, 5, 5, 6, 6, 5, 110, 110, 111, 5, 6];
    let changed: Vec<bool> = (1..)
        .zip(whats)
        .map(|(clock, what)| {
            engine.apply([&numbered(UNIT, clock, 0, udp(1, what))]);
            engine.engine.take_changed(UNIT)
        })
        .collect();
    // The second one only says what the state is from then on.
    let expected = [
        true, true, false, true, false, true, true, false, true, false, true,
    ];
    assert_eq!(changed, expected);
    assert!(!engine.engine.take_changed(UNIT));
}

fn to(server: &str, what: u8) -> Vec<u8> {
    Craft::udp("10.0.0.1:1", &format!("{server}:53"))
        .payload(&[what; 40])
        .build()
}

#[test]
fn an_open_alias_that_goes_before_its_unit_is_noted() {
    let by_client = Harness::builder().flows(small());
    let by_client = by_client.with::<Probe<1>>(()).expect("none").stage();
    // The pair's record ends and the client's unit lives on; where there is
    // none but the client's, the unit may still begin anew.
    for (stage, lives) in [(wide(), true), (by_client, false)] {
        let (mut engine, mut quiet) = (Follower::new(&stage), Follower::new(&stage));
        let mut packets = vec![numbered(UNIT, 1, 0, to("192.0.2.1", OPEN_ALIAS))];
        if lives {
            packets.push(numbered(UNIT, 2, 200_000, to("192.0.2.2", PASS)));
        }
        packets.push(special(UNIT, 3, 400_000, flags::TICK));
        let entries = engine.apply(&packets);
        let name = |notes: Vec<String>, kind: &str| {
            let note = notes.into_iter().find(|note| note.starts_with(kind));
            note.unwrap_or_default()
        };
        let alias = name(entries[0].notes(), "Alias ");
        let notes = entries.last().expect("there is one").notes();
        let ends: Vec<&str> = notes
            .iter()
            .filter_map(|note| note.split(' ').next())
            .filter(|kind| kind.ends_with("Ended"))
            .collect();
        assert_eq!(ends, ["FlowEnded", "AliasEnded"], "{notes:?}");
        let key = name(notes, "AliasEnded");
        let key = key.split_once("key: ").map_or("", |(_, key)| key);
        let key = key.trim_end_matches(" }");
        assert!(!key.is_empty() && alias.contains(key), "{alias} {key}");
        assert_eq!(engine.engine.has_unit(UNIT), lives);
        assert_eq!(engine.engine.report().flows.aliases, 0);
        // Applied again, the same goes unheard.
        for packet in &mut packets {
            packet.flags |= flags::NO_OUTPUT;
        }
        assert_eq!(quiet.apply(&packets), []);
        assert_eq!(quiet.export(UNIT), engine.export(UNIT));
        assert_eq!(quiet.engine.report().flows.aliases, 0);
    }
}

#[test]
fn a_flow_opened_in_a_wide_unit_that_is_known_is_noted() {
    // The end of a flow that a tick brings about may reach the switch after
    // the packet that opens it again.
    for (stage, wide) in [(wide(), true), (stage(), false)] {
        let mut engine = Follower::new(&stage);
        let mut packets = vec![
            numbered(UNIT, 1, 0, udp(1, PASS)),
            numbered(UNIT, 2, 1, udp(1, PASS)),
            special(UNIT, 3, 400_000, flags::TICK),
            numbered(UNIT, 4, 400_000, udp(1, PASS)),
            numbered(UNIT, 5, 400_001, udp(1, PASS)),
        ];
        if wide {
            packets.push(numbered(UNIT, 6, 400_002, udp(2, PASS)));
        }
        let entries = engine.apply(&packets);
        let opened: Vec<u64> = entries
            .iter()
            .filter(|entry| entry.notes().iter().any(|n| n.starts_with("FlowOpened")))
            .map(|entry| entry.clock)
            .collect();
        assert_eq!(opened, if wide { vec![4, 6] } else { vec![] });
    }
}
