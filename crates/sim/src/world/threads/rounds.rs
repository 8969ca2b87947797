//! The rounds of threads.
//!
//! A thread works in rounds, as the program's does (`weir::driver`: `cluster/`,
//! `runtime_node.rs`), within the same bounds (`weir_protocol::in_process`). A round
//! reads its queues one after the other; in between the other threads go on.

use weir_packet::Frame;
use weir_packet::shares::{balance, settle, take_reserve};
use weir_protocol::Peer;
use weir_protocol::entry::batches;
use weir_protocol::in_process::{self, BURST, MESSAGES, PER_PACKET};
use weir_protocol::message::Message;

use super::doom::Doom;
use super::{Part, Word};
use crate::fault::Fault;
use crate::slip::Slip;
use crate::world::links::ProcessNo;
use crate::world::process::{Body, Delivery, Process};
use crate::world::{Event, World};

/// Nanoseconds between two looks of a thread that found nothing to do, but waits.
const POLL: u64 = 20_000;
/// The same where one of them does not run.
const LONG_POLL: u64 = 500_000;
/// Packets that a port gives at a time.
const BATCH: usize = 64;

impl World<'_> {
    /// A thread does the next part of its round.
    pub(in crate::world) fn round(&mut self, no: ProcessNo) {
        let is_switch = self.switch == Some(no);
        let paused = self
            .processes
            .get(no)
            .is_none_or(|process| !process.is_alive() || process.paused_until.is_some());
        if let Some(threads) = &mut self.threads {
            match threads.runtimes.get_mut(&no) {
                Some(thread) => thread.called = false,
                None => threads.called = false,
            }
        }
        match (paused, is_switch) {
            (true, _) => {}
            (false, true) => self.switch_round(no),
            (false, false) => self.runtime_round(no),
        }
    }

    /// Has a thread work, in a moment.
    pub(in crate::world) fn call(&mut self, no: ProcessNo) {
        self.call_after(no, 0);
    }

    fn call_after(&mut self, no: ProcessNo, at_least: u64) {
        let slow = self.plan.faults.has(Fault::Delay);
        let Some(threads) = &mut self.threads else {
            return;
        };
        let called = match threads.runtimes.get_mut(&no) {
            Some(thread) => &mut thread.called,
            None => &mut threads.called,
        };
        if core::mem::replace(called, true) {
            return;
        }
        let random = &mut threads.random;
        let pace = match slow && random.chance(20) {
            // Its core is somebody else's for a while.
            true => random.within(10_000, 2_000_000),
            false => random.within(200, 3_000),
        };
        self.schedule(self.now + pace.max(at_least), Event::Round(no));
    }

    fn runtime_round(&mut self, no: ProcessNo) {
        let switch = self.switch.unwrap_or(0);
        let Some(threads) = &mut self.threads else {
            return;
        };
        let Some(thread) = threads.runtimes.get_mut(&no) else {
            return;
        };
        let living = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let Some((_, pool)) = living else {
            return;
        };
        let order = threads.order;
        match order.get(thread.done).copied().unwrap_or(Part::Frames) {
            Part::Frames => {
                let most = BURST.min(pool.available() / PER_PACKET);
                let most = most.saturating_sub(thread.input.len());
                thread.input.extend(thread.data.take(most));
            }
            Part::Switch => {
                if let Some(words) = threads.words.get_mut(&(switch, no)) {
                    let heard = words.take(MESSAGES).map(|word| (word.from, word.message));
                    thread.heard.extend(heard);
                }
            }
            Part::Peers => {
                for ((from, to), words) in &mut threads.words {
                    if *to == no && *from != switch {
                        let heard = words.take(MESSAGES).map(|word| (word.from, word.message));
                        thread.heard.extend(heard);
                    }
                }
            }
        }
        thread.done += 1;
        if thread.done < order.len() {
            return self.call(no);
        }
        thread.done = 0;
        let heard = core::mem::take(&mut thread.heard);
        let input = core::mem::take(&mut thread.input);
        let has_work = !heard.is_empty() || !input.is_empty();
        if has_work && self.is_doom_due(no) {
            self.work(no, heard, input);
            self.die_at_work(no);
        } else {
            self.work(no, heard, input);
        }
    }

    /// A runtime takes in messages, and then frames.
    fn work(&mut self, no: ProcessNo, heard: Vec<(ProcessNo, Message)>, mut input: Vec<Frame>) {
        let mut worked = !heard.is_empty();
        for (from, message) in heard {
            self.deliver(no, from, Delivery::Message(Box::new(message)));
            self.flush(no);
        }
        self.trace_frames(no, self.switch.unwrap_or(0), &input);
        let time = self.time_at(no);
        let before = input.len();
        let Some(threads) = &mut self.threads else {
            return;
        };
        let living = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let Some((Body::Runtime(actors), pool)) = living else {
            return;
        };
        actors.packets_at(threads.packet_time);
        let due = actors.next_deadline().is_some_and(|at| at <= time);
        if !input.is_empty() {
            // Those that it has no frames for stay for the next round.
            actors.frames(time, pool, &mut input);
        }
        if due {
            actors.tick(time, pool);
        }
        worked |= due || input.len() < before;
        let short = !input.is_empty();
        let mut asks = false;
        if let Some(thread) = threads.runtimes.get_mut(&no) {
            thread.input = input;
            match thread.supply.as_mut() {
                Some(supply) => asks = supply.settle(pool),
                None if self.settings.slip() == Some(Slip::FramesHoarded) => {}
                None => {
                    settle(pool);
                }
            }
        }
        if short {
            self.count("frames_waited_for_frames");
        }
        self.flush(no);
        if asks && let Some(switch) = self.switch {
            self.call(switch);
        }
        if self
            .threads
            .as_ref()
            .is_some_and(|threads| threads.has_work(no))
        {
            let poll = self.poll();
            self.call_after(no, if worked { 0 } else { poll });
        }
    }

    fn poll(&self) -> u64 {
        let is_paused = |process: &Process| process.paused_until.is_some();
        match self.processes.iter().any(is_paused) {
            true => LONG_POLL,
            false => POLL,
        }
    }

    fn switch_round(&mut self, no: ProcessNo) {
        let Some(threads) = &mut self.threads else {
            return;
        };
        // Messages are taken out first and looked at last: entries that were sent
        // before them are there by then.
        if let Some(heard) = threads.heard.take() {
            if let Some(from) = threads.hearing.pop_front() {
                self.hear(no, from, heard);
            }
        } else if threads.hearing.is_empty() {
            threads.hearing = threads.speakers(no);
        }
        let Some(threads) = &mut self.threads else {
            return;
        };
        if let Some(from) = threads.hearing.front() {
            let words = threads.words.get_mut(&(*from, no));
            let heard = words.map(|ring| ring.take(MESSAGES).collect());
            threads.heard = Some(heard.unwrap_or_default());
            return self.call(no);
        }
        self.end_switch_round(no);
    }

    /// The switch hears a runtime: entries, then messages. Those for other runtimes it passes
    /// on.
    pub(super) fn hear(&mut self, no: ProcessNo, from: ProcessNo, heard: Vec<Word>) {
        let (time, id) = (self.time_at(no), self.runtime_id(from));
        let living = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let (Some((Body::Switch(switch), pool)), Some(threads), Some(id)) =
            (living, &mut self.threads, id)
        else {
            return;
        };
        let mut entries = threads.collect(from, pool);
        if !entries.is_empty() {
            switch.entries(time, pool, id, &mut entries);
            self.flush(no);
        }
        for word in heard {
            if let Peer::Runtime(_) = word.to {
                self.pass_on(no, word);
                continue;
            }
            self.deliver(no, from, Delivery::Message(Box::new(word.message)));
            self.flush(no);
        }
        // It may wait for room in its queues.
        self.call(from);
    }

    /// Passes a message on to a runtime that is not known to be over.
    fn pass_on(&mut self, switch: ProcessNo, word: Word) {
        if self.settings.slip() == Some(Slip::RelayLost) {
            return;
        }
        let is_it = |p: &Process| p.peer == word.to && !p.suspected;
        let Some(to) = self.processes.iter().position(is_it) else {
            return;
        };
        self.count("messages_passed_on");
        if let Some(threads) = &mut self.threads {
            threads.word(switch, to, word);
        }
        self.call(to);
    }

    /// Does what is due, what waits for room, and takes packets as far as there is room.
    fn end_switch_round(&mut self, no: ProcessNo) {
        let time = self.time_at(no);
        let living = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let (Some((Body::Switch(switch), pool)), Some(threads)) = (living, &mut self.threads)
        else {
            return;
        };
        if switch.next_deadline().is_some_and(|due| due <= time) {
            switch.tick(time, pool);
        }
        let slip = self.settings.slip();
        let ends = slip == Some(Slip::SupplyEnds);
        let living = threads.runtimes.values_mut().filter(|t| t.left.is_none());
        for supply in living.filter_map(|thread| thread.supply.as_mut()) {
            if !ends || supply.is_new() {
                supply.attend(pool);
            }
        }
        balance(pool);
        let mut woken = threads.wait_for_room(no);
        woken.extend(threads.supplied());
        threads.flush_words(no);
        let mut full = false;
        for thread in threads.runtimes.values_mut() {
            full |= !thread.data.flush();
        }
        let members = threads.most as usize;
        let room = if full {
            0
        } else {
            let keeping = threads.keeping;
            let frames = match slip {
                Some(Slip::PortsTakeMore) => BATCH + in_process::room(pool, members, keeping),
                _ => in_process::room(pool, members, keeping),
            };
            match threads.keeping.keeps() {
                true => frames.min(switch.room()),
                false => frames,
            }
        };
        let count = room.min(BATCH).min(threads.port.len());
        let taken: Vec<usize> = threads.port.drain(..count).collect();
        let waits = !threads.port.is_empty();
        if !taken.is_empty() {
            threads.packet_time = time;
            switch.packets_at(time);
            let found = self.take_packets(no, taken.iter().copied());
            if let Some(threads) = &mut self.threads {
                let left = taken.into_iter().skip(found).rev();
                left.for_each(|index| threads.port.push_front(index));
            }
            self.look_at_reserve(no, members);
        }
        if waits && count == 0 {
            self.count(if full {
                "ports_waited_for_queues"
            } else {
                "ports_waited_for_frames"
            });
        }
        self.flush(no);
        woken.into_iter().for_each(|reader| self.call(reader));
        let Some(threads) = &self.threads else {
            return;
        };
        if full || waits || !threads.speakers(no).is_empty() || threads.has_work(no) {
            let poll = self.poll() / 4;
            self.call_after(no, if waits && count > 0 { 0 } else { poll });
        }
    }

    /// Packets wait at the port until there is room.
    pub(in crate::world) fn packets_wait(&mut self, range: core::ops::Range<usize>) {
        if let (Some(threads), Some(no)) = (&mut self.threads, self.switch) {
            threads.port.extend(range);
            self.call(no);
        }
    }

    /// Time passes at the ports, with and without packets.
    pub(in crate::world) fn ports_pass_time(&mut self) {
        let time = self.time();
        let is_paused = |process: &Process| process.paused_until.is_some();
        let process = self.switch.and_then(|no| self.processes.get_mut(no));
        let Some(process) = process.filter(|process| !is_paused(process)) else {
            return;
        };
        if let (Some((Body::Switch(switch), _)), Some(threads)) =
            (process.living.as_mut(), &mut self.threads)
            && threads.port.is_empty()
        {
            threads.packet_time = time;
            switch.packets_at(time);
        }
    }

    /// The switch's frames go into a runtime's queue.
    pub(in crate::world) fn queue_frames(&mut self, to: ProcessNo, mut frames: Vec<Frame>) {
        let suspected = self.processes.get(to).is_some_and(|p| p.suspected);
        let living = self.switch.and_then(|no| self.processes.get_mut(no));
        let living = living.and_then(|p| p.living.as_mut());
        let (Some(threads), Some((_, pool))) = (&mut self.threads, living) else {
            return;
        };
        if suspected {
            // Its thread is joined, and its queue gone.
            return pool.give_all(&mut frames);
        }
        if let Some(thread) = threads.runtimes.get_mut(&to) {
            frames.into_iter().for_each(|frame| thread.data.push(frame));
            if thread.data.waits() {
                self.count("data_queues_full");
            }
        }
        self.call(to);
    }

    /// A runtime's entries go into its queue, and are shown to the checker.
    pub(in crate::world) fn queue_entries(&mut self, no: ProcessNo, mut frames: Vec<Frame>) {
        let thread = self.threads.as_mut().and_then(|t| t.runtimes.get_mut(&no));
        if let Some(thread) = thread
            && let Some(doom) = &mut thread.doom
        {
            thread.unsaid.append(&mut doom.cut(&mut frames));
        }
        let process = self.processes.get(no);
        let memory = process
            .and_then(|p| p.living.as_ref())
            .map(|(_, pool)| pool.memory().clone());
        if let (Some(memory), Some(id)) = (memory, self.runtime_id(no)) {
            let closes = |frame: &Frame| memory.meta(frame).disposition.closes();
            let whole = frames.iter().rposition(closes).map_or(0, |at| at + 1);
            for batch in batches(&memory, frames.get(..whole).unwrap_or_default()) {
                self.made(id, (batch.unit, batch.view), &batch.entries);
            }
        }
        if let Some(thread) = self.threads.as_mut().and_then(|t| t.runtimes.get_mut(&no)) {
            frames
                .into_iter()
                .for_each(|frame| thread.entries.push(frame));
            if thread.entries.waits() {
                self.count("entry_queues_full");
            }
        }
    }

    /// A message goes into its queue.
    pub(in crate::world) fn queue_message(&mut self, from: ProcessNo, to: Peer, message: Message) {
        let number = self.process_of(to);
        let (Some(threads), Some(number)) = (&mut self.threads, number) else {
            return;
        };
        match threads.runtimes.get_mut(&from) {
            Some(thread) if number != from => {
                if thread.doom.as_mut().is_none_or(Doom::may_say) {
                    thread.outgoing.push_back((to, message));
                }
            }
            _ => {
                threads.word(from, number, Word { from, to, message });
                self.call(number);
            }
        }
    }

    /// Sends on what a runtime's thread has, and has the others look.
    pub(in crate::world) fn queues_go_on(&mut self, no: ProcessNo) {
        let processes = &self.processes;
        let of = |peer: Peer| {
            let is_it = |p: &Process| p.peer == peer && p.is_alive();
            processes.iter().position(is_it)
        };
        let Some(threads) = &mut self.threads else {
            return;
        };
        if !threads.send_on(no, of) {
            self.count("queues_full");
        }
        let Some(threads) = &self.threads else {
            return;
        };
        let own = threads.words.range((no, 0)..(no + 1, 0));
        let mut readers: Vec<ProcessNo> = own
            .filter(|(_, ring)| !ring.is_empty())
            .map(|((_, to), _)| *to)
            .collect();
        readers.extend(self.switch);
        for reader in readers {
            self.call(reader);
        }
    }

    /// At the end: all memory is one pool again, for another run.
    pub(in crate::world) fn join_memory(&mut self) {
        let Some(mut threads) = self.threads.take() else {
            return;
        };
        let mut all = Vec::new();
        let mut pools = Vec::new();
        for process in self.processes.iter_mut() {
            if let Some((mut body, mut pool)) = process.living.take() {
                match &mut body {
                    Body::Switch(switch) => switch.finish(&mut pool),
                    Body::Runtime(actors) => actors.finish(&mut pool),
                }
                pools.push(pool);
            }
        }
        for thread in threads.runtimes.values_mut() {
            pools.extend(thread.left.take());
            all.append(&mut thread.input);
            all.append(&mut thread.partial);
            if let Some(supply) = thread.supply.as_mut() {
                supply.take_all(&mut all);
            }
            for ring in [&mut thread.data, &mut thread.entries] {
                all.extend(ring.take(usize::MAX));
                all.extend(ring.take_waiting());
            }
        }
        let Some(mut whole) = pools.pop() else {
            return;
        };
        whole.give_all(&mut all);
        pools.into_iter().for_each(|pool| whole.join(pool));
        take_reserve(&mut whole);
        self.pools.give(whole);
    }
}
