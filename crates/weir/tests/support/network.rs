//! Two hosts with weir between them, in network namespaces of their own.
//!
//! ```text
//!   client (10.99.0.1, fd99::1) ── weir ── server (10.99.0.2, fd99::2)
//! ```

// Each test file uses a part of this.
#![allow(dead_code)]

#[path = "echo.rs"]
mod echo;
#[path = "process.rs"]
pub(crate) mod process;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_io::live::{LiveClock, LiveOptions, LivePort, LiveSpec};
use weir_io::port::OutputPort;
use weir_packet::{FrameMeta, FramePool, MemoryLayout, Side};

use crate::support::Ran;

/// Addresses of the server and of the client, one pair per family.
pub(crate) const SERVER: [&str; 2] = ["10.99.0.2", "fd99::2"];

/// A chain with state: only what clients open passes, and HTTP is followed. Workers can
/// share it out.
pub(crate) const STATEFUL: &str = "\
chain: stateful
flows: {max: 10000}
nfs:
  - firewall:
      default: drop
      rules:
        - accept out tcp to any port 80 name web
        - accept icmp
        - accept icmpv6
  - http
  - monitor
";

/// Runs a program to its end; what it printed, if it succeeded.
pub(crate) fn try_run(program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program).args(args).output();
    let ran = ran.map_err(|error| format!("{program}: {error}"))?;
    if ran.status.success() {
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&ran.stderr);
        Err(format!("{program} {}: {said}", args.join(" ")))
    }
}

#[track_caller]
pub(crate) fn must(program: &str, args: &[&str]) -> String {
    try_run(program, args).unwrap_or_else(|why| panic!("{why}"))
}

/// False, and said aloud, where tests can't make namespaces.
pub(crate) fn possible() -> bool {
    let name = format!("weir-try-{}-{}", std::process::id(), next());
    let tried = try_run("ip", &["netns", "add", &name])
        .and_then(|_| try_run("ip", &["netns", "del", &name]))
        .and_then(|_| try_run("ethtool", &["--version"]));
    if let Err(why) = &tried {
        let text = format!("SKIPPED: live ports need root, ip and ethtool: {why}\n");
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }
    tried.is_ok()
}

fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How the hosts are tied to weir.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cable {
    /// Queues of weir's ends.
    pub(crate) queues: u32,
    /// Queues of the hosts' ends.
    pub(crate) host_queues: u32,
    /// The hosts leave checksums and segments to a card that is not there.
    pub(crate) offloads: bool,
}

/// The namespaces. They go when this is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    prefix: String,
    places: Vec<&'static str>,
}

impl Network {
    /// Namespaces without interfaces.
    pub(crate) fn bare() -> Network {
        let prefix = format!("weir-{}-{}", std::process::id(), next());
        let mut network = Network {
            prefix,
            places: Vec::new(),
        };
        for place in ["client", "weir", "server"] {
            network.add_place(place);
        }
        network
    }

    /// One more namespace, without interfaces.
    pub(crate) fn add_place(&mut self, place: &'static str) {
        let name = self.name(place);
        must("ip", &["netns", "add", &name]);
        self.places.push(place);
        must("ip", &["-n", &name, "link", "set", "lo", "up"]);
        // Hosts speak IPv6 at once, not after they have asked for a second
        // whether an address is taken.
        let no_doubt = "net.ipv6.conf.default.accept_dad=0";
        self.run(place, "sysctl", &["-q", "-w", no_doubt]);
    }

    /// Hosts with an `eth0` each, whose other ends are weir's `inside` and
    /// `outside`.
    pub(crate) fn new(cable: &Cable) -> Network {
        let network = Network::bare();
        let (queues, of_host) = (
            cable.queues.max(1).to_string(),
            cable.host_queues.max(1).to_string(),
        );
        for (host, port) in [("client", "inside"), ("server", "outside")] {
            let (host, weir) = (network.name(host), network.name("weir"));
            must(
                "ip",
                &[
                    "link",
                    "add",
                    "eth0",
                    "netns",
                    &host,
                    "numtxqueues",
                    &of_host,
                    "numrxqueues",
                    &of_host,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    port,
                    "netns",
                    &weir,
                    "numtxqueues",
                    &queues,
                    "numrxqueues",
                    &queues,
                ],
            );
            if !cable.offloads {
                network.inside(&host, "ethtool", &["-K", "eth0", "tx", "off"]);
            }
            must("ip", &["-n", &weir, "link", "set", port, "up"]);
        }
        network.address("client", "eth0", 1);
        network.address("server", "eth0", 2);
        network
    }

