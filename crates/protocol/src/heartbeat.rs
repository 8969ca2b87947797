//! Failure detection: heartbeats, suspicion, hold-down.
//!
//! Each process sends a [`Beat`] to each peer every interval, on the path that data
//! takes. A beat says whether its sender hears the receiver, so that each direction
//! is judged for itself: a peer that is not heard, and one that does not hear us,
//! are both of no use. After [`HeartbeatSettings::missed`] intervals without a good
//! beat the peer is suspected, at most one interval late. An agent's word of a
//! death is quicker and needs no beat.
//!
//! A process that itself did not run (paused, starved) judges nobody by that time: it
//! cannot tell the silence of others from its own. Nor does one that hears nothing of
//! more than half of its peers (of three or more), until it has run for ten times the
//! patience ([`HeartbeatSettings::isolation`]): it is more likely cut off itself. A peer that is heard again after
//! a suspicion is down until its beats have come without a gap for a hold-down, which
//! doubles with each suspicion and halves with each hold-down of good beats after
//! it: a flapping link does not make the cluster flap.
//!
//! Like everything here this is a state machine: times come in, beats and judgements
//! go out. All times are in nanoseconds.

use std::collections::BTreeMap;

use weir_packet::Time;

/// Settings of a process's heartbeats.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatSettings {
    /// Time from one beat to the next.
    pub interval: u64,
    /// Beats in a row whose absence makes a peer suspect.
    pub missed: u32,
    /// Patiences for which a process that hears nothing of most peers judges nobody.
    pub isolation: u32,
    /// Shortest and longest time for which a peer that was suspected is heard
    /// before it counts as up again.
    pub hold_down: (u64, u64),
}

impl Default for HeartbeatSettings {
    /// 1 ms, three missed; ten patiences; 100 ms to 10 s.
    fn default() -> HeartbeatSettings {
        HeartbeatSettings {
            interval: 1_000_000,
            missed: 3,
            isolation: 10,
            hold_down: (100_000_000, 10_000_000_000),
        }
    }
}

impl HeartbeatSettings {
    /// Time without a good beat after which a peer is suspected.
    pub const fn patience(&self) -> u64 {
        self.interval * self.missed as u64
    }

    /// Longest time from a peer's last good beat to its being suspected, where this
    /// process runs: the judgement comes with a beat of its own.
    pub const fn detection(&self) -> u64 {
        self.patience() + self.interval
    }

    /// Longest time for which a process that hears nothing of most peers judges nobody.
    pub const fn isolation(&self) -> u64 {
        self.isolation as u64 * self.patience()
    }
}

/// The message that a process sends to each peer once per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The sender has heard the receiver lately.
    pub hears: bool,
}

/// A change in a peer's liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement<K> {
    /// It is dead, cut off, or does not hear us.
    Suspect(K),
    /// It was suspected, and its beats have come for a whole hold-down.
    Up(K),
}

/// A peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// The last beat, good or not.
    heard: Time,
    /// The last beat that said that the peer hears us.
    good: Time,
    /// When it was last suspected.
    suspected: Option<Time>,
    /// Since when good beats have come without a gap, while it is down.
    down: Option<Time>,
    /// The hold-down after its next suspicion.
    hold_down: u64,
    /// When it came up last.
    up: Time,
    /// Nothing is made of its silence before.
    judged_from: Time,
}

/// The peers of one process.
#[derive(Debug)]
pub struct Heartbeats<K> {
    settings: HeartbeatSettings,
    peers: BTreeMap<K, Peer>,
    /// The last beat of this process.
    beaten: Time,
    /// Since when most peers are silent.
    isolated: Option<Time>,
}

impl<K: Ord + Copy> Heartbeats<K> {
    /// Nobody is watched yet.
    pub fn new(now: Time, settings: HeartbeatSettings) -> Heartbeats<K> {
        Heartbeats {
            settings,
            peers: BTreeMap::new(),
            beaten: now,
            isolated: None,
        }
    }

    /// A peer is watched from now on.
    pub fn watch(&mut self, now: Time, peer: K) {
        self.watch_later(now, peer, 0);
    }

    /// A peer is watched from now on, of which nobody expects that it speaks at once: its silence
    /// is judged when so many nanoseconds have passed.
    pub fn watch_later(&mut self, now: Time, peer: K, grace: u64) {
        let hold_down = self.settings.hold_down.0;
        self.peers.entry(peer).or_insert(Peer {
            heard: now,
            good: now,
            suspected: None,
            down: None,
            hold_down,
            up: now,
            judged_from: now.plus(grace),
        });
    }

