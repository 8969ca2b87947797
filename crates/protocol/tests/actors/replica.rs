//! Replicas: stored, then passed on.

use weir_nf::RuntimeId;
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{EntryBatch, Message, Open, Origin, StateUpdate};

use crate::bed::{Bed, FRESH, REPEATED, SWITCH, batch, clocks, closed, held, planned};
use crate::bed::{runtime, unit, view};

const U: UnitId = unit(2);
const ONE: View = view(1);

pub(crate) fn first(view: View, replica: u32) -> Message {
    Message::Open(Open {
        origin: Origin::Nothing { after_loss: false },
        replica: Some(RuntimeId(replica)),
        ..planned(U, (View::NONE, view), 0, 0)
    })
}

/// A unit at runtime 1, copied to 2, with `last` packets.
pub(crate) fn copied(bed: &mut Bed, last: u64) -> Vec<(u32, Message)> {
    bed.tell(1, SWITCH, first(ONE, 2));
    let mut said = bed.carry();
    for clock in 1..=last {
        assert_eq!(bed.data(1, (U, ONE, clock), FRESH, b"c--"), []);
        said.extend(bed.carry());
    }
    said
}

fn passed(said: &[(u32, Message)]) -> Vec<u64> {
    let batches = said.iter().filter_map(|(by, message)| match message {
        Message::Entries(batches) if *by == 2 => Some(batches),
        _ => None,
    });
    batches.flatten().flat_map(clocks).collect()
}

#[test]
fn entries_reach_the_switch_by_way_of_the_replica() {
    let mut bed = Bed::new(2);
    let said = copied(&mut bed, 3);
    assert_eq!(said[0], (2, held(U, ONE)));
    assert_eq!(passed(&said), [1, 2, 3]);
    // nothing went past it
    assert!(said.iter().all(|(by, _)| *by == 2));
    for (_, message) in &said {
        if let Message::Entries(batches) = message {
            assert!(batches.iter().all(|b| b.state == StateUpdate::Omitted));
        }
    }
    let two = bed.at(2).report();
    assert_eq!((two.replicas, two.units), (1, 0));
    assert_eq!(bed.at(1).report().kept, 3);
    for id in [1, 2] {
        bed.tell(
            id,
            SWITCH,
            Message::Out {
                unit: U,
                view: ONE,
                out: Clock(2),
            },
        );
        assert_eq!(bed.count(id, ActorCount::OutputsDone), 2);
    }
    bed.end();
}

#[test]
fn where_no_function_changed_its_state_only_the_engines_own_is_sent() {
    let mut bed = Bed::new(2);
    copied(&mut bed, 2);
    bed.data(1, (U, ONE, 3), FRESH, b"q--");
    let touched = batch(bed.said_to(1, runtime(2)));
    assert!(
        matches!(touched.state, StateUpdate::Touched(_)),
        "{touched:?}"
    );
    bed.tell(2, runtime(1), Message::Entries(vec![touched]));
    assert_eq!(passed(&bed.carry()), [3]);
    bed.data(1, (U, ONE, 4), FRESH, b"c--");
    let full = batch(bed.said_to(1, runtime(2)));
    assert!(matches!(full.state, StateUpdate::Delta { .. }));
    bed.tell(2, runtime(1), Message::Entries(vec![full]));
    // what is stored is the owner's state, to the last bit
    let open = Open {
        origin: Origin::Resumed {
            source: RuntimeId(2),
        },
        ..planned(U, (ONE, view(9)), 4, 0)
    };
    bed.tell(2, SWITCH, Message::Open(open));
    assert_eq!(bed.state(2, U), bed.state(1, U));
    bed.end();
}

#[test]
fn a_burst_of_many_units_travels_in_one_message() {
    let mut bed = Bed::new(2);
    let mut frames = Vec::new();
    for place in 0..10 {
        let open = Open {
            origin: Origin::Nothing { after_loss: false },
            replica: Some(RuntimeId(2)),
            every: 0,
            ..planned(unit(place), (View::NONE, view(place + 1)), 0, 0)
        };
        bed.tell(1, SWITCH, Message::Open(open));
    }
    bed.carry();
    for clock in 1..=3 {
        for place in 0..10 {
            frames.push(bed.frame((unit(place), view(place + 1), clock), FRESH, b"c--"));
        }
    }
    assert_eq!(bed.burst(1, frames), []);
    let Message::Entries(batches) = bed.said_to(1, runtime(2)) else {
        panic!("no entries");
    };
    assert_eq!(batches.len(), 10);
    for batch in &batches {
        assert_eq!((batch.clock, clocks(batch)), (Clock(3), vec![1, 2, 3]));
    }
    bed.end();
}

#[test]
fn packets_before_the_word_of_the_replica_are_told_it_afterwards() {
    let mut bed = Bed::new(2);
    // the first packet is faster than its view's opening
    assert_eq!(bed.start(1, U, ONE, 2).len(), 2);
    bed.tell(1, SWITCH, first(ONE, 2));
    let said = bed.carry();
    assert_eq!(passed(&said), [1, 2]);
    assert!(said.contains(&(2, held(U, ONE))));
    bed.data(1, (U, ONE, 3), FRESH, b"c--");
    assert_eq!(passed(&bed.carry()), [3]);
    bed.end();
}

