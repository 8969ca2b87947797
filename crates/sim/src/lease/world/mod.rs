//! The loop of a run, and its processes.

mod pause;
mod process;
mod trouble;

use std::collections::BTreeMap;

use weir_control::lease::{Ask, Stand, Tenant, Told, Want};

use super::check::{Check, Holder, Rule, Violation};
use super::plant::{Plant, is_late, misheard, unlooked};
use super::scene::Scene;
use crate::random::Random;

use process::{Booth, Seat};

/// Events of a run at most: more are a loop.
const MOST: u64 = 2_000_000;

/// What happens at a time.
#[derive(Clone, Debug)]
enum Event {
    /// A contender looks what is due.
    Poll { place: usize },
    /// A question comes.
    Ask {
        place: usize,
        voter: usize,
        ask: Ask,
    },
    /// An answer comes.
    Told {
        place: usize,
        voter: usize,
        told: Told,
    },
    /// A contender starts where none is.
    Start { place: usize },
    /// A contender goes on, if it has not stopped again.
    Resume { place: usize, stops: u32 },
    /// A dead voter starts again.
    StartVoter { voter: usize },
    /// A voter goes on, if it has not stopped again.
    ResumeVoter { voter: usize, stops: u32 },
    /// Something fails.
    Trouble,
    /// The first contender must have the place: the others start.
    Guard,
    /// Some voters are lost to the guarded tenant for a while.
    Stretch,
    /// Faults end; what is on its way comes yet.
    Quiet,
    /// What was on its way has come.
    Calm,
}

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    violation: Option<Violation>,
    events: u64,
    tenants: u64,
    faults: u64,
    waited: u64,
}

impl Outcome {
    /// The rule that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Steps of the run.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Contenders that have had the place.
    pub fn tenants(&self) -> u64 {
        self.tenants
    }

    /// Faults beside those of messages.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Hundredths of a lease from the end of faults until somebody had the place.
    pub fn waited(&self) -> u64 {
        self.waited
    }
}

/// Runs a seed, perhaps with a bug.
pub fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    let mut world = World::new(seed, plant);
    let violation = world.go().err();
    Outcome {
        violation,
        events: world.events,
        tenants: world.check.tenants(),
        faults: world.faults,
        waited: world.check.waited() * 100 / world.scene.length,
    }
}

struct World {
    seed: u64,
    scene: Scene,
    plant: Option<Plant>,
    random: Random,
    now: u64,
    /// By time, and in the order in which they were planned.
    plan: BTreeMap<(u64, u64), Event>,
    planned: u64,
    events: u64,
    faults: u64,
    seats: Vec<Seat>,
    booths: Vec<Booth>,
    /// Until when messages to and from a voter are lost, by place and voter.
    cuts: Vec<[u64; 2]>,
    starts: u32,
    /// Starts that have ended.
    dead: Vec<u32>,
    is_quiet: bool,
    /// The place of the tenant that reaches a majority.
    guarded: Option<usize>,
    check: Check,
}

impl World {
    fn new(seed: u64, plant: Option<Plant>) -> World {
        let mut random = Random::new(seed, 0x1ea5e);
        let scene = Scene::draw(&mut random);
        let clocks = &mut Random::new(seed, 0xc10c);
        let seats = (0..scene.places).map(|_| Seat::draw(clocks, &scene));
        let seats: Vec<Seat> = seats.collect();
        let booths = (0..scene.voters).map(|_| Booth::draw(clocks, &scene, plant));
        let booths: Vec<Booth> = booths.collect();
        let mut world = World {
            seed,
            plant,
            random,
            now: 0,
            plan: BTreeMap::new(),
            planned: 0,
            events: 0,
            faults: 0,
            cuts: vec![[0; 2]; scene.places * scene.voters],
            seats,
            booths,
            starts: 0,
            dead: Vec::new(),
            is_quiet: false,
            guarded: None,
            check: Check::new(scene.voters, scene.length, scene.told),
            scene,
        };
        world.begin();
        world
    }

    /// Plans what every run has.
    fn begin(&mut self) {
        let length = self.scene.length;
        self.at(self.scene.faults_end, Event::Quiet);
        if self.scene.guarded {
            let first = if self.scene.contested {
                self.scene.places
            } else {
                1
            };
            for place in 0..first {
                self.at(0, Event::Start { place });
            }
            self.at(self.scene.guard, Event::Guard);
            return;
        }
        for place in 0..self.scene.places {
            let at = self.random.below(2 * length);
            self.at(at, Event::Start { place });
        }
        let first = self.random.below(2 * self.scene.gap);
        self.at(first, Event::Trouble);
    }

    fn at(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.plan.insert((at.max(self.now), self.planned), event);
    }

