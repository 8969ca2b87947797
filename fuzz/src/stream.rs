//! A stream between two ends whose path does what the input says: messages
//! arrive once each and in order, and nothing else does.

use std::collections::VecDeque;

use weir_packet::Time;
use weir_protocol::Key;
use weir_protocol::stream::{ProcessStart, Stream, StreamSettings, seal};

use crate::input::Input;

const KEY: Key = Key([9; 16]);

struct Ends {
    streams: [Stream; 2],
    /// Frames on their way to each.
    paths: [VecDeque<Vec<u8>>; 2],
    sent: [VecDeque<Vec<u8>>; 2],
    now: u64,
}

impl Ends {
    fn take_messages(&mut self, end: usize) {
        while let Some(message) = self.streams[end].poll_message() {
            let expected = self.sent[1 - end].pop_front();
            assert_eq!(Some(message), expected, "the next message, once");
        }
    }

    /// Frames onto the path; at most a few, to bound a run.
    fn poll(&mut self, end: usize) {
        for _ in 0..64 {
            let Some(frame) = self.streams[end].poll_frame(Time(self.now)) else {
                return;
            };
            self.paths[1 - end].push_back(frame);
        }
    }

    fn pass(&mut self, end: usize) {
        if let Some(frame) = self.paths[end].pop_front() {
            // Replayed and old ones are refused, which is right.
            let _ = self.streams[end].receive(Time(self.now), &frame);
            self.take_messages(end);
        }
    }
}

/// Each step is two bytes: what is done at which end, and how.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let settings = StreamSettings {
        mtu: 256 + u16::from(input.u8()),
        window: usize::from(input.u8()) * 16,
        queue: 60_000,
        longest: 8_000,
        ..StreamSettings::default()
    };
    let (a, b) = (ProcessStart(1), ProcessStart(2));
    let mut ends = Ends {
        streams: [
            Stream::new(a, b, KEY, settings),
            Stream::new(b, a, KEY, settings),
        ],
        paths: Default::default(),
        sent: Default::default(),
        now: 1,
    };
    let mut steps = 0;
    while !input.is_empty() && steps < 4_000 {
        steps += 1;
        let (what, how) = (input.u8(), input.u8());
        let end = usize::from(what >> 7);
        match what & 7 {
            0 => {
                let message = vec![steps as u8; usize::from(how) * usize::from(how & 15)];
                if ends.streams[end].send(&message).is_ok() {
                    ends.sent[end].push_back(message);
                }
            }
            1 => ends.poll(end),
            2 => (0..how).for_each(|_| ends.pass(end)),
            3 => {
                ends.paths[end].pop_front();
            }
            4 => {
                if let Some(frame) = ends.paths[end].front().cloned() {
                    ends.paths[end].push_back(frame);
                }
            }
            5 => {
                let places = ends.paths[end].len().max(1);
                ends.paths[end].rotate_left(usize::from(how) % places);
            }
            6 => changed(&mut ends, end, how, &mut input),
            _ => {
                ends.now += u64::from(how) << (how & 15);
                ends.streams[end].tick(Time(ends.now));
            }
        }
    }
    settle(&mut ends);
    forged(&mut ends, data);
}

/// A frame whose code is wrong is refused, whatever else it says.
fn changed(ends: &mut Ends, end: usize, how: u8, input: &mut Input<'_>) {
    let Some(mut frame) = ends.paths[end].front().cloned() else {
        return;
    };
    let place = 12 + usize::from(input.u16()) % (frame.len() - 12);
    frame[place] ^= how.max(1);
    let outcome = ends.streams[end].receive(Time(ends.now), &frame);
    assert!(outcome.is_err(), "a changed frame");
    let now = Time(ends.now);
    assert!(ends.streams[end].receive(now, input.chunk()).is_err());
}

/// Over a path without faults everything arrives.
fn settle(ends: &mut Ends) {
    for _ in 0..20_000 {
        for end in [0, 1] {
            ends.poll(end);
        }
        for end in [0, 1] {
            while !ends.paths[end].is_empty() {
                ends.pass(end);
            }
        }
        let idle = ends.streams.iter().all(Stream::is_idle);
        if idle && ends.sent.iter().all(VecDeque::is_empty) {
            return;
        }
        let next = ends.streams.iter().filter_map(Stream::next_deadline).min();
        ends.now = next.map_or(ends.now, |at| at.0.max(ends.now));
    }
    panic!("messages are missing: {:?}", ends.streams);
}

/// Frames of a peer that has the key and says anything: no panic, and bounded
/// memory.
fn forged(ends: &mut Ends, data: &[u8]) {
    let _ = ends.streams[0].send(b"x");
    let Some(good) = ends.streams[0].poll_frame(Time(ends.now)) else {
        return;
    };
    let mut input = Input(data);
    while !input.is_empty() {
        let mut frame = good.clone();
        for _ in 0..input.u8() % 8 {
            // Flags, fragment, numbers, acknowledgements, payload.
            let place = 17 + usize::from(input.u8()) % (frame.len() - 17);
            frame[place] = input.u8();
        }
        if seal(&KEY, &mut frame).is_ok() {
            let _ = ends.streams[1].receive(Time(ends.now), &frame);
        }
        if input.u8() % 2 == 0 {
            while ends.streams[1].poll_message().is_some() {}
        }
        while ends.streams[1].poll_frame(Time(ends.now)).is_some() {}
    }
}
