//! The neighbour cache: hosts on the links (RFC 4861 section 7.3), the same
//! for both families (RFC 1122 section 2.3.2 asks for as much of ARP).
//!
//! A bounded table with slots that have numbers, so that a route to a router
//! needs no search. Neighbours that do not answer make room first, then
//! those that are no longer used: so a scan of addresses that nobody has goes round
//! in the slots of its own (RFC 6583).

mod held;
mod index;
mod queue;

use std::net::IpAddr;

use weir_packet::{Frame, MacAddr, Time};

use crate::config::Limits;
use held::{Held, List};
use index::Index;
pub(crate) use index::fold;
use queue::Queue;

/// State of a neighbour (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// It was asked for and has not answered yet; packets wait.
    Incomplete,
    /// It answered not long ago.
    Reachable,
    /// It was there once; the next packet to it has it asked.
    Stale,
    /// A packet went to it; it will be asked soon.
    Delay,
    /// It is being asked at its address, and packets still go there.
    Probe,
    /// It does not answer.
    Failed,
    /// It was written down and is not asked.
    Fixed,
}

impl NeighbourState {
    /// Every state, in the order in which they are shown.
    pub const ALL: [NeighbourState; 7] = [
        NeighbourState::Incomplete,
        NeighbourState::Reachable,
        NeighbourState::Stale,
        NeighbourState::Delay,
        NeighbourState::Probe,
        NeighbourState::Failed,
        NeighbourState::Fixed,
    ];

    /// The name, as Linux's `ip neighbour` has it.
    pub const fn name(self) -> &'static str {
        match self {
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Delay => "delay",
            NeighbourState::Probe => "probe",
            NeighbourState::Failed => "failed",
            NeighbourState::Fixed => "permanent",
        }
    }
}

/// The decision on a packet to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes there.
    Send(MacAddr),
    /// It waits.
    Hold,
    /// It waits, and the neighbour is to be asked for now.
    Ask,
    /// The neighbour does not answer.
    Gone,
}

/// A question that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) slot: u32,
    /// Whom to ask; everybody where there is none.
    pub(crate) mac: Option<MacAddr>,
}

#[derive(Debug)]
struct Slot {
    address: IpAddr,
    due: Time,
    mac: MacAddr,
    port: u8,
    /// None: the slot is free.
    state: Option<NeighbourState>,
    questions: u8,
    /// A packet went there since it was last passed over.
    used: bool,
    /// A route leads to it: it keeps its slot.
    pinned: bool,
    held: List,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Neighbours {
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: Index,
    held: Held,
    limits: Limits,
    /// Slots that can go at once: of neighbours that did not answer.
    failed: Queue,
    /// Slots of neighbours that are known, the longest known first.
    known: Queue,
    incomplete: u32,
    /// Nothing is due before.
    due: Time,
}

const NEVER: Time = Time(u64::MAX);
/// As many used neighbours are passed over for one that is not.
const CHANCES: u32 = 64;

impl Neighbours {
    pub(crate) fn new(limits: Limits, seed: u64) -> Neighbours {
        let count = limits.neighbours;
        let slot = |_| Slot {
            address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            due: NEVER,
            mac: MacAddr::default(),
            port: 0,
            state: None,
            questions: 0,
            used: false,
            pinned: false,
            held: List::EMPTY,
        };
        Neighbours {
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            index: Index::new(count as usize, seed),
            held: Held::new(limits.held),
            limits,
            failed: Queue::new(count),
            known: Queue::new(count),
            incomplete: 0,
            due: NEVER,
        }
    }

    /// The slot of a neighbour that keeps it.
    pub(crate) fn pin(&mut self, port: u8, address: IpAddr) -> Option<u32> {
        let slot = self
            .find(port, address)
            .or_else(|| self.add(port, address))?;
        self.slot_mut(slot)?.pinned = true;
        Some(slot)
    }

    /// A neighbour that is not asked for.
    pub(crate) fn fix(&mut self, port: u8, address: IpAddr, mac: MacAddr) -> Option<u32> {
        let number = self.pin(port, address)?;
        let slot = self.slot_mut(number)?;
        slot.mac = mac;
        slot.state = Some(NeighbourState::Fixed);
        Some(number)
    }

    #[inline]
    pub(crate) fn find(&self, port: u8, address: IpAddr) -> Option<u32> {
        let same = |number: u32| {
            let slot = self.slots.get(number as usize);
            slot.is_some_and(|slot| slot.port == port && slot.address == address)
        };
        self.index.find(port, address, same)
    }

