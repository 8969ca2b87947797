//! Peers that have the key and say what is not theirs to say.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use weir_nf::PoolId;
use weir_packet::{Disposition, LinkType, Side};
use weir_protocol::actors::ActorCount;
use weir_protocol::message::{
    Claim, Entry, EntryBatch, Image, Message, MoveMode, Open, Origin, Part, Refusal, Selection,
    StateUpdate,
};
use weir_protocol::settings::Replication;
use weir_protocol::switch::{MoveError, SwitchCount};
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};

use crate::cluster::{Cluster, state_of};
use crate::common::messages::message;

pub(crate) const LIAR: Peer = Peer::Runtime(RuntimeId(2));
pub(crate) const STRANGER: Peer = Peer::Runtime(RuntimeId(77));

/// Runtime 1 owns the unit of flow 1, whose first three packets it has
/// applied; 2 owns another one.
pub(crate) fn settled() -> (Cluster, UnitId, View) {
    let mut cluster = Cluster::new(2, Replication::None);
    for number in 1..=2 {
        assert_eq!(cluster.packet(1), Some(number));
        assert_eq!(cluster.packet(2), Some(number));
    }
    if cluster.owner_of(1) == 2 {
        // In turn: the second flow is at the other runtime.
        cluster.move_all(1, 2);
        let all = Selection::All;
        let back = cluster.switch.move_units(
            cluster.now,
            Some(RuntimeId(2)),
            RuntimeId(1),
            &all,
            MoveMode::Push,
        );
        assert_eq!(back, Ok(2));
        cluster.carry();
    }
    assert_eq!(cluster.packet(1), Some(3));
    assert_eq!(cluster.packet(2), Some(3));
    assert_eq!(cluster.owner_of(1), 1);
    let unit = cluster.unit_of(1);
    // Its view is that of the last data frame to it.
    let view = cluster.host(1).actors.engine().has_unit(unit.0).then(|| {
        let last = cluster.seen.iter().rev().find_map(|(_, bytes)| {
            let context: [u8; 16] = bytes.get(22..38)?.try_into().ok()?;
            let kind = bytes.get(12..14)?;
            let of_unit = bytes.get(46..54)? == unit.0.to_be_bytes();
            let context = weir_packet::nsh::NshContext::from_bytes(context);
            (kind == [0x89, 0x4f] && of_unit).then_some(View(1 << View::NUMBER_BITS | context.view))
        });
        last.expect("a data frame")
    });
    (cluster, unit, view.expect("it is here"))
}

pub(crate) fn part(disposition: Disposition) -> Part {
    Part {
        disposition,
        time: weir_packet::Time::from_secs(1),
        sequence: 9,
        flags: 0,
        side: Side::Inside,
        port: 0,
        link: LinkType::Ethernet,
        dlt: 1,
        wire_len: 60,
        path: 0,
        bytes: vec![0x5a; 60],
    }
}

pub(crate) fn entry(clock: u64, dispositions: &[Disposition]) -> Entry {
    Entry {
        clock: Clock(clock),
        parts: dispositions
            .iter()
            .map(|&disposition| part(disposition))
            .collect(),
    }
}

pub(crate) fn batch(unit: UnitId, view: View, entries: Vec<Entry>) -> Message {
    Message::Entries(vec![EntryBatch {
        unit,
        view,
        clock: entries.last().map_or(Clock::ZERO, |entry| entry.clock),
        state: StateUpdate::Full(None),
        entries,
    }])
}

pub(crate) fn tell(cluster: &mut Cluster, from: Peer, message: Message) {
    cluster
        .switch
        .message(cluster.now, &mut cluster.pool, from, message);
}

pub(crate) fn tell_runtime(cluster: &mut Cluster, to: u32, from: Peer, message: Message) {
    let now = cluster.now;
    let host = cluster.host(to);
    host.actors.message(now, &mut host.pool, from, message);
}

