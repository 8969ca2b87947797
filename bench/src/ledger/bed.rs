//! Hosts in namespaces, weir between them, and agents.
//!
//! ```text
//!   client ── inside  weir  outside ── server
//!                     │  │
//!                   one  two            agents: 10.98.1.2, 10.98.2.2
//! ```
//!
//! With a switch that stands by, two hosts have one, and all are at bridges:
//!
//! ```text
//!             ┌─ weir  ─┐
//!   client ── ┤         ├ ── server
//!             └─ spare ─┘
//!            one  two  three            agents: 10.98.0.1, 10.98.0.2, 10.98.0.3
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::wire::{enter, try_run};

/// Hosts of runtimes, beside that of the switch; the last one only where a switch stands by.
pub(super) const HOSTS: [&str; 3] = ["one", "two", "three"];
/// Hosts of switches; the second one where one stands by.
const SWITCHES: [&str; 2] = ["weir", "spare"];
/// Longest time that weir takes to end, and between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const ENDS: [&str; 2] = ["client", "server"];
const KEY: &str = "8f1d5a0c3b7e9246d0a1b2c3d4e5f607";

/// Which way packets between the switch's host and another one are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The link is down.
    Both,
    /// The other host does not hear.
    To,
    /// It is not heard.
    From,
}

/// The chain: states of which each would break a connection, if it were lost.
fn chain(flows: u32) -> String {
    format!(
        "chain: ledger
ports:
  - {{name: inside, side: inside}}
  - {{name: outside, side: outside}}
flows: {{max: {most}, timeouts: {{udp: 10m}}}}
nfs:
  - firewall:
      default: drop
      rules: [accept out udp from 10.0.0.0/8 to any]
  - nat44: {{pool: 203.0.113.0/28, inside: 10.0.0.0/8}}
",
        most = flows + flows / 8 + 1_000
    )
}

/// Namespaces and files, gone when this is dropped.
pub(super) struct Bed {
    mark: String,
    folder: PathBuf,
    /// The words of the weir that runs.
    words: Vec<OsString>,
    /// A switch stands by.
    has_spare: bool,
    /// Four heartbeats.
    lease: Duration,
}

impl Bed {
    pub(super) fn new(has_spare: bool, heartbeat: u64) -> Result<Bed, String> {
        let mark = format!("ledger-{}", std::process::id());
        let folder = std::env::temp_dir().join(&mark);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let words = Vec::new();
        let bed = Bed {
            mark,
            folder,
            words,
            has_spare,
            lease: Duration::from_millis(4 * heartbeat),
        };
        let places: Vec<String> = bed.places().map(|place| bed.name(place)).collect();
        let mut script = format!(
            "for n in {}; do
               ip netns add $n
               ip netns exec $n sysctl -qw net.ipv6.conf.default.disable_ipv6=1
               ip -n $n link set lo up
             done\n",
            places.join(" ")
        );
        script += &match has_spare {
            true => bed.bridges(),
            false => bed.cables(),
        };
        try_run("sh", &["-euc", &script])?;
        Ok(bed)
    }

    /// Four heartbeats, in which silence is noticed.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// A switch stands by.
    pub(super) fn has_spare(&self) -> bool {
        self.has_spare
    }