    /// A slot for a neighbour of which only a packet's destination speaks. None
    /// while half of the table is asked for: questions about addresses that
    /// nobody has must not push out those that somebody has (RFC 6583).
    pub(crate) fn add_unknown(&mut self, port: u8, address: IpAddr) -> Option<u32> {
        match self.is_crowded() {
            true => None,
            false => self.add(port, address),
        }
    }

    fn is_crowded(&self) -> bool {
        self.incomplete >= self.limits.neighbours / 2
    }

    /// A slot for a neighbour that has none: a free one, or that of one that
    /// does not answer or was not used for long.
    pub(crate) fn add(&mut self, port: u8, address: IpAddr) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.evict()?,
        };
        let slot = self.slots.get_mut(number as usize)?;
        *slot = Slot {
            address,
            due: Time::ZERO,
            mac: MacAddr::default(),
            port,
            state: Some(NeighbourState::Failed),
            questions: 0,
            used: true,
            pinned: false,
            held: List::EMPTY,
        };
        self.index.insert(port, address, number);
        self.failed.push(number);
        Some(number)
    }

    /// Frees a slot: of a neighbour that does not answer, else of one that is
    /// known and was not used lately. Those that are asked for stay: packets
    /// wait for them.
    fn evict(&mut self) -> Option<u32> {
        use NeighbourState::{Failed, Fixed, Incomplete};
        while let Some(number) = self.failed.pop() {
            let slot = self.slots.get(number as usize)?;
            if slot.state == Some(Failed) && !slot.pinned {
                return self.remove(number);
            }
        }
        let mut chances = CHANCES;
        while let Some(number) = self.known.pop() {
            let slot = self.slots.get_mut(number as usize)?;
            if slot.pinned || matches!(slot.state, None | Some(Failed | Incomplete | Fixed)) {
                continue;
            }
            if core::mem::take(&mut slot.used) && chances > 0 {
                chances -= 1;
                self.known.push(number);
                continue;
            }
            return self.remove(number);
        }
        None
    }

    fn remove(&mut self, number: u32) -> Option<u32> {
        let slot = self.slots.get_mut(number as usize)?;
        slot.state = None;
        self.index.remove(slot.port, slot.address, number);
        Some(number)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut(number as usize)
    }

    /// Port, address and hardware address (all zero where none is known).
    pub(crate) fn get(&self, number: u32) -> Option<(u8, IpAddr, MacAddr)> {
        let slot = self.slots.get(number as usize)?;
        slot.state?;
        Some((slot.port, slot.address, slot.mac))
    }

    /// Decides on a packet to this neighbour.
    #[inline]
    pub(crate) fn next(&mut self, now: Time, number: u32) -> Next {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return Next::Gone;
        };
        if !slot.used {
            slot.used = true;
        }
        match slot.state {
            Some(NeighbourState::Reachable) if now < slot.due => Next::Send(slot.mac),
            Some(NeighbourState::Fixed | NeighbourState::Delay | NeighbourState::Probe) => {
                Next::Send(slot.mac)
            }
            _ => self.next_slow(now, number),
        }
    }

    #[cold]
    fn next_slow(&mut self, now: Time, number: u32) -> Next {
        let limits = self.limits;
        let crowded = self.is_crowded();
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return Next::Gone;
        };
        let next = match slot.state {
            Some(NeighbourState::Reachable | NeighbourState::Stale) => {
                slot.state = Some(NeighbourState::Delay);
                slot.due = now.plus(limits.delay);
                Next::Send(slot.mac)
            }
            Some(NeighbourState::Incomplete) => return Next::Hold,
            Some(NeighbourState::Failed) if now >= slot.due && (!crowded || slot.pinned) => {
                slot.state = Some(NeighbourState::Incomplete);
                slot.questions = 1;
                slot.due = now.plus(limits.retry);
                self.incomplete += 1;
                Next::Ask
            }
            _ => return Next::Gone,
        };
        let due = slot.due;
        self.due = self.due.min(due);
        next
    }

    /// Keeps a packet until the neighbour has answered: the packet that has to
    /// go for it, if there are too many. RFC 4861 section 7.2.2: the oldest of
    /// this neighbour's goes.
    pub(crate) fn hold(&mut self, number: u32, frame: Frame) -> Option<Frame> {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return Some(frame);
        };
        let oldest = if slot.held.len >= self.limits.held_each || self.held.is_full() {
            match self.held.pop(&mut slot.held) {
                Some(oldest) => Some(oldest),
                None => return Some(frame),
            }
        } else {
            None
        };
        match self.held.push(&mut slot.held, frame) {
            Ok(()) => oldest,
            Err(frame) => Some(frame),
        }
    }

    /// The next packet that waits for this neighbour.
    pub(crate) fn release(&mut self, number: u32) -> Option<Frame> {
        let slot = self.slots.get_mut(number as usize)?;
        self.held.pop(&mut slot.held)
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.held.len()
    }

    /// The neighbour has answered a question: it is there. True where it has
    /// another hardware address than before.
    pub(crate) fn confirm(&mut self, now: Time, number: u32, mac: Option<MacAddr>) -> bool {
        let until = now.plus(self.limits.reachable);
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return false;
        };
        let known = !matches!(
            slot.state,
            None | Some(NeighbourState::Incomplete | NeighbourState::Failed)
        );
        if slot.state == Some(NeighbourState::Fixed) || (!known && mac.is_none()) {
            return false;
        }
        let moved = known && mac.is_some_and(|mac| mac != slot.mac);
        if slot.state == Some(NeighbourState::Incomplete) {
            self.incomplete -= 1;
        }
        slot.mac = mac.unwrap_or(slot.mac);
        slot.state = Some(NeighbourState::Reachable);
        slot.due = until;
        self.known.push(number);
        moved
    }

    /// Somebody said something from which the neighbour's hardware address
    /// follows, without being asked. True where it is another one than before.
    pub(crate) fn heard(&mut self, number: u32, mac: MacAddr) -> bool {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return false;
        };
        match slot.state {
            None | Some(NeighbourState::Fixed) => return false,
            Some(NeighbourState::Incomplete) => self.incomplete -= 1,
            Some(NeighbourState::Failed) => {}
            Some(_) if slot.mac == mac => return false,
            Some(_) => {
                slot.mac = mac;
                slot.state = Some(NeighbourState::Stale);
                return true;
            }
        }
        slot.mac = mac;
        slot.state = Some(NeighbourState::Stale);
        self.known.push(number);
        false
    }

    /// The neighbour says that it has this hardware address and that what is
    /// known must not be overwritten (RFC 4861 section 7.2.5): a trusted one is
    /// not trusted any more.
    pub(crate) fn doubt(&mut self, number: u32, mac: MacAddr) {
        if let Some(slot) = self.slot_mut(number)
            && slot.state == Some(NeighbourState::Reachable)
            && slot.mac != mac
        {
            slot.state = Some(NeighbourState::Stale);
        }
    }

    pub(crate) fn state(&self, number: u32) -> Option<NeighbourState> {
        self.slots.get(number as usize)?.state
    }

    /// When something is due next; the end of time where nothing is.
    pub(crate) const fn next_due(&self) -> Time {
        self.due
    }

    /// Collects what is due: questions to ask, and neighbours that did not answer,
    /// whose waiting packets the caller takes.
    pub(crate) fn tick(&mut self, now: Time, ask: &mut Vec<Question>, gone: &mut Vec<u32>) {
        if now < self.due {
            return;
        }
        let limits = self.limits;
        let mut due = NEVER;
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let slot_number = number as u32;
            let Some(state) = slot.state else {
                continue;
            };
            let waits = matches!(
                state,
                NeighbourState::Incomplete | NeighbourState::Delay | NeighbourState::Probe
            );
            if waits && slot.due <= now {
                let mac = (state != NeighbourState::Incomplete).then_some(slot.mac);
                let first = state == NeighbourState::Delay;
                if first || slot.questions < limits.questions {
                    slot.questions = if first { 1 } else { slot.questions + 1 };
                    slot.due = now.plus(limits.retry);
                    if first {
                        slot.state = Some(NeighbourState::Probe);
                    }
                    ask.push(Question {
                        slot: slot_number,
                        mac,
                    });
                } else {
                    slot.state = Some(NeighbourState::Failed);
                    // One that was there is looked for elsewhere at once.
                    slot.due = match state {
                        NeighbourState::Incomplete => now.plus(limits.gone),
                        _ => now,
                    };
                    if state == NeighbourState::Incomplete {
                        self.incomplete -= 1;
                    }
                    self.failed.push(slot_number);
                    gone.push(slot_number);
                    continue;
                }
            }
            if waits {
                due = due.min(slot.due);
            }
        }
        self.due = due;
    }

    /// All that are known, as (port, address, hardware address, state).
    pub(crate) fn all(&self) -> impl Iterator<Item = (u8, IpAddr, MacAddr, NeighbourState)> + '_ {
        self.slots.iter().filter_map(|slot| {
            let state = slot.state?;
            // A slot for a route that nobody has used says nothing.
            let unused = state == NeighbourState::Failed && slot.due == Time::ZERO;
            (!unused).then_some((slot.port, slot.address, slot.mac, state))
        })
    }

    /// Slots in all.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }
}

#[cfg(test)]
mod tests;
