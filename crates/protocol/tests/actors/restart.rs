//! The switch starts again.

use weir_nf::RuntimeId;
use weir_protocol::View;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, Peer, UnitId};
use weir_protocol::message::{Claim, Message, Open};

use crate::bed::{Bed, FRESH, Kind, SWITCH, closed, out, planned, resumed, runtime, unit, view};

const U: UnitId = unit(2);
const ONE: View = view(1);
const NEXT: Peer = Peer::Switch(2);
const NEW: View = View(2 << 48 | 1);

fn claims(bed: &mut Bed, of: u32) -> Vec<Claim> {
    let mut all = Vec::new();
    let said = bed.said(of);
    let count = said.len() as u32;
    for (number, (to, message)) in (0..).zip(said) {
        let Message::Claims {
            generation,
            piece,
            pieces,
            claims,
            ..
        } = message
        else {
            panic!("no claims: {message:?}");
        };
        let right = (NEXT, 2, number, count);
        assert_eq!((to, generation, piece, pieces), right);
        all.extend(claims);
    }
    all
}

fn question(from: u32) -> Message {
    Message::Recover {
        generation: 2,
        from,
        most: 64,
    }
}

fn recover(bed: &mut Bed, of: u32) -> Vec<Claim> {
    bed.tell(of, NEXT, question(0));
    claims(bed, of)
}

#[test]
fn owners_and_replicas_claim_what_they_have_and_are_fenced() {
    let mut bed = Bed::new(2);
    crate::replica::copied(&mut bed, 3);
    bed.data(1, (U, ONE, 4), 0, b"n\x05-");
    bed.carry();
    let mine = recover(&mut bed, 1);
    let copy = recover(&mut bed, 2);
    assert_eq!((mine.len(), copy.len()), (1, 1));
    let (mine, copy) = (&mine[0], &copy[0]);
    assert_eq!((mine.unit, mine.view, mine.clock), (U, ONE, Clock(4)));
    assert!(mine.owner && !copy.owner);
    assert_eq!((mine.flows.len(), mine.aliases.len()), (1, 1));
    assert_eq!((&mine.flows, &mine.aliases), (&copy.flows, &copy.aliases));
    // nothing of the old switch counts any more
    assert_eq!(bed.data(1, (U, ONE, 5), 0, b"c--"), []);
    assert_eq!(bed.count(1, ActorCount::StalePacket), 1);
    let forget = Message::Forget {
        unit: U,
        below: view(9),
        ended: true,
    };
    bed.tell(1, SWITCH, forget);
    assert!(bed.state(1, U).is_some());
    assert_eq!(bed.count(1, ActorCount::MessageStale), 1);
    // a second time the answer is the same
    assert_eq!(recover(&mut bed, 1), vec![mine.clone()]);
    // and it goes on in a view of the new switch
    bed.tell(1, NEXT, Message::Open(resumed(U, (ONE, NEW), 4, 1)));
    let _ = bed.said(1);
    assert_eq!(bed.data(1, (U, NEW, 5), 0, b"c--"), [out(NEW, 5, 5)]);
    bed.end();
}

#[test]
fn the_source_of_a_move_under_way_claims_and_the_target_has_nothing() {
    let mut bed = Bed::new(2);
    bed.start(1, U, ONE, 3);
    bed.tell(1, SWITCH, closed(U, (ONE, view(2)), 3, 2));
    bed.tell(2, SWITCH, Message::Open(planned(U, (ONE, view(2)), 3, 1)));
    bed.data(2, (U, view(2), 4), 0, b"c--");
    let state = bed.said(1);
    assert_eq!(recover(&mut bed, 2), []);
    assert_eq!(bed.at(2).report().held, 0);
    let claims = recover(&mut bed, 1);
    assert_eq!((claims[0].view, claims[0].owner), (ONE, true));
    // the state was on its way
    for (_, message) in state {
        bed.tell(2, runtime(1), message);
    }
    assert_eq!(bed.count(2, ActorCount::MessageStale), 1);
    assert_eq!(bed.state(2, U), None);
    let open = Open {
        replica: Some(RuntimeId(2)),
        ..resumed(U, (ONE, NEW), 3, 1)
    };
    bed.tell(1, NEXT, Message::Open(open));
    bed.carry();
    assert_eq!(bed.at(2).report().replicas, 1);
    bed.end();
}