    /// A peer is not watched any more: it has left, or an agent said that it died.
    pub fn forget(&mut self, peer: K) {
        self.peers.remove(&peer);
    }

    /// A peer's beat has come.
    pub fn heard(&mut self, now: Time, from: K, beat: Beat) {
        let patience = self.settings.patience();
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        peer.heard = now;
        if !beat.hears {
            return;
        }
        if now.since(peer.good) > patience
            && let Some(since) = &mut peer.down
        {
            *since = now;
        }
        peer.good = now;
    }

    /// When [`Heartbeats::tick`] is due.
    pub fn next_deadline(&self) -> Time {
        self.beaten.plus(self.settings.interval)
    }

    /// Sends beats and judges peers, once in an interval: `beats` gets one for each
    /// peer, `judgements` what has changed.
    pub fn tick(
        &mut self,
        now: Time,
        beats: &mut Vec<(K, Beat)>,
        judgements: &mut Vec<Judgement<K>>,
    ) {
        let since = now.since(self.beaten);
        if since < self.settings.interval {
            return;
        }
        // This process did not run: its peers get the time that it slept.
        let asleep = match since >= 2 * self.settings.interval {
            true => since - self.settings.interval,
            false => 0,
        };
        self.beaten = now;
        let settings = self.settings;
        for peer in self.peers.values_mut() {
            peer.heard = peer.heard.plus(asleep).min(now);
            peer.good = peer.good.plus(asleep).min(now);
        }
        // Nor has it listened in vain while it slept.
        self.isolated = self.isolated.map(|since| since.plus(asleep).min(now));
        let may_judge = !self.is_isolated(now);
        for (key, peer) in &mut self.peers {
            if may_judge && now >= peer.judged_from {
                peer.judge(now, *key, &settings, judgements);
            }
            let hears = now.since(peer.heard) <= settings.patience();
            beats.push((*key, Beat { hears }));
        }
    }

    /// True where the silence is more likely this process's own.
    fn is_isolated(&mut self, now: Time) -> bool {
        let patience = self.settings.patience();
        let lately = self.settings.isolation();
        // Peers suspected a moment ago fell silent with the others.
        let is_recent = |peer: &&Peer| {
            let at = peer.suspected;
            peer.down.is_none() || at.is_some_and(|at| now.since(at) < lately)
        };
        let peers = self.peers.values().filter(is_recent);
        let (all, silent) = peers.fold((0, 0), |(all, silent), peer| {
            (all + 1, silent + u32::from(now.since(peer.good) > patience))
        });
        if all < 3 || 2 * silent <= all {
            self.isolated = None;
            return false;
        }
        let since = *self.isolated.get_or_insert(now);
        now.since(since) < lately
    }

    /// True where the peer is watched and not suspected.
    pub fn is_up(&self, peer: K) -> bool {
        self.peers
            .get(&peer)
            .is_some_and(|peer| peer.down.is_none())
    }
}

