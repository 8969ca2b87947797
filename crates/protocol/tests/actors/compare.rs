//! Copies are compared with what their owners have sent.

use weir_protocol::actors::{ActorCount, Compared};
use weir_protocol::ids::UnitId;
use weir_protocol::message::{Comparison, Message};

use crate::bed::{Bed, SWITCH, runtime, unit, view};
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
    let now = bed.now;
    let actors = bed.at(1);
    actors.begin_comparison();
    assert_eq!(actors.compared().left, 1);
    assert!(actors.compare_some(now));
    bed.carry();
    bed.at(1).compared()
}

/// A comparison with this number that has counted nothing.
fn none(round: u32) -> Compared {
    Compared {
        round,
        ..Compared::default()
    }
}

/// Digest and round of the question that runtime 1 sends.
fn question(bed: &mut Bed) -> (u64, u32) {
    let mut said = bed.said(1).into_iter();
    let found = said.find_map(|(_, message)| match message {
        Message::Compare { digest, round, .. } => Some((digest, round)),
        _ => None,
    });
    found.expect("it asks")
}

fn answer(round: u32, found: Comparison) -> Message {
    Message::Compared {
        unit: U,
        view: view(1),
        round,
        found,
    }
}

#[test]
fn a_copy_of_all_that_was_sent_is_equal() {
    let mut bed = bed();
    assert_eq!(
        compare(&mut bed),
        Compared {
            equal: 1,
            ..none(1)
        }
    );
    assert_eq!(
        compare(&mut bed),
        Compared {
            equal: 1,
            ..none(2)
        }
    );
    assert_eq!(bed.count(1, ActorCount::CompareEqual), 2);
}

/// Another digest than the copy's, as if the copy were another.
#[test]
fn a_copy_that_differs_is_sent_whole() {
    let mut bed = bed();
    let (now, whole) = (bed.now, bed.count(1, ActorCount::ReplicatedWhole));
    bed.at(1).begin_comparison();
    assert!(bed.at(1).compare_some(now));
    let (digest, round) = question(&mut bed);
    let other = Message::Compare {
        unit: U,
        view: view(1),
        clock: weir_protocol::Clock(3),
        digest: digest ^ 1,
        round,
    };
    bed.tell(2, runtime(1), other);
    bed.carry();
    assert_eq!(
        bed.at(1).compared(),
        Compared {
            differs: 1,
            ..none(1)
        }
    );
    assert_eq!(bed.count(1, ActorCount::ReplicatedWhole), whole + 1);
    assert_eq!(
        compare(&mut bed),
        Compared {
            equal: 1,
            ..none(2)
        }
    );
}

/// The first time the missing update may be on its way; the second time the state is sent whole.
#[test]
fn a_copy_that_is_behind_or_missing_is_asked_about_again_and_sent_whole() {
    for found in [Comparison::Behind, Comparison::Missing] {
        let mut bed = bed();
        let (now, whole) = (bed.now, bed.count(1, ActorCount::ReplicatedWhole));
        bed.at(1).begin_comparison();
        for second in [false, true] {
            assert_eq!(bed.at(1).compared(), Compared { left: 1, ..none(1) });
            if second {
                assert!(!bed.at(1).compare_some(now), "it may be on its way");
                bed.later(50);
                bed.said(1);
            }
            let now = bed.now;
            assert!(bed.at(1).compare_some(now));
            // One question at a time.
            assert!(!bed.at(1).compare_some(now));
            let (_, round) = question(&mut bed);
            bed.tell(1, runtime(2), answer(round, found));
        }
        let behind = u64::from(found == Comparison::Behind);
        let of = Compared {
            behind,
            missing: 1 - behind,
            ..none(1)
        };
        assert_eq!(bed.at(1).compared(), of);
        bed.carry();
        assert_eq!(bed.count(1, ActorCount::ReplicatedWhole), whole + 1);
        assert_eq!(
            compare(&mut bed),
            Compared {
                equal: 1,
                ..none(2)
            }
        );
    }
}

/// A unit that has another owner by the time the answer comes; and one of whose copy nothing is heard.
#[test]
fn what_changes_or_stays_silent_meanwhile_is_no_longer_waited_for() {
    let mut bed = bed();
    let now = bed.now;
    bed.at(1).begin_comparison();
    assert!(bed.at(1).compare_some(now));
    bed.said(1);
    bed.later(1_999);
    let now = bed.now;
    assert!(!bed.at(1).compare_some(now));
    assert_eq!(bed.at(1).compared(), Compared { left: 1, ..none(1) });
    bed.later(2);
    let now = bed.now;
    assert!(!bed.at(1).compare_some(now));
    let silent = Compared {
        unanswered: 1,
        ..none(1)
    };
    assert_eq!(bed.at(1).compared(), silent);
    bed.at(1).begin_comparison();
    assert!(bed.at(1).compare_some(now));
    let forget = Message::Forget {
        unit: U,
        below: view(9),
        ended: true,
    };
    bed.tell(1, SWITCH, forget);
    let now = bed.now;
    assert!(!bed.at(1).compare_some(now));
    assert_eq!(bed.at(1).compared(), Compared { over: 1, ..none(2) });
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

/// Answers that nobody asked for, of another comparison, or from another runtime, change nothing, and
/// have no state sent again.
#[test]
fn a_stranger_s_answer_does_not_count() {
    let mut bed = bed();
    assert_eq!(
        compare(&mut bed),
        Compared {
            equal: 1,
            ..none(1)
        }
    );
    let whole = bed.count(1, ActorCount::ReplicatedWhole);
    bed.tell(1, runtime(2), answer(1, Comparison::Differs));
    let now = bed.now;
    bed.at(1).begin_comparison();
    assert!(bed.at(1).compare_some(now));
    bed.tell(1, runtime(2), answer(1, Comparison::Differs));
    bed.tell(1, runtime(3), answer(2, Comparison::Differs));
    assert_eq!(bed.count(1, ActorCount::MessageStale), 3);
    assert_eq!(bed.at(1).compared(), Compared { left: 1, ..none(2) });
    assert_eq!(bed.count(1, ActorCount::CompareDiffers), 0);
    assert_eq!(bed.count(1, ActorCount::ReplicatedWhole), whole);
}
