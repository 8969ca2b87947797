//! Blocks of ports.

use weir_nf::{PoolId, PoolSpec};
use weir_protocol::message::Message;
use weir_protocol::switch::SwitchCount;

use crate::rig::{Rig, rt, stage};
use crate::settings;

fn pools() -> Vec<PoolSpec> {
    vec![PoolSpec {
        addresses: vec!["192.0.2.7".parse().unwrap()],
        first: 1_024,
        last: 1_535,
        block: 256,
    }]
}

#[test]
fn blocks_are_granted_at_joining_and_when_wanted_and_never_twice() {
    let stage = weir_nf::host::Stage {
        pools: pools(),
        ..stage()
    };
    let mut rig = Rig::of(&stage, settings(), 0);
    let mut granted = Vec::new();
    let now = rig.now;
    for number in 1..=3 {
        rig.switch.join(now, rt(number));
        for message in rig.to(number) {
            if let Message::LeaseGranted { block, .. } = message {
                granted.push((number, block));
            }
        }
    }
    assert_eq!(granted, [(1, 4), (2, 5)]);
    assert_eq!(rig.count(SwitchCount::NoBlock), 1);
    // The first dies: its block has no name, and goes to the third.
    rig.suspect(1);
    rig.messages();
    rig.say(3, Message::LeaseWanted { pool: PoolId(0) });
    assert!(matches!(
        rig.to(3)[..],
        [Message::LeaseGranted { block: 4, .. }]
    ));
    assert_eq!(rig.count(SwitchCount::BlockGrantedAgain), 1);
    rig.say(3, Message::LeaseWanted { pool: PoolId(7) });
    assert_eq!(rig.count(SwitchCount::MessageMisdirected), 1);
    rig.end();
}
