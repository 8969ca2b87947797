//! Entries: the results of packets under a switch.

use weir_packet::{
    Disposition, Frame, FrameMeta, FramePool, HEADROOM, META_BYTES, PATH_BITS, PacketMemory,
};

use super::FOLLOWS;
use super::units::WRITTEN;
use super::{Turn, What};
use crate::classify::Classified;
use crate::execute::Dispositions;
use crate::notes::{self, Note};
use crate::runtime::Runtime;
use crate::scratch::all;

/// Mandatory notes and events in a chunk of notes.
#[derive(Clone, Copy, Default)]
struct Chunk {
    needed: u64,
    events: u64,
}

/// Functions that the packets of a burst have passed.
struct Paths<'a> {
    /// Packets that each function was given, as masks.
    passed: &'a [u64],
    /// The path of all packets, where they have the same.
    same: Option<u32>,
}

impl Paths<'_> {
    /// Those of the first `n` packets.
    fn of(passed: &[u64], n: usize) -> Paths<'_> {
        let all = all(n);
        let mut path = 0;
        let mut same = true;
        for (number, mask) in passed.iter().enumerate() {
            match mask & all {
                0 => {}
                mask if mask == all => path |= path_bit(number),
                _ => same = false,
            }
        }
        Paths {
            passed,
            same: same.then_some(path),
        }
    }

    /// As [`FrameMeta::path`] has it.
    #[inline]
    fn of_packet(&self, i: usize) -> u32 {
        if let Some(path) = self.same {
            return path;
        }
        let of = |(number, mask): (usize, &u64)| (mask >> i & 1) as u32 * path_bit(number);
        self.passed
            .iter()
            .enumerate()
            .map(of)
            .fold(0, |path, bit| path | bit)
    }
}

/// The bit of a function in [`FrameMeta::path`].
#[inline]
fn path_bit(number: usize) -> u32 {
    1 << number.min(PATH_BITS - 1)
}

impl Runtime {
    /// Hands the burst's packets on as entries, or back to the pool where they
    /// were applied a second time.
    #[inline(never)]
    pub(super) fn leave_as_entries(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
        found: &Classified,
        dispositions: Dispositions,
    ) {
        let n = found.count;
        self.mark_changed(memory, &input[..n]);
        if self.world.silent {
            self.drop_side_frames(pool);
            for frame in input.drain(..n) {
                pool.give(frame);
            }
            return;
        }
        // A turned packet has left this engine: it comes again as another.
        let left = dispositions.out | dispositions.turned;
        let mut bytes = 0;
        let paths = Paths::of(&self.scratch.passed, n);
        for (i, frame) in input[..n].iter_mut().enumerate() {
            let meta = memory.meta_mut(frame);
            meta.set_path(paths.of_packet(i));
            meta.disposition = if dispositions.out >> i & 1 != 0 {
                Disposition::Out
            } else if dispositions.turned >> i & 1 != 0 {
                Disposition::Turned
            } else {
                Disposition::Dropped
            };
            if left >> i & 1 != 0 {
                bytes += u64::from(meta.len);
            }
        }
        self.counts.put_out(left.count_ones(), bytes);
        if !self.has_side_frames() {
            if n == input.len() {
                entries.append(input);
            } else {
                entries.extend(input.drain(..n));
            }
            return;
        }
        self.sort_emitted();
        for (i, frame) in input.drain(..n).enumerate() {
            self.push_side_frames(pool, memory, i, n - 1 - i, &frame, entries);
            entries.push(frame);
        }
        self.clear_side_frames();
    }

    /// Tells the units of packets that changed a state so.
    fn mark_changed(&mut self, memory: &PacketMemory, frames: &[Frame]) {
        let mut changed = core::mem::take(&mut self.scratch.outcome.changed);
        let Some(follow) = self.counts.internal.expect(self.follow.as_mut(), FOLLOWS) else {
            return;
        };
        // All at once, then one after the other.
        for (i, frame) in frames.iter().enumerate() {
            if changed >> i & 1 != 0 {
                follow.units.fetch(memory.meta(frame).unit);
            }
        }
        while changed != 0 {
            let i = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            if let Some(frame) = frames.get(i) {
                follow.units.mark(memory.meta(frame).unit, WRITTEN);
            }
        }
    }