#[test]
fn a_runtime_can_not_speak_for_what_it_does_not_own() {
    let (mut cluster, unit, view) = settled();
    let before = cluster.state();
    let ids = (unit, view);
    let lies = [
        (
            batch(ids.0, ids.1, vec![entry(4, &[Disposition::Out])]),
            SwitchCount::EntryNotOwner,
        ),
        (
            batch(unit, View(view.0 - 1), vec![entry(4, &[Disposition::Out])]),
            SwitchCount::EntryOldView,
        ),
        (
            batch(unit, view.next(), vec![entry(4, &[Disposition::Out])]),
            SwitchCount::EntryOldView,
        ),
        (
            batch(
                UnitId(unit.0 + (1 << 32)),
                view,
                vec![entry(1, &[Disposition::Out])],
            ),
            SwitchCount::EntryUnknownUnit,
        ),
        (
            batch(unit, view, vec![entry(4, &[])]),
            SwitchCount::EntryTorn,
        ),
        (
            batch(
                unit,
                view,
                vec![entry(4, &[Disposition::Out, Disposition::Out])],
            ),
            SwitchCount::EntryTorn,
        ),
        (
            batch(unit, view, vec![entry(4, &[Disposition::Emitted])]),
            SwitchCount::EntryTorn,
        ),
        (
            batch(unit, view, vec![entry(4, &[Disposition::Pending])]),
            SwitchCount::EntryTorn,
        ),
        (Message::Held { unit, view }, SwitchCount::MessageNotOwner),
        (
            Message::End {
                unit,
                view,
                clock: Clock(3),
            },
            SwitchCount::MessageNotOwner,
        ),
        (Message::Tick { unit, view }, SwitchCount::MessageNotOwner),
        (
            Message::Repeat {
                unit,
                view,
                after: Clock(0),
            },
            SwitchCount::MessageNotOwner,
        ),
        (
            Message::Refuse {
                unit,
                view,
                why: Refusal::Full,
            },
            SwitchCount::MessageNotOwner,
        ),
        (
            Message::End {
                unit,
                view: View(view.0 - 1),
                clock: Clock(3),
            },
            SwitchCount::MessageOldView,
        ),
        (
            Message::Claims {
                generation: 1,
                piece: 0,
                pieces: 1,
                claims: vec![claim(unit, view.next(), 9)],
                suspected: Vec::new(),
            },
            SwitchCount::ClaimLate,
        ),
        (
            Message::LeaseGranted {
                pool: PoolId(0),
                address: 0,
                block: 0,
            },
            SwitchCount::MessageMisdirected,
        ),
        (
            Message::Suspect {
                runtime: RuntimeId(1),
            },
            SwitchCount::MessageMisdirected,
        ),
        (
            Message::SetMigrationTarget {
                from: RuntimeId(1),
                to: RuntimeId(2),
                what: Selection::All,
                mode: MoveMode::Push,
            },
            SwitchCount::MessageMisdirected,
        ),
        (
            Message::NotifyClusterCfg { runtimes: vec![] },
            SwitchCount::MessageMisdirected,
        ),
        (
            Message::Forget {
                unit,
                below: View(u64::MAX),
                ended: true,
            },
            SwitchCount::MessageMisdirected,
        ),
    ];
    for (lie, count) in lies {
        let counted = cluster.at_switch(count);
        let strangers = cluster.at_switch(SwitchCount::MessageFromStranger);
        tell(&mut cluster, LIAR, lie.clone());
        assert_eq!(cluster.at_switch(count), counted + 1, "{lie:?}");
        assert!(cluster.switch.outbox.out.is_empty());
        // The same from a runtime that nobody knows, and from another switch.
        tell(&mut cluster, STRANGER, lie.clone());
        assert_eq!(
            cluster.at_switch(SwitchCount::MessageFromStranger),
            strangers + 1
        );
        let misdirected = cluster.at_switch(SwitchCount::MessageMisdirected);
        tell(&mut cluster, Peer::Switch(9), lie);
        assert_eq!(
            cluster.at_switch(SwitchCount::MessageMisdirected),
            misdirected + 1
        );
    }
    // Entries that the owner itself can't mean.
    let owner = Peer::Runtime(RuntimeId(1));
    for (clock, count) in [
        (3, SwitchCount::EntryDuplicate),
        (4, SwitchCount::EntryNotSent),
        (u64::MAX, SwitchCount::EntryNotSent),
    ] {
        let counted = cluster.at_switch(count);
        tell(
            &mut cluster,
            owner,
            batch(unit, view, vec![entry(clock, &[Disposition::Out])]),
        );
        assert_eq!(cluster.at_switch(count), counted + 1, "clock {clock}");
    }
    // What it says to those who may be behind is a correction, and harms no one.
    cluster.carry();
    assert_eq!(cluster.state(), before);
    assert_eq!(cluster.packet(1), Some(4));
    assert_eq!(cluster.packet(2), Some(4));
    cluster.end();
}

