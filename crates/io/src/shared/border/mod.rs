//! The border of a trust domain: packets to a process that is not trusted, and
//! back.
//!
//! The process, a *tenant*, has a packet memory and rings of its own
//! ([`Tenant`]) and nothing of the main one. Here, on the main side, each packet
//! stays in its own frame while a *copy* of it is lent to the tenant. Returned
//! packets are checked:
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
mod give;
mod hear;
mod pending;
mod ports;
mod seen;
mod tenant;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_packet::{ByteSet, Frame, FrameKind, PacketMemory};

pub use counts::{BorderCounts, BorderSettings, Offence};
pub use ports::{BorderInput, BorderOutput, SharedBorder, ports};
pub use tenant::{DONE, PLACES as BORDER_PLACES, RingPlaces, STATUS_WORDS, Tenant, tenant_layout};

use pending::PendingNotices;
use seen::Seen;

/// Packets and notices that may be between the two sides.
pub const WINDOW: usize = 1_024;
/// How long others wait for a tenant at most, and what it begins with.
pub const MOST_WAIT: Duration = Duration::from_secs(5);
/// Part of that time that each packet the tenant is done with earns.
const CREDIT_PER_PACKET: Duration = Duration::from_micros(100);
/// Least time that a successor begins with, of the longest.
const SUCCESSOR_CREDIT: Duration = Duration::from_millis(20);
/// So long others wait for nothing: to be woken and to be looked after takes
/// time, too.
const GRACE: Duration = Duration::from_millis(10);
/// Numbers from here on are of notices that nobody waits for.
const NOTICE_IDS: u64 = 1 << 63;
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
    exits: ByteSet,
    memory: Arc<PacketMemory>,
    tenant: Option<Box<Tenant>>,
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
    pending: PendingNotices,
    notices: u64,
    /// The number behind the last of all that came back.
    last: u64,
    /// Packets that the tenant made, each with the number of the lent packet before which it goes
    /// on.
    made: VecDeque<(u64, Frame)>,
    /// Frames to the pool, and from it.
    to_pool: Vec<Frame>,
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
        let most = 4 * BORDER_PLACES as usize;
        Border {
            exits: settings.exits.iter().copied().collect(),
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
            pending: PendingNotices::default(),
            notices: 0,
            last: 0,
            made: VecDeque::with_capacity(MOST_MADE as usize),
            to_pool: Vec::with_capacity(WINDOW),
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
        self.pending.clear();
        self.tenant = Some(Box::new(tenant));
    }

    /// The process is ready.
    pub fn begin(&mut self) {
        if self.tenant.is_none() || std::mem::replace(&mut self.ready, true) {
            return;
        }
        // A successor does not inherit its predecessor's debt, but gets little credit: one that dies
        // again and again would have others wait for ever.
        self.credit = self
            .credit
            .max(self.settings.most_wait.min(SUCCESSOR_CREDIT));
        (self.since, self.held, self.progress) = (None, None, None);
        self.lend_pending();
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
                self.to_pool.push(frame);
            }
        }
        (self.waiting, self.since, self.held) = (0, None, None);
        self.ready = false;
        self.lent.clear();
        self.pending.clear();
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
        let told = self.lent.is_empty() && self.pending.is_empty();
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
            && self.pending.is_empty()
            && let Some(tenant) = &mut self.tenant
        {
            tenant.finish();
        }
    }

    /// Things that are to be taken, about.
    fn waiting(&self) -> usize {
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

    /// Gives frames back, and takes what it needs of the pool's for packets
    /// that the tenant makes.
    pub fn settle(&mut self, pool: &mut weir_packet::FramePool) {
        pool.give_all(&mut self.to_pool);
        if self.settings.makes && self.tenant.is_some() && self.fresh.len() < FRESH / 2 {
            let few = FRESH - self.fresh.len();
            self.fresh.extend((0..few).map_while(|_| pool.take(0).ok()));
        }
    }

    /// All frames that are here: when all is over.
    pub fn clear(&mut self, pool: &mut weir_packet::FramePool) {
        self.give_up();
        for entry in &mut self.window {
            self.to_pool.extend(entry.frame.take());
        }
        self.first += self.window.len() as u64;
        self.window.clear();
        self.to_pool
            .extend(self.made.drain(..).map(|(_, frame)| frame));
        self.to_pool.append(&mut self.fresh);
        pool.give_all(&mut self.to_pool);
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
            self.abandon();
        }
    }

    /// Gives up what the tenant has at the front: packets are dropped, notices
    /// go on, and what becomes of them at the tenant's is of no interest.
    fn abandon(&mut self) {
        self.held = None;
        let tenant = self.tenant.as_mut();
        let Some(tenant) = self
            .counts
            .internal
            .expect(tenant, "a tenant has the front")
        else {
            return;
        };
        for entry in &mut self.window {
            let Some(number) = entry.with.take() else {
                break;
            };
            tenant.abandon(number);
            self.waiting = self.waiting.saturating_sub(1);
            if !entry.is_notice
                && let Some(frame) = entry.frame.take()
            {
                self.counts.stalled += 1;
                self.to_pool.push(frame);
            }
        }
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
        here + self.made.len() + self.to_pool.len() + self.fresh.len()
    }
}

#[cfg(test)]
mod tests;
