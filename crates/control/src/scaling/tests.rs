use weir_protocol::message::MoveMode;

use super::*;

pub(super) const SECOND: u64 = 1_000_000_000;

/// As many as are wanted.
pub(super) const FREE: Places = Places {
    coming: 0,
    free: usize::MAX,
};

/// A cluster in which each unit sends at one rate and a runtime takes in what it
/// can and loses the rest.
struct Model {
    scaling: Scaling,
    now: u64,
    /// Units and counts of each runtime that runs.
    runtimes: BTreeMap<RuntimeId, (u32, Load)>,
    next: u32,
    /// Packets per second of a unit, and of a runtime at most.
    unit_rate: u64,
    capacity: u64,
    /// Steps until a runtime that was asked for is there; `None`: never.
    start_delay: Option<u64>,
    arriving: Vec<u64>,
    draining: Option<RuntimeId>,
    /// Reports of these are lost.
    mute: Vec<RuntimeId>,
    log: Vec<(u64, Action)>,
}

impl Model {
    fn new(settings: ScalingSettings, units: &[u32]) -> Model {
        let runtime =
            |(id, units): (usize, &u32)| (RuntimeId(id as u32), (*units, Load::default()));
        Model {
            scaling: Scaling::new(settings).unwrap(),
            now: 0,
            runtimes: units.iter().enumerate().map(runtime).collect(),
            next: units.len() as u32,
            unit_rate: 20,
            capacity: 40_000,
            start_delay: Some(2),
            arriving: Vec::new(),
            draining: None,
            mute: Vec::new(),
            log: Vec::new(),
        }
    }

    fn units(&self) -> u32 {
        self.runtimes.values().map(|(units, _)| units).sum()
    }

    /// Lets so many units live: new ones go round robin to who is not draining,
    /// ends are taken from who has most.
    fn set_units(&mut self, wanted: u32) {
        while self.units() < wanted {
            let open: Vec<_> = self.open();
            for (turn, id) in open.iter().enumerate() {
                let share = (wanted - self.units()).div_ceil((open.len() - turn) as u32);
                self.runtimes.get_mut(id).unwrap().0 += share;
            }
        }
        while self.units() > wanted {
            let most = self.runtimes.values_mut().max_by_key(|(units, _)| *units);
            most.unwrap().0 -= 1;
        }
    }

    fn open(&self) -> Vec<RuntimeId> {
        let ids = self.runtimes.keys().copied();
        ids.filter(|id| Some(*id) != self.draining).collect()
    }

    /// One second, at the end of which reports come in and actions are done.
    fn second(&mut self) -> Vec<Action> {
        self.now += 1;
        for (units, load) in self.runtimes.values_mut() {
            let offered = u64::from(*units) * self.unit_rate;
            load.packets += offered.min(self.capacity);
            load.drops += offered.saturating_sub(self.capacity);
            load.units = *units;
        }
        let now = self.now;
        let here = self.arriving.iter().filter(|at| **at <= now).count();
        self.arriving.retain(|at| *at > now);
        for _ in 0..here {
            self.runtimes
                .insert(RuntimeId(self.next), Default::default());
            self.next += 1;
        }
        let cluster: Vec<_> = self.runtimes.keys().copied().collect();
        let reports: Vec<_> = self
            .runtimes
            .iter()
            .filter(|(id, _)| !self.mute.contains(id))
            .map(|(id, (_, load))| (*id, *load))
            .collect();
        let actions = self
            .scaling
            .step(Time(self.now * SECOND), &reports, &cluster, FREE);
        let actions: Vec<Action> = actions.iter().map(|decision| decision.action).collect();
        for action in &actions {
            self.log.push((self.now, *action));
            match *action {
                Action::Add => self.arriving.extend(self.start_delay.map(|d| now + d)),
                Action::Move {
                    from, to, count, ..
                } => {
                    assert_ne!(from, to);
                    assert_ne!(Some(to), self.draining);
                    let giver = &mut self.runtimes.get_mut(&from).unwrap().0;
                    let moved = count.min(*giver);
                    *giver -= moved;
                    self.runtimes.get_mut(&to).unwrap().0 += moved;
                }
                Action::Drain { runtime, .. } => {
                    self.draining = Some(runtime);
                    let units = std::mem::take(&mut self.runtimes.get_mut(&runtime).unwrap().0);
                    let all = self.units();
                    self.set_units(all + units);
                }
                Action::Remove { runtime } => {
                    assert_eq!(self.runtimes.remove(&runtime).unwrap().0, 0);
                    self.draining = None;
                }
            }
        }
        actions
    }

