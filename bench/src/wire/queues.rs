//! Two workers with a queue each beside one with both: docs/benchmarks.md, "Workers with queues
//! of their own".

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arms::HOSTS;
use super::network::try_run;
use super::traffic::blast;
use crate::log::Log;

const CHAIN: &str = "chain: queues
ports:
  - {name: inside, side: inside}
  - {name: outside, side: outside}
flows: {max: 100000}
nfs:
  - firewall:
      default: drop
      rules: [accept out udp from 10.0.0.0/8 to any]
";

/// An arm: its name, the arguments, and its workers.
const ARMS: [(&str, &[&str], f64); 3] = [
    ("one", &["--cores", "1"], 1.0),
    ("two", &["--workers", "2", "--cores", "1,0"], 2.0),
    ("two-one-core", &["--workers", "2", "--cores", "1"], 2.0),
];
const KINDS: [(&str, &str); 2] = [
    ("xdp", "xdp:IFACE:native"),
    ("af-packet", "af-packet:IFACE"),
];
const FLOWS: u32 = 10_000;
const WARM_UP: Duration = Duration::from_millis(1_000);

/// Namespaces, removed when this is dropped.
struct Bed {
    mark: String,
}

impl Bed {
    fn new() -> Result<Bed, String> {
        let bed = Bed {
            mark: format!("queues-{}", std::process::id()),
        };
        let [client, weir, server] = ["client", "weir", "server"].map(|place| bed.name(place));
        let queues = "numrxqueues 2 numtxqueues 2";
        let script = format!(
            "for n in {client} {weir} {server}; do
               ip netns add $n
               ip netns exec $n sysctl -qw net.ipv6.conf.default.disable_ipv6=1
             done
             ip link add eth0 netns {client} {queues} type veth peer name inside netns {weir} {queues}
             ip link add eth0 netns {server} {queues} type veth peer name outside netns {weir} {queues}
             for n in {client} {server}; do ip -n $n link set eth0 up; done
             for i in inside outside; do ip -n {weir} link set $i up; done
             ip netns exec {server} nft -f - <<'END'
             table netdev sink {{
               chain door {{
                 type filter hook ingress device eth0 priority 0;
                 ip daddr 198.18.0.0/16 drop
               }}
             }}\nEND\n"
        );
        try_run("sh", &["-euc", &script])?;
        Ok(bed)
    }

    fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.mark)
    }

    /// Packets that the server's interface was given.
    fn arrived(&self) -> Result<u64, String> {
        let server = self.name("server");
        let file = "/sys/class/net/eth0/statistics/rx_packets";
        let text = try_run("ip", &["netns", "exec", &server, "cat", file])?;
        text.trim()
            .parse()
            .map_err(|_| format!("`{text}` is no number"))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for place in ["client", "weir", "server"] {
            let _ = try_run("ip", &["netns", "del", &self.name(place)]);
        }
    }
}

/// Processor time of the threads that move packets, in nanoseconds, by their names.
fn thread_times(process: u32) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter();
    let time = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.ok()?.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let ran = text.split_whitespace().next()?.parse().ok()?;
        Some((name.trim().to_owned(), ran))
    };
    let all = tasks.flatten().filter_map(time);
    all.filter(|(name, _)| name != "control").collect()
}

/// weir, started in its namespace; killed when this is dropped.
struct Weir(Child);

