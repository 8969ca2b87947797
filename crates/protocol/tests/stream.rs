//! Streams over bad paths: messages arrive once each and in order, nothing
//! else does, and what is refused is counted.

mod common;

use common::link::{Faults, Link, Random};
use proptest::prelude::*;
use weir_packet::Time;
use weir_packet::actor_frame::{ActorFrameRepr, ActorFrameView, flags};
use weir_protocol::Key;
use weir_protocol::ids::{Peer, RuntimeId};
use weir_protocol::stream::{
    FRAMES_IN_FLIGHT, Liveness, ProcessStart, Reject, SendError, Stream, StreamCount,
    StreamSettings, Streams, ends,
};
use weir_telemetry::Label;

const KEY: Key = Key([0x5a; 16]);
const A: ProcessStart = ProcessStart(1);
const B: ProcessStart = ProcessStart(2);

fn pair(settings: StreamSettings) -> [Stream; 2] {
    [
        Stream::new(A, B, KEY, settings),
        Stream::new(B, A, KEY, settings),
    ]
}

/// Refusals, all reasons together.
fn refused(stream: &Stream) -> u64 {
    let counts = stream.counts().iter();
    counts
        .filter(|(what, _)| what.name().starts_with("rejected"))
        .map(|(_, n)| n)
        .sum()
}

/// What became of a run.
struct Outcome {
    streams: [Stream; 2],
    links: [Link; 2],
    /// When all messages had come.
    done_at: u64,
}

