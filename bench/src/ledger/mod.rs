//! A ledger of numbered packets through weir while runtimes are killed: docs/benchmarks.md,
//! "When a runtime is killed".

mod bed;
mod book;
mod nemesis;
mod packet;
mod traffic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::log::Log;
use crate::stats::Spread;
use crate::wire::enter;
use bed::{Bed, Process, Switches, Way};
use book::Verdict;
use nemesis::{Choice, Fault, Nemesis};
use traffic::Shared;

/// Longest wait until all flows are protected.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at whether all is protected.
const LOOK: Duration = Duration::from_millis(20);

/// Settings of a measurement.
#[derive(Clone, Debug)]
struct Settings {
    flows: u32,
    rate: u64,
    faults: u32,
    choice: Choice,
    /// Runtimes on other hosts, instead of processes of this one.
    hosts: bool,
    replication: String,
    heartbeat: u64,
    ports: String,
    runtimes: u32,
    /// A switch stands by on another host.
    has_spare: bool,
}

impl Settings {
    fn of(words: &[&str]) -> Result<Settings, String> {
        let mut settings = Settings {
            flows: 100_000,
            rate: 100_000,
            faults: 20,
            choice: Choice::Always(Fault::Kill),
            hosts: false,
            replication: "each-burst".to_owned(),
            heartbeat: 5,
            ports: "af-packet".to_owned(),
            runtimes: 3,
            has_spare: false,
        };
        for word in words {
            settings.apply(word).ok_or_else(|| {
                format!(
                    "`{word}`: write quick, flows=N, rate=N, faults=N, runtimes=N, hosts, switch, upgrade, standby, \
                     cut, cut=MS, deaf=MS, mute=MS, seed=N and after it overlap, heartbeat=MS, replication=WHEN or \
                     ports=xdp|af-packet"
                )
            })?;
        }
        Ok(settings)
    }

    /// Takes a word of the command line; `None` where it is none.
    fn apply(&mut self, word: &str) -> Option<()> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let small = |text: &str| number(text).and_then(|number| u32::try_from(number).ok());
        match word.split_once('=').unwrap_or((word, "")) {
            ("quick", "") => {
                (self.flows, self.rate, self.faults) = (5_000, 10_000, 3);
                Some(())
            }
            ("flows", n) => small(n).map(|n| self.flows = n),
            ("rate", n) => number(n).map(|n| self.rate = n),
            ("faults", n) => small(n).map(|n| self.faults = n),
            ("runtimes", n) => small(n).map(|n| self.runtimes = n),
            ("heartbeat", n) => number(n).map(|n| self.heartbeat = n),
            ("hosts", "") => {
                self.hosts = true;
                Some(())
            }
            ("switch", "") => {
                self.choice = Choice::Always(Fault::KillSwitch);
                self.hosts = true;
                Some(())
            }
            ("upgrade", "") => {
                self.choice = Choice::Always(Fault::Upgrade);
                self.hosts = true;
                Some(())
            }
            ("standby", "") => {
                self.choice = Choice::Always(Fault::LoseHost);
                (self.hosts, self.has_spare) = (true, true);
                Some(())
            }
            ("cut", "") => {
                self.cut(Way::Both, 2_000);
                Some(())
            }
            ("cut", n) => number(n).map(|ms| self.cut(Way::Both, ms)),
            ("deaf", n) => number(n).map(|ms| self.cut(Way::To, ms)),
            ("mute", n) => number(n).map(|ms| self.cut(Way::From, ms)),
            ("seed", n) => number(n).map(|seed| {
                let overlap = false;
                self.choice = Choice::Drawn { seed, overlap };
            }),
            ("overlap", "") => match &mut self.choice {
                Choice::Drawn { overlap, .. } => {
                    *overlap = true;
                    Some(())
                }
                Choice::Always(_) => None,
            },
            ("replication", what) => {
                self.replication = what.to_owned();
                Some(())
            }
            ("ports", what @ ("xdp" | "af-packet")) => {
                self.ports = what.to_owned();
                Some(())
            }
            _ => None,
        }
    }

    /// Hosts are cut off for so many milliseconds.
    fn cut(&mut self, way: Way, ms: u64) {
        let cut = Fault::Cut(way, Duration::from_millis(ms));
        (self.choice, self.hosts) = (Choice::Always(cut), true);
    }

    /// The words of `weir run` that place the runtimes.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["--runtimes".to_owned(), self.runtimes.to_string()];
        words.extend(["--replication".to_owned(), self.replication.clone()]);
        let hosts = match self.has_spare {
            true => "10.98.0.1:4790,10.98.0.2:4790,10.98.0.3:4790",
            false => "local,10.98.1.2:4790,10.98.2.2:4790",
        };
        let heartbeat = self.heartbeat.to_string();
        match self.hosts {
            false => words.push("--processes".to_owned()),
            true => words.extend(["--hosts", hosts, "--heartbeat", &heartbeat].map(str::to_owned)),
        }
        words.extend(self.has_spare.then(|| "--standby".to_owned()));
        words
    }
}