    /// Full name of a place.
    pub(crate) fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }

    /// Gives a host's interface its addresses and sets it up.
    pub(crate) fn address(&self, host: &str, interface: &str, number: u32) {
        let host = self.name(host);
        let (four, six) = (format!("10.99.0.{number}/24"), format!("fd99::{number}/64"));
        must("ip", &["-n", &host, "addr", "add", &four, "dev", interface]);
        must(
            "ip",
            &["-n", &host, "addr", "add", &six, "dev", interface, "nodad"],
        );
        must("ip", &["-n", &host, "link", "set", interface, "up"]);
    }

    #[track_caller]
    fn inside(&self, name: &str, program: &str, args: &[&str]) -> String {
        let mut all = vec!["netns", "exec", name, program];
        all.extend(args);
        must("ip", &all)
    }

    /// Runs a program in a place, which must succeed.
    #[track_caller]
    pub(crate) fn run(&self, place: &str, program: &str, args: &[&str]) -> String {
        self.inside(&self.name(place), program, args)
    }

    /// Pings the server at both its addresses, `count` times each.
    #[track_caller]
    pub(crate) fn ping(&self, count: u32) {
        for address in SERVER {
            self.reach("client", address, count);
        }
    }

    /// Pings an address from a place, `count` times. Where none is answered (a queue
    /// was full, a neighbour not yet resolved) it pings again, for a bounded time: one
    /// lost packet says nothing.
    #[track_caller]
    pub(crate) fn reach(&self, place: &str, address: &str, count: u32) {
        let end = Instant::now() + Duration::from_secs(60);
        let interval = Duration::from_millis(20);
        while self.echo(place, address, count, interval).is_empty() {
            assert!(Instant::now() < end, "{address} does not answer");
            std::thread::sleep(interval);
        }
    }

    /// Times of the answers that an address gives to requests from a place.
    pub(crate) fn echo(
        &self,
        place: &str,
        to: &str,
        count: u32,
        interval: Duration,
    ) -> Vec<Duration> {
        let to = to.parse().expect("an address");
        let asked = self.spawn(place, move || {
            echo::echo(to, count, interval, Duration::from_secs(2))
        });
        asked.join().expect("a thread of ours")
    }

    /// Runs `work` on a thread in a place: its sockets are there.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        place: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name(place));
        std::thread::spawn(move || {
            let namespace = File::open(path).expect("the namespace is there");
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(kind),
            )
            .expect("root may move into it");
            work()
        })
    }

    /// Starts `weir run CHAIN ARGS…` between the hosts and waits until its ports
    /// are open.
    pub(crate) fn weir(&self, chain: &str, args: &[&str]) -> Weir {
        let mut command = self.weir_by(env!("CARGO_BIN_EXE_weir"), chain, args);
        let pipes = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("ip is there");
        let mut errors = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut said = String::new();
        // A run that can't begin ends.
        while !said.contains("\nrunning") && errors.read_line(&mut said).is_ok_and(|read| read > 0)
        {
        }
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = errors.read_to_string(&mut rest);
            rest
        });
        Weir { child, said, rest }
    }
}

impl Network {
    /// The command of [`Network::weir`], by a program that may lie elsewhere.
    pub(crate) fn weir_by(&self, program: &str, chain: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name("weir")]);
        command.args([program, "run", chain, "--output", "json"]);
        command.args(args);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in &self.places {
            let _ = try_run("ip", &["netns", "del", &self.name(place)]);
        }
    }
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Weir {
    child: Child,
    /// What it said when it began.
    pub(crate) said: String,
    rest: JoinHandle<String>,
}

