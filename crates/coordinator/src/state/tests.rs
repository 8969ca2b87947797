use super::*;

/// A host as its agent runs it: it does what it is told, one step at a time.
#[derive(Debug, Default)]
struct Machine {
    session: Option<Session>,
    told: Vec<v1::Share>,
    runs: BTreeMap<String, v1::ShareReport>,
}

/// Numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

const HOSTS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const NAMES: [&str; 2] = ["edge", "core"];
const NOW: Duration = Duration::ZERO;

fn wanted(name: &str, hosts: &[&str], ports: &str, text: &str) -> Wanted {
    Wanted {
        facts: Facts {
            name: name.to_owned(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            switches: vec![hosts[0].to_owned()],
            addresses: vec![format!("{name}:1")],
            keys: BTreeMap::from([
                ("hosts".to_owned(), hosts.join(",")),
                ("ports".to_owned(), ports.to_owned()),
            ]),
            prices: None,
        },
        files: v1::Files {
            composition: "edge.yaml".to_owned(),
            files: vec![v1::File {
                path: "edge.yaml".to_owned(),
                content: text.as_bytes().to_vec(),
            }],
        },
    }
}

/// Several hosts, their coordinator, and what is to come of it.
struct World {
    state: State,
    hosts: BTreeMap<&'static str, Machine>,
    draws: Draws,
    sessions: u64,
    /// Reloads that met a host with other files.
    torn: u64,
    /// Files that were put in place before all hosts held them.
    early: u64,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            state: State::default(),
            hosts: HOSTS
                .into_iter()
                .map(|host| (host, Machine::default()))
                .collect(),
            draws: Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            sessions: 0,
            torn: 0,
            early: 0,
        }
    }

    fn apply(&mut self, wanted: Wanted) -> Takes {
        let (takes, _) = self.state.plan(&wanted, false);
        if takes != Takes::Nothing {
            let key = [self.draws.below(256) as u8; 16];
            let taken = self.state.next(wanted, takes, key);
            self.state.take(NOW, taken);
        }
        takes
    }

    fn connect(&mut self, name: &'static str) {
        self.sessions += 1;
        let session = Session(self.sessions);
        let from = ("192.0.2.1:9".to_owned(), "0.1.0".to_owned());
        self.state.connect(NOW, (name, session), from).unwrap();
        self.hosts.get_mut(name).unwrap().session = Some(session);
        self.say(name);
    }

    fn lose(&mut self, name: &'static str) {
        let host = self.hosts.get_mut(name).unwrap();
        if let Some(session) = host.session.take() {
            self.state.disconnect(NOW, name, session);
        }
    }

    fn say(&mut self, name: &'static str) {
        let host = &self.hosts[name];
        let Some(session) = host.session else {
            return;
        };
        let shares = host.runs.values().cloned().collect();
        self.state.report(name, session, v1::HostReport { shares });
    }

    fn deliver(&mut self) {
        for (session, shares) in self.state.orders() {
            let mut hosts = self.hosts.values_mut();
            let host = hosts.find(|host| host.session == Some(session)).unwrap();
            host.told = shares.shares;
        }
    }

    /// A host does one thing that it was told.
    fn work(&mut self, name: &'static str) {
        let is_first = |share: &v1::Share| {
            let taken = self.state.taken(&share.composition);
            taken.is_some_and(|taken| taken.wanted.facts.hosts[0] == name)
        };
        let host = &self.hosts[name];
        let told = host.told.clone();
        let ends: Vec<String> = (host.runs.keys())
            .filter(|run| !told.iter().any(|share| share.composition == **run))
            .cloned()
            .collect();
        let others: Vec<BTreeMap<String, v1::ShareReport>> =
            self.hosts.values().map(|host| host.runs.clone()).collect();
        let host = self.hosts.get_mut(name).unwrap();
        if let Some(end) = ends.first() {
            host.runs.remove(end);
            return;
        }
        for share in &told {
            let run = host.runs.entry(share.composition.clone()).or_default();
            run.composition = share.composition.clone();
            run.wanted = share.revision;
            if run.held != share.revision {
                assert!(share.files.is_some(), "files that nobody has sent");
                run.held = share.revision;
            } else if run.epoch != share.epoch {
                run.epoch = share.epoch;
                (run.revision, run.running) = (share.revision, 0);
                (run.state, run.switch) = (STARTING.to_owned(), String::new());
            } else if run.revision != share.revision && share.put {
                run.revision = share.revision;
                // One that is deleted, or begins anew, has no hosts that could lack them.
                let many = self.state.taken(&share.composition);
                let many = many.filter(|taken| taken.epoch == share.epoch);
                let many = many.map_or(0, |taken| taken.wanted.facts.hosts.len());
                let held = others.iter().filter(|runs| {
                    let other = runs.get(&share.composition);
                    other.is_some_and(|other| other.held >= share.revision)
                });
                self.early += u64::from(held.count() < many);
            } else if run.state != READY {
                run.state = READY.to_owned();
                if is_first(share) {
                    (run.switch, run.running) = (RUNS.to_owned(), share.revision);
                }
            } else if share.reload && run.switch == RUNS && run.running != share.revision {
                run.running = share.revision;
                let many = self.state.taken(&share.composition);
                let many = many.filter(|taken| taken.epoch == share.epoch);
                let many = many.map_or(0, |taken| taken.wanted.facts.hosts.len());
                let same = others.iter().filter(|runs| {
                    let other = runs.get(&share.composition);
                    other.is_some_and(|other| other.revision == share.revision)
                });
                self.torn += u64::from(same.count() < many);
            } else {
                continue;
            }
            return;
        }
    }

    /// One step of anybody.
    fn step(&mut self) {
        let host = HOSTS[self.draws.below(HOSTS.len())];
        match self.draws.below(12) {
            0 => self.connect(host),
            1 => self.lose(host),
            2..=5 => self.work(host),
            6..=7 => self.say(host),
            8..=9 => self.deliver(),
            10 => {
                let name = NAMES[self.draws.below(NAMES.len())];
                let first = self.draws.below(2);
                let ports = ["gen", "gen", "gen", "null"][self.draws.below(4)];
                let text = self.draws.below(1_000).to_string();
                self.apply(wanted(name, &HOSTS[first..first + 3], ports, &text));
            }
            _ => {
                if self.draws.below(8) == 0 {
                    self.state.delete(NAMES[self.draws.below(NAMES.len())]);
                }
            }
        }
    }

    /// All hosts are there, and do all that is left.
    fn settle(&mut self) {
        for host in HOSTS {
            self.connect(host);
        }
        for _ in 0..40 {
            self.deliver();
            for host in HOSTS {
                self.work(host);
                self.say(host);
            }
        }
    }
}

