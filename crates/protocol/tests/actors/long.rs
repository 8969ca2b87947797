//! Outputs of a unit that are too long for one message, over streams with the
//! settings that are the defaults.

use weir_protocol::actors::ActorCount;
use weir_protocol::ids::{Clock, UnitId};
use weir_protocol::message::{Message, MoveMode, Open, Origin, Refusal};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::stream::{ProcessStart, Stream, StreamCount, StreamSettings};
use weir_protocol::{Key, Peer};

use crate::bed::{Bed, FRESH, Kind, MS, REPEATED, SWITCH, closed, held, planned, resumed, runtime};
use crate::bed::{unit, view};

const U: UnitId = unit(0);
const OLD: weir_protocol::View = view(1);
const NEW: weir_protocol::View = view(2);
/// Bytes of a packet's payload: with headers as much as an Ethernet carries.
const PAYLOAD: usize = 1_458;

/// Streams between runtimes 1 and 2.
struct Wires {
    ends: [Stream; 2],
    /// What was for others.
    others: Vec<(u32, Peer, Message)>,
    longest: usize,
}

impl Wires {
    fn new() -> Wires {
        let start = |id: u32| ProcessStart::of(runtime(id), 0);
        let (one, two) = (start(1), start(2));
        let stream =
            |local, remote| Stream::new(local, remote, Key([3; 16]), StreamSettings::default());
        Wires {
            ends: [stream(one, two), stream(two, one)],
            others: Vec::new(),
            longest: 0,
        }
    }

    /// Carries what the runtimes say, until nothing is left.
    fn carry(&mut self, bed: &mut Bed) {
        loop {
            let mut idle = true;
            for id in [1, 2] {
                for (to, message) in bed.said(id) {
                    idle = false;
                    if to != runtime(3 - id) {
                        self.others.push((id, to, message));
                        continue;
                    }
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    self.longest = self.longest.max(bytes.len());
                    // What does not fit is dropped, as a driver does it.
                    let _ = self.ends[id as usize - 1].send(&bytes);
                }
            }
            for from in [0, 1] {
                while let Some(frame) = self.ends[from].poll_frame(bed.now) {
                    idle = false;
                    self.ends[1 - from]
                        .receive(bed.now, &frame)
                        .expect("a good frame");
                    while let Some(bytes) = self.ends[1 - from].poll_message() {
                        let message = Message::decode_one(&bytes).expect("a message");
                        let (to, from) = (2 - from as u32, from as u32 + 1);
                        bed.tell(to, runtime(from), message);
                    }
                }
            }
            if idle {
                return;
            }
        }
    }

    fn refused_too_long(&self) -> u64 {
        let ends = self.ends.iter();
        ends.map(|end| end.counts().get(StreamCount::RefusedTooLong))
            .sum()
    }

    fn heard_held(&self) -> bool {
        let said = |(of, _, message): &(u32, Peer, Message)| *of == 2 && *message == held(U, NEW);
        self.others.iter().any(said)
    }
}

/// Runtime 1 has applied as many packets as a switch keeps, and none of what it
/// put out has arrived.
fn full(bed: &mut Bed) -> u64 {
    let kept = u64::from(SwitchSettings::default().kept);
    let mut payload = vec![0; PAYLOAD];
    payload[0] = b'c';
    for clock in 1..=kept {
        bed.data(1, (U, OLD, clock), FRESH, &payload);
    }
    assert_eq!(bed.at(1).report().kept, kept);
    assert!(bed.at(1).report().kept_bytes > StreamSettings::default().longest as u64);
    kept
}

#[test]
fn a_unit_moves_with_all_outputs_that_a_switch_lets_it_keep() {
    let mut bed = Bed::new(2);
    let kept = full(&mut bed);
    for mode in [MoveMode::Push, MoveMode::Pull] {
        let mut wires = Wires::new();
        let mut open = planned(U, (OLD, NEW), kept, 1);
        open.out = Clock(0);
        bed.tell(2, SWITCH, Message::Open(open));
        let mut close = closed(U, (OLD, NEW), kept, 2);
        if let Message::Closed { mode: its, .. } = &mut close {
            *its = mode;
        }
        bed.tell(1, SWITCH, close);
        for _ in 0..200 {
            wires.carry(&mut bed);
            if wires.heard_held() {
                break;
            }
            bed.later(5);
            bed.tick(1);
            bed.tick(2);
        }
        assert!(wires.heard_held());
        assert_eq!(wires.refused_too_long(), 0);
        assert!(wires.longest < 2 << 20, "{}", wires.longest);
        // All of them, and what they come after.
        let there = bed.at(2).report();
        assert_eq!((there.kept, there.units), (kept, 1));
        assert!(bed.count(1, ActorCount::OutputsAhead) > 20);
        let forget = Message::Forget {
            unit: U,
            below: NEW,
            ended: false,
        };
        bed.tell(1, SWITCH, forget);
        if mode == MoveMode::Push {
            bed.end();
            bed = Bed::new(2);
            full(&mut bed);
        }
    }
    bed.end();
}

