//! Copies are compared with what their owners have sent.

use weir_protocol::actors::{ActorCount, Compared};
use weir_protocol::ids::UnitId;
use weir_protocol::message::{Comparison, Message};

use crate::bed::{Bed, runtime, unit, view};
use crate::replica::copied;

const U: UnitId = unit(2);

/// Unit 2 of three packets at runtime 1, and its copy at 2.
fn bed() -> Bed {
    let mut bed = Bed::new(2);
    copied(&mut bed, 3);
    bed
}

/// Has runtime 1 compare all, and gives what came of it.
fn compare(bed: &mut Bed) -> Compared {
    let actors = bed.at(1);
    actors.begin_comparison();
    assert_eq!(actors.compared().left, 1);
    assert!(!actors.compare_some(64));
    bed.carry();
    bed.at(1).compared()
}

const ONE: Compared = Compared {
    left: 0,
    asked: 1,
    equal: 0,
    differs: 0,
    behind: 0,
    missing: 0,
    skipped: 0,
};

#[test]
fn a_copy_of_all_that_was_sent_is_equal() {
    let mut bed = bed();
    assert_eq!(compare(&mut bed), Compared { equal: 1, ..ONE });
    // Once more, and the former answers don't count.
    assert_eq!(compare(&mut bed), Compared { equal: 1, ..ONE });
    assert_eq!(bed.count(1, ActorCount::CompareEqual), 2);
}

/// Another digest than the copy's, as if the copy were another: what the owner does of the answer.
#[test]
fn a_copy_that_differs_is_sent_whole() {
    let mut bed = bed();
    let whole = bed.count(1, ActorCount::ReplicatedWhole);
    let actors = bed.at(1);
    actors.begin_comparison();
    actors.compare_some(64);
    let question = bed
        .said(1)
        .into_iter()
        .find_map(|(_, message)| match message {
            Message::Compare {
                unit,
                view,
                clock,
                digest,
                round,
            } => Some((unit, view, clock, digest, round)),
            _ => None,
        });
    let (unit, view, clock, digest, round) = question.unwrap();
    let other = Message::Compare {
        unit,
        view,
        clock,
        digest: digest ^ 1,
        round,
    };
    bed.tell(2, runtime(1), other);
    bed.carry();
    let found = bed.at(1).compared();
    assert_eq!(found, Compared { differs: 1, ..ONE });
    assert_eq!(bed.count(1, ActorCount::ReplicatedWhole), whole + 1);
    assert_eq!(compare(&mut bed), Compared { equal: 1, ..ONE });
}

#[test]
fn a_copy_of_another_clock_or_of_nobody_is_said_to_be_so() {
    let mut bed = bed();
    let ask = |unit, clock| Message::Compare {
        unit,
        view: view(1),
        clock: weir_protocol::Clock(clock),
        digest: 7,
        round: 1,
    };
    let found = |bed: &mut Bed, question| {
        bed.tell(2, runtime(1), question);
        let said = bed.said(2).pop();
        match said {
            Some((_, Message::Compared { found, .. })) => found,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(found(&mut bed, ask(U, 2)), Comparison::Behind);
    assert_eq!(found(&mut bed, ask(U, 3)), Comparison::Differs);
    assert_eq!(found(&mut bed, ask(unit(9), 3)), Comparison::Missing);
}

/// Answers that nobody asked for, of another comparison, or from another runtime, change nothing.
#[test]
fn a_stranger_s_answer_does_not_count() {
    let mut bed = bed();
    assert_eq!(compare(&mut bed), Compared { equal: 1, ..ONE });
    let answer = |round| Message::Compared {
        unit: U,
        view: view(1),
        round,
        found: Comparison::Differs,
    };
    bed.tell(1, runtime(2), answer(1));
    assert_eq!(bed.count(1, ActorCount::MessageRefused), 1);
    bed.tell(1, runtime(2), answer(2));
    bed.tell(1, runtime(3), answer(1));
    assert_eq!(bed.count(1, ActorCount::MessageStale), 2);
    assert_eq!(bed.at(1).compared(), Compared { equal: 1, ..ONE });
    assert_eq!(bed.count(1, ActorCount::CompareDiffers), 0);
}