#[test]
fn hosts_have_what_is_wanted_whatever_comes_in_between() {
    for seed in 1..=400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.settle();
        assert_eq!(world.torn, 0, "seed {seed}: a reload met other files");
        assert_eq!(world.early, 0, "seed {seed}: files that not all hosts hold");
        for shown in world.state.compositions(NOW) {
            assert_eq!(shown.state, "ready", "seed {seed}: {shown:?}");
            assert_eq!(shown.running, shown.revision, "seed {seed}");
        }
        for (name, host) in &world.hosts {
            let compositions = world.state.compositions.values();
            let its = compositions.map(|it| &it.taken);
            let its = its.filter(|taken| taken.wanted.facts.hosts.iter().any(|it| it == name));
            let its: Vec<(&String, u64, u64)> = its
                .map(|taken| (&taken.wanted.facts.name, taken.epoch, taken.revision))
                .collect();
            let runs: Vec<(&String, u64, u64)> = (host.runs.values())
                .map(|run| (&run.composition, run.epoch, run.revision))
                .collect();
            assert_eq!(runs, its, "seed {seed}, host {name}");
        }
    }
}

/// What a coordinator that starts again says is what the one before said.
#[test]
fn one_that_starts_again_disturbs_nobody() {
    let mut world = World::new(7);
    world.apply(wanted("edge", &HOSTS[..3], "gen", "1"));
    world.apply(wanted("edge", &HOSTS[..3], "gen", "2"));
    world.settle();
    let before: Vec<_> = world.hosts.values().map(|host| host.told.clone()).collect();
    let kept = world.state.compositions.values();
    let kept = kept.map(|it| it.taken.clone()).collect();
    world.state = State::restore(0, kept);
    world.settle();
    let after: Vec<_> = world.hosts.values().map(|host| host.told.clone()).collect();
    let without_files = |told: &[v1::Share]| -> Vec<v1::Share> {
        let bare = told.iter().map(|share| v1::Share {
            files: None,
            ..share.clone()
        });
        bare.collect()
    };
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(without_files(before), without_files(after));
        assert!(
            after.iter().all(|share| share.files.is_none()),
            "sent again"
        );
    }
    assert_eq!(world.state.compositions(NOW)[0].state, "ready");
    // Its next change has a greater revision than all before.
    assert_eq!(
        world.apply(wanted("edge", &HOSTS[..3], "gen", "3")),
        Takes::Reload
    );
    assert_eq!(world.state.taken("edge").unwrap().revision, 3);
}

