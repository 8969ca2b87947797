//! Heartbeats between the switch and the runtimes, over the links that data takes.
//!
//! Pauses, cuts and lossy links make suspicions that are wrong by themselves; deaths
//! are noticed by the agent or by silence, whichever is first.

use weir_packet::Time;
use weir_protocol::heartbeat::{Beat, HeartbeatSettings, Heartbeats, Judgement};
use weir_protocol::plant::Plant;

use super::heard::Heard;
use super::links::ProcessNo;
use super::{Event, LOOK, Phase, World};
use crate::check::Invariant;
use crate::fault::Fault;
use crate::plants::Bug;
use crate::slip::Slip;

/// A suspected runtime that is heard again is started anew after this time, the
/// first time: short, as runs are.
const HOLD_DOWN: (u64, u64) = (20_000_000, 80_000_000);

impl World<'_> {
    fn heartbeat_settings(&self) -> HeartbeatSettings {
        HeartbeatSettings {
            hold_down: HOLD_DOWN,
            ..HeartbeatSettings::default()
        }
    }

    /// A process has started: it sends beats and is watched.
    pub(super) fn start_beating(&mut self, no: ProcessNo) {
        if !self.plan.heartbeats || self.follows() {
            return;
        }
        let mut settings = self.heartbeat_settings();
        match self.settings.plant.and_then(Bug::plant) {
            Some(Plant::DeathsUnseen) => settings.missed = u32::MAX,
            Some(Plant::SuspectedEarly) => settings.missed -= 1,
            Some(Plant::CutOffJudges) => settings.isolation = 0,
            Some(Plant::UpTooSoon) => settings.hold_down.0 /= 2,
            Some(Plant::CutOffForEver) => settings.isolation = u32::MAX,
            _ => {}
        }
        let time = Time(super::START + self.now);
        let mut beats = Heartbeats::new(time, settings);
        let is_switch = self.switch == Some(no);
        for peer in 0..self.processes.len() {
            let Some(process) = self.processes.get(peer) else {
                continue;
            };
            // A switch that starts again does not know who has died.
            let is_peer = match is_switch {
                true => process.runtime().is_some() && !process.suspected,
                false => self.switch == Some(peer),
            };
            let is_unwatched = self.settings.slip() == Some(Slip::PeersUnwatched);
            if is_peer && peer != no && !is_unwatched {
                beats.watch(time, peer);
                let watched = if is_switch { peer } else { no };
                self.heard.insert(watched, Heard::at(self.now));
                if let Some(theirs) = self.beats.get_mut(&peer) {
                    theirs.watch(time, no);
                }
            }
        }
        if is_switch {
            self.watching_since = self.now;
            self.switch_beaten = self.now;
            self.heard.retain(|_, heard| heard.last == self.now);
        }
        self.beats.insert(no, beats);
        let later = self.random.below(settings.interval);
        self.schedule(self.now + later, Event::Beat(no));
    }

    /// The switch has a runtime in service again that it did not watch, as it took it for dead.
    pub(super) fn watch_again(&mut self, no: ProcessNo) {
        let time = Time(super::START + self.now);
        let Some(switch) = self.switch else {
            return;
        };
        let Some(beats) = self.beats.get_mut(&switch).filter(|its| !its.is_up(no)) else {
            return;
        };
        beats.forget(no);
        beats.watch(time, no);
        if let Some(theirs) = self.beats.get_mut(&no) {
            theirs.watch(time, switch);
        }
        self.heard.insert(no, Heard::at(self.now));
        self.count("watched_again");
    }

    /// The time of a process's next beat has come.
    pub(super) fn beat(&mut self, no: ProcessNo) {
        let time = Time(super::START + self.now);
        let process = self.processes.get(no).filter(|process| process.is_alive());
        let (Some(process), Phase::Busy) = (process, self.phase) else {
            self.beats.remove(&no);
            return;
        };
        let interval = self.heartbeat_settings().interval;
        let (mut beats, mut judgements) = (Vec::new(), Vec::new());
        if process.paused_until.is_none()
            && let Some(own) = self.beats.get_mut(&no)
        {
            own.tick(time, &mut beats, &mut judgements);
            if self.switch == Some(no) {
                let since = self.now - self.switch_beaten;
                let asleep = if since >= 2 * interval {
                    since - interval
                } else {
                    0
                };
                self.switch_beaten = self.now;
                for heard in self.heard.values_mut() {
                    heard.own += 1;
                    heard.counted = self.now.min(heard.counted + asleep);
                }
                self.look_at_isolated(&judgements);
                self.look_at_deaf();
            }
        } else if self.switch == Some(no) {
            self.watching_since = self.now;
            // A switch that sleeps does not listen in vain.
            self.cut_off_since = None;
            self.most_silent_since = self.most_silent_since.map(|since| since + interval);
        }
        self.schedule(self.now + interval, Event::Beat(no));
        for (to, beat) in beats {
            let arrivals = self.links.frame(no, to, self.now);
            for at in [arrivals.first, arrivals.again].into_iter().flatten() {
                self.schedule(at, Event::Beats { to, from: no, beat });
            }
        }
        for judgement in judgements {
            if self.switch == Some(no) {
                // A switch that judges a peer does not take itself for cut off.
                self.cut_off_since = None;
                self.look_at_judgement(&judgement);
                if let Judgement::Suspect(peer) = &judgement
                    && let Some(heard) = self.heard.get_mut(peer)
                {
                    heard.suspected = Some(self.now);
                }
            }
            match judgement {
                Judgement::Suspect(peer) if self.switch == Some(no) => self.silent(peer),
                Judgement::Up(peer) if self.switch == Some(no) => self.heard_again(peer),
                // A runtime tells its switch in its own beats how it judges it.
                _ => self.count("switch_judged"),
            }
        }
        if self.switch == Some(no)
            && let Some(beats) = self.beats.get(&no)
        {
            let since = self.most_silent_since.unwrap_or(self.now);
            self.most_silent_since = self.may_be_cut_off(beats).then_some(since);
        }
    }

    /// A beat arrives. One that comes to a process that is paused says nothing new
    /// when it goes on.
    pub(super) fn beat_arrives(&mut self, to: ProcessNo, from: ProcessNo, beat: Beat) {
        let time = Time(super::START + self.now);
        let is_awake = self
            .processes
            .get(to)
            .is_some_and(|p| p.is_alive() && p.paused_until.is_none());
        if let Some(beats) = self.beats.get_mut(&to).filter(|_| is_awake) {
            let is_planted = self.settings.plant.and_then(Bug::plant) == Some(Plant::DeafHeard);
            let hears = beat.hears || is_planted;
            beats.heard(time, from, Beat { hears });
            if self.switch == Some(to) && beat.hears {
                let missed = self.heartbeat_settings().missed;
                let heard = self.heard.entry(from).or_insert(Heard::at(self.now));
                // What it slept is nobody's silence.
                if heard.own > missed {
                    heard.first = self.now;
                }
                (heard.last, heard.counted, heard.own) = (self.now, self.now, 0);
            }
        }
    }

    /// A suspicion has its silence, and who is up again was heard for its hold-down.
    fn look_at_judgement(&mut self, judgement: &Judgement<ProcessNo>) {
        let settings = self.heartbeat_settings();
        let text = match judgement {
            Judgement::Suspect(peer) => {
                let heard = self.heard.get(peer);
                let early = heard.is_some_and(|heard| {
                    let silence = self.now - heard.last;
                    heard.own < settings.missed || silence <= settings.patience()
                });
                early.then(|| format!("{} is suspected, and was heard", self.name_of(*peer)))
            }
            Judgement::Up(peer) => {
                let heard = self.heard.get(peer);
                let since = |heard: &Heard| self.now - heard.first;
                let early = heard.is_none_or(|heard| since(heard) < settings.hold_down.0);
                early.then(|| format!("{} is up, and was heard too short", self.name_of(*peer)))
            }
        };
        if let Some(text) = text {
            self.checker.violated(Invariant::Suspicion, None, text);
        }
    }

    /// A switch that is more likely cut off itself suspects nobody before its time.
    fn look_at_isolated(&mut self, judgements: &[Judgement<ProcessNo>]) {
        let suspected = judgements.iter().find_map(|judgement| match judgement {
            Judgement::Suspect(peer) => Some(*peer),
            Judgement::Up(_) => None,
        });
        let settings = self.heartbeat_settings();
        let since = self.most_silent_since.unwrap_or(self.now);
        let Some(peer) = suspected.filter(|_| self.now - since < settings.isolation()) else {
            return;
        };
        // Peers that this beat suspects were up before it.
        let is_judged = |peer: &ProcessNo| judgements.contains(&Judgement::Suspect(*peer));
        // A beat that came as the switch woke up counts for up to an interval more than it is known to.
        let bound = settings.patience() + settings.interval;
        let silent = |heard: &Heard| self.now - heard.counted > bound;
        let beats = self.switch.and_then(|no| self.beats.get(&no));
        let is_up =
            |peer: &ProcessNo| is_judged(peer) || beats.is_some_and(|beats| beats.is_up(*peer));
        let (mut up, mut quiet, mut others) = (0, 0, 0);
        for (peer, heard) in &self.heard {
            match is_up(peer) {
                true => (up, quiet) = (up + 1, quiet + u32::from(silent(heard))),
                // It may count, if it was suspected lately.
                false => others += u32::from(heard.suspected.is_some() && !silent(heard)),
            }
        }
        if up >= 3 && 2 * quiet > up + others {
            let text = format!(
                "{} is suspected by a switch that hears nobody",
                self.name_of(peer)
            );
            self.checker.violated(Invariant::Suspicion, None, text);
        }
    }

    /// The switch suspects a runtime by its silence.
    fn silent(&mut self, no: ProcessNo) {
        let Some(id) = self.runtime_id(no) else {
            return;
        };
        let process = self.processes.get(no);
        if process.is_none_or(|process| process.suspected) {
            return;
        }
        let is_alive = process.is_some_and(|process| process.is_alive());
        self.say(None, || format!("V does not hear r{}", id.0));
        self.count(match is_alive {
            true => "alive_suspected_by_beats",
            false => "deaths_noticed_by_beats",
        });
        // Silence comes when it comes: it may be a failure that meets another.
        self.more_than_promised(&[id]);
        self.notice(no);
        if is_alive && self.useful().len() < 3 {
            self.start_later(no, 5_000_000);
        }
    }

    /// The switch forgets a peer, and the checker with it.
    pub(super) fn watch_no_more(&mut self, no: ProcessNo) {
        if let Some(switch) = self.switch.and_then(|switch| self.beats.get_mut(&switch)) {
            switch.forget(no);
        }
        if let Some(heard) = self.heard.get_mut(&no) {
            heard.suspected = None;
        }
    }

    /// A suspected runtime was heard for a whole hold-down: it is told to start
    /// anew, with another id.
    fn heard_again(&mut self, no: ProcessNo) {
        self.watch_no_more(no);
        let is_zombie = self
            .processes
            .get(no)
            .is_some_and(|p| p.is_alive() && p.suspected);
        if is_zombie {
            self.count("started_anew_after_hold_down");
            self.kill(no);
            self.close_streams(no);
            self.tell_trusting(no);
            self.start_later(no, 0);
        }
    }

    /// Who is not heard, or does not hear, is suspected in time, whatever the reason: the
    /// switch has sent its own beats, and does not think itself cut off.
    fn look_at_deaf(&mut self) {
        let Some(beats) = self.switch.and_then(|no| self.beats.get(&no)) else {
            return;
        };
        let settings = self.heartbeat_settings();
        if self.may_be_cut_off(beats) {
            // After `isolation` the switch judges its peers even so.
            let since = *self.cut_off_since.get_or_insert(self.now);
            if self.now < since + settings.isolation() + 2 * (settings.interval + LOOK) {
                self.cut_off_at = self.now;
                return;
            }
        } else {
            self.cut_off_since = None;
        }
        let most = settings.missed + 1;
        let mut silent = self.heard.iter().filter(|(_, heard)| heard.own > most);
        if let Some((peer, heard)) = silent.find(|(peer, _)| beats.is_up(**peer)) {
            let name = self.name_of(*peer);
            let text = format!("{name} is not suspected after {} beats", heard.own);
            self.checker.violated(Invariant::Suspicion, None, text);
        }
    }

    /// More than half of three peers or more are silent, those counted that fell silent lately:
    /// the switch may judge nobody.
    fn may_be_cut_off(&self, beats: &Heartbeats<ProcessNo>) -> bool {
        let settings = self.heartbeat_settings();
        let is_recent = |heard: &Heard| {
            let at = heard.suspected;
            at.is_some_and(|at| self.now - at < settings.isolation())
        };
        let counted = self.heard.iter().filter_map(|(peer, heard)| {
            let is_silent = heard.own >= settings.missed;
            match beats.is_up(*peer) {
                true => Some(is_silent),
                // One that is heard again is silent no more.
                false => is_recent(heard).then_some(is_silent),
            }
        });
        let (all, silent) = counted.fold((0, 0), |(all, silent), is_silent| {
            (all + 1, silent + u32::from(is_silent))
        });
        all >= 3 && 2 * silent > all
    }

    /// A death is noticed in time, where the switch runs and was not paused since.
    pub(super) fn look_at_silence(&mut self) {
        if self.phase != Phase::Busy {
            return;
        }
        let is_watching = self.switch.is_some_and(|no| self.beats.contains_key(&no));
        if !is_watching || self.links.is_cut(self.now) {
            return;
        }
        // A beat that was on its way when its sender died may come late.
        let has = |fault| self.plan.faults.has(fault);
        let late = match (
            has(Fault::Delay),
            has(Fault::Reorder) || has(Fault::Duplicate),
        ) {
            (true, true) => 20_000_000,
            (true, false) => 4_000_000,
            (false, true) => 1_000_000,
            (false, false) => 200_000,
        };
        let settings = self.heartbeat_settings();
        let bound = settings.detection() + late + 2 * LOOK;
        let unseen = self.processes.iter().find(|p| {
            let since = p
                .died
                .map(|died| died.max(self.watching_since).max(self.cut_off_at));
            let is_unnoticed = !p.suspected && p.runtime().is_some();
            is_unnoticed && since.is_some_and(|since| since + bound < self.now)
        });
        if let Some(name) = unseen.map(|process| process.name()) {
            let text = format!(
                "{name} is dead and not suspected after {} us",
                bound / 1_000
            );
            self.checker.violated(Invariant::Protection, None, text);
        }
    }
}