/// Sends messages both ways over paths with `faults` until all have arrived
/// and both ends are at rest.
fn run(seed: u64, faults: Faults, messages: u64, settings: StreamSettings) -> Outcome {
    let mut random = Random::new(seed);
    let mut streams = pair(settings);
    // links[n] leads away from streams[n].
    let mut links = [Link::new(faults, seed + 1), Link::new(faults, seed + 2)];
    let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
    let mut received = [0, 0];
    let mut replays: [Vec<Vec<u8>>; 2] = Default::default();
    let (mut now, mut done_at, mut next_send) = (1_000, 0, 1_000);
    for step in 0.. {
        assert!(
            step < 2_000_000,
            "seed {seed}: it does not come to rest at {now}"
        );
        if now >= next_send && sent.iter().any(|s| (s.len() as u64) < messages) {
            for (stream, sent) in streams.iter_mut().zip(&mut sent) {
                for _ in 0..random.below(8).min(messages - sent.len() as u64) {
                    let length = match random.below(10) {
                        0 => 0,
                        1 => random.below(20_000),
                        2 => 1_426 + random.below(4),
                        _ => random.below(200),
                    };
                    let message = random.bytes(length);
                    match stream.send(&message) {
                        Ok(()) => sent.push(message),
                        // What the caller does: it drops the message.
                        Err(error) => assert_eq!(error, SendError::Full),
                    }
                }
            }
            next_send = now + random.below(300_000);
        }
        for from in 0..2 {
            let to = 1 - from;
            while let Some((frame, changed)) = links[from].receive(now) {
                let outcome = streams[to].receive(Time(now), &frame);
                assert!(
                    !(changed && outcome.is_ok()),
                    "seed {seed}: a changed frame was taken"
                );
                if outcome.is_ok() && random.chance(3) {
                    replays[to].push(frame);
                }
            }
            // Someone sends again what was sent long ago.
            if random.chance(20) && !replays[to].is_empty() {
                let which = random.below(replays[to].len() as u64) as usize;
                let outcome = streams[to].receive(Time(now), &replays[to][which]);
                assert!(
                    matches!(outcome, Err(Reject::Replayed | Reject::TooOld)),
                    "{outcome:?}"
                );
            }
            while let Some(message) = streams[to].poll_message() {
                let expected = sent[from].get(received[to]);
                assert_eq!(
                    Some(&message),
                    expected,
                    "seed {seed}: message {}",
                    received[to]
                );
                received[to] += 1;
            }
        }
        for (stream, link) in streams.iter_mut().zip(&mut links) {
            while let Some(frame) = stream.poll_frame(Time(now)) {
                assert!(frame.len() <= 14 + usize::from(settings.mtu));
                link.send(now, frame);
            }
        }
        let all_sent = sent.iter().all(|s| s.len() as u64 >= messages);
        if all_sent && done_at == 0 && (0..2).all(|to| received[to] == sent[1 - to].len()) {
            done_at = now;
        }
        let deadlines = streams
            .iter()
            .filter_map(|s| s.next_deadline().map(|at| at.0));
        let arrivals = links.iter().filter_map(Link::next_arrival);
        let sending = Some(next_send).filter(|_| !all_sent);
        match deadlines.chain(arrivals).chain(sending).min() {
            // Nothing is due that poll_frame has not done.
            Some(next) => now = next.max(now + 1),
            None => break,
        }
    }
    assert!(done_at > 0, "seed {seed}: messages are missing");
    assert!(streams.iter().all(Stream::is_idle));
    assert!(streams.iter().all(|s| s.waiting() == 0));
    Outcome {
        streams,
        links,
        done_at,
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0u64..35, 0u64..30, 0u64..30, 0u64..2_000_000).prop_map(|(loss, double, change, jitter)| {
        Faults {
            loss,
            double,
            change,
            jitter,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_message_arrives_once_and_in_order(
        seed: u32, faults in faults(), messages in 1u64..150, mtu in 256u16..3_000,
        window in 0usize..100_000,
    ) {
        let settings = StreamSettings { mtu, window, ..StreamSettings::default() };
        run(u64::from(seed), faults, messages, settings);
    }

    /// Frames of any bytes, and genuine ones with some octets changed.
    #[test]
    fn nothing_else_is_taken(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1u8..=255), 1..4),
    ) {
        let [mut here, mut there] = pair(StreamSettings::default());
        here.send(b"a message").expect("room");
        let genuine = here.poll_frame(Time(1)).expect("a frame");
        let mut changed = genuine.clone();
        let mut at = changes[0].0.index(changed.len() - 12) + 12;
        for (place, value) in changes {
            changed[at] ^= value;
            at = 12 + place.index(genuine.len() - 12);
        }
        for bytes in [&noise, &changed] {
            if bytes != &genuine {
                prop_assert!(there.receive(Time(2), bytes).is_err());
            }
        }
        prop_assert_eq!(there.poll_message(), None);
        prop_assert!(there.next_deadline().is_none(), "nothing to acknowledge");
        prop_assert_eq!(there.receive(Time(3), &genuine), Ok(()));
        prop_assert_eq!(there.poll_message(), Some(b"a message".to_vec()));
    }
}

#[test]
fn a_clean_path_repeats_nothing_and_packs_frames() {
    let outcome = run(7, Faults::default(), 2_000, StreamSettings::default());
    for stream in &outcome.streams {
        let count = |what| stream.counts().get(what);
        assert_eq!(refused_but_replays(stream), 0);
        assert_eq!(count(StreamCount::FramesRepeated), 0);
        assert_eq!(count(StreamCount::FramesDuplicate), 0);
        assert_eq!(count(StreamCount::MessagesReceived), 2_000);
        assert_eq!(stream.liveness(), Liveness::Answering);
        // 50 µs each way, and an acknowledgement that waits for 200 µs at most.
        let trip = stream.round_trip().expect("measured");
        assert!((100_000..=310_000).contains(&trip), "{trip}");
    }
    assert!(outcome.done_at < 200_000_000, "{}", outcome.done_at);
}

fn refused_but_replays(stream: &Stream) -> u64 {
    refused(stream)
        - stream.counts().get(StreamCount::RejectedReplayed)
        - stream.counts().get(StreamCount::RejectedTooOld)
}

#[test]
fn a_bad_path_is_told_by_the_counts() {
    let faults = Faults {
        loss: 20,
        double: 10,
        change: 10,
        jitter: 500_000,
    };
    let outcome = run(3, faults, 1_000, StreamSettings::default());
    for (n, stream) in outcome.streams.iter().enumerate() {
        let count = |what| stream.counts().get(what);
        let link = &outcome.links[1 - n];
        // Every changed frame was refused for what it was.
        assert_eq!(refused_but_replays(stream), link.changed);
        assert!(count(StreamCount::RejectedCode) > 0);
        assert!(count(StreamCount::RejectedReplayed) > 0);
        assert!(count(StreamCount::FramesRepeated) > 0);
        assert!(count(StreamCount::Rounds) > 0);
        assert!(link.doubled > 0);
    }
}

/// Over a path whose delay is far over ten times what was measured, repetition
/// comes to rest.
#[test]
fn a_round_trip_that_grows_is_measured_again() {
    let [mut here, mut there] = pair(StreamSettings::default());
    let mut now = 0;
    let mut exchange = |here: &mut Stream, there: &mut Stream, delay: u64| {
        here.send(b"x").expect("room");
        let mut on_their_way = std::collections::VecDeque::new();
        let mut frames = 0;
        loop {
            while let Some(frame) = here.poll_frame(Time(now)) {
                frames += 1;
                on_their_way.push_back((now + delay, true, frame));
            }
            while let Some(frame) = there.poll_frame(Time(now)) {
                on_their_way.push_back((now + delay, false, frame));
            }
            let deadlines = [here.next_deadline(), there.next_deadline()];
            let arrival = on_their_way.iter().map(|&(at, ..)| at).min();
            let next = deadlines
                .into_iter()
                .flatten()
                .map(|at| at.0)
                .chain(arrival)
                .min();
            let Some(next) = next else { break };
            now = next.max(now);
            while let Some(at) = on_their_way.iter().position(|&(at, ..)| at <= now) {
                let (_, to_there, frame) = on_their_way.remove(at).expect("a frame");
                let to = if to_there { &mut *there } else { &mut *here };
                to.receive(Time(now), &frame).expect("genuine");
            }
            assert!(here.next_deadline().is_none_or(|at| at.0 >= now));
        }
        frames
    };
    for _ in 0..50 {
        assert_eq!(exchange(&mut here, &mut there, 50_000), 1);
    }
    // 100 ms there and 100 ms back: a wait of 3 ms is far too short.
    assert!(exchange(&mut here, &mut there, 100_000_000) > 2);
    for _ in 0..9 {
        exchange(&mut here, &mut there, 100_000_000);
    }
    assert_eq!(exchange(&mut here, &mut there, 100_000_000), 1);
}

/// Karn: nobody knows which transmission was answered.
#[test]
fn a_frame_that_was_sent_twice_is_not_measured() {
    let [mut here, mut there] = pair(StreamSettings::default());
    let ms = |n: u64| Time(n * 1_000_000);
    here.send(b"x").expect("room");
    here.poll_frame(ms(0)).expect("a frame, which is lost");
    assert_eq!(here.next_deadline(), Some(ms(10)));
    let again = here.poll_frame(ms(10)).expect("the frame again");
    there.receive(ms(11), &again).expect("genuine");
    let answer = there.poll_frame(ms(12)).expect("an acknowledgement");
    here.receive(ms(13), &answer).expect("genuine");
    assert!(here.is_idle());
    assert_eq!(here.round_trip(), None);
    // The wait stays doubled until there is a measurement.
    here.send(b"y").expect("room");
    let once = here.poll_frame(ms(20)).expect("a frame");
    assert_eq!(here.next_deadline(), Some(ms(40)));
    there.receive(ms(21), &once).expect("genuine");
    let answer = there.poll_frame(ms(22)).expect("an acknowledgement");
    here.receive(ms(23), &answer).expect("genuine");
    assert_eq!(here.round_trip(), Some(3_000_000));
    here.send(b"z").expect("room");
    here.poll_frame(ms(50)).expect("a frame");
    assert_eq!(here.next_deadline(), Some(ms(80)));
}

/// The acknowledgement may be lost, and the receiver may have nothing else to say: it
/// acknowledges at once what comes again, as often as it does, or its sender would never rest.
#[test]
fn a_frame_that_comes_again_is_acknowledged_again() {
    let [mut here, mut there] = pair(StreamSettings::default());
    here.send(b"x").expect("room");
    let mut frame = here.poll_frame(Time(0)).expect("a frame");
    let mut now = Time(0);
    for times in 0..3 {
        there.receive(now, &frame).expect("genuine");
        let due = there.next_deadline().expect("an acknowledgement is due");
        assert!(times == 0 || due <= now, "it waits for nothing");
        let answer = there.poll_frame(due).expect("an acknowledgement");
        assert_eq!(there.poll_frame(due), None);
        if times == 2 {
            here.receive(due, &answer).expect("genuine");
            break;
        }
        // It is lost.
        now = here.next_deadline().expect("it waits for an answer");
        frame = here.poll_frame(now).expect("the frame again");
    }
    assert!(here.is_idle());
    assert_eq!(there.counts().get(StreamCount::FramesDuplicate), 2);
    assert_eq!(there.poll_message().as_deref(), Some(&b"x"[..]));
    assert_eq!(there.poll_message(), None);
}

#[test]
fn a_dead_peer_is_reported_and_a_late_answer_heals() {
    let settings = StreamSettings::default();
    let [mut here, mut there] = pair(settings);
    here.send(b"anyone?").expect("room");
    let first = here.poll_frame(Time(0)).expect("a frame");
    let (mut now, mut waits) = (0, Vec::new());
    while here.liveness() == Liveness::Answering {
        assert_eq!(here.poll_frame(Time(now)), None);
        let due = here.next_deadline().expect("it waits").0;
        waits.push(due - now);
        now = due;
        here.tick(Time(now));
        if here.liveness() == Liveness::Answering {
            assert!(here.poll_frame(Time(now)).is_some());
        }
    }
    // 10 times the assumed round trip of 1 ms, doubled up to 1 s.
    let expected = [10, 20, 40, 80, 160, 320, 640, 1_000].map(|ms| ms * 1_000_000);
    assert_eq!(waits, expected);
    assert_eq!(here.counts().get(StreamCount::Unanswered), 1);
    // It goes on asking, and the first answer counts.
    assert!(here.poll_frame(Time(now)).is_some());
    there.receive(Time(now), &first).expect("genuine");
    let answer = there
        .poll_frame(Time(now + 200_000))
        .expect("an acknowledgement");
    here.receive(Time(now + 300_000), &answer).expect("genuine");
    assert_eq!(here.liveness(), Liveness::Answering);
    assert!(here.is_idle());
    assert_eq!(here.next_deadline(), None);
}

#[test]
fn a_full_queue_takes_no_more() {
    let settings = StreamSettings {
        queue: 1_000,
        longest: 3_000,
        window: 0,
        ..StreamSettings::default()
    };
    let [mut here, mut there] = pair(settings);
    assert_eq!(here.send(&[0; 3_001]), Err(SendError::TooLong));
    here.send(&[1; 3_000]).expect("a long one may go alone");
    assert_eq!(here.send(b"x"), Err(SendError::Full));
    assert_eq!(here.counts().get(StreamCount::RefusedFull), 1);
    assert_eq!(here.counts().get(StreamCount::RefusedTooLong), 1);
    // A window of nothing still lets one frame at a time pass.
    let mut frames = 0;
    for now in 0..100 {
        while let Some(frame) = here.poll_frame(Time(now * 1_000_000)) {
            frames += 1;
            there
                .receive(Time(now * 1_000_000), &frame)
                .expect("genuine");
        }
        while let Some(frame) = there.poll_frame(Time(now * 1_000_000 + 500_000)) {
            here.receive(Time(now * 1_000_000 + 600_000), &frame)
                .expect("genuine");
        }
    }
    assert_eq!((frames, there.poll_message()), (3, Some(vec![1; 3_000])));
    here.send(b"x").expect("room again");
}

/// What is not taken from a stream holds the sender up, and nothing is lost.
#[test]
fn messages_that_are_not_taken_hold_the_sender_up() {
    let settings = StreamSettings {
        queue: 4_000,
        ..StreamSettings::default()
    };
    let [mut here, mut there] = pair(settings);
    let (mut sent, mut now) = (0, 0);
    let (mut received, mut unread) = (0, 0);
    while received < 200 {
        if sent < 200 && here.send(&[sent as u8; 300]).is_ok() {
            sent += 1;
        }
        while let Some(frame) = here.poll_frame(Time(now)) {
            match there.receive(Time(now), &frame) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, Reject::Unread);
                    unread += 1;
                }
            }
        }
        while let Some(frame) = there.poll_frame(Time(now)) {
            here.receive(Time(now), &frame).expect("genuine");
        }
        now += 250_000;
        if now % 50_000_000 == 0 {
            while let Some(message) = there.poll_message() {
                assert_eq!(message, [received as u8; 300]);
                received += 1;
            }
        }
    }
    assert!(unread > 0);
    assert_eq!(there.counts().get(StreamCount::RejectedUnread), unread);
}