impl Weir {
    fn start(
        bed: &Bed,
        chain: &Path,
        kind: &str,
        args: &[&str],
        out: File,
    ) -> Result<Weir, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let [inside, outside] = ["inside", "outside"].map(|name| kind.replace("IFACE", name));
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &bed.name("weir"), "setsid"])
            .arg(program)
            .args(["weir", "run"])
            .arg(chain)
            .args(["--in", &inside, "--out", &outside, "--output", "json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("ip: {error}"))?;
        let errors = child.stderr.take().ok_or("no standard error")?;
        let weir = Weir(child);
        let mut errors = BufReader::new(errors);
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("running")) {
            if !errors.read_line(&mut said).is_ok_and(|read| read > 0) {
                return Err(format!("it does not start: {}", said.trim()));
            }
        }
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Ok(weir)
    }

    fn end(&mut self) -> Result<(), String> {
        try_run("kill", &["-TERM", &self.0.id().to_string()])?;
        self.0.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One measurement: a line of the raw figures.
fn measure(folder: &Path, kind: &str, args: &[&str], seconds: u64) -> Result<Value, String> {
    let bed = Bed::new()?;
    let (chain, out) = (folder.join("queues.yaml"), folder.join("summary.json"));
    let written = std::fs::write(&chain, CHAIN).and_then(|()| File::create(&out));
    let file = written.map_err(|error| error.to_string())?;
    let mut weir = Weir::start(&bed, &chain, kind, args, file)?;
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let (stop, place) = (Arc::clone(&stop), bed.name("client"));
        std::thread::spawn(move || {
            super::network::enter(&place)?;
            blast(HOSTS, FLOWS, &stop)
        })
    };
    std::thread::sleep(WARM_UP);
    let (from, before, began) = (bed.arrived()?, thread_times(weir.0.id()), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let (to, after, window) = (bed.arrived()?, thread_times(weir.0.id()), began.elapsed());
    stop.store(true, Ordering::Relaxed);
    sender.join().map_err(|_| "the generator died")??;
    weir.end()?;
    let used = |name: &String, time: &u64| time - before.get(name).copied().unwrap_or(0);
    let times: Vec<u64> = after.iter().map(|(name, time)| used(name, time)).collect();
    let all: u64 = times.iter().sum();
    let packets = to.saturating_sub(from);
    if packets == 0 || all == 0 {
        return Err("nothing arrived".to_owned());
    }
    let text = std::fs::read_to_string(&out).map_err(|error| error.to_string())?;
    let summary: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let each = summary["workers"]["each"].as_array();
    let steered = each
        .into_iter()
        .flatten()
        .filter_map(|worker| worker["steered"].as_u64());
    Ok(json!({
        "packets": packets,
        "per_second": packets as f64 / window.as_secs_f64(),
        "thread_ns": times,
        "per_thread_second": packets as f64 / all as f64 * 1e9,
        "steered_share": steered.sum::<u64>() as f64 / summary["packets_in"].as_f64().unwrap_or(1.0),
    }))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures. `words`: `rounds=N`, `seconds=N`.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let (mut rounds, mut seconds) = (5, 3);
    for word in words {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        match word
            .split_once('=')
            .map(|(key, value)| (key, number(value)))
        {
            Some(("rounds", Some(number))) => rounds = number,
            Some(("seconds", Some(number))) => seconds = number,
            _ => return Err(format!("`{word}`: write rounds=N or seconds=N")),
        }
    }
    let folder = std::env::temp_dir().join(format!("weir-queues-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let measured = rows(&folder, rounds, seconds);
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn rows(folder: &Path, rounds: u64, seconds: u64) -> Result<(), String> {
    let mut log = Log::create("queues.jsonl")?;
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        for (kind, port) in KINDS {
            let mut one = f64::NAN;
            for (arm, args, workers) in ARMS {
                let mut line = measure(folder, port, args, seconds)?;
                let speed = line["per_thread_second"].as_f64().unwrap_or(f64::NAN);
                if workers == 1.0 {
                    one = speed;
                }
                // Packets of so many threads at this speed, relative to one thread's.
                let ratio = workers * speed / one;
                line["round"] = round.into();
                line["arm"] = format!("{kind} {arm}").into();
                line["ratio"] = ratio.into();
                println!(
                    "{round} {kind:>9} {arm:<12} {:.3} M/s, {:.3} M per thread second, x {ratio:.2}, {:.0} % steered",
                    line["per_second"].as_f64().unwrap_or(f64::NAN) / 1e6,
                    speed / 1e6,
                    100.0 * line["steered_share"].as_f64().unwrap_or(f64::NAN),
                );
                log.line(&line)?;
                ratios
                    .entry(format!("{kind} {arm}"))
                    .or_default()
                    .push(ratio);
            }
        }
    }
    for (name, ratios) in ratios {
        println!("{name:<24} x {:.2} (median)", median(ratios));
    }
    log.finish()
}
