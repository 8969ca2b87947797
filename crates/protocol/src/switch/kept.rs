//! Copies of packets that were not let out, and entries that came early.
//!
//! A slab of nodes. A unit's nodes are a list in the order of their clocks;
//! nodes of packets on their way are in one more list, in the order in which they were
//! last sent, so that what is due for repeating is always at its head. Every
//! clock after `out` has a node, with a copy of its packet or without; where
//! nothing is kept and the way loses nothing, only parked entries have one.
//!
//! Where a replica gets the state every so many packets
//! ([`crate::settings::Replication::Every`]), the nodes of packets that were let
//! out and that no replica's state contains are a second list of their unit's
//! ([`Unheld`]): a new owner applies those packets again.

use std::collections::VecDeque;

use weir_packet::{Frame, FramePool, Time};

use super::runtimes::Slot;
use super::units::Unit;
use crate::plant::Plant;

/// Index of a node plus one; 0 is none.
type Link = u32;

#[derive(Debug)]
struct Node {
    clock: u64,
    /// When it was last sent.
    at: Time,
    copy: Option<Frame>,
    /// It is in the list by time.
    listed: bool,
    /// It was sent again: its answer says nothing of the round trip.
    repeated: bool,
    /// Place of its unit.
    unit: u32,
    /// Next clock of the unit.
    next: Link,
    /// The node sent before, and the one sent after it.
    older: Link,
    newer: Link,
    /// Index of its parked entry plus one.
    parked: Link,
    /// The era in which it was numbered.
    era: u32,
}

/// Packets of a unit that were let out and that its replica's state does not
/// contain.
#[derive(Clone, Copy, Debug, Default)]
struct Unheld {
    first: Link,
    last: Link,
    /// Clock of the state that the replica of the current view holds.
    held: u64,
}

/// An entry that waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// View of the entry.
    pub(super) view: u64,
    /// Its sender.
    pub(super) from: Slot,
    /// Its frames, the closing one last.
    pub(super) frames: Vec<Frame>,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Kept {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Most packets on their way.
    most: usize,
    /// Copies of them are kept.
    copies: bool,
    count: usize,
    high: usize,
    oldest: Link,
    newest: Link,
    parked: Vec<Parked>,
    parked_free: Vec<u32>,
    parked_high: usize,
    /// Eras that have ended, with the copies left of each.
    eras: VecDeque<(u32, usize)>,
    era: u32,
    /// Copies of this era.
    recent: usize,
    /// By place of the unit; empty where nothing is kept for a state.
    unheld: Vec<Unheld>,
    /// Packets in those lists.
    unheld_count: usize,
    plant: Option<Plant>,
}

impl Kept {
    /// `places`: of the units whose packets are kept until a state has them; 0 for
    /// none.
    pub(super) fn new(most: usize, copies: bool, places: usize) -> Kept {
        Kept {
            nodes: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
            copies,
            count: 0,
            high: 0,
            oldest: 0,
            newest: 0,
            parked: Vec::new(),
            parked_free: Vec::new(),
            parked_high: 0,
            eras: VecDeque::new(),
            era: 0,
            recent: 0,
            unheld: vec![Unheld::default(); places],
            unheld_count: 0,
            plant: None,
        }
    }

    /// The same with a planted bug.
    pub(super) fn with_plant(self, plant: Option<Plant>) -> Kept {
        Kept { plant, ..self }
    }

    /// True where every packet on its way has a node.
    #[inline]
    pub(super) const fn keeps(&self) -> bool {
        self.most > 0
    }

    /// Packets on their way.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// True where it has a copy there.
    #[inline]
    pub(super) const fn copies(&self) -> bool {
        self.copies
    }

    /// True where one more packet has room.
    #[inline]
    pub(super) const fn has_room(&self) -> bool {
        self.count + self.unheld_count < self.most
    }

    /// Packets that have room; without bound where none is kept.
    pub(super) const fn room(&self) -> usize {
        match self.keeps() {
            true => self.most.saturating_sub(self.count + self.unheld_count),
            false => usize::MAX,
        }
    }

    /// Most packets on their way and most parked entries there were at a time.
    pub(super) const fn high_water(&self) -> (usize, usize) {
        (self.high, self.parked_high)
    }

    /// A new era: gives the number of the one that ends.
    pub(super) fn end_era(&mut self) -> u32 {
        self.eras.push_back((self.era, self.recent));
        self.recent = 0;
        self.era += 1;
        while self.eras.front().is_some_and(|&(_, left)| left == 0) {
            self.eras.pop_front();
        }
        self.era - 1
    }