#[test]
fn what_a_change_takes_is_told_with_its_reasons() {
    let mut world = World::new(1);
    let first = wanted("edge", &HOSTS[..3], "gen", "1");
    assert_eq!(world.state.plan(&first, false), (Takes::Start, vec![]));
    world.apply(first.clone());
    assert_eq!(world.state.plan(&first, false), (Takes::Nothing, vec![]));
    let text = wanted("edge", &HOSTS[..3], "gen", "2");
    assert_eq!(world.state.plan(&text, false), (Takes::Reload, vec![]));
    let ports = wanted("edge", &HOSTS[..3], "null", "2");
    assert_eq!(world.state.plan(&first, true), (Takes::Anew, vec![]));
    let why = "`ports` of the composition has changed".to_owned();
    assert_eq!(world.state.plan(&ports, false), (Takes::Anew, vec![why]));
    // A key that the file leaves out is no change, also where only a later program knows the key.
    let mut later = text.clone();
    for (key, nothing) in [("flowlets", "null"), ("tenants", "[]")] {
        later.facts.keys.insert(key.to_owned(), nothing.to_owned());
    }
    assert_eq!(world.state.plan(&later, false), (Takes::Reload, vec![]));
    let key = world.state.taken("edge").unwrap().key;
    let reload = world.state.next(text, Takes::Reload, [9; 16]);
    assert_eq!((reload.revision, reload.epoch, reload.key), (2, 1, key));
    let anew = world.state.next(ports, Takes::Anew, [9; 16]);
    assert_eq!((anew.revision, anew.epoch, anew.key), (2, 2, [9; 16]));
}

#[test]
fn a_reload_that_is_refused_or_a_host_that_is_gone_is_told() {
    let mut world = World::new(1);
    world.apply(wanted("edge", &HOSTS[..3], "gen", "1"));
    let shown = |world: &World| {
        let shown = world.state.compositions(NOW).remove(0);
        (shown.state, shown.why)
    };
    assert_eq!(shown(&world).0, "degraded");
    world.settle();
    assert_eq!(shown(&world), ("ready".to_owned(), String::new()));
    world.lose("gamma");
    let gone = "host gamma is not connected".to_owned();
    assert_eq!(shown(&world), ("degraded".to_owned(), gone));
    world.connect("gamma");
    world.apply(wanted("edge", &HOSTS[..3], "gen", "2"));
    // A word about the revision before is none about this one.
    let run = world
        .hosts
        .get_mut("beta")
        .unwrap()
        .runs
        .get_mut("edge")
        .unwrap();
    (run.state, run.why) = (FAILED.to_owned(), "no file".to_owned());
    world.say("beta");
    assert_eq!(shown(&world).0, "progressing");
    let run = world
        .hosts
        .get_mut("alpha")
        .unwrap()
        .runs
        .get_mut("edge")
        .unwrap();
    (run.refused, run.refusal) = (2, "pools can't be reloaded".to_owned());
    world.say("alpha");
    let refused = "pools can't be reloaded".to_owned();
    assert_eq!(shown(&world), ("failed".to_owned(), refused));
    let kinds: Vec<String> = (world.state.changes(0, "edge").into_iter())
        .map(|change| change.kind)
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("applied"));
    assert!(kinds.contains(&"host_lost".to_owned()), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("reload_failed"));
}

/// What a former connection says late is not heard, and its end ends nothing.
#[test]
fn a_former_connection_counts_for_nothing() {
    let mut world = World::new(1);
    world.apply(wanted("edge", &HOSTS[..3], "gen", "1"));
    world.settle();
    let former = world.hosts["alpha"].session.unwrap();
    world.connect("alpha");
    world
        .state
        .report("alpha", former, v1::HostReport::default());
    world.state.disconnect(NOW, "alpha", former);
    assert_eq!(world.state.compositions(NOW)[0].state, "ready");
}

#[test]
fn strangers_are_bounded() {
    let mut state = State::default();
    let of = |n: usize| (format!("h{n}"), (String::new(), String::new()));
    for n in 0..MOST_STRANGERS {
        let (name, from) = of(n);
        state
            .connect(NOW, (&name, Session(n as u64)), from)
            .unwrap();
    }
    let (name, from) = of(MOST_STRANGERS);
    let session = Session(9_999);
    assert!(state.connect(NOW, (&name, session), from.clone()).is_err());
    state.disconnect(NOW, "h3", Session(3));
    state.connect(NOW, (&name, session), from).unwrap();
    assert_eq!(state.machines(NOW).len(), MOST_STRANGERS);
}