    fn seconds(&mut self, count: u64) {
        for _ in 0..count {
            self.second();
        }
    }

    fn count(&self, is: impl Fn(&Action) -> bool) -> usize {
        self.log.iter().filter(|(_, action)| is(action)).count()
    }

    fn lost_now(&self) -> bool {
        let over = |units: u32| u64::from(units) * self.unit_rate > self.capacity;
        self.runtimes.values().any(|(units, _)| over(*units))
    }
}

fn is_add(action: &Action) -> bool {
    matches!(action, Action::Add)
}

fn is_drain(action: &Action) -> bool {
    matches!(action, Action::Drain { .. })
}

#[test]
fn a_step_is_answered_by_one_runtime_and_batches_of_500() {
    let mut model = Model::new(ScalingSettings::default(), &[1_500]);
    model.seconds(5);
    assert_eq!(model.log, []);
    // 3,000 units × 20 = 60,000 packets per second where 40,000 fit.
    model.set_units(3_000);
    model.seconds(10);
    let push = |from, to| Action::Move {
        from: RuntimeId(from),
        to: RuntimeId(to),
        count: 500,
        mode: MoveMode::Push,
    };
    // Asked for at the first report with drops, there two seconds later, and two
    // batches until 2,000 units are left.
    assert_eq!(
        model.log,
        [(6, Action::Add), (8, push(0, 1)), (9, push(0, 1))]
    );
    assert!(!model.lost_now());
    assert_eq!(model.scaling.peak(), Some(40_000));
}

#[test]
fn a_ramp_up_and_down_ends_where_it_began() {
    let mut model = Model::new(ScalingSettings::default(), &[1_000]);
    let mut most = 0;
    for units in (1_000..=15_000)
        .step_by(50)
        .chain((1_000..=15_000).rev().step_by(50))
    {
        model.set_units(units);
        model.second();
        most = most.max(model.runtimes.len());
    }
    // 15,000 × 20 / 40,000 = 7.5.
    assert!((8..=10).contains(&most), "{most}");
    model.seconds(120);
    assert_eq!(model.runtimes.len(), 1, "{:?}", model.log);
    // Up, then down: no runtime is started after one was emptied.
    let first_drain = model.log.iter().position(|(_, a)| is_drain(a)).unwrap();
    assert!(model.log[first_drain..].iter().all(|(_, a)| !is_add(a)));
    assert_eq!(model.count(is_add), most - 1);
}

#[test]
fn noise_around_one_runtimes_limit_does_not_flap() {
    let mut model = Model::new(ScalingSettings::default(), &[1_900]);
    let mut seed = 1u64;
    for _ in 0..3_600 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        model.unit_rate = 17 + (seed >> 33) % 8;
        model.second();
    }
    // One more runtime at the first overload; what both take in together never is
    // low enough to do with one.
    assert_eq!((model.count(is_add), model.count(is_drain)), (1, 0));
}

#[test]
fn just_under_one_half_each_is_not_calm() {
    let mut model = Model::new(ScalingSettings::default(), &[3_000]);
    model.seconds(20);
    assert_eq!(model.runtimes.len(), 2);
    // 49 % each would fill one runtime to 98 %.
    model.set_units(1_960);
    model.seconds(100);
    assert_eq!(model.count(is_drain), 0);
    model.set_units(1_780);
    model.seconds(30);
    assert_eq!(model.runtimes.len(), 1);
    assert!(!model.lost_now());
}

#[test]
fn one_hot_runtime_among_calm_ones_is_relieved_and_nothing_is_emptied_meanwhile() {
    let mut model = Model::new(ScalingSettings::default(), &[200, 2_400, 200]);
    model.seconds(6);
    assert!(!model.lost_now());
    let moves: Vec<_> = model
        .log
        .iter()
        .filter_map(|(_, action)| match action {
            Action::Move { from, to, .. } => Some((from.0, to.0)),
            _ => None,
        })
        .collect();
    assert_eq!(moves, [(1, 3)]);
    assert_eq!(model.count(is_drain), 0);
}