#[test]
fn entries_of_an_older_view_are_fenced() {
    let mut bed = Bed::new(3);
    copied(&mut bed, 2);
    // 2 becomes the owner of a later view; 1 lives and knows nothing of it
    let open = Open {
        origin: Origin::Resumed {
            source: RuntimeId(2),
        },
        ..planned(U, (ONE, view(5)), 2, 0)
    };
    bed.tell(2, SWITCH, Message::Open(open));
    bed.carry();
    let state = bed.state(2, U);
    bed.data(1, (U, ONE, 3), 0, b"c--");
    bed.carry();
    assert_eq!(bed.state(2, U), state, "another view's entry reached it");
    bed.tell(
        2,
        SWITCH,
        Message::Forget {
            unit: U,
            below: view(5),
            ended: false,
        },
    );
    bed.data(1, (U, ONE, 4), 0, b"c--");
    bed.carry();
    assert_eq!(bed.count(2, ActorCount::EntriesFenced), 1);
    assert_eq!(bed.state(2, U), state);
    bed.end();
}

#[test]
fn a_batch_that_does_not_follow_is_refused_and_made_good() {
    let mut bed = Bed::new(2);
    copied(&mut bed, 2);
    bed.data(1, (U, ONE, 3), FRESH, b"c--");
    let _lost = bed.said(1);
    bed.data(1, (U, ONE, 4), FRESH, b"c--");
    assert_eq!(passed(&bed.carry()), vec![] as Vec<u64>);
    assert_eq!(bed.count(2, ActorCount::EntriesGap), 1);
    // the switch misses 3 and repeats it
    bed.later(20);
    bed.data(1, (U, ONE, 3), REPEATED, b"c--");
    assert_eq!(passed(&bed.carry()), [1, 2, 3, 4]);
    bed.end();
}

#[test]
fn only_the_owner_of_a_copy_is_heard() {
    let mut bed = Bed::new(3);
    copied(&mut bed, 2);
    let forged = EntryBatch {
        unit: U,
        view: ONE,
        clock: Clock(3),
        state: StateUpdate::Full(None),
        entries: Vec::new(),
    };
    bed.tell(2, runtime(3), Message::Entries(vec![forged.clone()]));
    // nor may anybody speak to an owner
    bed.tell(1, runtime(3), Message::Entries(vec![forged]));
    assert_eq!(bed.said(2), []);
    for id in [1, 2] {
        assert_eq!(bed.count(id, ActorCount::MessageRefused), 1);
    }
    let broken = EntryBatch {
        unit: unit(60),
        view: view(90),
        clock: Clock(3),
        state: StateUpdate::Touched(vec![1, 2, 3]),
        entries: Vec::new(),
    };
    bed.tell(2, runtime(3), Message::Entries(vec![broken]));
    assert_eq!(bed.count(2, ActorCount::EntriesGap), 1);
    bed.end();
}

#[test]
fn a_copy_does_not_begin_without_the_outputs_that_came_before() {
    let mut bed = Bed::new(2);
    // packets come before the word of the replica
    for clock in 1..=3 {
        bed.data(1, (U, ONE, clock), FRESH, b"n\x05-");
    }
    let _ = bed.said(1);
    let open = Open {
        origin: Origin::Nothing { after_loss: false },
        replica: Some(RuntimeId(2)),
        ..planned(U, (View::NONE, ONE), 0, 0)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    // the first word is lost, the next entry is not
    assert_eq!(clocks(&batch(bed.said_to(1, runtime(2)))), [1, 2, 3]);
    bed.data(1, (U, ONE, 4), FRESH, b"c--");
    let next = batch(bed.said_to(1, runtime(2)));
    assert!(matches!(next.state, StateUpdate::Delta { .. }));
    bed.tell(2, runtime(1), Message::Entries(vec![next]));
    assert_eq!(bed.count(2, ActorCount::EntriesGap), 1);
    assert_eq!(bed.said(2), []);
    assert_eq!(bed.at(2).report().replicas, 0);
    // the view is not settled: the switch says again that it is open
    bed.tell(1, SWITCH, Message::Open(open));
    assert_eq!(passed(&bed.carry()), [1, 2, 3, 4]);
    assert_eq!(bed.at(2).report().replicas, 1);
    bed.end();
}

#[test]
fn a_moved_unit_gets_its_copy_before_it_is_held() {
    let mut bed = Bed::new(3);
    copied(&mut bed, 4);
    let open = Open {
        replica: Some(RuntimeId(3)),
        out: Clock(2),
        ..planned(U, (ONE, view(2)), 4, 1)
    };
    bed.tell(1, SWITCH, closed(U, (ONE, view(2)), 4, 2));
    bed.tell(2, SWITCH, Message::Open(open));
    let said = bed.carry();
    // runtime 2 was the replica: its copy is all that is needed
    assert_eq!(bed.count(2, ActorCount::PullSpared), 1);
    let by: Vec<u32> = said.iter().map(|(by, _)| *by).collect();
    assert_eq!(by, [3, 3]);
    let entries = batch(said[0].1.clone());
    assert_eq!((entries.view, clocks(&entries)), (view(2), vec![3, 4]));
    assert_eq!(said[1].1, held(U, view(2)));
    assert_eq!(bed.at(3).report().replicas, 1);
    bed.end();
}

#[test]
fn a_packet_that_went_astray_makes_no_owner() {
    let mut bed = Bed::new(2);
    // one that is not the first begins nothing, the first one does
    assert_eq!(bed.data(2, (U, ONE, 3), FRESH, b"c--"), []);
    assert_eq!(bed.at(2).report().units, 0);
    assert_eq!(bed.data(2, (U, ONE, 1), FRESH, b"c--").len(), 1);
    let _ = bed.said(2);
    let said = copied(&mut bed, 3);
    assert_eq!(passed(&said), [1, 2, 3]);
    let two = bed.at(2).report();
    assert_eq!((two.replicas, two.units), (1, 0));
    assert_eq!(bed.count(2, ActorCount::Astray), 1);
    bed.end();
}
