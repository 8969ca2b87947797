//! Compute units: servers with a queue each, started ahead and let go.

use weir_protocol::flowlets::Slot;

/// How a unit spends its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Packet by packet at the capacity: 1,434 B at 1 Gbit/s are 11.5 µs.
    Strict,
    /// At the speed of the work, and on average at the capacity: a share of a core. So many
    /// nanoseconds of the capacity may be used at once.
    Share(u64),
}

/// Settings of units.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitSettings {
    /// Bytes per second of one unit.
    pub(super) capacity: u64,
    /// Nanoseconds that the work for a packet takes by itself.
    pub(super) work: u64,
    pub(super) pace: Pace,
    /// Nanoseconds from the start of a unit until it may be used.
    pub(super) start: u64,
    /// Units that are there from the beginning and are never let go.
    pub(super) least: u16,
    /// Units at most.
    pub(super) most: u16,
}

/// One unit's queue: first come, first served, without a bound.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    /// When it is done with all that was given to it.
    free: u64,
    /// When it would be, were it never idle and no faster than its capacity.
    spent: u64,
    /// Bytes given to it in this epoch.
    bytes: u64,
    /// And since the last checkpoint.
    since: u64,
}

/// A unit's epoch: its number, and bytes that came to it as a share of what it can do.
pub(super) type Utilisation = (Slot, f64);

/// All units of a run.
#[derive(Debug)]
pub(super) struct Units {
    settings: UnitSettings,
    servers: Vec<Server>,
    /// Those that may be given work, in the order of their numbers.
    usable: Vec<Slot>,
    /// The one that is being started, and when it may be used.
    starting: Option<(u64, Slot)>,
    /// Nanoseconds that units were there, all together, until `counted`.
    spent: u64,
    counted: u64,
}

impl Units {
    pub(super) fn new(settings: UnitSettings) -> Units {
        Units {
            servers: vec![Server::default(); usize::from(settings.most) + 1],
            usable: (1..=settings.least).collect(),
            starting: None,
            spent: 0,
            counted: 0,
            settings,
        }
    }

    pub(super) fn usable(&self) -> &[Slot] {
        &self.usable
    }

    /// Units that cost something: usable or being started.
    pub(super) fn provisioned(&self) -> usize {
        self.usable.len() + usize::from(self.starting.is_some())
    }

    /// Gives a packet to a unit; when it is done with it.
    pub(super) fn admit(&mut self, slot: Slot, at: u64, bytes: u16) -> u64 {
        let UnitSettings { capacity, work, .. } = self.settings;
        let server = &mut self.servers[usize::from(slot)];
        server.bytes += u64::from(bytes);
        server.since += u64::from(bytes);
        let cost = u64::from(bytes) * 1_000_000_000 / capacity;
        let start = server.free.max(at);
        match self.settings.pace {
            Pace::Strict => server.free = start + cost.max(work),
            Pace::Share(at_once) => {
                let start = start.max(server.spent.saturating_sub(at_once));
                server.spent = server.spent.max(start) + cost;
                server.free = start + work;
            }
        }
        server.free
    }

    /// Nanoseconds of work in a unit's queue.
    pub(super) fn backlog(&self, slot: Slot, now: u64) -> u64 {
        let server = &self.servers[usize::from(slot)];
        server.free.saturating_sub(now)
    }

    /// Bytes given to a unit since the last checkpoint.
    pub(super) fn since(&self, slot: Slot) -> u64 {
        self.servers[usize::from(slot)].since
    }

    /// A checkpoint of all units.
    pub(super) fn checkpoint(&mut self) {
        self.servers.iter_mut().for_each(|server| server.since = 0);
    }

    /// Counts what units cost until now, and takes a started one into use.
    pub(super) fn tick(&mut self, now: u64) {
        let passed = now.saturating_sub(self.counted);
        self.spent += passed * self.provisioned() as u64;
        self.counted = now;
        if let Some((ready, slot)) = self.starting
            && ready <= now
        {
            self.starting = None;
            self.usable.push(slot);
            self.usable.sort_unstable();
        }
    }

    /// Starts one more if none is being started. False if there are too many.
    pub(super) fn start(&mut self, now: u64) -> bool {
        if self.starting.is_some() || self.usable.len() >= usize::from(self.settings.most) {
            return false;
        }
        let free = (1..=self.settings.most).find(|slot| !self.usable.contains(slot));
        self.starting = free.map(|slot| (now + self.settings.start, slot));
        self.starting.is_some()
    }

    /// Lets the last one go if its queue is empty and it is not one of the least; its number.
    pub(super) fn let_go(&mut self, now: u64) -> Option<Slot> {
        let slot = *self.usable.last()?;
        if self.usable.len() <= usize::from(self.settings.least) || self.backlog(slot, now) > 0 {
            return None;
        }
        self.usable.pop()
    }

    /// Ends an epoch of so many nanoseconds: utilisation of the usable units.
    pub(super) fn epoch(&mut self, length: u64, into: &mut Vec<Utilisation>) {
        let whole = self.settings.capacity as f64 * length as f64 / 1e9;
        for &slot in &self.usable {
            let server = &mut self.servers[usize::from(slot)];
            into.push((slot, server.bytes as f64 / whole));
            server.bytes = 0;
        }
    }

    /// Seconds that units were there, all together.
    pub(super) fn seconds(&self) -> f64 {
        self.spent as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: UnitSettings = UnitSettings {
        capacity: 125_000_000,
        work: 400,
        pace: Pace::Strict,
        start: 10,
        least: 1,
        most: 3,
    };

    #[test]
    fn a_strict_unit_serves_at_its_capacity() {
        let mut units = Units::new(SETTINGS);
        assert_eq!(units.admit(1, 1_000, 1_000), 9_000);
        assert_eq!(units.admit(1, 2_000, 1_000), 17_000);
        assert_eq!(units.backlog(1, 2_000), 15_000);
        assert_eq!(units.admit(1, 50_000, 10), 50_400, "work at least");
    }

    #[test]
    fn a_share_of_a_core_may_be_used_at_once_up_to_a_bound() {
        let pace = Pace::Share(20_000);
        let mut units = Units::new(UnitSettings { pace, ..SETTINGS });
        // 8 µs of the capacity each: three at once, the fourth when 20 µs are left.
        assert_eq!(units.admit(1, 1_000, 1_000), 1_400);
        assert_eq!(units.admit(1, 1_000, 1_000), 1_800);
        assert_eq!(units.admit(1, 1_000, 1_000), 2_200);
        assert_eq!(units.admit(1, 1_000, 1_000), 5_400);
    }

    #[test]
    fn units_are_started_one_by_one_and_the_last_is_let_go() {
        let mut units = Units::new(SETTINGS);
        assert!(units.start(0) && !units.start(0));
        units.tick(9);
        assert_eq!((units.usable(), units.provisioned()), (&[1][..], 2));
        units.tick(10);
        assert_eq!(units.usable(), [1, 2]);
        units.admit(2, 10, 1_000);
        assert_eq!(units.let_go(20), None, "it has work");
        assert_eq!(units.let_go(10_000), Some(2));
        assert_eq!(units.let_go(10_000), None);
        assert_eq!(units.seconds(), 20e-9);
    }
}
