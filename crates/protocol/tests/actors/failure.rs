//! Views after a failure.

use weir_nf::RuntimeId;
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, Open, Refusal};

use crate::bed::{Bed, Kind, SWITCH, batch, clocks, closed, held, out, planned, resumed};
use crate::bed::{runtime, unit, view};
use crate::replica::copied;

const U: UnitId = unit(2);
const ONE: View = view(1);
const TWO: View = view(2);

#[test]
fn a_replica_goes_on_with_the_outputs_that_were_not_let_out() {
    let mut bed = Bed::new(3);
    copied(&mut bed, 5);
    let open = Open {
        replica: Some(RuntimeId(3)),
        ..resumed(U, (ONE, TWO), 3, 2)
    };
    bed.tell(2, SWITCH, Message::Open(open));
    let said = bed.carry();
    let entries = batch(said[0].1.clone());
    assert_eq!(
        (said[0].0, entries.view, clocks(&entries)),
        (3, TWO, vec![4, 5])
    );
    assert_eq!(said[1], (3, held(U, TWO)));
    assert_eq!(bed.count(2, ActorCount::ResumedCopy), 1);
    assert_eq!(bed.state(2, U), bed.state(1, U));
    // what the switch repeats is skipped up to its clock
    for clock in 4..=5 {
        assert_eq!(
            bed.data(2, (U, TWO, clock), crate::bed::REPEATED, b"c--"),
            []
        );
    }
    bed.data(2, (U, TWO, 6), 0, b"c--");
    let said = bed.carry();
    assert_eq!(clocks(&batch(said[0].1.clone())), [6]);
    // the copy of the old view stays, for another failure
    assert_eq!(bed.at(2).report().stored, 1);
    bed.end();
}

#[test]
fn an_owner_goes_on_under_another_view_when_its_replica_is_gone() {
    let mut bed = Bed::new(3);
    copied(&mut bed, 5);
    let before = bed.state(1, U);
    let open = Open {
        replica: Some(RuntimeId(3)),
        ..resumed(U, (ONE, TWO), 4, 1)
    };
    bed.tell(1, SWITCH, Message::Open(open));
    let said = bed.carry();
    assert_eq!(clocks(&batch(said[0].1.clone())), [5]);
    assert_eq!(bed.count(1, ActorCount::ResumedOwner), 1);
    assert_eq!(bed.state(1, U), before);
    bed.data(1, (U, TWO, 6), 0, b"c--");
    assert_eq!(bed.carry().len(), 1);
    // the new replica fails too, before the view is settled: from the same
    // settled actor once more
    let again = resumed(U, (ONE, view(3)), 4, 1);
    bed.tell(1, SWITCH, Message::Open(again));
    assert_eq!(bed.state(1, U), before);
    let said = bed.carry();
    assert_eq!(clocks(&batch(said[0].1.clone())), [5]);
    assert_eq!(said[1], (1, held(U, view(3))));
    assert_eq!(
        bed.data(1, (U, view(3), 6), 0, b"c--"),
        [out(view(3), 6, 6)]
    );
    let report = bed.at(1).report();
    assert_eq!((report.stored, report.units), (2, 1));
    bed.tell(
        1,
        SWITCH,
        Message::Forget {
            unit: U,
            below: view(3),
            ended: false,
        },
    );
    assert_eq!(bed.at(1).report().stored, 0);
    bed.end();
}

#[test]
fn a_source_takes_the_unit_back_when_the_target_fails() {
    for reached in [false, true] {
        let mut bed = Bed::new(2);
        bed.start(1, U, ONE, 5);
        let base = if reached { 5 } else { 7 };
        bed.tell(1, SWITCH, closed(U, (ONE, TWO), base, 2));
        let _ = bed.said(1);
        assert_eq!(bed.state(1, U).is_none(), reached);
        bed.tell(1, SWITCH, Message::Open(resumed(U, (ONE, view(3)), 5, 1)));
        assert_eq!(bed.said_to(1, SWITCH), held(U, view(3)));
        let got = bed.data(1, (U, view(3), 6), 0, b"c--");
        assert_eq!(got, [out(view(3), 6, 6)]);
        // nothing of the old view is applied any more
        assert_eq!(bed.data(1, (U, ONE, 7), 0, b"c--"), []);
        assert_eq!(bed.data(1, (U, view(3), 7), 0, b"c--").len(), 1);
        // nor is its state given away at a clock that it never reached
        let pull = Message::Pull {
            unit: U,
            old: ONE,
            new: TWO,
            at: Clock(7),
        };
        bed.tell(1, runtime(2), pull);
        assert_eq!(bed.said(1), []);
        bed.end();
    }
}

#[test]
fn a_target_that_took_over_makes_room_for_the_view_that_replaced_its_own() {
    let mut bed = Bed::new(2);
    copied(&mut bed, 3);
    // planned to 2, the old replica, and installed there
    bed.tell(1, SWITCH, closed(U, (ONE, TWO), 3, 2));
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, TWO), 3, 1)));
    bed.carry();
    bed.data(2, (U, TWO, 4), 0, b"c--");
    // 1 fails before the view is settled: 2 goes on as the settled view's
    // replica
    bed.tell(2, SWITCH, Message::Open(resumed(U, (ONE, view(3)), 3, 2)));
    assert_eq!(bed.count(2, ActorCount::Retired), 1);
    let got = bed.data(2, (U, view(3), 4), 0, b"c--");
    assert_eq!(got, [out(view(3), 4, 4)]);
    assert_eq!(bed.data(2, (U, TWO, 5), 0, b"c--"), []);
    bed.end();
}

#[test]
fn who_has_no_state_says_so_each_time() {
    let mut bed = Bed::new(1);
    let open = Message::Open(resumed(U, (ONE, TWO), 3, 1));
    let refuse = Message::Refuse {
        unit: U,
        view: TWO,
        why: Refusal::NoState,
    };
    for _ in 0..2 {
        bed.tell(1, SWITCH, open.clone());
        assert_eq!(bed.said_to(1, SWITCH), refuse);
    }
    // a later view is another matter
    bed.tell(1, SWITCH, Message::Open(planned(U, (ONE, view(3)), 3, 2)));
    assert_eq!(bed.at(1).report().waiting, 1);
    bed.end();
}

#[test]
fn a_replica_that_forgets_its_outputs_loses_them() {
    let mut bed = Bed::of(
        2,
        Kind {
            plant: Some(weir_protocol::plant::Plant::ReplicaForgets),
            ..Kind::default()
        },
    );
    copied(&mut bed, 5);
    bed.tell(2, SWITCH, Message::Open(resumed(U, (ONE, TWO), 3, 2)));
    assert_eq!(bed.carry(), [(2, held(U, TWO))]);
    bed.end();
}