/// Measures, prints and writes `bench/results/ledger.jsonl`; an error where a packet is lost,
/// doubled or reordered, a mapping changes, or weir's counts disagree.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let settings = Settings::of(words)?;
    let mut log = Log::create("ledger.jsonl")?;
    log.line(&json!({"settings": format!("{settings:?}")}))?;
    let mut bed = Bed::new(settings.has_spare, settings.heartbeat)?;
    let mut agents = match settings.hosts {
        true => bed.agents(settings.flows)?,
        false => Vec::new(),
    };
    let weir = bed.run(settings.flows, &settings.ports, &settings.words())?;
    let mut switches = Switches::of(&bed, weir)?;
    let shared = Shared::new();
    let (flows, rate) = (settings.flows, settings.rate);
    let receiver = at(&bed, "server", &shared, move |shared| {
        traffic::receive(shared, flows)
    });
    let sender = at(&bed, "client", &shared, move |shared| {
        traffic::send(shared, flows, rate)
    });
    let faults = go_through(
        &settings,
        &bed,
        (&mut switches, &mut agents),
        &shared,
        &mut log,
    );
    shared.stop_sending();
    let sent = sender.join().map_err(|_| "the sender died")?;
    settle(&shared);
    // Its end lets out what it still has.
    let over = switches.end();
    std::thread::sleep(Duration::from_millis(100));
    shared.stop_receiving();
    let verdict = receiver.join().map_err(|_| "the receiver died")?;
    let (faults, sent, verdict) = (faults?, sent?, verdict?);
    over?;
    // A switch that hands over prints none.
    let summary = match settings.has_spare {
        true => Value::Null,
        false => bed.summary()?,
    };
    tell(&faults);
    judge(&settings, sent, verdict, &summary, &mut log)?;
    log.finish()
}

fn at<T: Send + 'static>(
    bed: &Bed,
    place: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, String> + Send + 'static,
) -> std::thread::JoinHandle<Result<T, String>> {
    let (place, shared) = (bed.place(place), Arc::clone(shared));
    std::thread::spawn(move || {
        enter(&place)?;
        work(&shared)
    })
}

/// Waits until nothing comes any more.
fn settle(shared: &Shared) {
    let mut last = shared.so_far();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        let now = shared.so_far();
        if now.0 == now.1 || now == last {
            return;
        }
        last = now;
    }
}

/// A fault, as packets and operators saw it.
struct Seen {
    /// The longest delay of a packet in as long a time before, in ms.
    quiet: f64,
    /// The longest delay of a packet from the fault on until all was protected again, in ms.
    pause: f64,
    /// From the fault on until each flow had a second holder again, in s.
    protected: f64,
}

fn go_through(
    settings: &Settings,
    bed: &Bed,
    (switches, agents): (&mut Switches, &mut [Process]),
    shared: &Shared,
    log: &mut Log,
) -> Result<Vec<Seen>, String> {
    let all = Duration::from_secs_f64(f64::from(settings.flows) / settings.rate as f64);
    std::thread::sleep(all + Duration::from_millis(500));
    let mut deaths = protected(bed, switches, 0)?.1;
    let mut nemesis = Nemesis::new(settings.choice, settings.hosts, settings.has_spare);
    let (mut faults, mut owed) = (Vec::new(), 0);
    for number in 0..settings.faults {
        let attack = nemesis.next(number);
        let fault = attack.fault;
        // A killed switch loses its packets, so their delays don't show the pause: silence does.
        let is_switch = fault.is_of_switch();
        let longest = || match is_switch {
            true => shared.take_silence(),
            false => shared.take_longest(),
        };
        longest();
        std::thread::sleep(nemesis.pause());
        let quiet = longest();
        let began = Instant::now();
        log.line(&json!({"fault": number, "what": format!("{attack:?}")}))?;
        owed += attack.carry_out(bed, switches, agents)?;
        if settings.has_spare {
            // A victim may be a runtime left by an earlier switch, which no switch counts; each new
            // switch begins its counts at zero.
            (deaths, owed) = (0, 0);
            std::thread::sleep(bed.lease());
        }
        if is_switch {
            // The new one counts anew.
            (deaths, owed) = (0, 0);
        }
        if !attack.is_mended {
            continue;
        }
        let (at, now) = protected(bed, switches, deaths + owed)
            .map_err(|why| format!("fault {number}, {attack:?}: {why}"))?;
        (deaths, owed) = (now, 0);
        let seen = Seen {
            quiet,
            pause: longest(),
            protected: at.duration_since(began).as_secs_f64(),
        };
        println!(
            "{number:>4}  pause {:>8.1} ms   before {:>8.1} ms   protected after {:>5.2} s   {fault:?}",
            seen.pause, seen.quiet, seen.protected
        );
        log.line(&json!({
            "fault": number, "pause_ms": seen.pause, "quiet_ms": seen.quiet,
            "protected_s": seen.protected,
        }))?;
        faults.push(seen);
        switches.mend(bed)?;
    }
    protected(bed, switches, deaths + owed)?;
    // A packet more of each flow: it has come through what was there before.
    std::thread::sleep(all + Duration::from_millis(500));
    Ok(faults)
}