    /// True where nothing numbered up to the end of `era` waits any more.
    pub(super) fn is_over(&self, era: u32) -> bool {
        self.eras.front().is_none_or(|&(oldest, _)| oldest > era)
    }

    fn left(&mut self, era: u32) {
        if era == self.era {
            self.recent = self.recent.saturating_sub(1);
            return;
        }
        if let Some((_, left)) = self.eras.iter_mut().find(|(number, _)| *number == era) {
            *left = left.saturating_sub(1);
        }
        while self.eras.front().is_some_and(|&(_, left)| left == 0) {
            self.eras.pop_front();
        }
    }

    #[inline]
    fn take(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                if let Some(place) = self.nodes.get_mut(at as usize) {
                    *place = node;
                }
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get((link as usize).wrapping_sub(1))
    }

    #[inline]
    fn node_mut(&mut self, link: Link) -> Option<&mut Node> {
        self.nodes.get_mut((link as usize).wrapping_sub(1))
    }

    /// Keeps the unit's newest packet in mind.
    #[inline]
    pub(super) fn push(&mut self, unit: &mut Unit, clock: u64, now: Time, copy: Option<Frame>) {
        let older = self.newest;
        let at = self.take(Node {
            clock,
            at: now,
            copy,
            listed: true,
            repeated: false,
            unit: unit.id as u32,
            next: 0,
            older,
            newer: 0,
            parked: 0,
            era: self.era,
        });
        let link = at + 1;
        match self.node_mut(older) {
            Some(node) => node.newer = link,
            None => self.oldest = link,
        }
        self.newest = link;
        match self.node_mut(unit.last) {
            Some(node) => node.next = link,
            None => unit.first = link,
        }
        unit.last = link;
        self.count += 1;
        self.recent += 1;
        self.high = self.high.max(self.count + self.unheld_count);
    }

