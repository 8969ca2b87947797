//! States that do not fit, or are damaged: the move fails, the unit stays.

use weir_protocol::actors::ActorCount;
use weir_protocol::message::Message;
use weir_protocol::settings::Replication;
use weir_protocol::switch::SwitchCount;

use crate::cluster::{Cluster, stage};
use crate::functions::OtherCounter;

#[test]
fn a_snapshot_of_another_layout_is_refused_and_the_unit_stays() {
    let mut cluster = Cluster::new(1, Replication::None);
    for number in 1..=3 {
        for flow in 1..=5 {
            assert_eq!(cluster.packet(flow), Some(number));
        }
    }
    cluster.add(2, &stage::<OtherCounter>());
    assert_eq!(cluster.move_all(1, 2), 5);
    assert_eq!(cluster.at(2, ActorCount::RefusedLayout), 5);
    assert_eq!(cluster.at_switch(SwitchCount::ViewRefused), 5);
    assert_eq!(cluster.at_switch(SwitchCount::MoveFailed), 5);
    // Nothing was lost, and nobody is suspected.
    for number in 4..=6 {
        for flow in 1..=5 {
            assert_eq!(cluster.packet(flow), Some(number));
            assert_eq!(cluster.owner_of(flow), 1);
        }
        cluster.later(50);
    }
    assert_eq!(cluster.at_switch(SwitchCount::Suspected), 0);
    assert_eq!(cluster.at_switch(SwitchCount::UnitLost), 0);
    cluster.end();
}

/// A state that was cut short, or is no state at all, by a peer at fault (on
/// the way the streams' codes find it).
#[test]
fn a_damaged_snapshot_is_refused_and_the_unit_stays() {
    let damages: [fn(&mut Message); 4] = [
        |message| damage(message, |state| state.truncate(state.len() - 1)),
        |message| damage(message, |state| state.clear()),
        |message| damage(message, |state| state.extend([0; 9])),
        |message| {
            damage(message, |state| {
                state.iter_mut().for_each(|octet| *octet = !*octet)
            })
        },
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let mut cluster = Cluster::new(1, Replication::None);
        for number in 1..=3 {
            assert_eq!(cluster.packet(1), Some(number));
        }
        cluster.add(2, &stage::<crate::functions::Counter>());
        cluster.change = Some(damage);
        assert_eq!(cluster.move_all(1, 2), 1);
        let named = [
            ActorCount::RefusedCorrupt,
            ActorCount::RefusedLayout,
            ActorCount::RefusedFull,
        ];
        let refused: u64 = named.into_iter().map(|what| cluster.at(2, what)).sum();
        assert_eq!(refused, 1, "damage {n}");
        assert_eq!(cluster.at_switch(SwitchCount::ViewRefused), 1);
        cluster.change = None;
        for number in 4..=6 {
            assert_eq!(cluster.packet(1), Some(number));
            assert_eq!(cluster.owner_of(1), 1);
        }
        // Whole, it is taken.
        assert_eq!(cluster.move_all(1, 2), 1);
        assert_eq!(cluster.packet(1), Some(7));
        assert_eq!(cluster.owner_of(1), 2);
        cluster.end();
    }
}

fn damage(message: &mut Message, how: fn(&mut Vec<u8>)) {
    if let Message::State { image, .. } = message
        && let Some(state) = &mut image.state
    {
        how(state);
    }
}
