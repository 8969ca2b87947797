//! Port blocks.

use weir_nf::{PoolId, PortLease, PortSpace};
use weir_packet::Time;
use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, Peer, RuntimeId, UnitId};
use weir_protocol::message::Message;

use crate::bed::{Bed, FRESH, Kind, SWITCH, stage_of, unit, view};
use crate::functions::Ports;

pub(crate) fn grant(block: u16) -> Message {
    Message::LeaseGranted {
        pool: PoolId(0),
        address: 0,
        block: 16 + block,
    }
}

#[test]
fn ports_come_from_granted_blocks_and_more_are_asked_for() {
    let mut bed = Bed::new(0);
    bed.add(1, Kind::default(), &stage_of::<Ports>(256));
    bed.tell(1, SWITCH, grant(0));
    bed.tell(1, SWITCH, grant(0));
    assert_eq!(bed.count(1, ActorCount::LeaseGranted), 1);
    let wanted = Message::LeaseWanted { pool: PoolId(0) };
    let mut asked = 0;
    for place in 0..40 {
        let got = bed.data(1, (unit(place), view(place + 1), 1), FRESH, b"c--");
        assert_eq!(got.len(), 2, "the lease is noted beside the packet");
        for (to, message) in bed.said(1) {
            assert_eq!((to, &message), (SWITCH, &wanted));
            asked += 1;
        }
    }
    // once, then again after a while
    assert_eq!(asked, 1);
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said_to(1, SWITCH), wanted);
    bed.tell(1, SWITCH, grant(1));
    bed.later(10);
    bed.tick(1);
    assert_eq!(bed.said(1), []);
    assert_eq!(bed.at(1).engine().leases().leased(), 40);
    let lease = PortLease {
        address: 0,
        port: 1_024,
        space: PortSpace::Udp,
    };
    bed.tell(1, SWITCH, out_of_first());
    let pool = PoolId(0);
    for _ in 0..2 {
        bed.tell(1, SWITCH, Message::PortFreed { pool, lease });
    }
    assert_eq!(bed.at(1).engine().leases().leased(), 39);
    bed.end();
}

#[test]
fn one_that_no_block_was_free_for_asks_though_no_packet_comes() {
    let mut bed = Bed::new(0);
    bed.add(1, Kind::default(), &stage_of::<Ports>(256));
    assert_eq!(bed.at(1).next_deadline(), None, "it knows no switch");
    let runtimes = vec![RuntimeId(1)];
    bed.tell(1, SWITCH, Message::NotifyClusterCfg { runtimes });
    assert_eq!(bed.at(1).next_deadline(), Some(Time::ZERO));
    bed.tick(1);
    let wanted = Message::LeaseWanted { pool: PoolId(0) };
    assert_eq!(bed.said_to(1, SWITCH), wanted);
    // The switch remembers it.
    assert_eq!(bed.at(1).next_deadline(), None);
    bed.tell(1, SWITCH, grant(0));
    assert_eq!(bed.at(1).next_deadline(), None);
    bed.end();
}

fn out_of_first() -> Message {
    Message::Out {
        unit: unit(0),
        view: view(1),
        out: Clock(1),
    }
}

fn doubts(bed: &mut Bed) -> Option<Vec<(PortLease, Option<UnitId>)>> {
    let said = bed.said(1);
    let mut doubts = said.into_iter().filter_map(|(_, message)| match message {
        Message::PortsDoubted { doubts, .. } => Some(doubts),
        _ => None,
    });
    doubts.next()
}

/// A runtime whose first unit has leased the first port by an entry that is not let out.
fn leased() -> (Bed, PoolId, PortLease) {
    let mut bed = Bed::new(0);
    bed.add(1, Kind::default(), &stage_of::<Ports>(256));
    bed.tell(1, SWITCH, grant(0));
    bed.data(1, (unit(0), view(1), 1), FRESH, b"c--");
    bed.said(1);
    let lease = PortLease {
        address: 0,
        port: 1_024,
        space: PortSpace::Udp,
    };
    (bed, PoolId(0), lease)
}