    fn unlink(&mut self, older: Link, newer: Link) {
        match self.node_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.node_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    /// Lets go of the unit's nodes up to `out`; gives when the last of them was
    /// sent, if that was once. With `retain` packets that no state contains stay,
    /// to be applied again.
    #[inline]
    pub(super) fn release(
        &mut self,
        unit: &mut Unit,
        out: u64,
        retain: bool,
        pool: &mut FramePool,
    ) -> Option<Time> {
        let mut sent = None;
        while unit.first != 0 {
            let at = unit.first - 1;
            let Some(node) = self.nodes.get_mut(at as usize) else {
                return sent;
            };
            if node.clock > out {
                return sent;
            }
            sent = (node.listed && !node.repeated).then_some(node.at);
            unit.first = node.next;
            let (older, newer, era) = (node.older, node.newer, node.era);
            let (parked, listed) = (core::mem::take(&mut node.parked), node.listed);
            node.listed = false;
            if listed {
                self.count -= 1;
                self.unlink(older, newer);
            }
            if parked != 0 {
                self.drop_parked(parked, pool);
            }
            if retain && listed && self.retain(unit.id as u32, at + 1) {
                continue;
            }
            if let Some(copy) = self.node_mut(at + 1).and_then(|node| node.copy.take()) {
                pool.give(copy);
            }
            if listed {
                self.left(era);
            }
            self.free.push(at);
        }
        unit.last = 0;
        sent
    }

    /// Keeps a packet that was let out until a state contains it; false where one
    /// does.
    fn retain(&mut self, place: u32, link: Link) -> bool {
        let clock = self.node(link).map_or(0, |node| node.clock);
        let Some(unheld) = self.unheld.get_mut(place as usize) else {
            return false;
        };
        if clock <= unheld.held {
            return false;
        }
        let last = core::mem::replace(&mut unheld.last, link);
        if last == 0 {
            unheld.first = link;
        }
        if let Some(node) = self.node_mut(link) {
            node.next = 0;
        }
        if let Some(node) = self.node_mut(last) {
            node.next = link;
        }
        self.unheld_count += 1;
        true
    }

    /// The state after `clock` is held: packets up to there go.
    pub(super) fn state_held(&mut self, place: u32, clock: u64, pool: &mut FramePool) {
        let Some(unheld) = self.unheld.get_mut(place as usize) else {
            return;
        };
        unheld.held = unheld.held.max(clock);
        let mut link = unheld.first;
        while let Some(node) = self.nodes.get_mut((link as usize).wrapping_sub(1)) {
            if node.clock > clock {
                break;
            }
            let (next, era) = (node.next, node.era);
            if let Some(copy) = node.copy.take() {
                pool.give(copy);
            }
            self.unheld_count -= 1;
            self.free.push(link - 1);
            if self.plant != Some(Plant::EraStays) {
                self.left(era);
            }
            link = next;
        }
        if let Some(unheld) = self.unheld.get_mut(place as usize) {
            unheld.first = link;
            if link == 0 {
                unheld.last = 0;
            }
        }
    }

    /// Nothing is known of the state that the replica of a new view holds.
    pub(super) fn hold_none(&mut self, place: u32) {
        if let Some(unheld) = self.unheld.get_mut(place as usize) {
            unheld.held = 0;
        }
    }

    /// The clock after which all packets of the unit are here, of which those up
    /// to `out` were let out.
    pub(super) fn since(&self, unit: &Unit) -> u64 {
        let unheld = self.unheld.get(unit.id as u32 as usize);
        let first = unheld.and_then(|unheld| self.node(unheld.first));
        first.map_or(unit.out, |node| node.clock - 1)
    }

    /// Notes that the unit's packet of this clock is sent again.
    pub(super) fn mark_repeated(&mut self, unit: &Unit, clock: u64) {
        if let Ok(link) = self.seek(unit, clock)
            && let Some(node) = self.node_mut(link)
        {
            node.repeated = true;
        }
    }

    fn drop_parked(&mut self, link: Link, pool: &mut FramePool) {
        if let Some(parked) = self.parked.get_mut((link as usize).wrapping_sub(1)) {
            pool.give_all(&mut parked.frames);
            self.parked_free.push(link - 1);
        }
    }

    /// Link of the node of `clock`; else the one before it (0: it would be
    /// the first).
    fn seek(&self, unit: &Unit, clock: u64) -> Result<Link, Link> {
        let (mut before, mut link) = (0, unit.first);
        // The newest is asked for most often after the first.
        if let Some(last) = self.node(unit.last) {
            if last.clock == clock {
                return Ok(unit.last);
            }
            if last.clock < clock {
                return Err(unit.last);
            }
        }
        while let Some(node) = self.node(link) {
            if node.clock == clock {
                return Ok(link);
            }
            if node.clock > clock {
                break;
            }
            before = link;
            link = node.next;
        }
        Err(before)
    }

    /// Keeps an entry until its turn, instead of one that may be there.
    pub(super) fn park(
        &mut self,
        unit: &mut Unit,
        clock: u64,
        entry: Parked,
        pool: &mut FramePool,
    ) {
        let link = match self.seek(unit, clock) {
            Ok(link) => link,
            Err(before) => {
                let next = self.node(before).map_or(unit.first, |node| node.next);
                let at = self.take(Node {
                    clock,
                    at: Time::ZERO,
                    copy: None,
                    listed: false,
                    repeated: false,
                    unit: unit.id as u32,
                    next,
                    older: 0,
                    newer: 0,
                    parked: 0,
                    era: self.era,
                });
                match self.node_mut(before) {
                    Some(node) => node.next = at + 1,
                    None => unit.first = at + 1,
                }
                if next == 0 {
                    unit.last = at + 1;
                }
                at + 1
            }
        };
        let old = self.node(link).map_or(0, |node| node.parked);
        if old != 0 {
            self.drop_parked(old, pool);
        }
        let at = match self.parked_free.pop() {
            Some(at) => {
                if let Some(place) = self.parked.get_mut(at as usize) {
                    *place = entry;
                }
                at
            }
            None => {
                self.parked.push(entry);
                (self.parked.len() - 1) as u32
            }
        };
        if let Some(node) = self.node_mut(link) {
            node.parked = at + 1;
        }
        self.parked_high = self
            .parked_high
            .max(self.parked.len() - self.parked_free.len());
    }

    /// Packets that are kept for a state.
    pub(super) const fn unheld_count(&self) -> usize {
        self.unheld_count
    }

    /// Held against the unit: its packets on their way, and those for a state to come.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub(super) fn audit_unit(&self, unit: &Unit) -> Result<(usize, usize), String> {
        let (mut link, mut last, mut clock, mut listed) = (unit.first, 0, unit.out, 0);
        while let Some(node) = self.node(link) {
            if node.clock <= clock {
                return Err(format!("{} is kept after {clock}", node.clock));
            }
            clock = node.clock;
            listed += usize::from(node.listed);
            last = link;
            link = node.next;
        }
        if last != unit.last {
            return Err("its last packet is another".to_owned());
        }
        let right = (unit.sent - unit.out) as usize;
        if self.keeps() && listed != right {
            return Err(format!(
                "{listed} packets are kept, {right} are on their way"
            ));
        }
        let unheld = self.unheld.get(unit.id as u32 as usize);
        let (mut link, mut count) = (unheld.map_or(0, |unheld| unheld.first), 0);
        while let Some(node) = self.node(link) {
            count += 1;
            link = node.next;
        }
        Ok((listed, count))
    }

