//! The border of a trust domain: packets to a process that is not trusted, and
//! back.
//!
//! The process, a *tenant*, has a packet memory and rings of its own
//! ([`Tenant`]) and nothing of the main one. Here, on the main side, each packet
//! stays in its own frame while a *copy* of it is lent to the tenant. What comes
//! back is looked at as follows:
//!
//! - **A number** must name a frame that the tenant has now, by the private
//!   table here. Given twice, or never lent: an [`Offence`].
//! - **Metadata** is copied once and looked at in the copy; of it only length,
//!   start and the next processor are asked, which must be in the frame and in
//!   the plan. All else (time, flow, clock, chain, port, …) is what the
//!   packet's own frame says.
//! - **Bytes** are copied into the packet's own frame, where the stage may
//!   write at all, and are what is parsed from then on.
//! - **Order** is that in which packets came here, whatever the tenant does;
//!   notices pass in their place and unchanged.
//!
//! So a tenant changes, delays and drops packets that were given to it, and
//! nothing else. Nobody waits for it but by a budget: it is earned with packets
//! that came back, and when it is used up packets for the tenant are dropped, and
//! those that others wait behind are given up.
//!
//! A process that was started is not *ready* at once. Until it is, packets for
//! it are dropped or wait by the same budget, notices go on and are told to it
//! later, and it is not ended for being slow.
//!
//! All of this is a state machine: time is given to it. [`ports`] puts it
//! between two stages.

mod counts;
mod ports;
mod seen;
mod tenant;
mod untold;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_packet::{Frame, FrameKind, PacketMemory, SaidMeta};

pub use counts::{BorderCounts, BorderSettings, Offence};
pub use ports::{BorderInput, BorderOutput, SharedBorder, ports};
pub use tenant::{DONE, PLACES as BORDER_PLACES, RingPlaces, STATUS_WORDS, Tenant, tenant_layout};

use seen::Seen;
use tenant::Slot;
use untold::Untold;

/// Packets and notices that may be between the two sides.
pub const WINDOW: usize = 1_024;
/// How long others wait for a tenant at most, and what it begins with.
pub const MOST_WAIT: Duration = Duration::from_secs(5);
/// Part of that time that each packet the tenant is done with earns.
const EARNED: Duration = Duration::from_micros(100);
/// Least time that a successor begins with, of the longest.
const ANEW: Duration = Duration::from_millis(20);
/// So long others wait for nothing: to be woken and to be looked after takes
/// time, too.
const GRACE: Duration = Duration::from_millis(10);
/// Numbers from here on are of notices that nobody waits for.
const TOLD: u64 = 1 << 63;
/// How long nothing may move while packets are with the tenant.
pub const STALL: Duration = Duration::from_secs(10);
/// Most that it may have been lent without a word that it is done with it: more
/// than all its frames.
const MOST_LENT: usize = 4 * WINDOW;
/// Frames kept for packets that it makes.
const FRESH: usize = 256;
/// Packets that it may make for one that it was given; and in store at most.
const MADE: u32 = 4;
const MOST_MADE: u32 = 1_024;

/// Something between the two sides.
#[derive(Debug)]
struct Entry {
    /// Its own frame; none where it is dropped.
    frame: Option<Frame>,
    /// Its frame at the tenant's, while that has it.
    with: Option<u32>,
    is_notice: bool,
}

/// Something that is not the tenant's waits behind what it has.
#[derive(Clone, Copy, Debug)]
struct Held {
    began: Instant,
    /// As of when it was counted last.
    counted: Instant,
    /// The number behind all that was there when it began: with those gone it
    /// is another one that waits.
    until: u64,
}

