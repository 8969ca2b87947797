//! Ticks that name the flow to end.

mod common;
#[path = "common/follower.rs"]
mod follower;

use common::{PASS, Probe};
use follower::{Follower, Numbered};
use weir_nf::prelude::*;
use weir_packet::frame_flags as flags;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::notes::{self, Note};

const UNIT: u64 = 1 << 32 | 3;

fn numbered(unit: u64, clock: u64, flags: u8, bytes: Vec<u8>) -> Numbered {
    Numbered {
        unit,
        clock,
        time_ms: 1_700_000_000_000,
        flags,
        side: Side::Inside,
        bytes,
    }
}

/// A unit that lives elsewhere by now may have left a flow of the same key behind.
#[test]
fn a_tick_finds_the_flow_of_its_own_unit_among_those_of_one_key() {
    let builder = Harness::builder().with::<Probe<0>>(()).expect("none");
    let stage = builder.stage();
    let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:53")
        .payload(&[PASS; 40])
        .build();
    for order in [[UNIT, UNIT + 1], [UNIT + 1, UNIT]] {
        let mut engine = Follower::new(&stage);
        engine.apply(&[
            numbered(UNIT, 1, 0, packet.clone()),
            numbered(UNIT + 1, 1, 0, packet.clone()),
        ]);
        let key = engine.engine.open_flow(0).expect("it is open").key;
        let mut note = Vec::new();
        notes::write(&Note::FlowEnded { key }, &mut note);
        for (unit, left) in order.into_iter().zip([1, 0]) {
            engine.apply(&[numbered(unit, 2, flags::TICK, note.clone())]);
            assert_eq!(engine.engine.active_flows(), left);
        }
    }
}
