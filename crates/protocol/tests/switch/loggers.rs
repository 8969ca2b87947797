//! Loggers: members that keep copies and own no unit.

use weir_packet::Disposition;
use weir_protocol::Clock;
use weir_protocol::message::{Claim, Message, MoveMode, Open, Origin, Refusal};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{MoveError, SwitchCount, SwitchDrop};

use crate::rig::{Rig, rt};
use crate::{claims, each_burst, move_to, replica_of, settled};

const LOGGER: u32 = 9;

/// Runtimes 1 to `runtimes`, and a logger.
fn rig(runtimes: u32) -> Rig {
    let mut rig = Rig::new(each_burst(), runtimes);
    rig.switch.set_logger(rt(LOGGER));
    rig.switch.join(rig.now, rt(LOGGER));
    rig.messages();
    rig
}

/// A settled unit of flow 1; its owner's number.
fn unit_at(rig: &mut Rig) -> u32 {
    rig.send(1, 1);
    let owner = rig.who()[0];
    assert_eq!(replica_of(rig, owner), LOGGER);
    let frames = rig.queue(owner);
    rig.answer(LOGGER, frames, Disposition::Out);
    assert_eq!(rig.out(), [1]);
    rig.messages();
    owner
}

/// Who was told to open a view, and what.
fn opened(rig: &mut Rig) -> (u32, Open) {
    let mut all = (1..=LOGGER).filter_map(|n| Some((n, rig.open(n)?)));
    all.next().expect("a view was opened")
}

#[test]
fn a_logger_keeps_all_copies_and_owns_nothing() {
    let mut rig = rig(3);
    for flow in 1..=9 {
        rig.send(flow, flow);
    }
    for number in 1..=3 {
        let frames = rig.queue(number);
        assert!(!frames.is_empty());
        rig.answer(LOGGER, frames, Disposition::Out);
    }
    assert_eq!(rig.out().len(), 9);
    assert!(rig.queue(LOGGER).is_empty());
    let refused = move_to(&mut rig, 1, LOGGER, MoveMode::Push);
    assert_eq!(refused, Err(MoveError::Logger));
    // Runtimes hear of those that may own units.
    rig.switch.join(rig.now, rt(4));
    let told = rig.to(1).into_iter().find_map(|message| match message {
        Message::NotifyClusterCfg { runtimes } => Some(runtimes),
        _ => None,
    });
    assert_eq!(told, Some(vec![rt(1), rt(2), rt(3), rt(4)]));
    rig.end();
}

#[test]
fn after_a_death_another_runtime_gets_the_state_from_the_logger() {
    let mut rig = rig(3);
    let owner = unit_at(&mut rig);
    rig.send(1, 2);
    let lost = rig.queue(owner);
    rig.drop_all(lost);
    rig.suspect(owner);
    let (heir, open) = opened(&mut rig);
    assert!(heir != owner && heir != LOGGER);
    let source = rt(LOGGER);
    assert_eq!(open.origin, Origin::Resumed { source });
    assert_eq!((open.base, open.replica), (Clock(1), Some(source)));
    assert_eq!(rig.count(SwitchCount::ResumedFromLogger), 1);
    let frames = rig.queue(heir);
    assert_eq!(rig.clocks(&frames), [2]);
    rig.answer(LOGGER, frames, Disposition::Out);
    assert_eq!(rig.out(), [2]);
    rig.end();
}

#[test]
fn an_heir_that_refuses_or_dies_is_replaced_while_the_logger_has_the_state() {
    let mut rig = rig(4);
    let owner = unit_at(&mut rig);
    rig.suspect(owner);
    let (first, open) = opened(&mut rig);
    let refuse = |open: &Open, why| Message::Refuse {
        unit: open.unit,
        view: open.view,
        why,
    };
    rig.say(first, refuse(&open, Refusal::Full));
    let (second, open) = opened(&mut rig);
    assert!(second != first && second != LOGGER);
    rig.suspect(second);
    let (third, open_again) = opened(&mut rig);
    assert_eq!((open_again.old, open_again.base), (open.old, open.base));
    assert_eq!(rig.count(SwitchCount::UnitLost), 0);
    // The logger says that it has no state: nobody has.
    rig.say(third, refuse(&open_again, Refusal::NoState));
    assert_eq!(rig.count(SwitchCount::UnitLost), 1);
    rig.end();
}