/// A restarted switch takes the flows of claims for lessees of the ports that they end at. Where
/// one is over, and its port was free, a packet that is not let out yet may have leased the port.
#[test]
fn a_port_that_was_leased_anew_is_not_free_with_an_older_flow() {
    let (mut bed, pool, lease) = leased();
    bed.tell(1, SWITCH, Message::PortFreed { pool, lease });
    assert_eq!(bed.at(1).engine().leases().leased(), 1);
    bed.tick(1);
    assert_eq!(doubts(&mut bed), Some(vec![(lease, Some(unit(0)))]));
    let (free, leased) = (vec![], vec![lease]);
    bed.tell(1, SWITCH, Message::PortsKnown { pool, free, leased });
    bed.tell(1, SWITCH, out_of_first());
    bed.later(100);
    bed.tick(1);
    assert_eq!(doubts(&mut bed), None);
    bed.tell(1, SWITCH, Message::PortFreed { pool, lease });
    assert_eq!(bed.at(1).engine().leases().leased(), 0);
    assert_eq!(bed.at(1).audit(), None);
    bed.end();
}

/// Two questions get two answers. What the second says of a port that the first has settled may
/// be over: the port may be leased anew by then.
#[test]
fn an_answer_about_a_port_that_is_not_in_doubt_frees_nothing() {
    let (mut bed, pool, lease) = leased();
    let known = |free, leased| Message::PortsKnown { pool, free, leased };
    // Its entry is not let out, so the port comes into doubt.
    bed.tell(1, SWITCH, Message::PortFreed { pool, lease });
    bed.tick(1);
    assert_eq!(doubts(&mut bed), Some(vec![(lease, Some(unit(0)))]));
    bed.tell(1, SWITCH, known(vec![], vec![lease]));
    bed.tell(1, SWITCH, known(vec![lease], vec![]));
    assert_eq!(bed.at(1).engine().leases().leased(), 1);
    assert_eq!(bed.count(1, ActorCount::PortReturned), 0);
    assert_eq!(bed.at(1).audit(), None);
    bed.end();
}

#[test]
fn blocks_are_claimed_from_a_switch_that_starts_again() {
    let mut bed = Bed::new(0);
    bed.add(1, Kind::default(), &stage_of::<Ports>(256));
    for block in [4, 2] {
        bed.tell(1, SWITCH, grant(block));
    }
    let next = Peer::Switch(2);
    bed.tell(
        1,
        next,
        Message::Recover {
            generation: 2,
            from: 0,
            most: 64,
        },
    );
    let said = bed.said(1);
    assert_eq!(said[..2], [(next, grant(2)), (next, grant(4))]);
    assert!(matches!(said[2].1, Message::Claims { pieces: 1, .. }));
    // and are not granted a second time
    bed.tell(1, next, grant(4));
    assert_eq!(bed.count(1, ActorCount::LeaseGranted), 2);
    bed.end();
}

/// A stream may refuse a message: where the switch's word that a port is free is lost, the
/// runtime asks about the port when its unit is long gone.
#[test]
fn a_port_of_a_unit_that_is_gone_is_asked_about_in_the_end() {
    let mut bed = Bed::new(0);
    bed.add(1, Kind::default(), &stage_of::<Ports>(256));
    bed.tell(1, SWITCH, grant(0));
    bed.data(1, (unit(0), view(1), 1), FRESH, b"c--");
    bed.tell(1, SWITCH, out_of_first());
    let over = Message::Forget {
        unit: unit(0),
        below: view(9),
        ended: true,
    };
    bed.tell(1, SWITCH, over);
    bed.said(1);
    assert_eq!(bed.at(1).engine().leases().leased(), 1);
    bed.later(100);
    bed.tick(1);
    assert_eq!(doubts(&mut bed), None);
    bed.later(10_000);
    bed.tick(1);
    let asked = doubts(&mut bed).expect("it asks");
    let [(lease, of)] = asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(of, Some(unit(0)));
    let (pool, free, leased) = (PoolId(0), vec![lease], vec![]);
    bed.tell(1, SWITCH, Message::PortsKnown { pool, free, leased });
    assert_eq!(bed.at(1).engine().leases().leased(), 0);
    assert_eq!(bed.at(1).audit(), None);
    bed.end();
}