/// A stream has room for as many octets at its end as at its start.
#[test]
fn what_was_taken_leaves_no_trace() {
    let settings = StreamSettings {
        queue: 1_000,
        ..StreamSettings::default()
    };
    let [mut here, mut there] = pair(settings);
    for now in 0..2_000 {
        let now = Time(now * 1_000_000);
        here.send(b"x").expect("all before it was taken");
        while let Some(frame) = here.poll_frame(now) {
            there.receive(now, &frame).expect("room");
        }
        assert_eq!(there.poll_message().as_deref(), Some(&b"x"[..]));
        while let Some(frame) = there.poll_frame(now.plus(900_000)) {
            here.receive(now.plus(900_000), &frame).expect("genuine");
        }
    }
}

/// A frame with fields as given and a right code: what only a peer that has
/// the key, and a fault, can send.
fn forge(change: impl Fn(&mut ActorFrameRepr), payload: &[u8]) -> Vec<u8> {
    use std::hash::Hasher as _;

    use siphasher::sip128::{Hasher128 as _, SipHasher24};

    let mut header = ActorFrameRepr {
        flags: flags::DATA,
        length: payload.len() as u16,
        source: A.0,
        destination: B.0,
        number: 1,
        sequence: 1,
        ..ActorFrameRepr::default()
    };
    change(&mut header);
    let mut frame = vec![0; 14 + ActorFrameRepr::LEN];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    header.emit(&mut frame[14..]).expect("room");
    frame.extend(payload);
    let mut hasher = SipHasher24::new_with_key(&KEY.0);
    hasher.write(&frame[14..70]);
    hasher.write(payload);
    frame[70..86].copy_from_slice(&hasher.finish128().as_bytes());
    frame
}

