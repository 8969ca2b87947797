//! From the main side to the tenant: what is lent to it, and what it is told.

use std::sync::Arc;
use std::time::Instant;

use weir_packet::{Frame, FrameKind, PacketMemory};

use super::{Border, Entry, MADE, MOST_LENT, MOST_MADE, NOTICE_IDS, Offence, WINDOW};

impl Border {
    /// Takes frames, in order, as far as there is room or nobody may wait any
    /// longer: how many.
    pub fn give(&mut self, frames: &mut Vec<Frame>, now: Instant) -> usize {
        let offered = frames.len();
        self.mind(now);
        self.lend_pending();
        let memory = Arc::clone(&self.memory);
        frames.reverse();
        while let Some(frame) = frames.pop() {
            if let Err(frame) = self.give_one(&memory, frame, now) {
                frames.push(frame);
                break;
            }
        }
        frames.reverse();
        if let (Some(tenant), true) = (&mut self.tenant, self.waiting > 0) {
            tenant.publish();
        }
        offered - frames.len()
    }

    /// Takes one frame; gives it back where there is no room for it and others may wait.
    #[inline]
    fn give_one(&mut self, memory: &PacketMemory, frame: Frame, now: Instant) -> Result<(), Frame> {
        let meta = memory.meta(&frame);
        let is_notice = meta.kind.is_notice();
        let is_packet = meta.kind == FrameKind::Packet;
        if self.window.len() >= WINDOW {
            self.window_full(now);
            return Err(frame);
        }
        let mine = is_notice || is_packet && self.settings.stage.contains(&meta.next);
        if !mine {
            self.counts.came += u64::from(is_packet);
            self.put(frame, None, is_notice);
            return Ok(());
        }
        if is_packet && !self.ready {
            return self.give_before_start(frame, now);
        }
        if is_notice && (!self.ready || !self.pending.is_empty()) {
            self.put_pending(memory, frame);
            return Ok(());
        }
        match self.has_room(memory.room(&frame), is_notice) {
            Ok(true) => {
                self.lend(memory, frame, is_notice);
                Ok(())
            }
            Ok(false) => self.give_without_room(frame, is_notice, now),
            Err(offence) => {
                self.expel_for(offence);
                Err(frame)
            }
        }
    }

    /// Gives up what fills the window if the credit is used up. If the first packet can be taken,
    /// nobody waits for the tenant.
    fn window_full(&mut self, now: Instant) {
        let theirs = self.window.front().is_some_and(|e| e.with.is_some());
        if theirs && !self.may_wait(now) {
            self.abandon();
        }
    }

    /// A packet for a tenant that is not ready, or gone: it waits by the budget or is dropped.
    #[cold]
    fn give_before_start(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        let waits = self.settings.waits_for_start && !self.gone;
        if waits && self.may_wait(now) {
            return Err(frame);
        }
        self.counts.came += 1;
        self.counts.gone += 1;
        self.to_pool.push(frame);
        Ok(())
    }

    /// Keeps what a notice says for a tenant that is started, or for its turn; the notice goes on.
    /// With nobody there, the successor is told what notices say when it is started.
    fn put_pending(&mut self, memory: &PacketMemory, frame: Frame) {
        if self.tenant.is_some() {
            let (meta, bytes) = memory.read(&frame);
            if !self.pending.add(meta, memory.room(&frame), bytes) {
                self.expel_for(Offence::Stalled);
            }
        }
        self.put(frame, None, true);
    }

    /// True where a frame with `room` bytes for a packet can be lent now.
    fn has_room(&mut self, room: usize, is_notice: bool) -> Result<bool, Offence> {
        match &mut self.tenant {
            Some(tenant) if self.pending.is_empty() && self.lent.len() < MOST_LENT => {
                tenant.has_room(room, is_notice)
            }
            _ => Ok(false),
        }
    }

    /// The tenant has no room: the frame waits by the budget. When that is used up, a packet is
    /// dropped, and a tenant that can't be told of a notice is expelled.
    #[cold]
    fn give_without_room(
        &mut self,
        frame: Frame,
        is_notice: bool,
        now: Instant,
    ) -> Result<(), Frame> {
        if self.may_wait(now) {
            return Err(frame);
        }
        if is_notice {
            self.expel_for(Offence::Stalled);
            return Err(frame);
        }
        self.counts.came += 1;
        self.counts.stalled += 1;
        self.to_pool.push(frame);
        Ok(())
    }

    /// Lends a copy of a packet or notice; [`Border::has_room`] was true.
    #[inline]
    fn lend(&mut self, memory: &PacketMemory, frame: Frame, is_notice: bool) {
        let seq = self.first + self.window.len() as u64;
        let (meta, bytes) = memory.read(&frame);
        let tenant = self.tenant.as_mut();
        let number = tenant.and_then(|t| t.lend(meta, memory.room(&frame), bytes, seq));
        self.counts.came += u64::from(!is_notice);
        let Some(number) = self
            .counts
            .internal
            .expect(number, "a frame fits where there is room")
        else {
            self.counts.stalled += u64::from(!is_notice);
            self.to_pool.push(frame);
            return;
        };
        if is_notice {
            self.counts.told_bytes += bytes.len() as u64;
        } else {
            self.seen.note(meta);
            self.counts.lent += 1;
            self.may_make = (self.may_make + MADE).min(MOST_MADE);
        }
        self.since = None;
        self.lent.push_back((seq, number));
        self.put(frame, Some(number), is_notice);
    }

    fn put(&mut self, frame: Frame, with: Option<u32>, is_notice: bool) {
        self.waiting += usize::from(with.is_some());
        self.window.push_back(Entry {
            frame: Some(frame),
            with,
            is_notice,
        });
    }

    /// True if others may wait for the tenant, who do so from now on.
    fn may_wait(&mut self, now: Instant) -> bool {
        if let Some(before) = self.since.replace(now) {
            let waited = now.saturating_duration_since(before);
            self.credit = self.credit.saturating_sub(waited);
        }
        !self.credit.is_zero()
    }

    /// Tells it what notices said, as far as there is room.
    pub(super) fn lend_pending(&mut self) {
        if !self.ready || self.pending.is_empty() {
            return;
        }
        let Some(tenant) = &mut self.tenant else {
            return;
        };
        while self.lent.len() < MOST_LENT
            && let Some((meta, room, bytes)) = self.pending.first()
        {
            match tenant.has_room(room, true) {
                Ok(true) => {}
                Ok(false) => break,
                Err(offence) => return self.expel_for(offence),
            }
            let id = NOTICE_IDS + self.notices;
            if let Some(number) = tenant.lend(meta, room, bytes, id) {
                tenant.abandon(number);
                self.lent.push_back((id, number));
                self.counts.told_bytes += bytes.len() as u64;
            }
            self.notices += 1;
            self.pending.drop_first();
        }
        tenant.publish();
    }
}