/// The border to one tenant; see the module.
#[derive(Debug)]
pub struct Border {
    settings: BorderSettings,
    exits: [bool; 256],
    memory: Arc<PacketMemory>,
    tenant: Option<Tenant>,
    /// It is at work.
    ready: bool,
    /// It is not started any more.
    gone: bool,
    window: VecDeque<Entry>,
    /// Number of the first one in the window.
    first: u64,
    /// Entries that the tenant has.
    waiting: usize,
    /// Numbers of what was lent and in which frame, as far as it has not said to
    /// be done with it.
    lent: VecDeque<(u64, u32)>,
    /// Notices that went on, and that it is still to be told of; how many it
    /// was.
    untold: Untold,
    told: u64,
    /// The number behind the last of all that came back.
    last: u64,
    /// Packets that the tenant made, each with the number of the lent packet before which it goes
    /// on.
    made: VecDeque<(u64, Frame)>,
    /// Frames to the pool, and from it.
    home: Vec<Frame>,
    fresh: Vec<Frame>,
    may_make: u32,
    seen: Seen,
    credit: Duration,
    since: Option<Instant>,
    /// Packets that wait behind those that the tenant has.
    held: Option<Held>,
    progress: Option<Instant>,
    closing: bool,
    offence: Option<Offence>,
    counts: BorderCounts,
    numbers: [Vec<u32>; 2],
}

impl Border {
    /// For packets of `memory`; nobody is behind it yet ([`Border::admit`]).
    pub fn new(settings: BorderSettings, memory: &Arc<PacketMemory>) -> Border {
        let mut exits = [false; 256];
        for &next in &settings.exits {
            exits[usize::from(next)] = true;
        }
        let most = 4 * BORDER_PLACES as usize;
        Border {
            exits,
            credit: settings.most_wait,
            settings,
            memory: Arc::clone(memory),
            tenant: None,
            ready: false,
            gone: false,
            window: VecDeque::with_capacity(WINDOW),
            first: 0,
            waiting: 0,
            lent: VecDeque::with_capacity(WINDOW),
            untold: Untold::default(),
            told: 0,
            last: 0,
            made: VecDeque::with_capacity(MOST_MADE as usize),
            home: Vec::with_capacity(WINDOW),
            fresh: Vec::with_capacity(FRESH),
            may_make: 0,
            seen: Seen::default(),
            since: None,
            held: None,
            progress: None,
            closing: false,
            offence: None,
            counts: BorderCounts::default(),
            numbers: [Vec::with_capacity(most), Vec::with_capacity(most)],
        }
    }

    /// A process is behind it from now on, which is told what notices say from
    /// now on, and is lent packets when it is [ready](Border::begin).
    pub fn admit(&mut self, mut tenant: Tenant) {
        tenant.supply();
        self.offence = None;
        self.progress = None;
        self.ready = false;
        self.lent.clear();
        self.untold.clear();
        self.tenant = Some(tenant);
    }

    /// The process is ready.
    pub fn begin(&mut self) {
        if self.tenant.is_none() || std::mem::replace(&mut self.ready, true) {
            return;
        }
        // A successor does not inherit the debt of its predecessor, but not all is forgiven: one
        // that
        // dies again and again would have others wait for ever.
        self.credit = self.credit.max(self.settings.most_wait.min(ANEW));
        (self.since, self.held, self.progress) = (None, None, None);
        self.tell();
    }

    /// Tells it what notices said, as far as there is room.
    fn tell(&mut self) {
        if !self.ready || self.untold.is_empty() {
            return;
        }
        let Some(tenant) = &mut self.tenant else {
            return;
        };
        while self.lent.len() < MOST_LENT
            && let Some((meta, room, bytes)) = self.untold.first()
        {
            match tenant.has_room(room, true) {
                Ok(true) => {}
                Ok(false) => break,
                Err(offence) => return self.expel_for(offence),
            }
            let id = TOLD + self.told;
            if let Some(number) = tenant.lend(meta, room, bytes, id) {
                tenant.disown(number);
                self.lent.push_back((id, number));
                self.counts.told_bytes += bytes.len() as u64;
            }
            self.told += 1;
            self.untold.drop_first();
        }
        tenant.publish();
    }

    /// The process is over, or is not heard any further: what it had is
    /// dropped, and notices go on.
    pub fn expel(&mut self) {
        if self.tenant.take().is_none() {
            return;
        }
        for entry in &mut self.window {
            if entry.with.take().is_none() {
                continue;
            }
            if !entry.is_notice
                && let Some(frame) = entry.frame.take()
            {
                self.counts.died += 1;
                self.home.push(frame);
            }
        }
        (self.waiting, self.since, self.held) = (0, None, None);
        self.ready = false;
        self.lent.clear();
        self.untold.clear();
    }

