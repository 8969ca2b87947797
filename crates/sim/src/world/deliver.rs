//! Packets in, deliveries, and what processes want carried out.

use std::collections::BTreeMap;

use weir_packet::protocol::ip;
use weir_packet::{FlowKey, Frame, FrameMeta, Side, Time};
use weir_protocol::entry::{messages as entry_messages, to_frame, to_part};
use weir_protocol::journal::Done;
use weir_protocol::message::{Entry, Message};
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};

use super::drops::Before;
use super::links::ProcessNo;
use super::probes::compare_data;
use super::process::{Body, Carried, Delivery};
use super::{Event, World};
use crate::check::{Cluster, Invariant, Kind, Sighting, show_entry, show_unit, show_view};
use crate::plan::Plan;
use crate::slip::{Aside, Slip};
use crate::trace::describe;
use crate::traffic::{Ends, Shape, ends, ends as ends_of, observed};

impl World<'_> {
    /// Packets of the plan come in.
    pub(super) fn packets(&mut self, range: core::ops::Range<usize>) {
        if self.threads.is_some() {
            return self.packets_wait(range);
        }
        match self.switch {
            Some(no) => {
                self.take_packets(no, range);
            }
            None => {
                *self.world.entry("packets_while_no_switch").or_default() += range.len() as u64;
            }
        }
    }

    /// The switch takes packets of the plan in: how many found a frame.
    pub(super) fn take_packets(
        &mut self,
        no: ProcessNo,
        range: impl ExactSizeIterator<Item = usize>,
    ) -> usize {
        let time = self.time();
        let mut carried = Vec::with_capacity(range.len());
        for index in range {
            let Some(planned) = self.plan.packets.get(index) else {
                continue;
            };
            let seen = planned.shape.protocol();
            let seen = seen.and_then(|proto| self.observed.get(&(planned.flow, proto)).copied());
            let ends = seen
                .filter(|_| !planned.to_server)
                .unwrap_or_else(|| ends(self.plan.chain, planned.flow));
            if !planned.to_server {
                self.answered.insert(index as u64 + 1, ends);
            }
            let mut bytes = planned.shape.bytes(&ends, planned.to_server);
            if let Some(threads) = &self.threads {
                threads.lengthen(index, planned.link, &mut bytes);
            }
            let mut meta = FrameMeta::received(time, bytes.len() as u32);
            meta.sequence = index as u64 + 1;
            meta.side = planned.side;
            meta.port = planned.side as u8;
            meta.link = planned.link;
            carried.push((bytes, meta));
        }
        let Some(process) = self.processes.get_mut(no) else {
            return 0;
        };
        let Some((Body::Switch(switch), pool)) = process.living.as_mut() else {
            return 0;
        };
        if process.paused_until.is_some() {
            // The interface's queue overflows.
            *self.world.entry("packets_while_paused").or_default() += carried.len() as u64;
            return 0;
        }
        let mut frames = Vec::with_capacity(carried.len());
        for (bytes, meta) in carried {
            let mut copy = pool.copy(&bytes, meta);
            if let Ok(frame) = &mut copy {
                pool.memory().meta_mut(frame).wire_len = bytes.len() as u32;
            }
            match copy {
                Ok(frame) => frames.push(frame),
                Err(_) => {
                    *self.world.entry("packets_without_frame").or_default() += 1;
                    if self.threads.is_some() {
                        // They wait at the port, with all behind them.
                        break;
                    }
                }
            }
        }
        let count = frames.len();
        self.taken += frames.len() as u64;
        let before = Before::new(switch, pool, frames.len());
        switch.ingress(time, pool, &mut frames);
        self.look_at_input_drops(&before);
        self.flush(no);
        count
    }

    /// Something arrives at a process.
    pub(super) fn arrive(&mut self, to: ProcessNo, from: ProcessNo, sent: u64, what: Delivery) {
        let died = self.processes.get(from).and_then(|p| p.died);
        if died.is_some_and(|died| died < sent) {
            return;
        }
        let Some(process) = self.processes.get_mut(to) else {
            return;
        };
        if !process.is_alive() {
            return;
        }
        if process.paused_until.is_some() {
            process.inbox.push_back((from, what));
            return;
        }
        self.deliver(to, from, what);
        self.flush(to);
    }

    pub(super) fn deliver(&mut self, to: ProcessNo, from: ProcessNo, what: Delivery) {
        let time = self.time_at(to);
        let Some(peer) = self.processes.get(from).map(|p| p.peer) else {
            return;
        };
        if self.trace.is_on() {
            self.trace_delivery(to, from, &what);
        }
        let Some(process) = self.processes.get_mut(to) else {
            return;
        };
        if let Peer::Switch(_) = peer {
            process.switch = process.switch.max(from);
        }
        let Some((body, pool)) = process.living.as_mut() else {
            return;
        };
        match what {
            Delivery::Frames(carried) => {
                let mut frames = Vec::with_capacity(carried.len());
                for one in carried {
                    let slip = self.settings.slip();
                    if slip.is_some_and(|slip| slip.keeps_copy(one.clock.0, process.draining)) {
                        drop(to_frame(pool, (one.unit, one.view, one.clock), &one.part));
                    }
                    let leaks = one.clock.0.is_multiple_of(100) && slip == Some(Slip::FrameLeaked);
                    match to_frame(pool, (one.unit, one.view, one.clock), &one.part) {
                        Ok(_) if leaks => {}
                        Ok(frame) => frames.push(frame),
                        Err(_) => *self.world.entry("frames_without_memory").or_default() += 1,
                    }
                }
                match (body, peer) {
                    (Body::Runtime(actors), _) => actors.frames(time, pool, &mut frames),
                    (Body::Switch(switch), Peer::Runtime(id)) => {
                        switch.entries(time, pool, id, &mut frames);
                    }
                    _ => pool.give_all(&mut frames),
                }
            }
            Delivery::Message(message) => {
                let after = AfterWord::of(&message);
                match body {
                    Body::Runtime(actors) => actors.message(time, pool, peer, *message),
                    Body::Switch(switch) => switch.message(time, pool, peer, *message),
                }
                self.look_after_word((to, from), after);
            }
            Delivery::Wire(frames) => self.wire_frames(to, from, frames),
        }
    }

    /// A process has taken a message in.
    fn look_after_word(&mut self, (to, from): (ProcessNo, ProcessNo), after: AfterWord) {
        match after {
            AfterWord::Forgotten(unit) if self.switch == Some(to) => {
                self.look_at_forgotten(from, unit);
            }
            AfterWord::Ports => self.look_at_ports(),
            _ => {}
        }
    }

    /// A process asked to be called now.
    pub(super) fn wake(&mut self, no: ProcessNo) {
        let time = self.time_at(no);
        let now = self.now;
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        if process.wake_at != Some(now) || process.paused_until.is_some() {
            return;
        }
        process.wake_at = None;
        if self.threads.is_some() {
            return self.call(no);
        }
        match process.living.as_mut() {
            Some((Body::Switch(switch), pool)) => switch.tick(time, pool),
            Some((Body::Runtime(actors), pool)) => actors.tick(time, pool),
            None => return,
        }
        self.tick_streams(no);
        self.flush(no);
    }

    /// A pause ends: all that came meanwhile is there at once.
    pub(super) fn resume(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        if process.paused_until.is_none_or(|until| until > self.now) {
            return;
        }
        process.paused_until = None;
        let name = process.name();
        self.others().for_each(|other| other.resume(no));
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let inbox = core::mem::take(&mut process.inbox);
        self.say(None, || format!("{name} goes on"));
        for (from, what) in inbox {
            self.deliver(no, from, what);
            self.flush(no);
        }
        self.flush(no);
        self.call(no);
    }

    /// Carries out what a process wants, and asks when to call it next.
    pub(super) fn flush(&mut self, no: ProcessNo) {
        match self.processes.get(no).and_then(|p| p.living.as_ref()) {
            Some((Body::Switch(_), _)) => self.flush_switch(no),
            Some((Body::Runtime(_), _)) => self.flush_runtime(no),
            None => return,
        }
        self.pump(no);
        self.check_internal(no);
        let start = self.time_at(no).0 - self.now;
        let now = self.now;
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let deadline = match process.living.as_ref() {
            Some((Body::Switch(switch), _)) => switch.next_deadline(),
            Some((Body::Runtime(actors), _)) => actors.next_deadline(),
            None => None,
        };
        let streams = process.streams.as_ref().and_then(|s| s.next_deadline());
        let deadline = match (deadline, streams) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let Some(Time(deadline)) = deadline else {
            return;
        };
        let at = deadline.saturating_sub(start).max(now + 1);
        if process.paused_until.is_none()
            && process.wake_at.is_none_or(|wake| at < wake || wake <= now)
        {
            process.wake_at = Some(at);
            self.schedule(at, Event::Wake(no));
        }
    }

    /// States that cannot occur, and did, are faults of the code. Builds with debug
    /// assertions panic where they meet one.
    fn check_internal(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get(no) else {
            return;
        };
        let internal = match process.living.as_ref() {
            Some((Body::Switch(switch), _)) => switch.internal(),
            Some((Body::Runtime(actors), _)) => actors.internal(),
            None => return,
        };
        if internal.count() > 0 {
            let text = format!("{} met what cannot be: {internal:?}", process.name());
            self.checker.violated(Invariant::Panic, None, text);
        }
    }

    pub(super) fn after_switch(&mut self) {
        if let Some(no) = self.switch {
            self.flush(no);
        }
    }

    fn flush_switch(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let Some((Body::Switch(switch), pool)) = process.living.as_mut() else {
            return;
        };
        let mut journal = switch.outbox.journal.take();
        let mut out = Vec::with_capacity(switch.outbox.out.len());
        for frame in switch.outbox.out.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            out.push((*meta, bytes.to_vec()));
            pool.give(frame);
        }
        let mut events = core::mem::take(&mut switch.outbox.events);
        if let Some(slip) = self.settings.slip() {
            slip.slip_out(&mut out, &mut events);
            slip.slip_journal(&mut journal);
        }
        let messages = core::mem::take(&mut switch.outbox.messages);
        let queues = switch.outbox.queues.iter_mut().enumerate();
        let queues: Vec<(usize, RuntimeId, Vec<Frame>)> = queues
            .filter(|(_, queue)| !queue.frames.is_empty())
            .map(|(at, queue)| (at, queue.to, core::mem::take(&mut queue.frames)))
            .collect();
        if self.switch == Some(no) {
            self.note_recovery(&journal);
            self.check_switch(&journal, &out, &events);
        } else {
            // A switch that was replaced: its ports are its successor's.
            for done in &journal {
                self.trace.done(done);
                self.checker.done_before(done);
            }
        }
        for (at, to, frames) in queues {
            self.send_queue(no, at, to, frames);
        }
        for (to, message) in messages {
            self.send(no, to, message);
        }
    }

    /// The actions of the switch, and what left.
    fn check_switch(&mut self, journal: &[Done], out: &[(FrameMeta, Vec<u8>)], events: &[u8]) {
        for done in journal {
            self.trace.done(done);
            let cluster = super::cluster::Seen(&self.processes);
            self.checker.done(done, &cluster as &dyn Cluster);
        }
        let seen = super::cluster::Seen(&self.processes);
        self.checker.recoverable(journal, &seen);
        for (meta, bytes) in out {
            let (unit, clock) = (UnitId(meta.unit), Clock(meta.clock));
            let seen = sighting(self.plan, &self.answered, meta);
            self.checker.left((unit, clock), bytes, seen);
            self.out.0 += 1;
            self.out.1 += bytes.len() as u64;
            self.learn(meta, bytes);
        }
        self.checker.all_left(events);
    }

    /// Sends the data frames of a queue.
    fn send_queue(&mut self, no: ProcessNo, at: usize, to: RuntimeId, mut frames: Vec<Frame>) {
        let receiver = self.process_of(Peer::Runtime(to));
        let key = super::wire::link_key(no, receiver.unwrap_or(no));
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let wired = process.streams.is_some();
        let queued = self.threads.is_some();
        let Some((Body::Switch(switch), pool)) = process.living.as_mut() else {
            return;
        };
        let mut in_queue = Vec::with_capacity(if queued { frames.len() } else { 0 });
        let mut carried = Vec::with_capacity(if wired || queued { 0 } else { frames.len() });
        let mut wire = Vec::with_capacity(if wired { frames.len() } else { 0 });
        for mut frame in frames.drain(..) {
            if let Some(slip) = self.settings.slip()
                && !slip.slip_frame(pool.memory().meta_mut(&mut frame))
            {
                pool.give(frame);
                continue;
            }
            let (meta, bytes) = pool.memory().read(&frame);
            if self.switch != Some(no) {
                self.checker.sent_before(meta, bytes);
            } else if self.checker.sent(meta, bytes) {
                let seen = seen_in(self.plan, &self.answered, meta);
                self.checker.routed(UnitId(meta.unit), seen);
            }
            if queued {
                in_queue.push(frame);
                continue;
            }
            if wired {
                let is_wrong = self.settings.slip() == Some(Slip::PacketMisread);
                pool.memory().meta_mut(&mut frame).wire_len += u32::from(is_wrong);
                let bytes = super::wire::encode(pool, &frame, &key);
                pool.memory().meta_mut(&mut frame).wire_len -= u32::from(is_wrong);
                let clock = pool.memory().meta(&frame).clock;
                let probed = clock.is_multiple_of(4).then_some(&bytes);
                if let Some(text) = probed.and_then(|bytes| compare_data(pool, &frame, &key, bytes))
                {
                    self.checker.violated(Invariant::Carriage, None, text);
                }
                wire.push(bytes);
            } else {
                carried.push(Carried {
                    unit: UnitId(meta.unit),
                    view: View(meta.view),
                    clock: Clock(meta.clock),
                    part: to_part(pool.memory(), &frame),
                });
            }
            pool.give(frame);
        }
        if let Some(queue) = switch.outbox.queues.get_mut(at) {
            // The list's memory is used again.
            queue.frames = frames;
        }
        let Some(to) = receiver else {
            return;
        };
        if queued {
            self.queue_frames(to, in_queue);
        } else if wired {
            self.send_wire(no, to, wire);
        } else {
            self.send_frames(no, to, carried);
        }
    }

    fn flush_runtime(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        let switch = process.switch;
        let Some((Body::Runtime(actors), pool)) = process.living.as_mut() else {
            return;
        };
        let mut entries = core::mem::take(&mut actors.outbox.entries);
        let messages = core::mem::take(&mut actors.outbox.messages);
        if self.threads.is_some() {
            self.queue_entries(no, entries);
            for (to, message) in messages {
                self.send(no, to, message);
            }
            return self.queues_go_on(no);
        }
        let longest = actors.settings().longest;
        let made = entry_messages(pool, &mut entries, longest);
        if let Some((Body::Runtime(actors), _)) =
            self.processes.get_mut(no).and_then(|p| p.living.as_mut())
        {
            // The list's memory is used again.
            actors.outbox.entries = entries;
        }
        for message in made {
            if let Some(peer) = self.processes.get(switch).map(|p| p.peer) {
                self.send(no, peer, message);
            }
        }
        for (to, message) in messages {
            self.send(no, to, message);
        }
    }

    /// Servers learn whom they talk to.
    fn learn(&mut self, meta: &FrameMeta, bytes: &[u8]) {
        if meta.side != Side::Inside || meta.sequence == 0 {
            return;
        }
        let planned = self.plan.packets.get(meta.sequence as usize - 1);
        let emitted = meta.flags & weir_packet::frame_flags::EMITTED != 0;
        if let Some(planned) = planned.filter(|p| p.to_server && !emitted)
            && let Some(proto) = planned.shape.protocol()
            && let Some(ends) = observed(bytes)
        {
            self.observed.insert((planned.flow, proto), ends);
        }
    }

    pub(super) fn process_of(&self, peer: Peer) -> Option<ProcessNo> {
        self.processes.number_of(peer)
    }

    fn send_frames(&mut self, from: ProcessNo, to: ProcessNo, carried: Vec<Carried>) {
        // Frames that are together stay so, unless something happens to them.
        let mut together: Option<(u64, Vec<Carried>)> = None;
        for one in carried {
            let arrivals = self.links.frame(from, to, self.now);
            if let Some(at) = arrivals.again {
                let what = Delivery::Frames(vec![one.clone()]);
                self.arrival(at, to, from, self.now, what);
            }
            let Some(at) = arrivals.first else {
                if self.trace.is_on() {
                    let name = self.processes.get(to).map(|p| p.name()).unwrap_or_default();
                    let clock = one.clock.0;
                    self.say(Some(one.unit), || {
                        format!("packet {clock} to {name} is lost")
                    });
                }
                continue;
            };
            match &mut together {
                Some((when, list)) if *when == at => list.push(one),
                _ => {
                    if let Some((when, list)) = together.take() {
                        self.arrival(when, to, from, self.now, Delivery::Frames(list));
                    }
                    together = Some((at, vec![one]));
                }
            }
        }
        if let Some((when, list)) = together {
            self.arrival(when, to, from, self.now, Delivery::Frames(list));
        }
    }

    pub(super) fn arrival(
        &mut self,
        at: u64,
        to: ProcessNo,
        from: ProcessNo,
        sent: u64,
        what: Delivery,
    ) {
        self.schedule(
            at,
            Event::Arrival {
                to,
                from,
                sent,
                what,
            },
        );
    }

    /// Sends a message.
    pub(super) fn send(&mut self, from: ProcessNo, to: Peer, mut message: Message) {
        self.note_word(from, &message);
        self.damage(&mut message);
        self.lie(from, &mut message);
        if let Some(slip) = self.settings.slip() {
            return self.send_slipped(slip, from, to, message);
        }
        self.transmit(from, to, message);
    }

    /// Sends what a planted bug makes of a message.
    fn send_slipped(&mut self, slip: Slip, from: ProcessNo, to: Peer, mut message: Message) {
        let peer = |no: ProcessNo| self.processes.get(no).map(|p| p.peer);
        let switch = self.switch.and_then(peer);
        let Some(own) = peer(from) else {
            return;
        };
        match slip.slip((own, to), &mut message) {
            Aside::None => {}
            Aside::Drop => return,
            Aside::Also(peer, other) => self.transmit(from, peer, other),
            Aside::Ask(other) => {
                if let Some(switch) = switch {
                    self.transmit(from, switch, other);
                }
            }
            Aside::Answer(peer, other) => {
                if let Some(no) = self.process_of(peer) {
                    self.transmit(no, own, other);
                }
            }
        }
        self.transmit(from, to, message);
    }

    fn transmit(&mut self, from: ProcessNo, to: Peer, message: Message) {
        if let Some(id) = self.runtime_id(from) {
            match &message {
                Message::Entries(made) => {
                    for batch in made {
                        self.made(id, (batch.unit, batch.view), &batch.entries);
                    }
                }
                // The same entries, ahead of the state that they belong to.
                Message::Outputs {
                    unit,
                    view,
                    entries,
                } => self.made(id, (*unit, *view), entries),
                _ => {}
            }
        }
        if to == Peer::Coordinator {
            self.coordinator_hears(from, &message);
            return;
        }
        if self.threads.is_some() {
            return self.queue_message(from, to, message);
        }
        let Some(to) = self.process_of(to) else {
            self.count("messages_to_nobody");
            return;
        };
        if !self.settings.plain_links {
            self.send_message(from, to, &message);
            return;
        }
        let arrival = self.links.message(from, to, self.now);
        let what = Delivery::Message(Box::new(message));
        self.arrival(arrival.at, to, from, arrival.sent, what);
    }

    /// A runtime sends entries: the checker compares them with those of others.
    pub(super) fn made(
        &mut self,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        entries: &[Entry],
    ) {
        self.checker.produced(from, (unit, view), entries);
        if !self.trace.is_on() {
            return;
        }
        for entry in entries {
            let line = format!(
                "r{} sends entry {} of view {}: {}",
                from.0,
                entry.clock.0,
                show_view(view),
                show_entry(entry)
            );
            self.trace.say(Some(unit), || line);
        }
    }

    /// Damages a state on its way to a new owner, if that is to happen.
    fn damage(&mut self, message: &mut Message) {
        let Some(number) = self.sabotage else {
            return;
        };
        if let Message::State { new, image, .. } = message
            && *new != View::NONE
            && let Some(state) = &mut image.state
        {
            if number.is_multiple_of(2) {
                state.truncate(state.len() / 2);
            } else if let Some(octet) = state.get_mut(21) {
                // A letter in the name of the first function.
                *octet ^= 1;
            }
            self.sabotage = None;
            self.count("states_damaged");
        }
    }

    pub(super) fn trace_delivery(&mut self, to: ProcessNo, from: ProcessNo, what: &Delivery) {
        let name = |no: ProcessNo| self.processes.get(no).map(|p| p.name()).unwrap_or_default();
        let (to, from) = (name(to), name(from));
        match what {
            Delivery::Frames(carried) => {
                for one in carried {
                    let line = format!(
                        "{to} gets packet {} of {} in view {} from {from}{}",
                        one.clock.0,
                        show_unit(one.unit),
                        show_view(one.view),
                        crate::trace::flags(one.part.flags)
                    );
                    self.trace.say(Some(one.unit), || line);
                }
            }
            Delivery::Message(message) => {
                for (unit, text) in describe(message) {
                    let unit_text = unit.map(|u| format!(" [{}]", show_unit(u)));
                    let line = format!(
                        "{to} gets {text} from {from}{}",
                        unit_text.unwrap_or_default()
                    );
                    self.trace.say(unit, || line);
                }
            }
            Delivery::Wire(_) => {}
        }
    }
}