#[test]
fn a_state_that_nobody_takes_is_given_up_at_last() {
    let mut rig = rig(3);
    let owner = unit_at(&mut rig);
    rig.suspect(owner);
    let mut asked = 0;
    while rig.count(SwitchCount::UnitLost) == 0 {
        let (heir, open) = opened(&mut rig);
        let (unit, view, why) = (open.unit, open.view, Refusal::Layout);
        rig.say(heir, Message::Refuse { unit, view, why });
        asked += 1;
        assert!(asked <= 8, "it is tried for ever");
    }
    rig.end();
}

#[test]
fn without_a_runtime_a_unit_waits_at_the_logger() {
    let mut rig = rig(1);
    let owner = unit_at(&mut rig);
    rig.suspect(owner);
    assert_eq!(rig.count(SwitchCount::HeirAwaited), 1);
    rig.send(1, 2);
    assert_eq!(rig.dropped(SwitchDrop::NoRuntime), 1);
    rig.pass(100);
    assert_eq!(rig.count(SwitchCount::UnitLost), 0);
    rig.switch.join(rig.now, rt(2));
    rig.pass(0);
    let open = rig.open(2).unwrap();
    let source = rt(LOGGER);
    assert_eq!(open.origin, Origin::Resumed { source });
    rig.send(1, 3);
    let frames = rig.queue(2);
    assert_eq!(rig.clocks(&frames), [2]);
    rig.answer(LOGGER, frames, Disposition::Out);
    assert_eq!(rig.out(), [3]);
    rig.end();
}

#[test]
fn copies_of_a_logger_that_dies_go_to_runtimes_and_come_back() {
    let mut rig = rig(2);
    let owner = unit_at(&mut rig);
    rig.suspect(LOGGER);
    let other = 3 - owner;
    let open = rig.open(owner).unwrap();
    assert_eq!(open.replica, Some(rt(other)));
    let (unit, view) = (open.unit, open.view);
    rig.say(other, Message::Held { unit, view });
    rig.switch.set_logger(rt(8));
    rig.switch.join(rig.now, rt(8));
    rig.pass(0);
    let open = rig.open(owner).unwrap();
    assert_eq!(open.replica, Some(rt(8)));
    let (unit, view) = (open.unit, open.view);
    rig.say(8, Message::Held { unit, view });
    assert_eq!(rig.switch.report().unsettled, 0);
    rig.end();
}

#[test]
fn another_host_goes_before_a_logger_and_a_far_logger_before_both() {
    let mut rig = rig(2);
    for (member, host) in [(1, 7), (LOGGER, 7), (2, 8)] {
        rig.switch.set_host(rt(member), host);
    }
    for flow in 1..=2 {
        rig.send(flow, flow);
    }
    let replicas = [1, 2].map(|owner| replica_of(&mut rig, owner));
    assert_eq!(replicas, [2, LOGGER]);
    rig.end();
}

#[test]
fn a_restarted_switch_takes_a_loggers_claim_for_a_runtime() {
    let (rig, unit, owner) = settled(each_burst(), 2);
    let key = rig.switch.classifier().key_of(unit.0).unwrap();
    rig.end();
    let settings = SwitchSettings {
        generation: 2,
        ..each_burst()
    };
    let mut rig = Rig::new(settings, 0);
    rig.switch.set_logger(rt(LOGGER));
    let other = 3 - owner;
    rig.switch.recover(rig.now, &[rt(other), rt(LOGGER)]);
    let claim = Claim {
        unit,
        view: weir_protocol::View(1 << 48 | 1),
        owner: false,
        clock: Clock(1),
        state: true,
        key: None,
        flows: vec![(key, false)],
        aliases: Vec::new(),
    };
    rig.say(other, claims(Vec::new()));
    rig.say(LOGGER, claims(vec![claim]));
    rig.pass(0);
    let open = rig.open(other).unwrap();
    let source = rt(LOGGER);
    assert_eq!(open.origin, Origin::Resumed { source });
    assert_eq!(open.base, Clock(1));
    rig.end();
}