#[test]
fn a_runtime_can_not_take_another_ones_unit() {
    let (mut cluster, unit, view) = settled();
    let before = cluster.state();
    let image = Image {
        clock: Clock(3),
        state: None,
        since: Clock(3),
        outputs: Vec::new(),
    };
    let state = |old, new| Message::State {
        unit,
        old,
        new,
        image: image.clone(),
    };
    let copied = Message::Copied {
        unit,
        old: View(view.0 - 1),
        new: view,
        clock: Clock(3),
        changed: Clock(3),
        touched: Vec::new(),
        outputs: Vec::new(),
    };
    let closed = Message::Closed {
        unit,
        old: view,
        at: Clock(3),
        new: view.next(),
        to: RuntimeId(2),
        mode: MoveMode::Push,
    };
    let open = Message::Open(Open {
        unit,
        view: view.next(),
        old: view,
        base: Clock(3),
        out: Clock(3),
        origin: Origin::Nothing { after_loss: true },
        replica: None,
        every: 0,
    });
    let entries = vec![entry(4, &[Disposition::Out])];
    let refused = ActorCount::MessageRefused;
    let stale = ActorCount::MessageStale;
    let lies = [
        (batch(unit, view, entries.clone()), refused),
        (
            batch(unit, View(view.0 - 1), entries),
            ActorCount::EntriesFenced,
        ),
        (state(View(view.0 - 1), view), stale),
        (state(view, View(view.0 - 1)), stale),
        (copied, stale),
        (closed.clone(), refused),
        (open.clone(), refused),
        (
            Message::Forget {
                unit,
                below: View(u64::MAX),
                ended: true,
            },
            refused,
        ),
        (
            Message::Recover {
                generation: 9,
                from: 0,
                most: 64,
            },
            refused,
        ),
        (
            Message::Pull {
                unit,
                old: view,
                new: View(view.0 - 1),
                at: Clock(3),
            },
            refused,
        ),
        (
            Message::Pull {
                unit,
                old: view,
                new: view.next(),
                at: Clock(2),
            },
            ActorCount::PullEarly,
        ),
        // All of it right, but the switch has not said that the view ends.
        (
            Message::Pull {
                unit,
                old: view,
                new: view.next(),
                at: Clock(3),
            },
            ActorCount::PullEarly,
        ),
        (
            Message::Pull {
                unit,
                old: View(view.0 - 1),
                new: view,
                at: Clock(3),
            },
            stale,
        ),
        (
            Message::Prepare {
                unit,
                view,
                to: RuntimeId(2),
            },
            refused,
        ),
    ];
    for (lie, count) in lies {
        let counted = cluster.at(1, count);
        tell_runtime(&mut cluster, 1, LIAR, lie.clone());
        assert_eq!(cluster.at(1, count), counted + 1, "{lie:?}");
        assert_eq!(cluster.state(), before, "{lie:?}");
    }
    // A switch whose time is over is no better, once a newer one was heard.
    let counted = cluster.at(1, stale);
    tell_runtime(&mut cluster, 1, Peer::Switch(0), closed);
    tell_runtime(&mut cluster, 1, Peer::Switch(0), open);
    assert_eq!(cluster.at(1, stale), counted + 2);
    // One that speaks of another generation than its own.
    let counted = cluster.at(1, refused);
    tell_runtime(
        &mut cluster,
        1,
        Peer::Switch(1),
        Message::Recover {
            generation: 2,
            from: 0,
            most: 64,
        },
    );
    assert_eq!(cluster.at(1, refused), counted + 1);
    assert!(cluster.is_silent());
    assert_eq!(cluster.state(), before);
    assert_eq!(cluster.packet(1), Some(4));
    cluster.end();
}

pub(crate) fn claim(unit: UnitId, view: View, clock: u64) -> Claim {
    let client = [10, 0, 0, 1].into();
    let (key, _) = weir_packet::FlowKey::new(client, 1_000, [192, 0, 2, 1].into(), 53, 17, 0, 0);
    Claim {
        unit,
        view,
        owner: true,
        clock: Clock(clock),
        state: true,
        key: None,
        flows: vec![(key, false)],
        aliases: Vec::new(),
    }
}