impl Peer {
    fn judge<K>(
        &mut self,
        now: Time,
        key: K,
        settings: &HeartbeatSettings,
        judgements: &mut Vec<Judgement<K>>,
    ) {
        let is_silent = now.since(self.good) > settings.patience();
        match self.down {
            None if is_silent => {
                self.down = Some(now);
                self.suspected = Some(now);
                judgements.push(Judgement::Suspect(key));
            }
            Some(since) if !is_silent && now.since(since) >= self.hold_down => {
                self.down = None;
                self.up = now;
                self.hold_down = (2 * self.hold_down).min(settings.hold_down.1);
                judgements.push(Judgement::Up(key));
            }
            Some(_) if is_silent => self.down = Some(now),
            None if now.since(self.up) >= self.hold_down => {
                self.up = now;
                self.hold_down = (self.hold_down / 2).max(settings.hold_down.0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const GOOD: Beat = Beat { hears: true };
    const DEAF: Beat = Beat { hears: false };

    /// One process that watches peer 7, and what it judged when.
    struct Bench {
        beats: Heartbeats<u32>,
        now: u64,
        judged: Vec<(u64, Judgement<u32>)>,
        said: Option<Beat>,
    }

    impl Bench {
        fn new() -> Bench {
            let mut beats = Heartbeats::new(Time(0), HeartbeatSettings::default());
            beats.watch(Time(0), 7);
            Bench {
                beats,
                now: 0,
                judged: Vec::new(),
                said: None,
            }
        }

        /// Runs for so many milliseconds; the peer's beats come where it says so.
        fn run(&mut self, ms: u64, beat: Option<Beat>) {
            for _ in 0..ms {
                self.now += MS;
                if let Some(beat) = beat {
                    self.beats.heard(Time(self.now), 7, beat);
                }
                self.tick();
            }
        }

        fn tick(&mut self) {
            let (mut beats, mut judgements) = (Vec::new(), Vec::new());
            self.beats.tick(Time(self.now), &mut beats, &mut judgements);
            self.said = beats.pop().map(|(_, beat)| beat);
            let judged = judgements.into_iter().map(|j| (self.now / MS, j));
            self.judged.extend(judged);
        }
    }

    #[test]
    fn silence_is_noticed_in_time_and_one_beat_is_no_silence() {
        let mut bench = Bench::new();
        bench.run(10, Some(GOOD));
        bench.run(3, None);
        bench.run(1, Some(GOOD));
        assert_eq!(bench.judged, []);
        bench.run(10, None);
        let detection = HeartbeatSettings::default().detection() / MS;
        assert_eq!(bench.judged, [(14 + detection, Judgement::Suspect(7))]);
        assert!(!bench.beats.is_up(7));
    }

    #[test]
    fn a_peer_that_gets_time_is_judged_when_that_is_over() {
        let mut bench = Bench::new();
        bench.beats.forget(7);
        bench.beats.watch_later(Time(0), 7, 50 * MS);
        bench.run(10, Some(GOOD));
        bench.run(30, None);
        // It speaks in time.
        bench.run(20, Some(GOOD));
        assert_eq!(bench.judged, []);
        let mut silent = Bench::new();
        silent.beats.forget(7);
        silent.beats.watch_later(Time(0), 7, 50 * MS);
        silent.run(60, None);
        assert_eq!(silent.judged, [(50, Judgement::Suspect(7))]);
    }

    #[test]
    fn each_direction_is_judged_for_itself() {
        let mut bench = Bench::new();
        bench.run(10, Some(GOOD));
        // It is heard and does not hear us.
        bench.run(5, Some(DEAF));
        assert_eq!(bench.judged, [(14, Judgement::Suspect(7))]);
        assert_eq!(bench.said, Some(GOOD));
        bench.run(5, None);
        assert_eq!(bench.said, Some(DEAF));
    }

    #[test]
    fn a_process_that_slept_judges_nobody_by_that() {
        let mut bench = Bench::new();
        bench.run(10, Some(GOOD));
        bench.now += 50 * MS;
        bench.tick();
        assert_eq!((bench.judged.as_slice(), bench.said), (&[][..], Some(GOOD)));
        bench.run(10, None);
        assert_eq!(bench.judged.len(), 1);
    }

    #[test]
    fn a_process_that_hears_nobody_waits_before_it_judges() {
        let mut bench = Bench::new();
        for peer in 8..10 {
            bench.beats.watch(Time(0), peer);
        }
        let detection = HeartbeatSettings::default().detection() / MS;
        bench.run(detection + 9, None);
        assert_eq!(bench.judged, []);
        bench.run(HeartbeatSettings::default().isolation() / MS, None);
        assert_eq!(bench.judged.len(), 3);
    }

    #[test]
    fn a_process_that_hears_nobody_does_not_count_its_sleep() {
        let mut bench = Bench::new();
        for peer in 8..10 {
            bench.beats.watch(Time(0), peer);
        }
        let settings = HeartbeatSettings::default();
        bench.run(settings.detection() / MS, None);
        bench.now += 2 * settings.isolation();
        bench.tick();
        assert_eq!(bench.judged, []);
        bench.run(settings.isolation() / MS, None);
        assert_eq!(bench.judged.len(), 3);
    }

    #[test]
    fn a_flapping_peer_is_down_for_longer_each_time() {
        let mut bench = Bench::new();
        let mut waits = Vec::new();
        for _ in 0..4 {
            bench.run(5, None);
            let since = bench.now / MS;
            while !bench.beats.is_up(7) {
                bench.run(1, Some(GOOD));
            }
            waits.push(bench.now / MS - since);
        }
        assert!(waits.is_sorted() && waits[3] >= 4 * waits[0], "{waits:?}");
        bench.run(20_000, Some(GOOD));
        let hold_down = bench.beats.peers[&7].hold_down;
        assert_eq!(hold_down, HeartbeatSettings::default().hold_down.0);
    }
}
