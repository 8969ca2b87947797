use weir_packet::{FrameMeta, MemoryLayout, Time};

use super::*;
use weir_protocol::message::{Image, MoveMode};
use weir_telemetry::Label as _;

const S: RuntimeId = RuntimeId(1);
const T: RuntimeId = RuntimeId(2);
const SWITCH: Peer = Peer::Switch(1);

fn unit(place: u32) -> UnitId {
    UnitId(1 << 32 | u64::from(place))
}

fn view(number: u64) -> View {
    View(View::first_of(1).0 + number)
}

fn pool() -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: 64,
        small_bytes: 512,
        ..MemoryLayout::default()
    })
}

fn frame(pool: &mut FramePool, (place, view, clock): (u32, View, u64)) -> Frame {
    let mut meta = FrameMeta::received(Time(clock), 0);
    (meta.unit, meta.view, meta.clock) = (unit(place).0, view.0, clock);
    pool.copy(&[clock as u8], meta).unwrap()
}

fn open(place: u32, view: View, old: View, base: u64, origin: Origin) -> Message {
    Message::Open(Open {
        unit: unit(place),
        view,
        old,
        base: Clock(base),
        out: Clock(base),
        origin,
        replica: None,
        every: 0,
    })
}

const PLANNED: Origin = Origin::Planned { source: S };

fn closed(place: u32, old: View, at: u64, new: View) -> Message {
    Message::Closed {
        unit: unit(place),
        old,
        at: Clock(at),
        new,
        to: T,
        mode: MoveMode::Push,
    }
}

fn state(place: u32, old: View, new: View, clock: u64) -> Message {
    Message::State {
        unit: unit(place),
        old,
        new,
        image: Image {
            clock: Clock(clock),
            state: Some(vec![1, 2, 3]),
            since: Clock(clock),
            outputs: Vec::new(),
        },
    }
}

/// A switch's outbox with the messages and frames of one call.
fn outbox(
    pool: &mut FramePool,
    messages: Vec<(RuntimeId, Message)>,
    frames: &[(RuntimeId, (u32, View, u64))],
) -> SwitchOutbox {
    let mut outbox = SwitchOutbox::default();
    for (to, message) in messages {
        outbox.messages.push((Peer::Runtime(to), message));
    }
    for to in [S, T] {
        let frames = frames.iter().filter(|(queue, _)| *queue == to);
        let frames = frames.map(|(_, place)| frame(pool, *place)).collect();
        outbox.queues.push(DataQueue { to, frames });
    }
    outbox
}

/// Clocks of the frames in each of the queues.
fn clocks(pool: &FramePool, queues: &[DataQueue]) -> Vec<(u32, Vec<u64>)> {
    let clock = |frame: &Frame| pool.memory().meta(frame).clock;
    queues
        .iter()
        .map(|queue| (queue.to.0, queue.frames.iter().map(clock).collect()))
        .collect()
}

fn count(controller: &Controller, what: Central) -> u64 {
    controller.counts().get(what)
}