/// Waits until so many runtimes have died, all places have one again, and each flow a second
/// holder: when, and how many have died.
fn protected(
    bed: &Bed,
    switches: &mut Switches,
    mut deaths: u64,
) -> Result<(Instant, u64), String> {
    let until = Instant::now() + PATIENCE;
    let mut last = Value::Null;
    while Instant::now() < until {
        let now = Instant::now();
        if switches.settle(bed)? {
            // The new one counts anew.
            deaths = 0;
            switches.mend(bed)?;
        }
        last = match bed.stats() {
            Ok(stats) => stats,
            // It gives way just now.
            Err(why) if bed.has_spare() => Value::String(why),
            Err(why) => return Err(why),
        };
        let all = |of: &str| last[of].as_array().cloned().unwrap_or_default();
        let died: u64 = all("runtimes")
            .iter()
            .filter_map(|place| place["died"].as_u64())
            .sum();
        let ready = all("runtimes")
            .iter()
            .all(|place| place["state"] == "ready");
        let whole = |switch: &Value| switch["unprotected"] == 0 && switch["unsettled"] == 0;
        if last.is_object() && died >= deaths && ready && all("switches").iter().all(whole) {
            return Ok((now, died));
        }
        std::thread::sleep(LOOK);
    }
    Err(format!(
        "flows are not protected after {} s: {} {}",
        PATIENCE.as_secs(),
        last["runtimes"],
        last["switches"]
    ))
}

fn tell(faults: &[Seen]) {
    let of = |value: fn(&Seen) -> f64| Spread::of(&faults.iter().map(value).collect::<Vec<_>>());
    let most = |value: fn(&Seen) -> f64| faults.iter().map(value).fold(0.0, f64::max);
    println!(
        "\npause: median {:.1} ms, longest {:.1} ms; before a fault: median {:.1} ms; \
         protected after: median {:.2} s, longest {:.2} s",
        of(|seen| seen.pause).median,
        most(|seen| seen.pause),
        of(|seen| seen.quiet).median,
        of(|seen| seen.protected).median,
        most(|seen| seen.protected),
    );
}

/// Compares the ledger with what weir says of itself.
fn judge(
    settings: &Settings,
    sent: u64,
    verdict: Verdict,
    summary: &Value,
    log: &mut Log,
) -> Result<(), String> {
    let lost = sent - verdict.came;
    let sum = |of: &Value| -> u64 {
        let counts = of.as_object().into_iter().flatten();
        counts.filter_map(|(_, count)| count.as_u64()).sum()
    };
    let counted = sum(&summary["drops"]);
    println!(
        "sent {sent}, came {}, lost {lost} (weir has counted {counted}), doubled {}, reordered {}, \
         other mapping {}, unknown {}",
        verdict.came, verdict.doubled, verdict.reordered, verdict.remapped, verdict.unknown
    );
    log.line(&json!({
        "sent": sent, "came": verdict.came, "lost": lost, "counted": counted,
        "doubled": verdict.doubled, "reordered": verdict.reordered,
        "remapped": verdict.remapped, "unknown": verdict.unknown,
        "drops": summary["drops"], "switch": summary["switch"],
    }))?;
    let clean = Verdict {
        came: verdict.came,
        ..Verdict::default()
    };
    let of_switch = matches!(settings.choice, Choice::Always(fault) if fault.is_of_switch());
    if settings.has_spare || of_switch {
        // Each switch has its own counts. What one had is lost with it; nothing else may be.
        return match verdict == clean {
            true => Ok(()),
            false => Err("not as it should be".to_owned()),
        };
    }
    if counted != lost {
        let says = &summary["drops"];
        return Err(format!("{lost} packets are lost, weir says {says}"));
    }
    // While the switch waits for a process that stands still, the port takes no packets in.
    let stops = matches!(settings.choice, Choice::Drawn { .. }) && !settings.hosts;
    let waited = summary["drops"]["kernel_dropped"].as_u64();
    let ours = lost - waited.filter(|_| stops).unwrap_or(0);
    let overlap = matches!(settings.choice, Choice::Drawn { overlap: true, .. });
    let units_lost = summary["switch"]["unit_lost"].as_u64();
    let is_right = match overlap && units_lost.is_some_and(|units| units > 0) {
        // Where owner and replica of a flow have died, it begins anew.
        true => {
            verdict
                == Verdict {
                    remapped: verdict.remapped,
                    ..clean
                }
        }
        false => ours == 0 && verdict == clean,
    };
    let warnings = summary["warnings"].as_array().into_iter().flatten();
    let mut faulty = warnings.filter(|warning| {
        let text = warning.as_str().unwrap_or_default();
        text.contains("fault of weir") || text.contains("not given back")
    });
    if let Some(warning) = faulty.next() {
        return Err(format!("weir says of itself: {warning}"));
    }
    match is_right {
        true => Ok(()),
        false => Err(format!("not as it should be: {}", summary["drops"])),
    }
}