#[test]
fn a_second_runtime_comes_when_the_first_is_full() {
    let mut model = Model::new(ScalingSettings::default(), &[8_000]);
    model.seconds(60);
    assert!(!model.lost_now(), "{:?}", model.log);
    // 160,000 / 40,000, each filled to the brim by moves of 500: 4, or 5.
    assert!((4..=5).contains(&model.runtimes.len()));
    // Never two at once.
    let adds: Vec<u64> = model
        .log
        .iter()
        .filter(|(_, a)| is_add(a))
        .map(|(t, _)| *t)
        .collect();
    assert!(
        adds.windows(2).all(|pair| pair[1] - pair[0] >= 2),
        "{adds:?}"
    );
}

#[test]
fn small_steps_where_few_units_are_there_and_none_for_one() {
    let mut model = Model::new(ScalingSettings::default(), &[10]);
    model.unit_rate = 5_000;
    model.seconds(10);
    let counts: Vec<u32> = model
        .log
        .iter()
        .filter_map(|(_, action)| match action {
            Action::Move { count, .. } => Some(*count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [5], "half of what it has");
    let mut giant = Model::new(ScalingSettings::default(), &[1]);
    giant.unit_rate = 100_000;
    giant.seconds(10);
    assert_eq!(giant.log, [], "one unit can't be divided");
}

#[test]
fn a_missing_report_is_neither_calm_nor_overload() {
    let mut model = Model::new(ScalingSettings::default(), &[3_000]);
    model.seconds(20);
    model.set_units(200);
    model.mute = vec![RuntimeId(1)];
    model.seconds(60);
    assert_eq!(model.count(is_drain), 0);
    // It speaks again: 60 seconds in one report, whose mean is calm.
    model.mute.clear();
    model.seconds(30);
    assert_eq!(model.runtimes.len(), 1);

    let mut mute = Model::new(ScalingSettings::default(), &[3_000]);
    mute.mute = vec![RuntimeId(0)];
    mute.seconds(30);
    assert_eq!(mute.log, []);
}

#[test]
fn one_lost_report_among_many_does_not_hold_calm_up() {
    let mut model = Model::new(ScalingSettings::default(), &[3_000]);
    model.seconds(20);
    model.set_units(200);
    for second in 0..40 {
        model.mute = if second % 3 == 0 {
            vec![RuntimeId(1)]
        } else {
            Vec::new()
        };
        model.second();
    }
    assert_eq!(model.runtimes.len(), 1);
}

#[test]
fn a_runtime_that_dies_while_it_is_emptied_is_forgotten() {
    let settings = ScalingSettings::default();
    let mut model = Model::new(settings, &[3_000]);
    model.seconds(20);
    model.set_units(200);
    while model.draining.is_none() {
        model.second();
    }
    let dead = model.draining.take().unwrap();
    assert_eq!(model.scaling.leaving(), Some(dead));
    model.runtimes.remove(&dead);
    model.seconds(60);
    assert_eq!(model.scaling.leaving(), None);
    assert_eq!(model.count(|a| matches!(a, Action::Remove { .. })), 0);
    // And the machine goes on: the next overload is answered.
    model.set_units(3_000);
    model.seconds(20);
    assert_eq!(model.runtimes.len(), 2);
}

#[test]
fn the_target_dies_and_another_is_started() {
    let mut model = Model::new(ScalingSettings::default(), &[3_000]);
    while model.runtimes.len() < 2 {
        model.second();
    }
    let gone = model.runtimes.remove(&RuntimeId(1)).unwrap().0;
    model.set_units(3_000);
    assert_eq!(gone, 500);
    model.seconds(20);
    assert_eq!(
        model.runtimes.keys().copied().collect::<Vec<_>>(),
        [RuntimeId(0), RuntimeId(2)]
    );
    assert!(!model.lost_now());
}

#[test]
fn a_runtime_that_never_comes_is_asked_for_again() {
    let mut model = Model::new(ScalingSettings::default(), &[3_000]);
    model.start_delay = None;
    model.seconds(70);
    let adds: Vec<u64> = model.log.iter().map(|(at, _)| *at).collect();
    assert_eq!(adds, [2, 32, 62]);
}

#[test]
fn bounds_hold() {
    let settings = ScalingSettings {
        minimum: 2,
        maximum: 3,
        capacity: 40_000,
        ..ScalingSettings::default()
    };
    let mut model = Model::new(settings, &[100]);
    model.seconds(5);
    assert_eq!(
        model.runtimes.len(),
        2,
        "up to the minimum without any overload"
    );
    model.set_units(9_000);
    model.seconds(60);
    assert_eq!(model.runtimes.len(), 3);
    model.set_units(10);
    model.seconds(60);
    assert_eq!(model.runtimes.len(), 2);
}

#[test]
fn at_the_maximum_the_least_loaded_takes_flows() {
    let settings = ScalingSettings {
        maximum: 3,
        ..ScalingSettings::default()
    };
    let mut model = Model::new(settings, &[300, 2_900, 100]);
    model.seconds(10);
    assert_eq!(model.count(is_add), 0);
    assert!(!model.lost_now(), "{:?}", model.log);
    // All full: nothing is to be done, and nothing is.
    let mut full = Model::new(settings, &[3_000, 3_000, 3_000]);
    full.seconds(30);
    assert_eq!(full.log, []);
}

#[test]
fn an_operators_runtimes_are_not_emptied_before_an_overload_has_shown_what_one_can_do() {
    let mut model = Model::new(ScalingSettings::default(), &[10, 10, 10]);
    model.seconds(100);
    assert_eq!(model.log, []);
    let settings = ScalingSettings {
        capacity: 40_000,
        ..ScalingSettings::default()
    };
    let mut known = Model::new(settings, &[10, 10, 10]);
    known.seconds(100);
    assert_eq!(known.runtimes.len(), 1);
}

#[test]
fn what_is_not_emptied_is_told_again() {
    let settings = ScalingSettings {
        capacity: 40_000,
        ..ScalingSettings::default()
    };
    let mut scaling = Scaling::new(settings).unwrap();
    let cluster = [RuntimeId(0), RuntimeId(1)];
    let mut drains = Vec::new();
    for second in 0..60u64 {
        let load = |units| Load {
            packets: second * 100,
            units,
            ..Load::default()
        };
        let reports = [(cluster[0], load(50)), (cluster[1], load(60))];
        for decision in scaling.step(Time(second * SECOND), &reports, &cluster, FREE) {
            drains.push((second, decision.action));
        }
    }
    let runtime = RuntimeId(0);
    let mode = MoveMode::Push;
    assert_eq!(
        drains,
        [
            (10, Action::Drain { runtime, mode }),
            (40, Action::Drain { runtime, mode })
        ]
    );
}

#[test]
fn counts_that_run_backwards_and_strangers_are_not_believed() {
    let mut scaling = Scaling::new(ScalingSettings::default()).unwrap();
    let cluster = [RuntimeId(0)];
    let load = |packets, drops| Load {
        packets,
        drops,
        units: 1_000,
        held_back: 0,
    };
    assert_eq!(
        scaling.step(
            Time(0),
            &[(RuntimeId(0), load(10, u64::MAX / 2))],
            &cluster,
            FREE
        ),
        []
    );
    assert_eq!(
        scaling.step(Time(SECOND), &[(RuntimeId(0), load(5, 0))], &cluster, FREE),
        []
    );
    let stranger = [(RuntimeId(9), load(0, u64::MAX))];
    assert_eq!(
        scaling.step(Time(2 * SECOND), &stranger, &cluster, FREE),
        []
    );
    // Twice in one instant: the second has no rate.
    let twice = [
        (RuntimeId(0), load(6, 0)),
        (RuntimeId(0), load(7, 1_000_000)),
    ];
    assert_eq!(scaling.step(Time(3 * SECOND), &twice, &cluster, FREE), []);
    let decided = scaling.step(
        Time(4 * SECOND),
        &[(RuntimeId(0), load(8, 1_000))],
        &cluster,
        FREE,
    );
    let actions: Vec<Action> = decided.iter().map(|decision| decision.action).collect();
    assert_eq!(actions, [Action::Add]);
    let why = decided[0].why.to_string();
    assert_eq!(why, "runtime 0 took in 2 packets per second, lost 1000");
}

#[test]
fn several_hot_reports_can_be_asked_for() {
    let settings = ScalingSettings {
        hot_reports: 3,
        ..ScalingSettings::default()
    };
    let mut model = Model::new(settings, &[1_000]);
    model.seconds(3);
    for _ in 0..10 {
        model.set_units(3_000);
        model.seconds(2);
        model.set_units(1_000);
        model.seconds(2);
    }
    assert_eq!(model.log, []);
    model.set_units(3_000);
    model.seconds(3);
    assert_eq!(model.count(is_add), 1);
}

#[test]
fn the_same_calls_give_the_same_actions() {
    let run = || {
        let mut model = Model::new(ScalingSettings::default(), &[500, 900]);
        for step in 0..400u32 {
            model.set_units(500 + 9_000 * (step % 100) / 100);
            model.second();
        }
        (model.log, model.scaling)
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    let length = first.0.len();
    assert!(length > 20, "{length} actions");
}

#[test]
fn settings_without_sense_are_named() {
    let with = |change: fn(&mut ScalingSettings)| {
        let mut settings = ScalingSettings::default();
        change(&mut settings);
        Scaling::new(settings).unwrap_err().to_string()
    };
    assert_eq!(with(|s| s.batch = 0), "`batch` is 0: write at least 1");
    assert_eq!(with(|s| s.minimum = 0), "`minimum` is 0: write at least 1");
    assert_eq!(
        with(|s| (s.minimum, s.maximum) = (3, 2)),
        "`minimum` is above `maximum`: no number of runtimes fits"
    );
    assert_eq!(
        with(|s| s.full = 1_001),
        "`full` is above 1000 parts per thousand, the whole"
    );
}

/// Numbers below `n`, one after another.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 1) * u128::from(n)) >> 63) as u64
    }
}

#[test]
fn whatever_happens_bounds_hold_and_actions_make_sense() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let settings = ScalingSettings {
            minimum: 1 + dice.below(2) as u32,
            maximum: 2 + dice.below(5) as u32,
            cool_down: dice.below(12) * SECOND,
            calm_reports: 1 + dice.below(5) as u32,
            hot_reports: 1 + dice.below(3) as u32,
            patience: (2 + dice.below(20)) * SECOND,
            ..ScalingSettings::default()
        };
        let mut model = Model::new(settings, &[100, 100]);
        for _ in 0..400 {
            if dice.below(10) == 0 {
                model.set_units(dice.below(20_000) as u32);
            }
            if dice.below(40) == 0 && model.runtimes.len() > 1 {
                let dead = *model.runtimes.keys().next().unwrap();
                model.runtimes.remove(&dead);
                model.draining = model.draining.filter(|id| *id != dead);
            }
            if model.open().is_empty() {
                break;
            }
            model.start_delay = Some(1 + dice.below(30)).filter(|delay| *delay < 25);
            model.mute = model
                .runtimes
                .keys()
                .copied()
                .filter(|_| dice.below(8) == 0)
                .collect();
            let before: Vec<_> = model.runtimes.keys().copied().collect();
            let leaving = model.scaling.leaving().filter(|id| before.contains(id));
            let actions = model.second();
            let adds = actions.iter().filter(|a| is_add(a)).count();
            assert!(adds <= 1, "{actions:?}");
            assert!(
                adds == 0 || before.len() < settings.maximum as usize,
                "{actions:?}"
            );
            for action in &actions {
                match *action {
                    Action::Move {
                        from, to, count, ..
                    } => {
                        assert!(count > 0 && count <= settings.batch);
                        assert!(model.runtimes.contains_key(&from) && from != to);
                        assert_ne!(Some(from), leaving);
                    }
                    Action::Drain { runtime, .. } => match leaving {
                        Some(told) => assert_eq!(told, runtime, "told again"),
                        None => assert!(before.len() > settings.minimum as usize),
                    },
                    Action::Remove { runtime } => assert_eq!(leaving, Some(runtime)),
                    Action::Add => {}
                }
            }
        }
    }
}