#[test]
fn state_first_then_what_came_meanwhile_then_the_direct_way() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let (old, new) = (view(1), view(2));
    let mut first = outbox(
        &mut pool,
        vec![
            (T, open(0, new, old, 3, PLANNED)),
            (S, closed(0, old, 3, new)),
        ],
        &[
            (S, (0, old, 2)),
            (S, (0, old, 3)),
            (T, (0, new, 4)),
            (T, (7, old, 9)),
        ],
    );
    controller.from_switch(&mut pool, &mut first);
    // The source hears that it is to export, the target nothing; packets up to the
    // base and those of others go their way.
    assert_eq!(first.messages, [(Peer::Runtime(S), closed(0, old, 3, new))]);
    assert_eq!(
        clocks(&pool, &first.queues),
        [(1, vec![2, 3]), (2, vec![9])]
    );

    // More comes; the switch repeats what it has not seen let out.
    let again = vec![
        (T, open(0, new, old, 3, PLANNED)),
        (S, closed(0, old, 3, new)),
    ];
    let mut second = outbox(
        &mut pool,
        again,
        &[(T, (0, new, 5)), (T, (0, new, 4)), (T, (0, new, 6))],
    );
    controller.from_switch(&mut pool, &mut second);
    assert_eq!(second.messages.len(), 1);
    assert_eq!(clocks(&pool, &second.queues), [(1, vec![]), (2, vec![])]);
    assert_eq!(
        (controller.held(), count(&controller, Central::Duplicates)),
        (3, 1)
    );
    assert!(controller.outbox.messages.is_empty() && controller.outbox.queues.is_empty());

    controller.from_runtime(S, T, state(0, old, new, 3));
    let to = Peer::Runtime(T);
    assert_eq!(
        controller.outbox.messages,
        [
            (SWITCH, to, open(0, new, old, 3, PLANNED)),
            (Peer::Runtime(S), to, state(0, old, new, 3))
        ]
    );
    assert_eq!(
        clocks(&pool, &controller.outbox.queues),
        [(2, vec![4, 5, 6])]
    );
    assert_eq!((controller.held(), controller.most_held()), (0, 3));

    // From now on nothing is held, and what is said again goes straight on.
    let again = vec![(T, open(0, new, old, 3, PLANNED))];
    let mut third = outbox(&mut pool, again, &[(T, (0, new, 7))]);
    controller.from_switch(&mut pool, &mut third);
    assert_eq!(third.messages.len(), 1);
    assert_eq!(clocks(&pool, &third.queues), [(1, vec![]), (2, vec![7])]);
    assert_eq!(count(&controller, Central::Moves), 1);
    assert_eq!(count(&controller, Central::Released), 1);
    assert_eq!(count(&controller, Central::StateBytes), 3);
}

#[test]
fn each_unit_is_released_by_its_own_state() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let (old, new) = (view(1), view(2));
    let opens = (0..3).map(|place| (T, open(place, new, old, 1, PLANNED)));
    let frames: Vec<_> = (0..3).map(|place| (T, (place, new, 2))).collect();
    let mut all = outbox(&mut pool, opens.collect(), &frames);
    controller.from_switch(&mut pool, &mut all);
    assert_eq!(controller.held(), 3);
    controller.from_runtime(S, T, state(1, old, new, 1));
    assert_eq!(clocks(&pool, &controller.outbox.queues), [(2, vec![2])]);
    assert_eq!(controller.held(), 2);
    controller.from_runtime(S, T, state(0, old, new, 1));
    controller.from_runtime(S, T, state(2, old, new, 1));
    assert_eq!(
        clocks(&pool, &controller.outbox.queues),
        [(2, vec![2, 2, 2])]
    );
    assert_eq!(controller.outbox.messages.len(), 6);
}

#[test]
fn frames_that_overtook_one_another_leave_in_order() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let new = view(2);
    let opens = vec![(T, open(0, new, view(1), 0, PLANNED))];
    let frames = [5, 1, 4, 2, 3].map(|clock| (T, (0, new, clock)));
    let mut all = outbox(&mut pool, opens, &frames);
    controller.from_switch(&mut pool, &mut all);
    controller.from_runtime(S, T, state(0, view(1), new, 0));
    assert_eq!(
        clocks(&pool, &controller.outbox.queues),
        [(2, vec![1, 2, 3, 4, 5])]
    );
}

