//! What makes no sense is refused and counted, never acted on.

use weir_nf::RuntimeId;
use weir_packet::Disposition;
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, Peer, UnitId};
use weir_protocol::message::{Image, Message, Open, Part, Refusal, Workload};

use crate::bed::{Bed, FRESH, Kind, SWITCH, closed, image, planned, resumed, runtime};
use crate::bed::{stage_of, unit, view};
use crate::functions::Other;

const U: UnitId = unit(6);
const ONE: View = view(1);
const TWO: View = view(2);

/// The state of a unit with 4 packets, as it leaves runtime 1.
fn leaving(bed: &mut Bed) -> Message {
    bed.start(1, U, ONE, 4);
    bed.tell(1, SWITCH, closed(U, (ONE, TWO), 4, 2));
    bed.said_to(1, runtime(2))
}

fn refused(view: View, why: Refusal) -> Message {
    Message::Refuse { unit: U, view, why }
}

#[test]
fn a_state_of_another_layout_is_refused_and_the_source_goes_on() {
    let mut bed = Bed::new(1);
    bed.add(2, Kind::default(), &stage_of::<Other>(64));
    let state = leaving(&mut bed);
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, TWO), 4, 1)));
    bed.tell(2, runtime(1), state);
    assert_eq!(bed.said_to(2, SWITCH), refused(TWO, Refusal::Layout));
    // the packets of the refused view are dropped, the switch has them
    assert_eq!(bed.data(2, (U, TWO, 5), 0, b"c--"), []);
    assert_eq!(bed.at(2).report().waiting, 0);
    bed.tell(1, SWITCH, Message::Open(resumed(U, (ONE, view(3)), 4, 1)));
    let _ = bed.said(1);
    assert_eq!(bed.data(1, (U, view(3), 5), 0, b"c--").len(), 1);
    bed.end();
}

#[test]
fn a_damaged_state_is_refused() {
    let mut bed = Bed::new(2);
    let mut damaged = image(leaving(&mut bed));
    if let Some(state) = &mut damaged.state {
        state.truncate(state.len() / 2);
    }
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, TWO), 4, 1)));
    bed.tell(
        2,
        runtime(1),
        Message::State {
            unit: U,
            old: ONE,
            new: TWO,
            image: damaged,
        },
    );
    assert_eq!(bed.said_to(2, SWITCH), refused(TWO, Refusal::Corrupt));
    bed.end();
}

#[test]
fn a_state_that_finds_no_room_is_refused() {
    let mut bed = Bed::new(1);
    bed.add(
        2,
        Kind {
            flows: Some(1),
            ..Kind::default()
        },
        &stage_of::<crate::functions::Ledger>(1),
    );
    bed.start(2, unit(0), view(7), 1);
    let state = leaving(&mut bed);
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, view(8)), 4, 1)));
    let Message::State { image, .. } = state else {
        panic!("no state");
    };
    bed.tell(
        2,
        runtime(1),
        Message::State {
            unit: U,
            old: ONE,
            new: view(8),
            image,
        },
    );
    assert_eq!(bed.said_to(2, SWITCH), refused(view(8), Refusal::Full));
    bed.end();
}

#[test]
fn a_unit_beyond_all_places_is_refused() {
    let mut bed = Bed::new(1);
    let far = unit(100_000);
    bed.data(1, (far, ONE, 1), FRESH, b"c--");
    assert_eq!(bed.count(1, ActorCount::PacketRefused), 1);
    bed.tell(1, SWITCH, Message::Open(planned(far, (ONE, TWO), 4, 2)));
    let said = bed.said_to(1, SWITCH);
    assert!(matches!(
        said,
        Message::Refuse {
            why: Refusal::Full,
            ..
        }
    ));
    bed.end();
}

#[test]
fn a_state_from_somebody_else_is_not_taken() {
    let mut bed = Bed::new(3);
    let state = leaving(&mut bed);
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, TWO), 4, 1)));
    bed.tell(2, runtime(3), state.clone());
    let at = |clock: u64| match state.clone() {
        Message::State {
            unit,
            old,
            new,
            image,
        } => Message::State {
            unit,
            old,
            new,
            image: Image {
                clock: Clock(clock),
                ..image
            },
        },
        other => other,
    };
    bed.tell(2, runtime(1), at(3));
    bed.tell(2, runtime(1), at(5));
    assert_eq!(bed.count(2, ActorCount::MessageRefused), 3);
    assert_eq!(bed.said(2), []);
    bed.tell(2, runtime(1), state);
    assert_eq!(bed.count(2, ActorCount::StateInstalled), 1);
    bed.end();
}

