//! The switch, with runtimes played by hand.

mod ends;
mod failure;
mod first;
mod flowlets;
mod leases;
mod loggers;
mod moves;
mod names;
mod repeats;
mod restart;
#[path = "../rig/mod.rs"]
mod rig;
mod room;
mod takeover;
mod window;

use rig::{Rig, rt};
use weir_packet::{Disposition, Frame, frame_flags};
use weir_protocol::UnitId;
use weir_protocol::message::{Claim, Message, MoveMode, Selection};
use weir_protocol::settings::{Replication, SwitchSettings};
use weir_protocol::switch::MoveError;

const FRESH: u8 = frame_flags::FRESH;

const REPEATED: u8 = frame_flags::REPEATED;

/// Repeats after 10 ms, whatever the round trip: here time stands still.
const FIXED: (u64, u64) = (10 * rig::MS, 10 * rig::MS);

fn settings() -> SwitchSettings {
    SwitchSettings {
        kept: 256,
        repeat_within: FIXED,
        ..SwitchSettings::default()
    }
}

fn each_burst() -> SwitchSettings {
    SwitchSettings {
        replication: Replication::EachBurst,
        ..settings()
    }
}

/// A rig with one settled unit, of flow 1; its owner's number.
fn settled(settings: SwitchSettings, runtimes: u32) -> (Rig, UnitId, u32) {
    let mut rig = Rig::new(settings, runtimes);
    rig.send(1, 1);
    let owner = rig.who()[0];
    let frames = rig.queue(owner);
    let unit = rig.see(&frames[0]).unit;
    let speaker = match settings.replication {
        Replication::None => owner,
        _ => rig.open(owner).unwrap().replica.unwrap().0,
    };
    rig.answer(speaker, frames, Disposition::Out);
    assert_eq!(rig.out(), [1]);
    rig.messages();
    (rig, unit, owner)
}

/// A runtime's whole answer to the second switch.
fn claims(claims: Vec<Claim>) -> Message {
    Message::Claims {
        generation: 2,
        piece: 0,
        pieces: 1,
        claims,
        suspected: Vec::new(),
    }
}

fn replica_of(rig: &mut Rig, owner: u32) -> u32 {
    rig.open(owner).unwrap().replica.unwrap().0
}

fn move_to(rig: &mut Rig, from: u32, to: u32, mode: MoveMode) -> Result<u32, MoveError> {
    let now = rig.now;
    let from = Some(rt(from));
    rig.switch
        .move_units(now, from, rt(to), &Selection::All, mode)
}

fn copy_of(rig: &mut Rig, frame: &Frame) -> Frame {
    let memory = rig.pool.memory().clone();
    let (meta, bytes) = memory.read(frame);
    rig.pool.copy(bytes, *meta).unwrap()
}