    fn go(&mut self) -> Result<(), Violation> {
        while let Some(((at, _), event)) = self.plan.pop_first() {
            self.now = at;
            self.events += 1;
            if self.events > MOST {
                return Err(Violation::new(Rule::Progress, at, "too many events"));
            }
            self.happens(event)?;
            self.look()?;
            if self.check.is_over(at, self.scene.after()) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Poll { place } => self.poll(place),
            Event::Ask { place, voter, ask } => self.asked(place, voter, ask),
            Event::Told { place, voter, told } => self.told(place, voter, told),
            Event::Start { place } => self.start(place),
            Event::Resume { place, stops } => return self.resume(place, stops),
            Event::StartVoter { voter } => self.start_voter(voter),
            Event::ResumeVoter { voter, stops } => self.resume_voter(voter, stops),
            Event::Trouble => self.trouble(),
            Event::Guard => return self.guard(),
            Event::Stretch => self.stretch(),
            Event::Quiet => self.quiet(),
            Event::Calm => self.check.calm(self.now, self.scene.patience()),
        }
        Ok(())
    }

    /// Who holds the place now, and whether that may be.
    fn look(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let mut holders = Vec::new();
        for seat in self.seats.iter().filter(|seat| !seat.is_still()) {
            if let Some((tenant, until)) = seat.holds(now, self.plant) {
                holders.push(Holder { tenant, until });
            }
        }
        let booths = &self.booths;
        self.check.step(now, &holders, |voter, holder| {
            booths
                .get(voter)
                .is_some_and(|booth| booth.has_promised(holder))
        })
    }

    fn start(&mut self, place: usize) {
        if self.seats.get(place).is_none_or(Seat::is_there) {
            return;
        }
        self.starts += 1;
        let start = crate::random::mix(self.seed, u64::from(self.starts)) as u32;
        let (now, scene, plant) = (self.now, &self.scene, self.plant);
        if let Some(seat) = self.seats.get_mut(place) {
            seat.start(now, place, start, scene, plant);
        }
        self.settle(place);
    }

    /// A contender has changed: plans when it is asked next, or that another one starts.
    fn settle(&mut self, place: usize) {
        let jitter = self.random.below(self.scene.quick());
        let now = self.now;
        let Some(seat) = self.seats.get_mut(place) else {
            return;
        };
        if seat.stand() == Some(Stand::Lost) {
            self.end(place);
        } else if let Some(due) = seat.plan_poll(now, jitter) {
            self.at(due, Event::Poll { place });
        }
    }

    /// A contender ends, and another one starts in its place some time later.
    fn end(&mut self, place: usize) {
        let Some(start) = self.seats.get_mut(place).and_then(Seat::end) else {
            return;
        };
        self.dead.push(start);
        let most = if self.is_quiet || self.random.chance(300) {
            self.scene.interval
        } else {
            2 * self.scene.length
        };
        let at = self.now + self.random.below(most);
        self.at(at, Event::Start { place });
    }

    fn poll(&mut self, place: usize) {
        let (now, plant) = (self.now, self.plant);
        let Some(seat) = self.seats.get_mut(place) else {
            return;
        };
        if !seat.is_due(now) {
            return;
        }
        if plant == Some(Plant::NoLook) {
            seat.believe_free(now, unlooked);
        }
        let late = |stand, holds| is_late(plant, stand, holds);
        if let Some(ask) = seat.poll(now, late) {
            self.ask_all(place, ask);
        }
        self.settle(place);
    }

    fn ask_all(&mut self, place: usize, ask: Ask) {
        for voter in 0..self.scene.voters {
            self.send(place, voter, 0, Event::Ask { place, voter, ask });
        }
    }

    fn asked(&mut self, place: usize, voter: usize, ask: Ask) {
        let now = self.now;
        let Some(told) = self
            .booths
            .get_mut(voter)
            .and_then(|booth| booth.hear(now, place, &ask))
        else {
            return;
        };
        if let (true, Want::Place(generation) | Want::Keep(generation)) = (told.granted, told.want)
        {
            let start = ask.start;
            self.check.promises(voter, Tenant { generation, start });
        }
        self.send(place, voter, 1, Event::Told { place, voter, told });
    }

    fn told(&mut self, place: usize, voter: usize, mut told: Told) {
        let (now, plant) = (self.now, self.plant);
        let Some(seat) = self.seats.get_mut(place) else {
            return;
        };
        if let Some((local, start)) = seat.is_ready(now, voter, told) {
            misheard(plant, local, start, &mut told);
            if plant == Some(Plant::OneIsEnough) && told.granted {
                for voter in 0..self.scene.voters {
                    seat.hear(now, voter, told);
                }
            } else {
                seat.hear(now, voter, told);
            }
            self.settle(place);
        }
    }

    /// Sends a message between a place and a voter; `way` 0 is there, 1 is back.
    fn send(&mut self, place: usize, voter: usize, way: usize, event: Event) {
        let (quick, random) = (self.scene.quick(), &mut self.random);
        let is_guarded = self.scene.guarded && self.guarded.is_none_or(|its| its == place);
        let cut = self.cuts.get(place * self.scene.voters + voter);
        if cut.is_some_and(|cut| cut[way] > self.now) {
            return;
        }
        if self.is_quiet || is_guarded {
            let at = self.now + 1 + random.below(quick);
            self.at(at, event);
            return;
        }
        if random.chance(self.scene.loss) {
            return;
        }
        let copies = 1 + u64::from(random.chance(self.scene.twice));
        for _ in 0..copies {
            let most = if self.random.chance(self.scene.late) {
                self.scene.latest
            } else {
                self.scene.delay
            };
            let at = self.now + 1 + self.random.below(most);
            self.at(at, event.clone());
        }
    }
}