/// Check that follows a message which a process has taken in.
enum AfterWord {
    Nothing,
    /// A runtime has said that it forgot this unit: it keeps no older copy.
    Forgotten(UnitId),
    /// Ports that a runtime may lease now.
    Ports,
}

impl AfterWord {
    fn of(message: &Message) -> AfterWord {
        match message {
            Message::Forgotten { unit, .. } => AfterWord::Forgotten(*unit),
            Message::PortsKnown { .. } | Message::PortFreed { .. } => AfterWord::Ports,
            _ => AfterWord::Nothing,
        }
    }
}

/// The address that chain `nat` has outside.
const NAT_ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(203, 0, 113, 1);

/// The number in the plan of a frame's packet.
fn sighting(plan: &Plan, answered: &BTreeMap<u64, Ends>, meta: &FrameMeta) -> Option<Sighting> {
    let emitted = meta.flags & weir_packet::frame_flags::EMITTED != 0;
    let number = meta.sequence;
    let planned = plan.packets.get((number as usize).checked_sub(1)?)?;
    (!emitted).then_some(Sighting {
        number,
        flow: planned.flow,
        answer: answered.get(&number).copied(),
        kind: match planned.shape {
            Shape::Tcp { .. } => Kind::Tcp,
            Shape::Udp { .. } => Kind::Udp,
            Shape::Echo { .. } => Kind::Echo,
            Shape::Fragment { .. } | Shape::Raw(_) => Kind::Unordered,
        },
    })
}

/// The same with the key that its addresses make.
fn seen_in(
    plan: &Plan,
    answered: &BTreeMap<u64, Ends>,
    meta: &FrameMeta,
) -> Option<(Sighting, FlowKey)> {
    let seen = sighting(plan, answered, meta)?;
    let proto = match seen.kind {
        Kind::Tcp => ip::TCP,
        Kind::Udp => ip::UDP,
        Kind::Echo | Kind::Unordered => return None,
    };
    let ends = seen.answer;
    let ends = ends.unwrap_or_else(|| ends_of(plan.chain, seen.flow));
    // A turned packet is numbered twice, in two units.
    if plan.chain.is_nat() && ends.server == NAT_ADDRESS {
        return None;
    }
    Some((seen, key_of(&ends, proto)))
}

/// The key of a flow between two ends.
pub(super) fn key_of(ends: &Ends, proto: u8) -> FlowKey {
    let (client, server) = (ends.client.into(), ends.server.into());
    let (from, to) = (ends.client_port, ends.server_port);
    FlowKey::new(client, from, server, to, proto, 0, 0).0
}