#[test]
fn a_peer_at_fault_is_refused_by_name() {
    let fresh = || Stream::new(B, A, KEY, StreamSettings::default());
    let outcome = |frame: Vec<u8>| fresh().receive(Time(1), &frame);
    let one: &[u8] = &[0, 1, 7];
    assert_eq!(outcome(forge(|_| (), one)), Ok(()));
    let refused: [(Vec<u8>, Reject); 15] = [
        (forge(|h| h.destination = 9, one), Reject::OtherDestination),
        (forge(|h| h.source = 9, one), Reject::OtherSource),
        (forge(|h| h.number = 0, one), Reject::TooOld),
        (forge(|h| h.acknowledged = 1, one), Reject::Acknowledgement),
        (
            forge(|h| h.acknowledged = u64::MAX, one),
            Reject::Acknowledgement,
        ),
        (forge(|h| h.selective = 1, one), Reject::Acknowledgement),
        (
            forge(
                |h| (h.selective, h.acknowledged) = (u64::MAX, u64::MAX),
                one,
            ),
            Reject::Acknowledgement,
        ),
        (forge(|h| h.sequence = 0, one), Reject::Payload),
        (forge(|h| h.fragment = 1, one), Reject::Payload),
        (forge(|h| h.flags |= flags::LAST, one), Reject::Payload),
        (forge(|h| h.flags = 0, one), Reject::Payload),
        (forge(|_| (), &[0, 2, 7]), Reject::Payload),
        (forge(|_| (), &[]), Reject::Payload),
        (forge(|h| h.flags |= flags::FRAGMENT, &[]), Reject::Payload),
        (
            forge(|h| h.sequence = 1 + FRAMES_IN_FLIGHT, one),
            Reject::OutOfWindow,
        ),
    ];
    for (n, (frame, reject)) in refused.into_iter().enumerate() {
        assert_eq!(outcome(frame), Err(reject), "{n}");
    }
    let mut forged = forge(|_| (), one);
    forged[80] ^= 1;
    assert_eq!(outcome(forged), Err(Reject::Code));
}