#[test]
fn many_claims_come_in_pieces_and_none_is_an_answer() {
    let mut bed = Bed::new(2);
    for place in 0..60 {
        bed.start(1, unit(place), view(place + 1), 2);
    }
    for place in 60..150 {
        let open = planned(unit(place), (View::NONE, view(place + 1)), 0, 0);
        let open = Open {
            origin: weir_protocol::message::Origin::Nothing { after_loss: false },
            ..open
        };
        bed.tell(1, SWITCH, Message::Open(open));
    }
    let _ = bed.said(1);
    let claims = recover(&mut bed, 1);
    // Those that have nothing left say so: older copies must not win.
    assert_eq!(claims.iter().filter(|claim| claim.state).count(), 60);
    assert_eq!(bed.count(1, ActorCount::ClaimedEnded), 90);
    assert_eq!(recover(&mut bed, 2), []);
    bed.end();
}

#[test]
fn an_answer_has_no_more_pieces_than_were_asked_for() {
    let kind = Kind {
        flows: Some(256),
        ..Kind::default()
    };
    let mut bed = Bed::of(1, kind);
    for place in 0..250 {
        bed.start(1, unit(place), view(place + 1), 2);
    }
    for (from, most, numbers) in [
        (0, 2, 0..2),
        (2, 1, 2..3),
        (3, 2, 3..4),
        (1, 0, 0..0),
        (2, u32::MAX, 2..4),
    ] {
        let question = Message::Recover {
            generation: 2,
            from,
            most,
        };
        bed.tell(1, NEXT, question);
        let said = bed.said(1).into_iter().map(|(_, message)| match message {
            Message::Claims { piece, pieces, .. } => (piece, pieces),
            other => panic!("no claims: {other:?}"),
        });
        let wanted = numbers.map(|piece| (piece, 4));
        assert_eq!(said.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }
    // It walks over its units once.
    assert_eq!(bed.count(1, ActorCount::Claimed), 250);
    bed.end();
}

#[test]
fn an_answer_goes_on_from_the_piece_that_is_missing() {
    let kind = Kind {
        flows: Some(256),
        ..Kind::default()
    };
    let mut bed = Bed::of(1, kind);
    for place in 0..150 {
        bed.start(1, unit(place), view(place + 1), 2);
    }
    let all = recover(&mut bed, 1);
    assert_eq!(all.len(), 150);
    // A question about an answer that was longer is asked anew.
    for (from, said) in [(0, 0), (1, 1), (2, 2), (3, 0), (u32::MAX, 0)] {
        bed.tell(1, NEXT, question(from));
        let mut number = said;
        for (_, message) in bed.said(1) {
            let Message::Claims {
                piece,
                pieces,
                claims,
                ..
            } = message
            else {
                panic!("no claims: {message:?}");
            };
            assert_eq!((piece, pieces), (number, 3));
            let first = 64 * number as usize;
            assert_eq!(claims, all[first..all.len().min(first + 64)]);
            number += 1;
        }
        assert_eq!(number, 3);
    }
    bed.end();
}

#[test]
fn a_unit_number_of_the_switch_before_may_be_used_again() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 3);
    recover(&mut bed, 1);
    let got = bed.start(1, U, NEW, 2);
    assert_eq!(got, [out(NEW, 1, 1), out(NEW, 2, 2)]);
    assert_eq!(bed.data(1, (U, ONE, 4), FRESH, b"c--"), []);
    bed.end();
}

#[test]
fn an_old_question_does_not_drop_what_the_new_switch_has_begun() {
    let mut bed = Bed::new(1);
    bed.start(1, unit(9), ONE, 1);
    recover(&mut bed, 1);
    // a first view whose first packet is late
    bed.data(1, (U, NEW, 2), FRESH, b"c--");
    let _ = bed.said(1);
    recover(&mut bed, 1);
    let got = bed.data(1, (U, NEW, 1), FRESH, b"c--");
    assert_eq!(got, [out(NEW, 1, 1), out(NEW, 2, 2)]);
    bed.end();
}

#[test]
fn what_a_dead_switch_had_not_acknowledged_is_counted() {
    let mut bed = Bed::new(1);
    bed.start(1, U, ONE, 5);
    let (unit, out) = (U, Clock(2));
    bed.tell(
        1,
        SWITCH,
        Message::Out {
            unit,
            view: ONE,
            out,
        },
    );
    recover(&mut bed, 1);
    assert_eq!(bed.count(1, ActorCount::SwitchRestart), 0);
    let open = resumed(U, (ONE, NEW), 5, 1);
    bed.tell(1, NEXT, Message::Open(open));
    // Packets 3 to 5: it may have let out some of them all the same.
    assert_eq!(bed.count(1, ActorCount::SwitchRestart), 3);
    bed.end();
}
