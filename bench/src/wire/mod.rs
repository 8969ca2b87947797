//! weir in a wire beside the kernel in the same wire: docs/benchmarks.md, "In the wire".

mod arms;
mod cores;
mod forwarder;
mod measure;
mod network;
mod queues;
mod report;
mod traffic;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_io::live::EndSignals;

use crate::log::Log;
use arms::{ARMS, Arm, FORWARDER, What, With, chain};
use cores::Group;
use forwarder::Forwarder;
pub(crate) use forwarder::bump;
use network::{Network, Placement};
pub(crate) use network::{enter, try_run};
pub(crate) use queues::run as queues;
pub(crate) use traffic::open_port;

/// Programs that must be there.
const PROGRAMS: [(&str, &str); 8] = [
    ("ip", "-V"),
    ("nft", "-v"),
    ("ethtool", "--version"),
    ("iperf3", "-v"),
    ("taskset", "-V"),
    ("chrt", "-V"),
    ("setsid", "-V"),
    ("pgrep", "-V"),
];

/// How much is measured.
struct Size {
    rounds: u32,
    /// Seconds of each load and transfer.
    seconds: u32,
    rtt: f64,
    idle: f64,
}

const FULL: Size = Size {
    rounds: 5,
    seconds: 2,
    rtt: 1.0,
    idle: 10.0,
};
const QUICK: Size = Size {
    rounds: 1,
    seconds: 1,
    rtt: 0.3,
    idle: 2.0,
};

