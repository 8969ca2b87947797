//! Frames as they are on the wire: data in NSH, messages in streams.

use weir_packet::actor_frame::{ActorFrameView, flags};
use weir_packet::ethernet::EthernetView;
use weir_packet::{Frame, FramePool, Time};
use weir_protocol::auth::Key;
use weir_protocol::entry::to_part;
use weir_protocol::message::Message;
use weir_protocol::stream::{ProcessStart, Reject, StreamCount, Streams};
use weir_protocol::wire::{Hop, decode_data, encode_data};
use weir_protocol::{Clock, UnitId, View};

use super::World;
use super::links::ProcessNo;
use super::probes::damaged;
use super::process::{Body, Carried, Delivery, KEY, Process, stream_settings};
use crate::check::Invariant;
use crate::random::mix;
use crate::slip::Slip;

/// Frames that are remembered, to be damaged and sent once more: more than the
/// replay window of a stream, so that some are too old.
const RECENT: usize = 1_024;

/// The key of data frames between two processes, as a link has it: a frame that comes to another
/// one is refused.
pub(super) fn link_key(one: ProcessNo, other: ProcessNo) -> Key {
    KEY.of_link(one.min(other) as u64, one.max(other) as u64)
}

/// True of a stream's frame that carries data; one without only acknowledges.
fn is_data(bytes: &[u8]) -> bool {
    let own = bytes.get(EthernetView::SIZE..).unwrap_or_default();
    ActorFrameView::new(own).is_ok_and(|frame| frame.flags() & flags::DATA != 0)
}

/// Gives a frame to the streams of a process.
fn receive(
    slip: Option<Slip>,
    streams: &mut Streams,
    now: Time,
    bytes: &[u8],
) -> Result<ProcessStart, Reject> {
    if slip != Some(Slip::TwiceUnanswered) {
        return streams.receive(now, bytes);
    }
    let doubled = |streams: &Streams| streams.counts().get(StreamCount::FramesDuplicate);
    let before = doubled(streams);
    let peer = streams.receive(now, bytes)?;
    if doubled(streams) > before
        && let Some(stream) = streams.get_mut(peer)
    {
        // The answer is lost; what else it carries comes again.
        let _ = stream.poll_frame(now);
    }
    Ok(peer)
}