#[test]
fn a_failure_meanwhile_ends_the_move() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let (old, new, after) = (view(1), view(2), view(3));
    let opens = vec![(T, open(0, new, old, 1, PLANNED))];
    let mut first = outbox(&mut pool, opens, &[(T, (0, new, 2)), (T, (0, new, 3))]);
    controller.from_switch(&mut pool, &mut first);
    // The target died: the source goes on.
    let resumed = open(0, after, old, 1, Origin::Resumed { source: S });
    let mut second = outbox(&mut pool, vec![(S, resumed.clone())], &[(S, (0, after, 2))]);
    controller.from_switch(&mut pool, &mut second);
    assert_eq!(second.messages, [(Peer::Runtime(S), resumed)]);
    assert_eq!(clocks(&pool, &second.queues), [(1, vec![2]), (2, vec![])]);
    assert_eq!(count(&controller, Central::Superseded), 1);
    assert_eq!(
        (controller.held(), count(&controller, Central::Abandoned)),
        (0, 2)
    );
    // The state comes late: the target is told, and refuses it by its view.
    controller.from_runtime(S, T, state(0, old, new, 1));
    assert_eq!(controller.outbox.messages.len(), 1);
    assert!(controller.outbox.queues.is_empty());
    // One frame is in the second outbox; all others went back.
    assert_eq!(pool.outstanding(), 1);
}

#[test]
fn the_next_move_of_a_unit_is_a_move() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    for (number, settle) in [(1, true), (2, false), (3, true)] {
        let (old, new) = (view(number), view(number + 1));
        let opens = vec![(T, open(0, new, old, 1, PLANNED))];
        let mut first = outbox(&mut pool, opens, &[(T, (0, new, 2))]);
        controller.from_switch(&mut pool, &mut first);
        assert_eq!(controller.held(), 1);
        controller.from_runtime(S, T, state(0, old, new, 1));
        assert_eq!(controller.held(), 0);
        if settle {
            let forget = Message::Forget {
                unit: unit(0),
                below: new,
                ended: false,
            };
            let mut settled = outbox(&mut pool, vec![(S, forget)], &[]);
            controller.from_switch(&mut pool, &mut settled);
            assert_eq!(settled.messages.len(), 1);
            assert!(controller.moving.is_empty());
        }
    }
    assert_eq!(count(&controller, Central::Released), 3);
    assert_eq!(count(&controller, Central::Superseded), 0);
}

#[test]
fn forgetting_older_views_does_not_end_a_move_under_way() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let (old, new) = (view(1), view(2));
    let forget = |below, ended| Message::Forget {
        unit: unit(0),
        below,
        ended,
    };
    let messages = vec![
        (T, open(0, new, old, 1, PLANNED)),
        (S, forget(old, false)),
        (S, forget(new, false)),
    ];
    let mut first = outbox(&mut pool, messages, &[(T, (0, new, 2))]);
    controller.from_switch(&mut pool, &mut first);
    assert_eq!(controller.held(), 1);
    let mut end = outbox(&mut pool, vec![(S, forget(view(9), true))], &[]);
    controller.from_switch(&mut pool, &mut end);
    assert_eq!((controller.held(), controller.waiting), (0, 0));
}

#[test]
fn a_full_buffer_leaves_it_to_the_switch_to_send_again() {
    let (mut pool, mut controller) = (pool(), Controller::new(2));
    let new = view(2);
    let opens = vec![(T, open(0, new, view(1), 0, PLANNED))];
    let frames = [1, 2, 3, 4].map(|clock| (T, (0, new, clock)));
    let mut all = outbox(&mut pool, opens, &frames);
    controller.from_switch(&mut pool, &mut all);
    assert_eq!(
        (controller.held(), count(&controller, Central::Overflowed)),
        (2, 2)
    );
    assert_eq!(pool.outstanding(), 2);
}

#[test]
fn what_is_no_move_passes() {
    let (mut pool, mut controller) = (pool(), Controller::new(100));
    let fresh = open(
        0,
        view(1),
        View::NONE,
        0,
        Origin::Nothing { after_loss: true },
    );
    let out = Message::Out {
        unit: unit(0),
        view: view(1),
        out: Clock(3),
    };
    let messages = vec![(S, fresh), (S, out)];
    let mut all = outbox(&mut pool, messages, &[(S, (0, view(1), 1))]);
    controller.from_switch(&mut pool, &mut all);
    assert_eq!(all.messages.len(), 2);
    assert_eq!(clocks(&pool, &all.queues), [(1, vec![1]), (2, vec![])]);
    // An early snapshot for no view yet, and a state nobody waits for.
    controller.from_runtime(S, T, state(0, view(1), View::NONE, 3));
    controller.from_runtime(S, T, state(5, view(1), view(2), 3));
    assert_eq!(controller.outbox.messages.len(), 2);
    assert_eq!(count(&controller, Central::Moves), 0);
}