    /// The same, for an offence.
    pub fn expel_for(&mut self, offence: Offence) {
        if self.tenant.is_some() {
            self.counts.offences[offence as usize] += 1;
            self.offence = Some(offence);
            self.expel();
        }
    }

    /// Nobody will be behind it any more: packets for it are dropped.
    pub fn give_up(&mut self) {
        self.expel();
        self.gone = true;
    }

    /// The reason why the process was expelled.
    pub fn offence(&self) -> Option<Offence> {
        self.offence
    }

    /// True where nothing has moved for too long though the tenant has
    /// something.
    pub fn is_stalled(&mut self, now: Instant) -> bool {
        // One that is told that nothing more comes has to end, too.
        // The tenant must also finish packets that nobody waits for any more.
        let idle = self.waiting == 0 && self.lent.is_empty() && !self.closing;
        if idle || self.tenant.is_none() {
            self.progress = None;
            return false;
        }
        let since = *self.progress.get_or_insert(now);
        now.saturating_duration_since(since) > self.settings.stall
    }

    /// Its counts.
    pub fn counts(&self) -> &BorderCounts {
        &self.counts
    }

    /// True where all that is lent came back and nothing more will.
    pub fn is_over(&self) -> bool {
        // Its last packets may still make it make a packet.
        let told = self.lent.is_empty() && self.untold.is_empty();
        self.closing && told && self.window.is_empty() && self.made.is_empty()
    }

    /// True where the tenant may be over: nothing more will be given, and it
    /// has nothing.
    pub fn may_end(&self) -> bool {
        self.closing && self.waiting == 0
    }

    /// Nothing more will be given.
    pub fn close(&mut self) {
        self.closing = true;
        self.finish();
    }

    fn finish(&mut self) {
        if self.closing
            && self.waiting == 0
            && self.untold.is_empty()
            && let Some(tenant) = &mut self.tenant
        {
            tenant.finish();
        }
    }

    /// Things that are to be taken, about.
    fn there(&self) -> usize {
        self.made.len() + self.window.len()
    }

    /// So many packets are taken at least.
    fn room(&self) -> usize {
        let left = WINDOW - self.window.len().min(WINDOW);
        match &self.tenant {
            Some(tenant) if self.ready => left.min(tenant.room()),
            _ => left,
        }
    }

    /// Gives frames home, and takes what it needs of the pool's for packets
    /// that the tenant makes.
    pub fn settle(&mut self, pool: &mut weir_packet::FramePool) {
        pool.give_all(&mut self.home);
        if self.settings.makes && self.tenant.is_some() && self.fresh.len() < FRESH / 2 {
            let few = FRESH - self.fresh.len();
            self.fresh.extend((0..few).map_while(|_| pool.take(0).ok()));
        }
    }

    /// All frames that are here: when all is over.
    pub fn clear(&mut self, pool: &mut weir_packet::FramePool) {
        self.give_up();
        for entry in &mut self.window {
            self.home.extend(entry.frame.take());
        }
        self.first += self.window.len() as u64;
        self.window.clear();
        self.home
            .extend(self.made.drain(..).map(|(_, frame)| frame));
        self.home.append(&mut self.fresh);
        pool.give_all(&mut self.home);
    }