#[test]
fn a_restarted_switch_believes_the_newest_view() {
    let (mut cluster, unit, view) = settled();
    cluster.restart_switch();
    // Runtime 2 claims the unit of an old view and a high clock; the same flow
    // under another unit; a unit that no switch has had; and that for a switch
    // that is not.
    let older = View(view.0 - 1);
    let claims = vec![
        claim(unit, older, 1_000),
        claim(UnitId(unit.0 + (1 << 32)), older, 1_000),
        claim(UnitId(u64::MAX), older, 1_000),
        claim(UnitId(0), older, 1_000),
    ];
    let say = |generation| Message::Claims {
        generation,
        piece: 0,
        pieces: 1,
        claims: claims.clone(),
        suspected: Vec::new(),
    };
    tell(&mut cluster, LIAR, say(1));
    assert_eq!(cluster.at_switch(SwitchCount::ClaimLate), 1);
    tell(&mut cluster, STRANGER, say(2));
    assert_eq!(cluster.at_switch(SwitchCount::MessageFromStranger), 1);
    tell(&mut cluster, LIAR, say(2));
    assert_eq!(cluster.at_switch(SwitchCount::Claimed), 4);
    cluster.carry();
    assert!(!cluster.switch.is_recovering());
    // Three of the four came to nothing: the first lost to runtime 1's claim.
    assert_eq!(cluster.at_switch(SwitchCount::ClaimRefused), 3);
    assert_eq!(cluster.owner_of(1), 1);
    assert_eq!(cluster.unit_of(1), unit);
    for number in 4..=6 {
        assert_eq!(cluster.packet(1), Some(number));
        assert_eq!(cluster.packet(2), Some(number));
    }
    cluster.end();
}

#[test]
fn moves_to_nowhere_are_refused() {
    let (mut cluster, unit, view) = settled();
    let before = cluster.state();
    let now = cluster.now;
    let id = RuntimeId;
    let mut go = |from: Option<RuntimeId>, to, what: &Selection| {
        let moved = cluster
            .switch
            .move_units(now, from, to, what, MoveMode::Push);
        moved.expect_err("refused")
    };
    let all = Selection::All;
    assert_eq!(go(Some(id(1)), id(9), &all), MoveError::UnknownTarget);
    assert_eq!(go(Some(id(9)), id(1), &all), MoveError::UnknownSource);
    assert_eq!(go(Some(id(1)), id(1), &all), MoveError::Same);
    let nothing = Selection::Number(0);
    assert_eq!(go(Some(id(1)), id(2), &nothing), MoveError::Nothing);
    // As a message from the owner itself, or from the coordinator.
    for (from, to) in [
        (Peer::Runtime(id(1)), 9),
        (Peer::Runtime(id(1)), 1),
        (Peer::Coordinator, 9),
        (LIAR, 2),
    ] {
        let (to, mode) = (id(to), MoveMode::Push);
        tell(
            &mut cluster,
            from,
            Message::Move {
                unit,
                view,
                to,
                mode,
            },
        );
    }
    cluster.carry();
    assert_eq!(cluster.at_switch(SwitchCount::MoveRefused), 3);
    assert_eq!(cluster.at_switch(SwitchCount::MessageNotOwner), 1);
    assert_eq!(cluster.state(), before);
    // To one that is being emptied.
    cluster
        .switch
        .drain(now, id(2), MoveMode::Push)
        .expect("1 takes its units");
    let moved = cluster
        .switch
        .move_units(now, Some(id(1)), id(2), &all, MoveMode::Push);
    assert_eq!(moved, Err(MoveError::Draining));
    assert_eq!(cluster.packet(1), Some(4));
    cluster.end();
}

/// Whatever a peer may say that has the form of a message: no panic, no frame
/// lost, every packet accounted for, and the units that are there go on.
#[test]
fn any_messages_from_anyone() {
    let mut runner = TestRunner::deterministic();
    let strategy = (message(), 0usize..6);
    let (mut cluster, unit, _) = settled();
    let switch = cluster.switch.report();
    for n in 0..20_000 {
        let (message, who) = strategy.new_tree(&mut runner).expect("a value").current();
        let runtimes = [RuntimeId(1), RuntimeId(2), RuntimeId(77)].map(Peer::Runtime);
        if who < 3 {
            tell(&mut cluster, runtimes[who], message);
        } else {
            // From the switch of its own, or a runtime; not from one that is
            // newer, which it would have to follow.
            let from = [runtimes[1], runtimes[2], Peer::Switch(1)][who - 3];
            tell_runtime(&mut cluster, 1, from, message);
        }
        cluster.switch.outbox.messages.clear();
        let host = cluster.host(1);
        host.actors.outbox.messages.clear();
        if n % 500 == 0 {
            cluster.later(1);
            assert!(cluster.switch.report().balances());
        }
    }
    let after = cluster.switch.report();
    assert_eq!(after.units, switch.units);
    assert_eq!(after.packets_out, switch.packets_out);
    assert_eq!(cluster.owner_of(1), 1);
    assert!(state_of(cluster.host(1), unit).is_some());
    assert_eq!(cluster.packet(1), Some(4));
    assert_eq!(cluster.packet(2), Some(4));
    cluster.end();
}