#[test]
fn pulls_and_closings_of_views_that_never_were_change_nothing() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 4);
    let before = bed.state(1, U);
    let pull = |old, new, at| Message::Pull {
        unit: U,
        old,
        new,
        at: Clock(at),
    };
    bed.tell(1, runtime(3), pull(view(9), view(10), 4));
    bed.tell(1, runtime(3), pull(ONE, ONE, 4));
    bed.tell(1, runtime(3), pull(ONE, TWO, 2));
    bed.tell(1, SWITCH, closed(U, (ONE, TWO), 3, 2));
    bed.tell(1, SWITCH, closed(U, (TWO, ONE), 9, 2));
    bed.tell(1, SWITCH, closed(U, (ONE, TWO), 9, 1));
    bed.tell(1, SWITCH, closed(unit(50), (ONE, TWO), 9, 2));
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.state(1, U), before);
    assert_eq!(bed.data(1, (U, ONE, 5), 0, b"c--").len(), 1);
    let counts = [
        ActorCount::MessageRefused,
        ActorCount::MessageStale,
        ActorCount::PullEarly,
    ];
    let counted = counts.map(|what| bed.count(1, what));
    assert_eq!(counted.iter().sum::<u64>(), 7);
    assert_eq!(counted[2], 1);
    bed.end();
}

#[test]
fn two_closings_that_differ_are_not_both_believed() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 4);
    bed.tell(1, SWITCH, closed(U, (ONE, TWO), 6, 2));
    bed.tell(1, SWITCH, closed(U, (ONE, view(3)), 5, 3));
    assert_eq!(bed.count(1, ActorCount::MessageRefused), 1);
    // nor is who asks for a view that the switch has promised to another
    let pull = |new, at| Message::Pull {
        unit: U,
        old: ONE,
        new,
        at: Clock(at),
    };
    bed.tell(1, runtime(3), pull(TWO, 6));
    bed.tell(1, runtime(2), pull(view(3), 6));
    bed.tell(1, runtime(2), pull(TWO, 4));
    assert_eq!(bed.count(1, ActorCount::MessageRefused), 4);
    bed.data(1, (U, ONE, 5), 0, b"c--");
    assert_eq!(bed.said(1), []);
    bed.data(1, (U, ONE, 6), 0, b"c--");
    assert_eq!(image(bed.said_to(1, runtime(2))).clock, Clock(6));
    bed.end();
}

#[test]
fn who_may_not_say_something_is_not_heard() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 4);
    let open = Message::Open(planned(U, (ONE, TWO), 4, 2));
    let forget = Message::Forget {
        unit: U,
        below: view(9),
        ended: true,
    };
    bed.tell(1, runtime(2), open.clone());
    bed.tell(1, Peer::Coordinator, open);
    bed.tell(1, runtime(2), forget.clone());
    bed.tell(1, Peer::Coordinator, forget);
    bed.tell(
        1,
        SWITCH,
        Message::Recover {
            generation: 7,
            from: 0,
            most: 64,
        },
    );
    bed.tell(1, SWITCH, Message::Held { unit: U, view: ONE });
    // an opening of another generation than its switch's
    let odd = planned(U, (ONE, View(3 << 48 | 9)), 4, 2);
    bed.tell(1, SWITCH, Message::Open(odd));
    // one that names itself as a replica
    let mirror = Open {
        replica: Some(RuntimeId(1)),
        ..planned(U, (ONE, TWO), 4, 2)
    };
    bed.tell(1, SWITCH, Message::Open(mirror));
    assert_eq!(bed.count(1, ActorCount::MessageRefused), 8);
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.at(1).report().units, 1);
    bed.end();
}

#[test]
fn copies_that_nobody_asked_for_are_dropped() {
    let mut bed = Bed::new(1);
    let packet = Part {
        disposition: Disposition::Pending,
        time: bed.now,
        sequence: 1,
        flags: 0,
        side: weir_packet::Side::Inside,
        port: 0,
        link: weir_packet::LinkType::Ethernet,
        dlt: 0,
        wire_len: 3,
        path: 0,
        bytes: vec![1, 2, 3],
    };
    bed.tell(
        1,
        runtime(2),
        Message::Copy {
            unit: U,
            old: ONE,
            clock: Clock(2),
            after: Clock(1),
            packet,
        },
    );
    assert_eq!(bed.count(1, ActorCount::MessageStale), 1);
    bed.end();
}

#[test]
fn frames_that_make_no_sense_are_dropped() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 2);
    let mut frames = Vec::new();
    for (unit, view, clock) in [(UnitId(0), ONE, 1), (U, ONE, 0), (U, View::NONE, 3)] {
        frames.push(bed.frame((unit, view, clock), FRESH, b"c--"));
    }
    // A clock that no switch gives.
    let last = bed.frame((U, ONE, 3), FRESH, b"c--");
    frames.push(last);
    if let Some(frame) = frames.last_mut() {
        let memory = bed.pool.memory().clone();
        memory.meta_mut(frame).clock = Clock::LAST.0 + 1;
    }
    let got = bed.burst(1, frames);
    assert_eq!(got, []);
    let counts = [ActorCount::PacketRefused, ActorCount::StalePacket];
    let both: u64 = counts.iter().map(|&what| bed.count(1, what)).sum();
    assert_eq!(both, 4);
    bed.end();
}

#[test]
fn the_load_is_told_to_who_asks() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 4);
    bed.at(1).set_load(7, 250);
    bed.tell(1, Peer::Coordinator, Message::PollWorkload);
    let workload = Workload {
        packets: 4,
        drops: 7,
        units: 1,
        busy: 250,
    };
    let said = bed.said_to(1, Peer::Coordinator);
    assert_eq!(said, Message::Workload(workload));
    bed.end();
}