/// Moves of 8 units in any order of events: what goes to a unit's target in a view
/// is its state first and then packets in order, none twice; every frame is passed on
/// or given back; and nothing is held for a move that is over.
#[test]
fn any_order_of_events_keeps_the_order_of_packets() {
    let mut random = 7u64;
    let mut below = |n: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    for _ in 0..300 {
        let (mut pool, mut controller) = (pool(), Controller::new(24));
        let mut views = [1u64; 8];
        let mut clocks = [1u64; 8];
        let mut bases = [0u64; 8];
        // By unit: the last clock passed on in the current view; `None` before its state.
        let mut passed: [Option<u64>; 8] = [Some(0); 8];
        for _ in 0..200 {
            let place = below(8) as usize;
            let now = view(views[place]);
            let old = view(views[place].saturating_sub(1));
            let mut out = SwitchOutbox::default();
            match below(5) {
                0 if passed[place].is_some() => {
                    views[place] += 1;
                    bases[place] = clocks[place] - 1;
                    passed[place] = None;
                    let new = view(views[place]);
                    let opens = vec![(T, open(place as u32, new, now, bases[place], PLANNED))];
                    out = outbox(&mut pool, opens, &[]);
                }
                1 if passed[place].is_none() => {
                    let sent = state(place as u32, old, now, bases[place]);
                    controller.from_runtime(S, T, sent);
                }
                2 if below(4) == 0 => {
                    // A failure: the owner of before goes on, packets go to it directly.
                    views[place] += 1;
                    let new = view(views[place]);
                    let resumed = open(place as u32, new, old, 0, Origin::Resumed { source: S });
                    out = outbox(&mut pool, vec![(S, resumed)], &[]);
                    passed[place] = Some(clocks[place] - 1);
                }
                _ => {
                    // A packet, and sometimes one more time.
                    let clock = clocks[place];
                    clocks[place] += 1;
                    let mut frames = vec![(T, (place as u32, now, clock))];
                    if passed[place].is_none() && below(3) == 0 {
                        frames.push((T, (place as u32, now, clock)));
                    }
                    out = outbox(&mut pool, Vec::new(), &frames);
                }
            }
            controller.from_switch(&mut pool, &mut out);
            let released = core::mem::take(&mut controller.outbox);
            for (_, _, message) in &released.messages {
                if let Message::State { unit, new, .. } = message {
                    let place = unit.slot() as usize;
                    assert_eq!(*new, view(views[place]));
                    assert_eq!(passed[place], None);
                    passed[place] = Some(bases[place]);
                }
            }
            for queue in released.queues.into_iter().chain(out.queues) {
                for frame in queue.frames {
                    let meta = *pool.memory().meta(&frame);
                    let place = UnitId(meta.unit).slot() as usize;
                    assert_eq!(meta.view, view(views[place]).0);
                    let last = passed[place].expect("no packet before the state");
                    assert!(meta.clock > last, "{} after {last}", meta.clock);
                    passed[place] = Some(meta.clock);
                    pool.give(frame);
                }
            }
            assert_eq!(pool.outstanding(), controller.held() as usize);
            assert!(controller.held() <= 24);
        }
        let waiting = passed.iter().filter(|passed| passed.is_none()).count();
        assert_eq!(controller.waiting, waiting);
    }
}

/// docs/handover.md says what each counter of the central mode means.
#[test]
fn each_count_is_told_of() {
    let document = include_str!("../../../../docs/handover.md");
    let (_, end) = document
        .rsplit_once("In central mode")
        .expect("the paragraph");
    for count in Central::ALL {
        let name = count.name();
        assert!(end.contains(&format!("`{name}`")), "{name}");
    }
}
