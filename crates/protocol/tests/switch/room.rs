//! Room: frames and places for packets, entries and ticks.

use weir_packet::{Disposition, FramePool, MemoryLayout, frame_flags};
use weir_protocol::Message;
use weir_protocol::entry::to_part;
use weir_protocol::message::{Entry, EntryBatch, StateUpdate};
use weir_protocol::plant::Plant;
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{SwitchCount, SwitchDrop};

use crate::rig::Rig;

fn small_pool() -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: 256,
        large_frames: 0,
        ..MemoryLayout::default()
    })
}

/// Runtime 1 gets everything over a link: frames go back to the switch's pool,
/// and entries come as messages. What the queue held, as entries to come.
fn over_a_link(rig: &mut Rig) -> Vec<EntryBatch> {
    let frames = rig.queue(1);
    let memory = rig.pool.memory().clone();
    let mut batches = Vec::new();
    for frame in &frames {
        let seen = rig.see(frame);
        let mut part = to_part(&memory, frame);
        part.disposition = match seen.flags & frame_flags::TICK {
            0 => Disposition::Out,
            _ => Disposition::Applied,
        };
        // Each causes a packet beside its own.
        let mut emitted = part.clone();
        emitted.disposition = Disposition::Emitted;
        batches.push(EntryBatch {
            unit: seen.unit,
            view: seen.view,
            clock: seen.clock,
            state: StateUpdate::Omitted,
            entries: vec![Entry {
                clock: seen.clock,
                parts: vec![emitted, part],
            }],
        });
    }
    rig.drop_all(frames);
    batches
}

/// As many packets as the pool has frames for, then a tick for each unit, then
/// all entries. How many packets were numbered, and how many were let out.
fn fill(plant: Option<Plant>) -> (usize, usize, Rig) {
    let settings = SwitchSettings {
        plant,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::new(settings, 1);
    rig.pool = small_pool();
    let mut entries = Vec::new();
    for round in 0..8 {
        for flow in 1..=50 {
            if rig.pool.available() > 0 {
                rig.send(flow, round);
                entries.extend(over_a_link(&mut rig));
            }
        }
    }
    let packets = entries.len();
    let units: Vec<_> = entries.iter().take(50).map(|b| (b.unit, b.view)).collect();
    for (unit, view) in units {
        rig.say(1, Message::Tick { unit, view });
        entries.extend(over_a_link(&mut rig));
    }
    let mut out = 0;
    for batch in entries {
        rig.say(1, Message::Entries(vec![batch]));
        out += rig.out().len();
    }
    // One for each packet and each tick, and the packets.
    let emitted = rig.switch.report().emitted as usize;
    (packets, out - emitted, rig)
}

#[test]
fn entries_find_frames_whatever_else_is_kept() {
    let (packets, out, rig) = fill(None);
    assert!(packets > 100, "{packets}");
    assert_eq!(out, packets);
    assert!(rig.dropped(SwitchDrop::FramesShort) > 0);
    assert_eq!(rig.dropped(SwitchDrop::UnackedFull), 0, "places are left");
    assert_eq!(rig.count(SwitchCount::EntryNoFrame), 0);
    assert!(rig.count(SwitchCount::TickNumbered) > 0);
    rig.end();
    // Without the reserve no entry finds a frame, and none ever comes free.
    let (packets, out, rig) = fill(Some(Plant::NoReserve));
    assert!(packets > 200 && out == 0, "{packets} {out}");
    assert!(rig.count(SwitchCount::EntryNoFrame) > 0);
    rig.end();
}

#[test]
fn a_tick_without_a_place_is_numbered_when_there_is_one() {
    let settings = SwitchSettings {
        kept: 2,
        ..SwitchSettings::default()
    };
    let mut rig = Rig::new(settings, 1);
    rig.send(1, 1);
    let first = rig.queue(1);
    let one = rig.see(&first[0]);
    rig.answer(1, first, Disposition::Out);
    // All places are another unit's.
    rig.send(2, 1);
    rig.send(2, 2);
    let (unit, view) = (one.unit, one.view);
    rig.say(1, Message::Tick { unit, view });
    rig.say(1, Message::Tick { unit, view });
    assert_eq!(rig.count(SwitchCount::TickDeferred), 1);
    assert_eq!(rig.count(SwitchCount::TickNumbered), 0);
    rig.serve(1);
    assert_eq!(rig.count(SwitchCount::TickNumbered), 1);
    let ticks = rig.queue(1);
    let seen = rig.seen(&ticks);
    assert_eq!((seen.len(), seen[0].unit), (1, unit));
    assert_ne!(seen[0].flags & frame_flags::TICK, 0);
    rig.answer(1, ticks, Disposition::Out);
    rig.out();
    rig.end();
}