    /// Takes frames, in order, as far as there is room or nobody may wait any
    /// longer: how many.
    pub fn give(&mut self, frames: &mut Vec<Frame>, now: Instant) -> usize {
        let offered = frames.len();
        self.mind(now);
        self.tell();
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

    fn give_one(&mut self, memory: &PacketMemory, frame: Frame, now: Instant) -> Result<(), Frame> {
        let meta = memory.meta(&frame);
        let is_notice = meta.kind.is_notice();
        let is_packet = meta.kind == FrameKind::Packet;
        if self.window.len() >= WINDOW {
            // If the first packet can be taken, nobody waits for the tenant.
            let theirs = self.window.front().is_some_and(|e| e.with.is_some());
            if theirs && !self.may_wait(now) {
                self.disown();
            }
            return Err(frame);
        }
        let mine = is_notice || is_packet && self.settings.stage.contains(&meta.next);
        if !mine {
            self.counts.came += u64::from(is_packet);
            self.put(frame, None, is_notice);
            return Ok(());
        }
        if is_packet && !self.ready {
            let waits = self.settings.waits_for_start && !self.gone;
            if waits && self.may_wait(now) {
                return Err(frame);
            }
            self.counts.came += 1;
            self.counts.gone += 1;
            self.home.push(frame);
            return Ok(());
        }
        let room = memory.room(&frame);
        if is_notice && (!self.ready || !self.untold.is_empty()) {
            // With nobody there, the one that takes its place is told what
            // notices say when it is started.
            if self.tenant.is_some() {
                let (meta, bytes) = memory.read(&frame);
                if !self.untold.add(meta, room, bytes) {
                    self.expel_for(Offence::Stalled);
                }
            }
            self.put(frame, None, true);
            return Ok(());
        }
        let has_room = match &mut self.tenant {
            Some(tenant) if self.untold.is_empty() && self.lent.len() < MOST_LENT => {
                tenant.has_room(room, is_notice)
            }
            _ => Ok(false),
        };
        match has_room {
            Ok(true) => {}
            Err(offence) => {
                self.expel_for(offence);
                return Err(frame);
            }
            Ok(false) if self.may_wait(now) => return Err(frame),
            Ok(false) if is_notice => {
                self.expel_for(Offence::Stalled);
                return Err(frame);
            }
            Ok(false) => {
                self.counts.came += 1;
                self.counts.stalled += 1;
                self.home.push(frame);
                return Ok(());
            }
        }
        let seq = self.first + self.window.len() as u64;
        let (meta, bytes) = memory.read(&frame);
        let Some(tenant) = &mut self.tenant else {
            return Err(frame);
        };
        let Some(number) = tenant.lend(meta, room, bytes, seq) else {
            // It does not fit: that can't be, of frames of equal sizes.
            self.counts.came += u64::from(is_packet);
            self.counts.stalled += u64::from(is_packet);
            self.home.push(frame);
            return Ok(());
        };
        if is_packet {
            self.seen.note(meta);
            self.counts.came += 1;
            self.counts.lent += 1;
            self.may_make = (self.may_make + MADE).min(MOST_MADE);
        } else {
            self.counts.told_bytes += bytes.len() as u64;
        }
        self.since = None;
        self.lent.push_back((seq, number));
        self.put(frame, Some(number), is_notice);
        Ok(())
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

    /// Counts how long something has been waiting behind what the tenant has at
    /// the front, and sees to it that it does not for longer than the tenant's
    /// credit lasts. Called often.
    pub fn mind(&mut self, now: Instant) {
        let theirs = self.window.front().is_some_and(|e| e.with.is_some());
        if !theirs || self.window.len() == self.waiting {
            self.held = None;
            return;
        }
        let same = self.held.filter(|held| self.first < held.until);
        let Some(held) = same else {
            self.held = Some(Held {
                began: now,
                counted: now,
                until: self.first + self.window.len() as u64,
            });
            return;
        };
        self.held = Some(Held {
            counted: now,
            ..held
        });
        let grace = held.began + GRACE;
        if now <= grace {
            return;
        }
        // If somebody waits to give, that is counted there.
        if self.since.is_none() {
            let waited = now.saturating_duration_since(held.counted.max(grace));
            self.credit = self.credit.saturating_sub(waited);
        }
        if self.credit.is_zero() {
            self.disown();
        }
    }

    /// Gives up what the tenant has at the front: packets are dropped, notices
    /// go on, and what becomes of them at the tenant's is of no interest.
    fn disown(&mut self) {
        self.held = None;
        let Some(tenant) = &mut self.tenant else {
            return;
        };
        for entry in &mut self.window {
            let Some(number) = entry.with.take() else {
                break;
            };
            tenant.disown(number);
            self.waiting = self.waiting.saturating_sub(1);
            if !entry.is_notice
                && let Some(frame) = entry.frame.take()
            {
                self.counts.stalled += 1;
                self.home.push(frame);
            }
        }
    }

    /// Looks at what the tenant gave back. Called often: it costs little where
    /// there is nothing.
    pub fn hear(&mut self) {
        let [mut from, mut home] = std::mem::take(&mut self.numbers);
        if let Err(offence) = self.heard(&mut from, &mut home) {
            self.expel_for(offence);
        }
        from.clear();
        home.clear();
        self.numbers = [from, home];
        if let Some(tenant) = &mut self.tenant {
            tenant.supply();
        }
        self.tell();
        self.finish();
    }

    fn heard(&mut self, from: &mut Vec<u32>, home: &mut Vec<u32>) -> Result<(), Offence> {
        let memory = Arc::clone(&self.memory);
        let Some(tenant) = &mut self.tenant else {
            return Ok(());
        };
        let done = tenant.hear(from, home)?;
        for &descriptor in from.iter() {
            let Some(tenant) = &mut self.tenant else {
                break;
            };
            match tenant.named(descriptor)? {
                (number, Slot::Disowned(_)) if !self.settings.makes || !tenant.made(number) => {
                    tenant.take_back(number);
                    self.earn();
                }
                // The frame of a packet that it dropped may hold one that it made
                // before its word on the drop was looked at.
                (number, Slot::Lent(seq)) if self.settings.makes && tenant.made(number) => {
                    self.resolve(seq, true);
                    self.was_made(number)?;
                }
                (number, Slot::Lent(seq)) => self.came_back(&memory, number, seq)?,
                (number, _) => self.was_made(number)?,
            }
        }
        for &descriptor in home.iter() {
            let Some(tenant) = &mut self.tenant else {
                break;
            };
            let (number, slot) = tenant.named(descriptor)?;
            tenant.take_back(number);
            match slot {
                Slot::Lent(seq) => self.resolve(seq, false),
                Slot::Disowned(_) => self.earn(),
                Slot::Spare | Slot::Free => {}
            }
        }
        for _ in 0..done.unwrap_or(0) {
            let Some((seq, number)) = self.lent.pop_front() else {
                break;
            };
            if let Some(tenant) = &mut self.tenant
                && tenant.leave_disowned(number, seq)
            {
                self.earn();
                continue;
            }
            // Not given back by now: its frame is one to make packets of.
            self.resolve(seq, true);
        }
        Ok(())
    }

    fn entry(&mut self, seq: u64) -> Option<&mut Entry> {
        let place = seq.checked_sub(self.first)?;
        let entry = self.window.get_mut(usize::try_from(place).ok()?)?;
        entry.with.is_some().then_some(entry)
    }

    /// The tenant is done with an entry: a packet that it did not give back is
    /// dropped. With `keeps` it still has the frame.
    fn resolve(&mut self, seq: u64, keeps: bool) {
        let Some(entry) = self.entry(seq) else { return };
        let number = entry.with.take();
        if !entry.is_notice
            && let Some(frame) = entry.frame.take()
        {
            self.counts.dropped += 1;
            self.home.push(frame);
        }
        if let (true, Some(number), Some(tenant)) = (keeps, number, &mut self.tenant) {
            tenant.leave(number);
        }
        self.moved();
    }

    /// The tenant is done with one: something moves.
    fn moved(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.earn();
    }

    fn earn(&mut self) {
        self.progress = None;
        self.credit = (self.credit + EARNED).min(self.settings.most_wait);
    }

    /// An entry came back in the tenant's frame `number`.
    fn came_back(&mut self, memory: &PacketMemory, number: u32, seq: u64) -> Result<(), Offence> {
        let checked = self.check(memory, number, seq);
        if let Some(tenant) = &mut self.tenant {
            tenant.take_back(number);
        }
        let Some(entry) = self.entry(seq) else {
            return Err(Offence::NotLent);
        };
        entry.with = None;
        if checked.is_err()
            && let Some(frame) = entry.frame.take()
        {
            self.home.push(frame);
            self.counts.refused += 1;
        }
        self.last = self.last.max(seq + 1);
        self.moved();
        checked
    }

    /// Takes over of a packet what the tenant may change of it.
    fn check(&mut self, memory: &PacketMemory, number: u32, seq: u64) -> Result<(), Offence> {
        let place = seq.checked_sub(self.first).map(usize::try_from);
        let entry = place.and_then(|place| self.window.get_mut(place.ok()?));
        let (Some(entry), Some(tenant)) = (entry, &self.tenant) else {
            return Err(Offence::NotLent);
        };
        let Some(frame) = entry.frame.as_mut().filter(|_| !entry.is_notice) else {
            return Ok(());
        };
        let said = SaidMeta::read(&tenant.meta(number));
        if !self.exits[usize::from(said.next)] {
            return Err(Offence::BadNext);
        }
        let (meta, room) = memory.split_mut(frame);
        if self.settings.writes {
            let (start, len) = (usize::from(said.start), said.len as usize);
            let end = start.checked_add(len);
            let bytes = end.and_then(|end| room.get_mut(start..end));
            let bytes = bytes.ok_or(Offence::BadRange)?;
            if !tenant.copy(number, start, bytes) {
                return Err(Offence::BadRange);
            }
            let grown = i64::from(said.len) - i64::from(meta.len);
            let wire = i64::from(meta.wire_len) + grown;
            meta.wire_len = u32::try_from(wire).unwrap_or(said.len).max(said.len);
            (meta.start, meta.len) = (said.start, said.len);
        }
        meta.next = said.next;
        Ok(())
    }

    /// The tenant made a packet, in the frame `number`.
    fn was_made(&mut self, number: u32) -> Result<(), Offence> {
        let Some(tenant) = &mut self.tenant else {
            return Ok(());
        };
        let said = SaidMeta::read(&tenant.meta(number));
        if !self.settings.makes || !self.seen.knows(&said) {
            return Err(Offence::BadMade);
        }
        let (start, len) = (usize::from(said.start), said.len as usize);
        if start + len > tenant.room_of(number) {
            return Err(Offence::BadRange);
        }
        let mut frame = match self.fresh.pop() {
            Some(frame) if self.may_make > 0 => frame,
            frame => {
                self.fresh.extend(frame);
                self.counts.made_too_many += 1;
                tenant.take_back(number);
                return Ok(());
            }
        };
        let (meta, room) = self.memory.split_mut(&mut frame);
        let bytes = room.get_mut(start..start + len);
        let copied = bytes.is_some_and(|bytes| tenant.copy(number, start, bytes));
        tenant.take_back(number);
        if !copied {
            // One in a large frame: there are none for what is made.
            self.fresh.push(frame);
            self.counts.made_too_many += 1;
            return Ok(());
        }
        *meta = self.seen.meta(&said);
        self.may_make -= 1;
        self.counts.made += 1;
        self.made.push_back((self.last, frame));
        Ok(())
    }

    /// Moves up to `max` packets that are done, in order, to the end of `into`.
    pub fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        self.hear();
        let before = into.len();
        while into.len() - before < max {
            if let Some((_, frame)) = self.made.pop_front_if(|(after, _)| *after <= self.first) {
                self.counts.went += 1;
                into.push(frame);
                continue;
            }
            let Some(entry) = self.window.pop_front_if(|entry| entry.with.is_none()) else {
                break;
            };
            self.first += 1;
            if let Some(frame) = entry.frame {
                let is_packet = self.memory.meta(&frame).kind == FrameKind::Packet;
                self.counts.went += u64::from(is_packet);
                into.push(frame);
            }
        }
        into.len() - before
    }

    /// Frames of packets that are here, wherever: the tests' sum.
    #[cfg(test)]
    fn frames(&self) -> usize {
        let here = self.window.iter().filter(|e| e.frame.is_some()).count();
        here + self.made.len() + self.home.len() + self.fresh.len()
    }
}

#[cfg(test)]
mod tests;