/// A data frame as it travels; empty where it does not fit.
pub(super) fn encode(pool: &FramePool, frame: &Frame, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::new();
    if encode_data(pool.memory(), frame, &Hop::default(), key, &mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}

impl World<'_> {
    /// Sends frames that may be lost on the way.
    pub(super) fn send_wire(&mut self, from: ProcessNo, to: ProcessNo, frames: Vec<Vec<u8>>) {
        // Frames that are together stay so, unless something happens to them.
        let mut together: Option<(u64, Vec<Vec<u8>>)> = None;
        for bytes in frames {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            let arrivals = self.links.frame(from, to, self.now);
            if let Some(at) = arrivals.again {
                let what = Delivery::Wire(vec![bytes.clone()]);
                self.arrival(at, to, from, self.now, what);
            }
            if self.plan.faults.has(crate::fault::Fault::Forgery) {
                self.recent.push_back((to, bytes.clone()));
            }
            let Some(at) = arrivals.first else {
                continue;
            };
            match &mut together {
                Some((when, list)) if *when == at => list.push(bytes),
                _ => {
                    if let Some((when, list)) = together.take() {
                        self.arrival(when, to, from, self.now, Delivery::Wire(list));
                    }
                    together = Some((at, vec![bytes]));
                }
            }
        }
        if let Some((when, list)) = together {
            self.arrival(when, to, from, self.now, Delivery::Wire(list));
        }
    }

    /// Gives a message to the stream between two processes.
    pub(super) fn send_message(&mut self, from: ProcessNo, to: ProcessNo, message: &Message) {
        let small = self.small();
        let Some(remote) = self.processes.get(to).map(|p| p.start) else {
            return;
        };
        let Some(process) = self.processes.get_mut(from) else {
            return;
        };
        if process.closed.contains(&remote) {
            return;
        }
        if small && self.carried.refuses((from, to), self.plan.seed, self.now) {
            self.count("messages_refused_by_streams");
            return;
        }
        let sent = process.streams.as_mut().map(|streams| {
            let stream = streams.open(remote, stream_settings(small));
            stream.send_message(message)
        });
        process.activate(remote);
        match sent {
            Some(Ok(())) => self.stream_takes(from, to, message),
            Some(Err(_)) => self.count("messages_refused_by_streams"),
            None => {}
        }
    }

    /// Takes what the streams of a process want to send, of those that may.
    pub(super) fn pump(&mut self, no: ProcessNo) {
        let time = self.time_at(no);
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let mut active = core::mem::take(&mut process.active);
        // In the order of peers, as a loop over all streams would.
        active.sort_unstable();
        for remote in active.drain(..) {
            let Some(process) = self.processes.get_mut(no) else {
                return;
            };
            let Some(stream) = process.streams.as_mut().and_then(|s| s.get_mut(remote)) else {
                continue;
            };
            let mut frames = Vec::new();
            while let Some(frame) = stream.poll_frame(time) {
                frames.push(frame);
            }
            let to = remote.peer().and_then(|peer| self.process_of(peer));
            if let Some(to) = to.filter(|_| !frames.is_empty()) {
                self.carried.answers((no, to));
                self.send_wire(no, to, frames);
            }
        }
        if let Some(process) = self.processes.get_mut(no) {
            // The list's memory is used again.
            process.active = active;
        }
    }

    /// Streams whose time has come have something to do.
    pub(super) fn tick_streams(&mut self, no: ProcessNo) {
        let time = self.time_at(no);
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let Some(streams) = &mut process.streams else {
            return;
        };
        for stream in streams.iter_mut() {
            if stream.next_deadline().is_some_and(|at| at <= time) {
                stream.tick(time);
                let remote = stream.remote();
                if !process.active.contains(&remote) {
                    process.active.push(remote);
                }
            }
        }
    }

    /// Frames have come to a process.
    pub(super) fn wire_frames(&mut self, to: ProcessNo, from: ProcessNo, frames: Vec<Vec<u8>>) {
        let mut data = Vec::new();
        for bytes in frames {
            if bytes.get(12..14) == Some(&[0x89, 0x4f]) {
                self.wire_data(to, from, &bytes, &mut data);
            } else {
                // Earlier data is taken first.
                self.take_data(to, from, &mut data);
                self.wire_stream(to, from, &bytes);
            }
        }
        self.take_data(to, from, &mut data);
    }

    fn wire_data(&mut self, to: ProcessNo, from: ProcessNo, bytes: &[u8], data: &mut Vec<Frame>) {
        let key = link_key(from, to);
        if let Some(drawn) = self.probe() {
            self.probe_data(to, &key, bytes, drawn);
        }
        let living = self.processes.get_mut(to).and_then(|p| p.living.as_mut());
        let decoded = living.map(|(_, pool)| decode_data(pool, &key, bytes));
        match decoded {
            Some(Ok((frame, _))) => data.push(frame),
            Some(Err(_)) => self.count("data_frames_refused"),
            None => {}
        }
    }

    fn take_data(&mut self, to: ProcessNo, from: ProcessNo, data: &mut Vec<Frame>) {
        if data.is_empty() {
            return;
        }
        let time = self.time_at(to);
        self.trace_frames(to, from, data);
        match self.processes.get_mut(to).and_then(|p| p.living.as_mut()) {
            Some((Body::Runtime(actors), pool)) => actors.frames(time, pool, data),
            Some((Body::Switch(_), pool)) => pool.give_all(data),
            None => {}
        }
    }

    /// Writes the data frames that a process gets into the trace.
    pub(super) fn trace_frames(&mut self, to: ProcessNo, from: ProcessNo, frames: &[Frame]) {
        let living = self.processes.get(to).and_then(|p| p.living.as_ref());
        let Some((_, pool)) = living.filter(|_| self.trace.is_on() && !frames.is_empty()) else {
            return;
        };
        let carried = frames.iter().map(|frame| {
            let meta = pool.memory().meta(frame);
            Carried {
                unit: UnitId(meta.unit),
                view: View(meta.view),
                clock: Clock(meta.clock),
                part: to_part(pool.memory(), frame),
            }
        });
        let carried = Delivery::Frames(carried.collect());
        self.trace_delivery(to, from, &carried);
    }

    fn wire_stream(&mut self, to: ProcessNo, from: ProcessNo, bytes: &[u8]) {
        let time = self.time_at(to);
        let small = self.small();
        let probe = self.probe();
        let Some(remote) = self.processes.get(from).map(|p| p.start) else {
            return;
        };
        let Some(process) = self.processes.get_mut(to) else {
            return;
        };
        let Some(streams) = &mut process.streams else {
            return;
        };
        if !process.closed.contains(&remote) {
            streams.open(remote, stream_settings(small));
        }
        let mut messages = Vec::new();
        // Damaged it is refused, and a second time.
        let takes_all = self.settings.slip() == Some(Slip::DamageTaken);
        let is_damaged = |drawn| {
            let bytes = match takes_all {
                true => bytes.to_vec(),
                false => damaged(bytes, drawn),
            };
            streams.receive(time, &bytes).is_err()
        };
        let is_sound = probe.is_none_or(is_damaged);
        let received = receive(self.settings.slip(), streams, time, bytes);
        let is_sound = is_sound && (probe.is_none() || streams.receive(time, bytes).is_err());
        if let Ok(peer) = received
            && !process.active.contains(&peer)
        {
            process.active.push(peer);
        }
        if let Ok(peer) = received
            && let Some(stream) = streams.get_mut(peer)
        {
            while let Some(message) = stream.poll_message() {
                let is_doubled =
                    messages.len() % 50 == 1 && self.settings.slip() == Some(Slip::MessageTwice);
                messages.extend(is_doubled.then(|| (peer, message.clone())));
                messages.push((peer, message));
            }
        } else {
            self.count("stream_frames_refused");
        }
        if let Ok(peer) = received
            && let Some(sender) = peer.peer().and_then(|peer| self.process_of(peer))
            && is_data(bytes)
        {
            self.carried.owes((to, sender), self.now);
        }
        if !is_sound {
            let text = "a frame of a stream is taken that was changed, or comes again".to_owned();
            self.checker.violated(Invariant::Carriage, None, text);
        }
        for (peer, bytes) in messages {
            let from = peer.peer().and_then(|peer| self.process_of(peer));
            if let Some(from) = from {
                self.stream_gives(from, to, &bytes);
            }
            match (Message::decode(&bytes), from) {
                (Ok((message, _)), Some(from)) => {
                    self.deliver(to, from, Delivery::Message(Box::new(message)));
                }
                _ => self.count("messages_not_decoded"),
            }
        }
    }

    /// A frame of data that came is acknowledged, also one that came before: its sender may not
    /// have heard of it.
    pub(super) fn look_at_answers(&mut self) {
        let processes = &self.processes;
        let may_speak = |no: ProcessNo, peer: ProcessNo| {
            let peer = processes.get(peer).map(|p| p.start);
            processes.get(no).is_some_and(|process| {
                let is_open = peer.is_some_and(|peer| !process.closed.contains(&peer));
                is_open && process.is_alive() && process.paused_until.is_none()
            })
        };
        if let Some((no, peer)) = self.carried.late_answer(self.now, may_speak) {
            let name = |no| processes.get(no).map(Process::name).unwrap_or_default();
            let text = format!(
                "{} does not acknowledge what came from {}",
                name(no),
                name(peer)
            );
            self.checker.violated(Invariant::Carriage, None, text);
        }
    }

    /// Nobody speaks to a process that is dead any more.
    pub(super) fn close_streams(&mut self, no: ProcessNo) {
        let Some(dead) = self.processes.get(no).map(|p| p.start) else {
            return;
        };
        self.streams_close(no);
        for process in self.processes.iter_mut() {
            if let Some(streams) = &mut process.streams {
                streams.close(dead);
                process.closed.insert(dead);
            }
        }
        self.others().for_each(|other| other.close_streams(no));
    }

    /// A frame that was sent lately comes again, most often damaged, perhaps
    /// elsewhere; or bytes that are no frame.
    pub(super) fn forge_wire(&mut self, to: ProcessNo, number: u64) {
        let place = (mix(number, 1) as usize).checked_rem(self.recent.len());
        let known = place.and_then(|place| self.recent.get(place)).cloned();
        let (first, mut bytes) = known.unwrap_or((to, vec![0; 80]));
        let mut to = to;
        match mix(number, 2) % 5 {
            // As it was: a replay.
            0 => to = first,
            // To somebody else.
            1 => {}
            2 => {
                bytes = (0..mix(number, 3) % 200)
                    .map(|i| mix(number, 100 + i) as u8)
                    .collect();
            }
            3 => {
                to = first;
                bytes.truncate((mix(number, 3) % 90) as usize);
            }
            _ => {
                to = first;
                let at = mix(number, 3) as usize;
                let at = at.checked_rem(bytes.len()).unwrap_or(0);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (mix(number, 4) % 8);
                }
            }
        }
        self.count("forged_frames");
        let from = self.switch.unwrap_or(0);
        self.arrive(to, from, self.now, Delivery::Wire(vec![bytes]));
    }
}
