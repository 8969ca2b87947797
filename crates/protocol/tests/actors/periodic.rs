//! A state for the replica every so many packets.

use weir_nf::RuntimeId;
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, Open, Origin, StateUpdate};

use crate::bed::{Bed, Kind, MS, REPEATED, SWITCH, batch, clocks, planned, resumed};
use crate::bed::{runtime, unit, view};

const U: UnitId = unit(2);
const ONE: View = view(1);
const TWO: View = view(2);

fn stored(clock: u64) -> Message {
    Message::Stored {
        unit: U,
        view: ONE,
        clock: Clock(clock),
    }
}

/// A unit at runtime 1 with a state every four packets for runtime 2.
fn opened() -> Bed {
    opened_at(Bed::new(2))
}

fn opened_at(mut bed: Bed) -> Bed {
    let open = Open {
        origin: Origin::Nothing { after_loss: false },
        replica: Some(RuntimeId(2)),
        every: 4,
        ..planned(U, (View::NONE, ONE), 0, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    assert_eq!(bed.carry()[0], (2, stored(0)));
    bed
}

#[test]
fn the_switch_gets_each_entry_and_the_replica_the_fourth_state() {
    let mut bed = opened();
    for clock in 1..=4 {
        let got = bed.data(1, (U, ONE, clock), 0, b"c--");
        assert_eq!(got.last().map(|got| got.clock), Some(clock));
        let said = &bed.at(1).outbox.messages;
        assert_eq!(said.len(), usize::from(clock == 4), "{said:?}");
    }
    let sent = bed.said_to(1, runtime(2));
    let state = batch(sent.clone());
    assert_eq!(clocks(&state), [1, 2, 3, 4]);
    assert!(matches!(
        state.state,
        StateUpdate::Apart {
            since: Clock(0),
            state: Some(_)
        }
    ));
    bed.tell(2, runtime(1), sent);
    // No output goes by the replica.
    assert_eq!(
        bed.said(2).iter().map(|(_, m)| m).collect::<Vec<_>>(),
        [&stored(4)]
    );
    // A state is owed until the switch has heard of it.
    bed.later(100);
    bed.tick(1);
    assert_eq!(bed.count(1, ActorCount::StateAgain), 1);
    assert_eq!(bed.carry().last(), Some(&(2, stored(4))));
    bed.tell(1, SWITCH, stored(4));
    bed.later(100);
    bed.tick(1);
    assert_eq!(bed.count(1, ActorCount::StateAgain), 1);
    bed.end();
}

/// A stream that is cut keeps each of them (seed 7520004620 of the simulator): the wait
/// doubles up to the longest one.
#[test]
fn a_replica_that_is_cut_off_finds_no_heap_of_states() {
    let mut bed = opened_at(Bed::of(
        2,
        Kind {
            repeat_within: Some((10 * MS, 1_000 * MS)),
            ..Kind::default()
        },
    ));
    for clock in 1..=4 {
        bed.data(1, (U, ONE, clock), 0, b"c--");
    }
    for _ in 0..200 {
        bed.later(20);
        bed.tick(1);
    }
    // After 20, 60, 140, 300, 620 and 1,260 ms, then every second.
    let again = bed.count(1, ActorCount::StateAgain);
    assert_eq!(again, 8);
    bed.end();
}

#[test]
fn what_was_let_out_is_applied_again_without_output() {
    let mut bed = opened();
    for clock in 1..=7 {
        bed.data(1, (U, ONE, clock), 0, b"c--");
        bed.carry();
    }
    assert_eq!(bed.at(2).stored(U, ONE), Some(Clock(4)));
    bed.tell(2, SWITCH, Message::Open(resumed(U, (ONE, TWO), 6, 2)));
    bed.said(2);
    for clock in 5..=6 {
        assert_eq!(bed.data(2, (U, TWO, clock), REPEATED, b"c--"), []);
    }
    let got = bed.data(2, (U, TWO, 7), REPEATED, b"c--");
    assert_eq!(got.last().map(|got| got.clock), Some(7));
    assert_eq!(bed.count(2, ActorCount::AppliedAgain), 2);
    assert_eq!(bed.state(2, U), bed.state(1, U));
    bed.end();
}

#[test]
fn packets_to_apply_again_are_asked_for() {
    let mut bed = opened();
    for clock in 1..=6 {
        bed.data(1, (U, ONE, clock), 0, b"c--");
        bed.carry();
    }
    bed.tell(2, SWITCH, Message::Open(resumed(U, (ONE, TWO), 6, 2)));
    bed.said(2);
    bed.later(100);
    bed.tick(2);
    let repeat = Message::Repeat {
        unit: U,
        view: TWO,
        after: Clock(4),
    };
    assert!(bed.said(2).contains(&(SWITCH, repeat)));
    bed.end();
}