#[test]
fn fragments_that_do_not_fit_together_are_dropped_and_counted() {
    let mut stream = Stream::new(
        B,
        A,
        KEY,
        StreamSettings {
            longest: 500,
            ..StreamSettings::default()
        },
    );
    let fragment = flags::DATA | flags::FRAGMENT;
    let long = [9; 300];
    let story: [(u8, u16, &[u8]); 8] = [
        (fragment, 1, b"no first"),
        (fragment, 0, b"begun,"),
        (flags::DATA, 0, &[0, 5, b'w', b'h', b'o', b'l', b'e']),
        (fragment, 0, &long),
        (fragment, 1, &long),
        (fragment, 0, b"both "),
        (fragment | flags::LAST, 1, b"halves"),
        (fragment | flags::LAST, 0, b"one"),
    ];
    for (n, (marks, number, payload)) in story.into_iter().enumerate() {
        let place = n as u64 + 1;
        let change = |h: &mut ActorFrameRepr| {
            (h.flags, h.fragment, h.number, h.sequence) = (marks, number, place, place);
        };
        stream
            .receive(Time(1), &forge(change, payload))
            .expect("genuine");
    }
    let messages: Vec<_> = std::iter::from_fn(|| stream.poll_message()).collect();
    assert_eq!(messages, [&b"whole"[..], b"both halves", b"one"]);
    assert_eq!(stream.counts().get(StreamCount::BrokenMessages), 3);
}