impl Weir {
    /// Number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        must("kill", &[signal, &self.child.id().to_string()]);
    }

    /// Has it end by a signal: what it left behind.
    pub(crate) fn end(self, signal: &str) -> Ran {
        self.signal(signal);
        self.wait()
    }

    /// Waits until it ends by itself, for a bounded time.
    pub(crate) fn wait(mut self) -> Ran {
        let end = Instant::now() + Duration::from_secs(120);
        while self.child.try_wait().expect("it is ours").is_none() {
            if Instant::now() > end {
                let _ = self.child.kill();
                panic!("weir does not end: {}", self.said);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = self.child.wait_with_output().expect("it is ours");
        let said = self.said + &self.rest.join().expect("a thread of ours");
        assert!(!said.contains("panicked"), "{said}");
        assert!(!said.contains("fault of weir"), "{said}");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: said,
        }
    }

    /// The cores that each of its threads that move packets may run on, as the kernel lists them.
    pub(crate) fn cores(&self) -> Vec<String> {
        let cores = self.cores_by_name().into_iter();
        cores
            .filter(|(name, _)| name != "control" && name != "relay")
            .map(|(_, cores)| cores)
            .collect()
    }

    /// The cores of all its threads, by the threads' names.
    pub(crate) fn cores_by_name(&self) -> Vec<(String, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let list = |task: std::io::Result<std::fs::DirEntry>| {
            let path = task.expect("it runs").path().join("status");
            let text = std::fs::read_to_string(path).expect("it runs");
            let word = |key: &str| {
                let line = text.lines().find(|line| line.starts_with(key));
                line.and_then(|line| line.split_whitespace().last())
                    .expect("the kernel lists them")
                    .to_owned()
            };
            (word("Name:"), word("Cpus_allowed_list:"))
        };
        tasks.map(list).collect()
    }

    /// Waits until it is gone, whatever killed it.
    pub(crate) fn gone(mut self) {
        let _ = self.child.wait();
    }

    /// Octets of memory that it has in use.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.and_then(|line| line.split_whitespace().next());
        1_024 * words.and_then(|n| n.parse::<u64>().ok()).expect("a number")
    }

    /// Seconds of processor time that it has used.
    pub(crate) fn processor_time(&self) -> f64 {
        let mut processes = process::children(self.id());
        processes.insert(self.id());
        processes
            .into_iter()
            .map(|process| scheduled(process).0)
            .sum()
    }

    /// Seconds in which its threads ran or waited for a processor: did not sleep.
    pub(crate) fn wakeful_time(&self) -> f64 {
        let (ran, waited) = scheduled(self.id());
        ran + waited
    }
}

/// Seconds that a process's threads ran, and waited to run, as the scheduler
/// measured: ticks are ten milliseconds long.
fn scheduled(process: u32) -> (f64, f64) {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let spent = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.ok()?.path().join("schedstat");
        let text = std::fs::read_to_string(path).ok()?;
        let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let all = tasks.filter_map(spent);
    let (ran, waited) = all.fold((0.0, 0.0), |sum, (ran, waited)| {
        (sum.0 + ran, sum.1 + waited)
    });
    (ran / 1e9, waited / 1e9)
}

/// An address and a port, as a URL writes them.
pub(crate) fn at(address: &str, port: u16) -> std::net::SocketAddr {
    (address.parse::<IpAddr>().expect("an address"), port).into()
}

/// Frames as they are, on an interface of the thread's namespace.
pub(crate) struct Raw {
    port: Box<dyn LivePort>,
    pool: FramePool,
}

impl Raw {
    pub(crate) fn open(interface: &str) -> Raw {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let options = LiveOptions {
            number: 0,
            side: Side::Inside,
            clock: LiveClock::start(),
            busy_poll: false,
        };
        let spec = LiveSpec::Packet {
            interface: interface.to_owned(),
        };
        let port = spec
            .open(options, &mut pool)
            .expect("the interface is there");
        Raw { port, pool }
    }

    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        let mut copy = |frame: &Vec<u8>| self.pool.copy(frame, FrameMeta::default());
        let mut copies: Vec<_> = frames.iter().map(|f| copy(f).expect("a frame")).collect();
        let sent = self.port.send(&mut self.pool, &mut copies);
        sent.expect("it is up");
        let dropped = OutputPort::counters(&*self.port).dropped();
        assert_eq!(dropped, 0, "all were sent");
    }

    /// All frames until it is told to stop, and what has come by then.
    pub(crate) fn listen(&mut self, over: &AtomicBool) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let last = over.load(Ordering::Relaxed);
            self.take(&mut all);
            if last {
                return all;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn take(&mut self, all: &mut Vec<Vec<u8>>) {
        let mut frames = Vec::new();
        self.port
            .receive(&mut self.pool, &mut frames, 64)
            .expect("it is up");
        for frame in frames {
            all.push(self.pool.memory().bytes(&frame).to_vec());
            self.pool.give(frame);
        }
    }

    /// The first `count` frames that are `wanted`, or what came of them in a minute.
    pub(crate) fn receive(
        &mut self,
        count: usize,
        wanted: impl Fn(&Vec<u8>) -> bool,
    ) -> Vec<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(60);
        let mut all = Vec::new();
        while all.len() < count && Instant::now() < end {
            self.take(&mut all);
            all.retain(&wanted);
            std::thread::sleep(Duration::from_millis(1));
        }
        all
    }
}