#[test]
fn a_new_replica_gets_all_outputs_that_a_switch_lets_an_owner_keep() {
    let mut bed = Bed::new(2);
    let kept = full(&mut bed);
    let mut wires = Wires::new();
    let open = Open {
        replica: Some(weir_nf::RuntimeId(2)),
        ..resumed(U, (OLD, NEW), 0, 1)
    };
    for _ in 0..200 {
        // Until it hears that the view is held, the switch repeats it.
        bed.tell(1, SWITCH, Message::Open(open));
        wires.carry(&mut bed);
        if wires.heard_held() {
            break;
        }
        bed.later(10);
    }
    assert!(wires.heard_held());
    assert_eq!(wires.refused_too_long(), 0);
    // It can go on from there: nothing that was not let out is missing.
    let third = view(3);
    bed.tell(2, SWITCH, Message::Open(resumed(U, (NEW, third), 0, 2)));
    assert_eq!(bed.at(2).report().kept, kept);
    bed.end();
}

#[test]
fn what_the_switch_misses_comes_in_portions() {
    let mut bed = Bed::new(1);
    let kept = full(&mut bed);
    let mut out = 0;
    while out < kept {
        bed.later(100);
        // The switch repeats what it misses; the entry is said again.
        bed.data(1, (U, OLD, out + 1), REPEATED, b"c--");
        let said = bed.said(1);
        let mut bytes = 0;
        for (to, message) in said {
            let Message::Entries(batches) = &message else {
                panic!("{message:?}")
            };
            assert_eq!(to, SWITCH);
            for entry in batches.iter().flat_map(|batch| &batch.entries) {
                assert_eq!(entry.clock.0, out + 1);
                out += 1;
            }
            let mut form = Vec::new();
            message.encode(&mut form);
            assert!(form.len() < 2 << 20);
            bytes += form.len();
        }
        assert!(bytes > 0 && bytes < 5 << 20, "{bytes}");
        let unit = U;
        bed.tell(
            1,
            SWITCH,
            Message::Out {
                unit,
                view: OLD,
                out: Clock(out),
            },
        );
    }
    assert_eq!(bed.at(1).report().kept, 0);
    bed.end();
}

/// A state that no message has room for stays; a view that needs it is refused.
#[test]
fn a_state_that_is_too_long_is_refused_and_counted() {
    let mut bed = Bed::of(
        2,
        Kind {
            most: Some(16),
            ..Kind::default()
        },
    );
    bed.start(1, U, OLD, 3);
    bed.tell(2, SWITCH, Message::Open(planned(U, (OLD, NEW), 3, 1)));
    bed.tell(1, SWITCH, closed(U, (OLD, NEW), 3, 2));
    let why = Refusal::TooLong;
    let refused = Message::Refuse {
        unit: U,
        view: NEW,
        why,
    };
    assert_eq!(bed.carry(), [(2, refused)]);
    assert_eq!(bed.count(1, ActorCount::StateTooLong), 1);
    assert_eq!(bed.count(2, ActorCount::RefusedTooLong), 1);
    // The switch goes back to the source, which has kept what it had; its new
    // replica can't be told.
    let open = Open {
        origin: Origin::Resumed {
            source: weir_nf::RuntimeId(1),
        },
        replica: Some(weir_nf::RuntimeId(2)),
        ..planned(U, (OLD, view(3)), 3, 1)
    };
    bed.now = bed.now.plus(MS);
    bed.tell(1, SWITCH, Message::Open(open));
    let refused = Message::Refuse {
        unit: U,
        view: view(3),
        why,
    };
    assert_eq!(bed.said_to(1, SWITCH), refused);
    bed.end();
}