    /// True where a packet of the burst has caused more than its own disposition.
    pub(super) fn has_side_frames(&self) -> bool {
        let follow = self.follow.as_ref();
        !self.world.emits.frames.is_empty()
            || !self.world.leases.taken().is_empty()
            || !self.world.events.lines().is_empty()
            || follow.is_some_and(|f| !f.turns.is_empty() || !f.named.is_empty())
            || [&self.world.emits.causes, &self.world.aliases.causes]
                .into_iter()
                .flatten()
                .any(|causes| !causes.is_unused())
    }

    /// Gives packets that functions have emitted, and that no entry has yet, back to `pool`:
    /// for an engine that a panic has ended.
    pub fn give_emitted(&mut self, pool: &mut FramePool) {
        pool.give_all(&mut self.world.emits.frames);
    }

    /// Nobody hears of what a packet caused when it is applied a second time.
    pub(super) fn drop_side_frames(&mut self, pool: &mut FramePool) {
        pool.give_all(&mut self.world.emits.frames);
        self.clear_side_frames();
    }

    pub(super) fn clear_side_frames(&mut self) {
        let world = &mut self.world;
        world.leases.clear_taken();
        world.events.clear();
        world.aliases.asked.clear();
        for causes in [&mut world.emits.causes, &mut world.aliases.causes]
            .into_iter()
            .flatten()
        {
            causes.clear();
        }
        if let Some(follow) = &mut self.follow {
            follow.turns.clear();
            follow.named.clear();
        }
    }

    /// Puts what was emitted in the order in which it leaves, the first last.
    pub(super) fn sort_emitted(&mut self) {
        let Some(follow) = self.counts.internal.expect(self.follow.as_mut(), FOLLOWS) else {
            return;
        };
        let emits = &mut self.world.emits;
        let causes = emits.causes.as_ref().map_or(&[][..], |c| &c.packets);
        for (number, frame) in emits.frames.drain(..).enumerate() {
            let cause = causes.get(number).copied().unwrap_or(0);
            let order = u32::from(cause) << 16 | number as u32;
            follow.emitted.push((order, frame));
        }
        follow
            .emitted
            .sort_unstable_by_key(|(order, _)| core::cmp::Reverse(*order));
    }

    /// Adds what packet `i` of the burst, in `frame`, has caused. `others`
    /// packets come after it, each of which may need a frame.
    pub(super) fn push_side_frames(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        i: usize,
        others: usize,
        frame: &Frame,
        entries: &mut Vec<Frame>,
    ) {
        let own = *memory.meta(frame);
        let Some(follow) = self.counts.internal.expect(self.follow.as_mut(), FOLLOWS) else {
            return;
        };
        let due = |(order, _): &mut (u32, Frame)| (*order >> 16) as usize <= i;
        while let Some((_, mut frame)) = follow.emitted.pop_if(due) {
            let meta = memory.meta_mut(&mut frame);
            meta.unit = own.unit;
            meta.clock = own.clock;
            meta.view = own.view;
            meta.disposition = Disposition::Emitted;
            self.counts.emit(1);
            self.counts.put_out(1, u64::from(meta.len));
            entries.push(frame);
        }
        let mut text = core::mem::take(&mut follow.text);
        let mut chunk = Chunk::default();
        let turns = follow.turns.len();
        for number in 0..turns {
            if let Some(turn) = self.follow.as_ref().and_then(|f| f.turns.get(number))
                && usize::from(turn.cause) == i
            {
                let note = note_of(turn);
                self.add_note(pool, &note, &own, &mut text, &mut chunk, entries);
            }
        }
        for number in 0..self.world.leases.taken().len() {
            if let Some(&(cause, of, lease)) = self.world.leases.taken().get(number)
                && usize::from(cause) == i
            {
                let note = Note::Leased { pool: of, lease };
                self.add_note(pool, &note, &own, &mut text, &mut chunk, entries);
            }
        }
        let named = self.follow.as_ref().map_or(0, |f| f.named.len());
        for number in 0..named {
            if let Some(&(cause, flow, request)) =
                self.follow.as_ref().and_then(|f| f.named.get(number))
                && usize::from(cause) == i
            {
                let note = Note::Alias { flow, request };
                self.add_note(pool, &note, &own, &mut text, &mut chunk, entries);
            }
        }
        let causes = self.world.emits.causes.as_ref();
        let count = causes.map_or(0, |causes| causes.lost(i));
        if count > 0 {
            let note = Note::EmitsLost { count };
            self.add_note(pool, &note, &own, &mut text, &mut chunk, entries);
        }
        self.add_events(pool, i, others, &own, &mut text, &mut chunk, entries);
        self.flush(pool, &own, &mut text, &mut chunk, entries);
        if let Some(follow) = &mut self.follow {
            follow.text = text;
        }
    }