/// State that the measurements share.
struct Bench {
    group: Group,
    signals: EndSignals,
    /// A signal has come.
    stopped: Cell<bool>,
    folder: PathBuf,
    networks: u32,
    /// Ours go before all other programs of the machine.
    realtime: bool,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    fn new(realtime: bool) -> Result<Bench, String> {
        for (program, version) in PROGRAMS {
            try_run(program, &[version])
                .map_err(|why| format!("{program} is needed ({why}); see docs/benchmarks.md"))?;
        }
        if std::thread::available_parallelism().map_or(1, usize::from) <= FORWARDER {
            return Err("two processors are needed: one for the hosts, one to forward".to_owned());
        }
        let folder = std::env::temp_dir().join(format!("weir-wire-{}", std::process::id()));
        let made = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("wire.yaml"), chain(false)))
            .and_then(|()| std::fs::write(folder.join("router.yaml"), chain(true)));
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Bench {
            signals: EndSignals::open().map_err(|error| error.to_string())?,
            group: Group::enter(),
            stopped: Cell::new(false),
            folder,
            networks: 0,
            realtime,
        })
    }

    /// Sleeps; an error where a signal ends it.
    fn sleep(&self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        loop {
            if self.stopped.get() || self.signals.came() {
                self.stopped.set(true);
                return Err(STOPPED.to_owned());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Starts who forwards, if that is a program.
    fn start(&self, arm: &Arm, network: &Network) -> Result<Option<Forwarder>, String> {
        // Programs look at this when they open their ports.
        if arm.placement == Placement::Polled {
            network.place(arm.without_xdp(), arm.placement)?;
        }
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = program.to_string_lossy();
        // It has a session of its own, as a service has: the scheduler shares processors out among sessions
        // first, and the generator's would take of its share.
        let mut command = network.command("middle", FORWARDER, "setsid");
        if arm.first && !matches!(arm.with, With::Weir(_) | With::Router(_)) {
            command.args(["chrt", "-f", "1"]);
        }
        command.arg(program.as_ref());
        let first = arm.first.then_some("--first");
        let ports = |kind: &str| {
            [network.inside(), network.outside()].map(|name| kind.replace("IFACE", &name))
        };
        let forwarder = match arm.with {
            With::Kernel => None,
            With::Bare(kind) => Some(command.arg("wire-bump").args(ports(kind))),
            With::Weir(kind) => {
                let [inside, outside] = ports(kind);
                command
                    .args(["weir", "run"])
                    .arg(self.folder.join("wire.yaml"))
                    .args(["--in", &inside, "--out", &outside])
                    .args(first)
                    .args(arm.spin.then_some("--busy-poll"));
                Some(&mut command)
            }
            With::Router(kind) => {
                let [inside, outside] = ports(kind);
                command
                    .args(["weir", "run"])
                    .arg(self.folder.join("router.yaml"))
                    .args(["--in", &format!("inside={inside}")])
                    .args(["--in", &format!("outside={outside}")])
                    .args(first);
                Some(&mut command)
            }
        };
        let forwarder = forwarder.map(Forwarder::start).transpose()?;
        if let Some(forwarder) = &forwarder {
            self.first(forwarder.id())?;
        }
        network.place(arm.without_xdp(), arm.placement)?;
        for id in network.threads() {
            let text = id.to_string();
            try_run("taskset", &["-c", "-p", &FORWARDER.to_string(), &text])?;
            self.first(id)?;
            self.group.add(id);
        }
        self.sleep(Duration::from_millis(100))?;
        Ok(forwarder)
    }

    fn first(&self, id: u32) -> Result<(), String> {
        if !self.realtime {
            return Ok(());
        }
        try_run("chrt", &["-f", "-p", "10", &id.to_string()]).map(drop)
    }

    /// Measures an arm once; `asked` says what of it.
    fn arm(
        &mut self,
        arm: &Arm,
        size: &Size,
        asked: impl Fn(What) -> bool,
        mut each: impl FnMut(Result<Value, String>),
    ) -> Result<(), String> {
        if !arm.what.iter().any(|what| asked(*what)) {
            return Ok(());
        }
        self.networks += 1;
        let network = Network::new(self.networks, arm.middle(), arm.offloads)?;
        let forwarder = match self.start(arm, &network) {
            Ok(forwarder) => forwarder,
            Err(why) => {
                each(Err(why));
                return self.sleep(Duration::ZERO);
            }
        };
        for what in arm.what.iter().filter(|what| asked(**what)) {
            match what {
                What::Load => {
                    for flows in [1_000, 50_000] {
                        each(self.load(arm, &network, flows, f64::from(size.seconds)));
                    }
                }
                What::Tcp => each(self.tcp(&network, size.seconds)),
                What::Rtt => {
                    for pause in [0, 200] {
                        each(self.rtt(&network, pause, size.rtt));
                    }
                }
                What::Idle => {
                    if let Some(forwarder) = &forwarder {
                        each(self.idle(forwarder, size.idle));
                    }
                }
            }
            self.sleep(Duration::ZERO)?;
        }
        Ok(())
    }
}

/// Message of a run that a signal has ended.
const STOPPED: &str = "stopped by a signal";

/// Measures. `words`: `quick`, `realtime`, `rounds=N`; names of arms, and of what is measured
/// (`load`, `tcp`, `rtt`, `idle`), to leave out the others.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let (mut size, mut realtime) = (FULL, false);
    let (mut arms, mut whats) = (Vec::new(), Vec::new());
    for word in words {
        match *word {
            "quick" => size = QUICK,
            "realtime" => realtime = true,
            "load" => whats.push(What::Load),
            "tcp" => whats.push(What::Tcp),
            "rtt" => whats.push(What::Rtt),
            "idle" => whats.push(What::Idle),
            _ if ARMS.iter().any(|arm| arm.name == *word) => arms.push(*word),
            _ => match word.strip_prefix("rounds=").map(str::parse) {
                Some(Ok(rounds)) => size.rounds = rounds,
                _ => {
                    let names: Vec<&str> = ARMS.iter().map(|arm| arm.name).collect();
                    return Err(format!(
                        "`{word}`: write quick, realtime, rounds=N, load, tcp, rtt, idle, or an arm: \
                         {}",
                        names.join(", ")
                    ));
                }
            },
        }
    }
    let mut bench = Bench::new(realtime)?;
    let mut log = Log::create("wire.jsonl")?;
    let mut lines = Vec::new();
    let mut failed = 0;
    for round in 0..size.rounds {
        for arm in ARMS {
            if !arms.is_empty() && !arms.contains(&arm.name) {
                continue;
            }
            // Idling is the same in every round.
            let asked = |what: What| {
                (whats.is_empty() || whats.contains(&what)) && (what != What::Idle || round == 0)
            };
            let mut written = Ok(());
            let each = |measured: Result<Value, String>| match measured {
                Ok(mut line) => {
                    line["arm"] = arm.name.into();
                    line["round"] = round.into();
                    println!("{}", report::short(&line));
                    written = std::mem::replace(&mut written, Ok(())).and(log.line(&line));
                    lines.push(line);
                }
                Err(why) => {
                    failed += 1;
                    println!("{round} {}: FAILED: {why}", arm.name);
                }
            };
            bench.arm(arm, &size, asked, each)?;
            written?;
        }
    }
    report::tables(&lines)?;
    log.finish()?;
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} measurements failed; they are above")),
    }
}