    fn places(&self) -> impl Iterator<Item = &'static str> {
        let (switches, hosts, hub) = match self.has_spare {
            true => (2, 3, Some("hub")),
            false => (1, 2, None),
        };
        let switches = SWITCHES.into_iter().take(switches);
        let hosts = HOSTS.into_iter().take(hosts);
        ENDS.into_iter().chain(switches).chain(hosts).chain(hub)
    }

    /// Each at a cable of its own.
    fn cables(&self) -> String {
        let [client, server] = ENDS.map(|place| self.name(place));
        let weir = self.name("weir");
        let mut script = format!(
            "ip link add eth0 netns {client} type veth peer name inside netns {weir}
             ip link add eth0 netns {server} type veth peer name outside netns {weir}
             for n in {client} {server}; do ip -n $n link set eth0 up; done
             for i in inside outside; do ip -n {weir} link set $i up; done\n"
        );
        for (number, host) in (1..).zip(HOSTS).take(2) {
            let name = self.name(host);
            script += &format!(
                "ip link add eth0 netns {name} type veth peer name {host} netns {weir}
                 ip -n {weir} addr add 10.98.{number}.1/24 dev {host}
                 ip -n {name} addr add 10.98.{number}.2/24 dev eth0
                 ip -n {weir} link set {host} up
                 ip -n {name} link set eth0 up\n"
            );
        }
        script
    }

    /// All at bridges.
    fn bridges(&self) -> String {
        let hub = self.name("hub");
        let mut script = format!(
            "for b in inside outside net; do
               ip -n {hub} link add $b type bridge; ip -n {hub} link set $b up
             done\n"
        );
        let mut join = |place: &str, interface: &str, bridge: &str| {
            let name = self.name(place);
            script += &format!(
                "ip link add {interface} netns {name} type veth peer name {place}-{bridge} netns {hub}
                 ip -n {hub} link set {place}-{bridge} master {bridge} up
                 ip -n {name} link set {interface} up\n"
            );
        };
        join("client", "eth0", "inside");
        join("server", "eth0", "outside");
        for place in SWITCHES {
            join(place, "inside", "inside");
            join(place, "outside", "outside");
            join(place, "net", "net");
        }
        for host in HOSTS {
            join(host, "eth0", "net");
        }
        for (number, host) in (1..).zip(HOSTS) {
            let name = self.name(host);
            script += &format!("ip -n {name} addr add 10.98.0.{number}/24 dev eth0\n");
        }
        for (number, host) in (11..).zip(SWITCHES) {
            let name = self.name(host);
            script += &format!("ip -n {name} addr add 10.98.0.{number}/24 dev net\n");
        }
        script
    }

    /// The addresses of agents, as `--hosts` takes them.
    fn agent_at(&self, host: usize) -> String {
        match self.has_spare {
            true => format!("10.98.0.{}:4790", host + 1),
            false => format!("10.98.{}.2:4790", host + 1),
        }
    }

    fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.mark)
    }

    /// The name by which a place is entered on another thread.
    pub(super) fn place(&self, place: &str) -> String {
        self.name(place)
    }

    fn weir(&self, place: &str) -> Result<Command, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(place)]);
        command.arg(program).arg("weir").stdin(Stdio::null());
        Ok(command)
    }

    fn key(&self) -> Result<PathBuf, String> {
        let path = self.key_path();
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, KEY.as_bytes()));
        written.map_err(|error| error.to_string())?;
        Ok(path)
    }

    fn key_path(&self) -> PathBuf {
        self.folder.join("key")
    }

    fn chain_path(&self) -> PathBuf {
        self.folder.join("ledger.yaml")
    }

    fn chain(&self, flows: u32) -> Result<PathBuf, String> {
        let path = self.chain_path();
        std::fs::write(&path, chain(flows)).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// The socket of the weir that runs, or its name where another one stands by.
    fn socket(&self) -> PathBuf {
        match self.has_spare {
            true => self.mark.clone().into(),
            false => self.folder.join("weir.sock"),
        }
    }

    /// Starts an agent on each host.
    pub(super) fn agents(&self, flows: u32) -> Result<Vec<Process>, String> {
        self.chain(flows)?;
        self.key()?;
        let hosts = if self.has_spare { 3 } else { 2 };
        (0..hosts).map(|host| self.agent(host)).collect()
    }

    /// Starts an agent on a host that had one.
    pub(super) fn agent(&self, host: usize) -> Result<Process, String> {
        let mut command = self.weir(HOSTS[host])?;
        command.arg("agent").arg(self.chain_path());
        command.args(["--listen", &self.agent_at(host)]);
        command.arg("--key").arg(self.key_path());
        Process::start(&mut command, "agent for", Stdio::null())
    }

    /// Starts weir between client and server, with `more` arguments.
    pub(super) fn run(
        &mut self,
        flows: u32,
        ports: &str,
        more: &[String],
    ) -> Result<Process, String> {
        let [inside, outside] = ["inside", "outside"].map(|name| format!("{ports}:{name}"));
        self.words = vec!["run".into(), self.chain(flows)?.into()];
        let words = ["--in", &inside, "--out", &outside, "--output", "json"];
        self.words.extend(words.map(OsString::from));
        let control = if self.has_spare {
            "--name"
        } else {
            "--control"
        };
        self.words.push(control.into());
        self.words.push(self.socket().into());
        if more.iter().any(|word| word == "--hosts") {
            self.words.push("--key".into());
            self.words.push(self.key()?.into());
        }
        self.words.extend(more.iter().map(OsString::from));
        self.weir_again()
    }

    /// Starts the same weir again, whose end is over.
    pub(super) fn weir_again(&self) -> Result<Process, String> {
        let out = File::create(self.summary_path()).map_err(|error| error.to_string())?;
        let mut command = self.weir("weir")?;
        command.args(&self.words);
        Process::start(&mut command, "running", out.into())
    }

    /// Starts the same weir on the other host or this one (`at`), where it stands by.
    fn weir_by(&self, at: usize) -> Result<Process, String> {
        let mut command = self.weir(SWITCHES[at % 2])?;
        command.args(&self.words);
        Process::start(&mut command, "stands by", Stdio::null())
    }

    /// Sets the wires of a switch's host.
    fn wires(&self, at: usize, state: &str) -> Result<(), String> {
        let (hub, place) = (self.name("hub"), SWITCHES[at % 2]);
        for bridge in ["inside", "outside", "net"] {
            let wire = format!("{place}-{bridge}");
            try_run("ip", &["-n", &hub, "link", "set", &wire, state])?;
        }
        Ok(())
    }

    fn summary_path(&self) -> PathBuf {
        self.folder.join("summary.json")
    }

    /// Summary of the run, after its end.
    pub(super) fn summary(&self) -> Result<Value, String> {
        read(&self.summary_path())
    }

    /// A weir that asks the running one. It needs no namespace: to leave one may take seconds where
    /// the processors are busy.
    fn asking() -> Result<Command, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("weir").stdin(Stdio::null());
        Ok(command)
    }

    /// Statistics of the running weir.
    pub(super) fn stats(&self) -> Result<Value, String> {
        let mut command = Bed::asking()?;
        command
            .arg("stats")
            .arg(self.socket())
            .args(["--output", "json"]);
        let ran = command.output().map_err(|error| error.to_string())?;
        match ran.status.success() {
            true => serde_json::from_slice(&ran.stdout).map_err(|error| error.to_string()),
            false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
        }
    }

    /// Has all processes become a copy of this program, another one each time.
    pub(super) fn upgrade(&self, number: usize) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let next = self.folder.join(format!("next-{}", number % 2));
        let copied = std::fs::copy(program, &next).and_then(|_| {
            let mut file = File::options().append(true).open(&next)?;
            std::io::Write::write_all(&mut file, &[number as u8; 4])
        });
        copied.map_err(|error| format!("{}: {error}", next.display()))?;
        let mut command = Bed::asking()?;
        command.args(["upgrade", "--quiet", "--to"]).arg(&next);
        command.arg("--instance").arg(self.socket());
        let ran = command.output().map_err(|error| error.to_string())?;
        match ran.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
        }
    }

    /// Has units move; none may fit, or a runtime be over by now.
    pub(super) fn move_units(&self, from: &str, to: &str, count: u32) -> Result<(), String> {
        let mut command = Bed::asking()?;
        command.args(["move", from, to, "--count", &count.to_string()]);
        command.arg("--instance").arg(self.socket());
        let ran = command.output();
        ran.map(drop).map_err(|error| error.to_string())
    }

    /// Cuts a host of an agent off.
    pub(super) fn cut(&self, host: usize, way: Way) -> Result<(), String> {
        let host = HOSTS[host];
        let hook = match way {
            Way::Both => return self.link(host, "down"),
            Way::To => "input",
            Way::From => "output",
        };
        let rules = format!(
            "add table inet cut; add chain inet cut block {{ type filter hook {hook} priority 0; \
             policy drop; }}"
        );
        self.nft(host, rules)
    }

    /// Joins it again.
    pub(super) fn join(&self, host: usize, way: Way) -> Result<(), String> {
        let host = HOSTS[host];
        if way == Way::Both {
            return self.link(host, "up");
        }
        self.nft(host, "delete table inet cut".to_owned())
    }

    fn nft(&self, host: &str, rules: String) -> Result<(), String> {
        let place = self.name(host);
        let done = std::thread::spawn(move || {
            enter(&place)?;
            try_run("nft", &[&rules]).map(drop)
        });
        done.join().map_err(|_| "nft was not run".to_owned())?
    }

    fn link(&self, host: &str, state: &str) -> Result<(), String> {
        let (place, wire) = match self.has_spare {
            true => ("hub", format!("{host}-net")),
            false => ("weir", host.to_owned()),
        };
        let args = ["-n", &self.name(place), "link", "set", &wire, state];
        try_run("ip", &args).map(drop)
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Drop for Bed {
    fn drop(&mut self) {
        for place in self.places() {
            let _ = try_run("ip", &["netns", "del", &self.name(place)]);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The switch that runs, and one that stands by.
pub(super) struct Switches {
    pub(super) runs: Process,
    spare: Option<Process>,
    /// Number of the host of the one that runs.
    at: usize,
}

impl Switches {
    /// This one, and one that stands by where the bed has a host for it.
    pub(super) fn of(bed: &Bed, runs: Process) -> Result<Switches, String> {
        Ok(Switches {
            runs,
            spare: bed.has_spare.then(|| bed.weir_by(1)).transpose()?,
            at: 0,
        })
    }

    /// The host of the one that runs loses its power: waits until the other one runs.
    pub(super) fn lose_host(&mut self, bed: &Bed) -> Result<(), String> {
        bed.wires(self.at, "down")?;
        self.lose(bed)
    }

    /// The one that runs is killed: waits until the other one runs.
    pub(super) fn lose(&mut self, bed: &Bed) -> Result<(), String> {
        self.runs.kill();
        let spare = self.spare.take().ok_or("no switch stands by")?;
        (self.runs, self.at) = (spare, self.at + 1);
        let until = Instant::now() + PATIENCE;
        while let Err(why) = bed.stats() {
            if Instant::now() > until {
                return Err(format!("the switch that stood by does not run: {why}"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The one that runs stands still for so long, and may have lost its place then.
    pub(super) fn stop(&mut self, bed: &Bed, length: Duration) -> Result<(), String> {
        let process = self.runs.0.id().to_string();
        try_run("kill", &["-STOP", &process])?;
        std::thread::sleep(length);
        try_run("kill", &["-CONT", &process])?;
        // It knows within three leases, or by then all is as before.
        std::thread::sleep(3 * bed.lease);
        self.settle(bed).map(drop)
    }

    /// Where the one that ran has given way, the other one runs: true then.
    pub(super) fn settle(&mut self, bed: &Bed) -> Result<bool, String> {
        if !bed.has_spare {
            return Ok(false);
        }
        let ended = self.runs.0.try_wait().map_err(|error| error.to_string())?;
        ended.map(|_| self.lose(bed)).transpose()?;
        Ok(ended.is_some())
    }

    /// A host that has lost its power is back, and its switch stands by.
    pub(super) fn mend(&mut self, bed: &Bed) -> Result<(), String> {
        if bed.has_spare && self.spare.is_none() {
            bed.wires(self.at + 1, "up")?;
            self.spare = Some(bed.weir_by(self.at + 1)?);
        }
        Ok(())
    }

    /// Ends both.
    pub(super) fn end(mut self) -> Result<(), String> {
        if let Some(spare) = &mut self.spare {
            spare.kill();
        }
        self.runs.end()
    }
}

/// A weir that runs; killed when this is dropped.
pub(super) struct Process(Child);

impl Process {
    fn start(command: &mut Command, until: &str, out: Stdio) -> Result<Process, String> {
        let spawned = command.stdout(out).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("ip: {error}"))?;
        let errors = child.stderr.take().ok_or("no standard error")?;
        let process = Process(child);
        let mut errors = BufReader::new(errors);
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with(until)) {
            if !errors.read_line(&mut said).is_ok_and(|read| read > 0) {
                return Err(format!("it does not start: {}", said.trim()));
            }
        }
        let show = std::env::var_os("LEDGER_SHOW").is_some();
        std::thread::spawn(move || match show {
            true => std::io::copy(&mut errors, &mut std::io::stderr()),
            false => std::io::copy(&mut errors, &mut std::io::sink()),
        });
        Ok(process)
    }

    /// The processes that it has started, the oldest first.
    pub(super) fn children(&self) -> BTreeSet<u32> {
        let id = self.0.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Ends it as an operator does.
    ///
    /// # Errors
    ///
    /// It does not end in time, or in failure.
    pub(super) fn end(mut self) -> Result<(), String> {
        try_run("kill", &["-TERM", &self.0.id().to_string()])?;
        let late = Instant::now() + PATIENCE;
        while Instant::now() < late {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("weir ended with {status}")),
                None => std::thread::sleep(LOOK),
            }
        }
        Err("weir does not end".to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