    /// Adds a note that must not be lost.
    fn add_note(
        &mut self,
        pool: &mut FramePool,
        note: &Note<'_>,
        own: &FrameMeta,
        text: &mut Vec<u8>,
        chunk: &mut Chunk,
        entries: &mut Vec<Frame>,
    ) {
        let before = text.len();
        notes::write(note, text);
        if text.len() > chunk_bytes(pool) && before > 0 {
            text.truncate(before);
            self.flush(pool, own, text, chunk, entries);
            notes::write(note, text);
        }
        chunk.needed += 1;
    }

    #[allow(clippy::too_many_arguments)]
    fn add_events(
        &mut self,
        pool: &mut FramePool,
        i: usize,
        others: usize,
        own: &FrameMeta,
        text: &mut Vec<u8>,
        chunk: &mut Chunk,
        entries: &mut Vec<Frame>,
    ) {
        if self.world.events.lines().is_empty() {
            return;
        }
        let room = chunk_bytes(pool);
        let mut lost = 0;
        // The log is lent out while notes are flushed, which it takes no part in.
        let events = &self.world.events;
        let mut failed = 0;
        for line in events.lines_of(i) {
            let before = text.len();
            notes::write(&Note::Event(line), text);
            if text.len() > room && before > 0 {
                text.truncate(before);
                let given = put_frame(pool, own, text, entries);
                if !given {
                    failed += chunk.needed;
                    lost += chunk.events;
                }
                text.clear();
                *chunk = Chunk::default();
                // A further frame is for events only: it must not be one that
                // a later packet needs.
                if pool.available() <= others {
                    lost += 1;
                    continue;
                }
                notes::write(&Note::Event(line), text);
            } else if before == 0 && pool.available() <= others {
                text.clear();
                lost += 1;
                continue;
            }
            chunk.events += 1;
        }
        self.counts.so_far.notes_lost += failed;
        if lost > 0 {
            self.world.events.count_lost(lost);
        }
    }

    /// Puts the notes so far into a frame.
    fn flush(
        &mut self,
        pool: &mut FramePool,
        own: &FrameMeta,
        text: &mut Vec<u8>,
        chunk: &mut Chunk,
        entries: &mut Vec<Frame>,
    ) {
        if !text.is_empty() && !put_frame(pool, own, text, entries) {
            self.counts.so_far.notes_lost += chunk.needed;
            self.world.events.count_lost(chunk.events);
        }
        text.clear();
        *chunk = Chunk::default();
    }
}

/// Bytes of notes that go into one frame; a longer note has one of its own.
fn chunk_bytes(pool: &FramePool) -> usize {
    let small = pool.memory().layout().small_bytes as usize;
    small.saturating_sub(META_BYTES + HEADROOM)
}

/// Notes in a frame beside that with `own`; false where none is free.
fn put_frame(pool: &mut FramePool, own: &FrameMeta, text: &[u8], entries: &mut Vec<Frame>) -> bool {
    let mut meta = *own;
    meta.disposition = Disposition::Notes;
    meta.wire_len = text.len() as u32;
    match pool.copy(text, meta) {
        Ok(frame) => {
            entries.push(frame);
            true
        }
        Err(_) => false,
    }
}

/// The note of a flow or alias that began or ended.
fn note_of(turn: &Turn) -> Note<'static> {
    let key = turn.key;
    match turn.what {
        What::FlowEnded => Note::FlowEnded { key },
        What::AliasEnded => Note::AliasEnded { key },
        What::FlowOpened { client_is_b } => Note::FlowOpened { key, client_is_b },
    }
}