/// Two starts of a process with one name: a runtime has another id in its next
/// life, a coordinator or a switch of one generation another start.
#[test]
fn an_earlier_life_is_refused() {
    let runtime = |id| ProcessStart::of(Peer::Runtime(RuntimeId(id)), 0);
    let coordinator = |start| ProcessStart::of(Peer::Coordinator, start);
    let switch = |start| ProcessStart::of(Peer::Switch(1), start);
    let here = ProcessStart::of(Peer::Switch(2), 7);
    let before = ProcessStart::of(Peer::Switch(2), 6);
    earlier_lives(runtime(4), runtime(9), before, here);
    earlier_lives(coordinator(4), coordinator(9), before, here);
    earlier_lives(switch(4), switch(9), coordinator(1), coordinator(2));
}

fn earlier_lives(
    old: ProcessStart,
    new: ProcessStart,
    switch_before: ProcessStart,
    switch: ProcessStart,
) {
    let settings = StreamSettings::default();
    let mut before = Streams::new(old, KEY);
    let mut after = Streams::new(new, KEY);
    let mut there = Streams::new(switch, KEY);
    there.open(new, settings);
    let frame = |streams: &mut Streams, to: ProcessStart| {
        let stream = streams.open(to, settings);
        stream.send(b"hello").expect("room");
        stream.poll_frame(Time(1)).expect("a frame")
    };
    let late = frame(&mut before, switch);
    assert_eq!(ends(&late), Ok((old, switch)));
    assert_eq!(there.receive(Time(2), &late), Err(Reject::OtherSource));
    // And for the one before this one.
    let elsewhere = frame(&mut after, switch_before);
    assert_eq!(
        there.receive(Time(2), &elsewhere),
        Err(Reject::OtherDestination)
    );
    let good = frame(&mut after, switch);
    assert_eq!(there.receive(Time(2), &good), Ok(new));
    let stream = there.get_mut(new).expect("open");
    assert_eq!(stream.poll_message(), Some(b"hello".to_vec()));
    assert_eq!(there.next_deadline(), Some(Time(200_002)));
    assert_eq!(there.iter_mut().count(), 1);
    there.close(new);
    assert_eq!(there.receive(Time(3), &good), Err(Reject::OtherSource));
    let counts = there.counts();
    assert_eq!(counts.get(StreamCount::RejectedOtherSource), 2);
    assert_eq!(counts.get(StreamCount::RejectedOtherDestination), 1);
    assert_eq!(counts.get(StreamCount::MessagesReceived), 1);
}

#[test]
fn the_document_lists_all_refusals() {
    let text = include_str!("../../../docs/wire.md");
    for count in StreamCount::ALL.iter().map(|count| count.name()) {
        let listed = text.contains(&format!("`{count}`"));
        assert_eq!(listed, count.starts_with("rejected"), "{count}");
    }
}

/// The document's tables are of this form.
#[test]
fn a_frame_of_two_messages_octet_by_octet() {
    let [mut here, _] = pair(StreamSettings::default());
    here.send(b"ab").expect("room");
    here.send(b"c").expect("room");
    let frame = here.poll_frame(Time(0)).expect("a frame");
    let view = ActorFrameView::new(&frame[14..]).expect("a header");
    assert_eq!(&frame[12..14], [0x88, 0xb5]);
    assert_eq!(&frame[14..22], [0x57, 0x45, 1, flags::DATA, 0, 7, 0, 0]);
    assert_eq!((view.source(), view.destination()), (1, 2));
    assert_eq!((view.number(), view.sequence()), (1, 1));
    assert_eq!((view.acknowledged(), view.selective()), (0, 0));
    assert_eq!(&frame[86..], [0, 2, b'a', b'b', 0, 1, b'c']);
}
