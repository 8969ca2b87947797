//! A logger stores, passes on, and gives the state to the runtime that goes on.

use weir_protocol::actors::ActorCount;
use weir_protocol::ids::UnitId;
use weir_protocol::message::{Message, Open};

use crate::bed::{Bed, FRESH, Kind, SWITCH, held, planned, resumed, stage_of};
use crate::bed::{runtime, unit, view};
use crate::functions::Ledger;
use crate::replica::copied;

const U: UnitId = unit(2);

/// Runtimes 1 and 3, and the logger 2, with a unit of three packets at 1.
fn bed() -> Bed {
    let mut bed = Bed::new(0);
    for id in [1, 2, 3] {
        let is_logger = id == 2;
        let kind = Kind {
            is_logger,
            ..Kind::default()
        };
        bed.add(id, kind, &stage_of::<Ledger>(64));
    }
    let said = copied(&mut bed, 3);
    assert_eq!(said[0], (2, held(U, view(1))));
    bed
}

#[test]
fn the_runtime_that_goes_on_asks_the_logger_for_the_state() {
    let mut bed = bed();
    let state = bed.state(1, U);
    // Packet 1 was let out. The owner is dead; 4 comes before the state.
    let open = resumed(U, (view(1), view(5)), 1, 2);
    bed.tell(3, SWITCH, Message::Open(open));
    assert_eq!(bed.data(3, (U, view(5), 4), 0, b"c--"), []);
    let said = bed.carry();
    assert_eq!(bed.count(3, ActorCount::OpenedFromLogger), 1);
    assert_eq!(bed.count(2, ActorCount::LoggerAnswered), 1);
    // What was not let out is said again, in the new view, and 4 follows.
    let clocks = |message: &Message| match message {
        Message::Entries(batches) => batches.iter().flat_map(crate::bed::clocks).collect(),
        _ => Vec::new(),
    };
    let by_three: Vec<u64> = said
        .iter()
        .filter(|(by, _)| *by == 3)
        .flat_map(|(_, message)| clocks(message))
        .collect();
    assert_eq!(by_three, [2, 3]);
    assert!(said.contains(&(3, held(U, view(5)))));
    assert_eq!(bed.got(3).len(), 1);
    assert_ne!(bed.state(3, U), state);
    // A state that nobody has (any more) is refused by name.
    let lost = Message::Pull {
        unit: unit(3),
        old: view(1),
        new: view(6),
        at: weir_protocol::Clock(1),
    };
    bed.tell(2, runtime(3), lost);
    assert!(matches!(bed.said_to(2, runtime(3)), Message::Refuse { .. }));
    assert_eq!(bed.count(2, ActorCount::LoggerLacks), 1);
    bed.end();
}

#[test]
fn a_logger_takes_no_unit_and_no_packet() {
    let mut bed = bed();
    let open = Open {
        view: view(7),
        ..planned(U, (view(1), view(7)), 3, 1)
    };
    bed.tell(2, SWITCH, Message::Open(open));
    assert_eq!(bed.count(2, ActorCount::MessageRefused), 1);
    assert_eq!(bed.data(2, (unit(4), view(9), 1), FRESH, b"c--"), []);
    assert_eq!(bed.count(2, ActorCount::PacketRefused), 1);
    assert_eq!(bed.at(2).report().units, 0);
    bed.end();
}