    /// What is wrong with the eras, in words: one whose packets are counted too high is never
    /// over, and the port blocks of who died in it are nobody's.
    pub(super) fn audit(&self) -> Option<String> {
        let all = self.recent + self.eras.iter().map(|(_, left)| left).sum::<usize>();
        let right = self.count + self.unheld_count;
        (all != right).then(|| format!("eras have {all} packets, {right} is right"))
    }

    /// View of the entry of `clock` that waits.
    pub(super) fn parked_view(&self, unit: &Unit, clock: u64) -> Option<u64> {
        let node = self.node(self.seek(unit, clock).ok()?)?;
        let parked = self.parked.get((node.parked as usize).wrapping_sub(1))?;
        Some(parked.view)
    }

    /// Takes the unit's parked entries out, in order.
    pub(super) fn take_all_parked(&mut self, unit: &Unit) -> Vec<Parked> {
        let (mut all, mut link) = (Vec::new(), unit.first);
        while let Some(node) = self.node_mut(link) {
            let parked = core::mem::take(&mut node.parked);
            link = node.next;
            if let Some(entry) = self.parked.get_mut((parked as usize).wrapping_sub(1)) {
                all.push(core::mem::take(entry));
                self.parked_free.push(parked - 1);
            }
        }
        all
    }

    /// True where the unit's first node has a parked entry of this clock.
    #[inline]
    pub(super) fn is_next_parked(&self, unit: &Unit, clock: u64) -> bool {
        self.node(unit.first)
            .is_some_and(|node| node.clock == clock && node.parked != 0)
    }

    /// Takes the parked entry of the unit's first node, if it is of `clock`.
    pub(super) fn take_parked(&mut self, unit: &Unit, clock: u64) -> Option<Parked> {
        let node = self.node_mut(unit.first).filter(|n| n.clock == clock)?;
        let link = core::mem::take(&mut node.parked);
        let parked = self.parked.get_mut((link as usize).wrapping_sub(1))?;
        self.parked_free.push(link - 1);
        Some(core::mem::take(parked))
    }

    /// The unit's packets after `after`: each one's clock, and its copy.
    pub(super) fn packets_of<'a>(
        &'a self,
        unit: &Unit,
        after: u64,
    ) -> impl Iterator<Item = (u64, Option<&'a Frame>)> + 'a {
        let unheld = self.unheld.get(unit.id as u32 as usize);
        let mut link = unheld.map_or(0, |unheld| unheld.first);
        let mut then = unit.first;
        core::iter::from_fn(move || {
            if link == 0 {
                link = core::mem::take(&mut then);
            }
            let node = self.node(link)?;
            link = node.next;
            Some(node)
        })
        .filter(move |node| node.clock > after && (node.listed || node.copy.is_some()))
        .map(|node| (node.clock, node.copy.as_ref()))
    }

    /// The packet that was sent longest ago: when, of which unit's place, and
    /// its clock.
    pub(super) fn oldest(&self) -> Option<(Time, u32, u64)> {
        let node = self.node(self.oldest)?;
        Some((node.at, node.unit, node.clock))
    }

    /// The places of the units with packets on their way, the packet first that was sent
    /// longest ago. A unit comes as often as it has packets.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = u32> {
        let oldest = self.node(self.oldest);
        core::iter::successors(oldest, |node| self.node(node.newer)).map(|node| node.unit)
    }

    /// The packet sent longest ago goes to the end of the list, as sent now.
    /// False where its entry is here already.
    pub(super) fn renew_oldest(&mut self, now: Time) -> bool {
        let link = self.oldest;
        let newer = self.node(link).map_or(0, |node| node.newer);
        if newer != 0 {
            self.unlink(0, newer);
            let newest = self.newest;
            if let Some(node) = self.node_mut(newest) {
                node.newer = link;
            }
            if let Some(node) = self.node_mut(link) {
                node.older = newest;
                node.newer = 0;
            }
            self.newest = link;
        }
        let Some(node) = self.node_mut(link) else {
            return false;
        };
        node.at = now;
        node.parked == 0
    }
}
