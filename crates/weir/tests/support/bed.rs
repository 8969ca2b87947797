//! A test bed of real programs: clients of several addresses, a web server, and
//! weir between them.
//!
//! ```text
//!   client ────────── inside  weir  outside ────────── server
//!   10.0.0.11 … .14                              198.51.100.11
//!   fd00:1::11 … ::14                        fd00:2::11
//! ```
//!
//! The addresses are those of `examples/edge.yaml` and `examples/edge-router.yaml`:
//! 203.0.113.80 and fd00:9::80 are the balancer's, 203.0.113.1 is the NAT's. As a
//! bump weir has no address, and the hosts are each other's routers on the link
//! between them (10.99.0.0/24, fd99::/64). As a router it has 10.0.0.1 and fd00:1::1,
//! 198.51.100.1 and fd00:2::1. Nobody has a neighbour that was not asked for.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::network::{Cable, Network, Weir, at, try_run};
use crate::support::{Folder, Ran, conserved, number, sum};

/// Where the web is: the balancer's addresses, and the server's own.
pub(crate) const WEB: [&str; 2] = ["203.0.113.80", "[fd00:9::80]"];
pub(crate) const SERVER: [&str; 2] = ["198.51.100.11", "fd00:2::11"];
/// How many addresses of each family the client has.
pub(crate) const CLIENTS: usize = 4;

/// The client's address of that number and family.
pub(crate) fn client(number: usize, six: bool) -> String {
    let last = 11 + number % CLIENTS;
    match six {
        false => format!("10.0.0.{last}"),
        true => format!("fd00:1::{last}"),
    }
}

/// False, and said aloud, where the test can't be: without root, or without one
/// of the programs. Under CI, which installs them, a missing one fails the test.
pub(crate) fn possible(programs: &[&str]) -> bool {
    if !crate::network::possible() {
        return false;
    }
    for program in programs {
        if try_run("which", &[program]).is_err() {
            assert!(std::env::var_os("CI").is_none(), "{program} is missing");
            let text = format!("SKIPPED: {program} is missing\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            return false;
        }
    }
    true
}

/// True in nightly runs, which may take hours.
pub(crate) fn nightly() -> bool {
    std::env::var_os("WEIR_LONG_TESTS").is_some()
}

/// How weir is tied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Xdp,
    Packet,
}

impl Kind {
    /// The port's text for an interface.
    pub(crate) fn port(self, interface: &str) -> String {
        match self {
            Kind::Xdp => format!("xdp:{interface}"),
            Kind::Packet => format!("af-packet:{interface}"),
        }
    }
}

/// The hosts. All of it goes when this is dropped.
pub(crate) struct Bed {
    web: Option<Program>,
    kind: Kind,
    pub(crate) network: Network,
    pub(crate) folder: Folder,
}

/// A program that runs on a host; it goes when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) {
        let _ = self.0.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bed {
    /// Hosts on the two sides of a bump (`examples/edge.yaml`).
    pub(crate) fn bump(kind: Kind) -> Bed {
        let bed = Bed::new(kind, Network::new(&Cable::default()));
        for number in 0..CLIENTS {
            for six in [false, true] {
                bed.on(
                    "client",
                    &format!("ip addr add {} dev lo", client(number, six)),
                );
            }
        }
        for address in SERVER {
            bed.on("server", &format!("ip addr add {address} dev lo"));
        }
        bed.routes("client", ["10.99.0.2", "fd99::2"]);
        bed.routes("server", ["10.99.0.1", "fd99::1"]);
        bed
    }

    /// Hosts whose router weir is (`examples/edge-router.yaml`).
    pub(crate) fn router(kind: Kind) -> Bed {
        let bed = Bed::new(kind, Network::new(&Cable::default()));
        for host in ["client", "server"] {
            bed.on(host, "ip addr flush dev eth0 scope global");
        }
        for number in 0..CLIENTS {
            for (six, length) in [(false, 24), (true, 64)] {
                let address = client(number, six);
                bed.on(
                    "client",
                    &format!("ip addr add {address}/{length} dev eth0"),
                );
            }
        }
        for (address, length) in SERVER.iter().zip([24, 64]) {
            bed.on(
                "server",
                &format!("ip addr add {address}/{length} dev eth0"),
            );
        }
        bed.routes("client", ["10.0.0.1", "fd00:1::1"]);
        bed.routes("server", ["198.51.100.1", "fd00:2::1"]);
        bed
    }

    fn new(kind: Kind, network: Network) -> Bed {
        Bed {
            web: None,
            kind,
            network,
            folder: Folder::new(),
        }
    }

    /// Gives a host its default routes, or gives them back.
    pub(crate) fn routes(&self, host: &str, via: [&str; 2]) {
        let own = match host {
            "client" => [client(0, false), client(0, true)],
            _ => SERVER.map(str::to_owned),
        };
        for ((family, via), own) in ["-4", "-6"].iter().zip(via).zip(own) {
            let line = format!("ip {family} route replace default via {via} src {own}");
            self.on(host, &line);
        }
    }

    /// Starts weir on the chain.
    pub(crate) fn weir(&self, chain: &str, more: &[&str]) -> Weir {
        let (inside, outside) = (self.kind.port("inside"), self.kind.port("outside"));
        let ports = ["--in", &inside, "--out", &outside];
        let weir = self.network.weir(chain, &[&ports, more].concat());
        assert!(weir.said.contains("\nrunning"), "{}", weir.said);
        weir
    }

    /// Pings the server's own addresses.
    #[track_caller]
    pub(crate) fn ping(&self, count: u32) {
        for address in SERVER {
            self.network.reach("client", address, count);
        }
    }

    /// Runs a program on a host to its end: what it printed.
    #[track_caller]
    pub(crate) fn on(&self, host: &str, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.network.run(host, words[0], &words[1..])
    }

    /// A program on a host, not yet started.
    pub(crate) fn command(&self, host: &str, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.network.name(host)]);
        command.args(line.split_whitespace());
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a program on a host.
    pub(crate) fn start(&self, host: &str, line: &str) -> Program {
        let mut command = self.command(host, line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Program(command.spawn().expect("ip is there"))
    }

    /// Starts nginx, which serves [`Files`] on port 80 and writes an access log. Its configuration, logs and
    /// temporary files are in the bed's folder.
    pub(crate) fn serve(&mut self) {
        let root = self.folder.path("nginx");
        for folder in ["", "/logs", "/temp", "/www"] {
            std::fs::create_dir_all(format!("{root}{folder}")).unwrap();
        }
        let mut config = String::from(
            "daemon off; master_process off; pid nginx.pid; error_log logs/error.log;\n\
             events { worker_connections 4096; }\n\
             http { access_log logs/access.log; sendfile on; reset_timedout_connection off;\n",
        );
        for way in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let _ = writeln!(config, "{way}_temp_path temp/{way};");
        }
        config.push_str(
            "server { listen 80 backlog=4096; listen [::]:80 backlog=4096; root www; } }\n",
        );
        self.folder.write("nginx/nginx.conf", config);
        let line = format!("nginx -p {root} -c nginx.conf -e logs/error.log");
        self.web = Some(self.start("server", &line));
        self.wait_for_listener("server", 80);
    }

    /// Waits until a program listens on a TCP port of a host.
    #[track_caller]
    pub(crate) fn wait_for_listener(&self, host: &str, port: u16) {
        let end = Instant::now() + Duration::from_secs(60);
        let look = format!("ss -Hltn sport = :{port}");
        while !self.on(host, &look).contains("LISTEN") {
            assert!(
                Instant::now() < end,
                "nobody listens on {port} at the {host}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops nginx.
    pub(crate) fn stop_serving(&mut self) {
        self.web = None;
    }

    /// How many requests nginx has answered.
    pub(crate) fn served(&self) -> u64 {
        let log = std::fs::read_to_string(self.folder.path("nginx/logs/access.log"));
        log.unwrap_or_default().lines().count() as u64
    }

    /// No neighbour of the hosts was told to them.
    pub(crate) fn assert_neighbours_were_found(&self) {
        for host in ["client", "server"] {
            let neighbours = self.on(host, "ip neigh show");
            assert!(!neighbours.contains("PERMANENT"), "{host}: {neighbours}");
            let found = |line: &str| line.contains("lladdr") && line.contains("dev eth0");
            let four = neighbours
                .lines()
                .filter(|line| found(line) && line.contains('.'));
            let six = neighbours
                .lines()
                .filter(|line| found(line) && !line.contains('.'));
            assert!(
                four.count() >= 1 && six.count() >= 1,
                "{host}: {neighbours}"
            );
        }
    }

    /// A count that the kernel keeps of a host's `eth0`, such as `tx_packets`.
    pub(crate) fn count(&self, host: &str, what: &str) -> u64 {
        let path = format!("cat /sys/class/net/eth0/statistics/{what}");
        self.on(host, &path).trim().parse().expect("a number")
    }

    /// What the hosts have sent and got, `[client, server]`.
    pub(crate) fn counts(&self) -> Counts {
        let of = |what: &str| ["client", "server"].map(|host| self.count(host, what));
        Counts {
            sent: of("tx_packets"),
            got: of("rx_packets"),
        }
    }
}

/// Packets that went out of the hosts' interfaces and came in, `[client, server]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) sent: [u64; 2],
    pub(crate) got: [u64; 2],
}

/// What a run has counted agrees with itself and with what the hosts sent and
/// got from `before` to `after`.
///
/// `strangers`: packets that weir may have seen before or after those counts were
/// taken (the hosts have words with their neighbours whenever they like).
#[track_caller]
pub(crate) fn assert_balanced(ran: &Ran, before: Counts, after: Counts, strangers: u64) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    assert_eq!(number(&summary, "/held"), 0, "{summary}");
    for chain in summary["chains"].as_object().expect("chains").values() {
        for left in ["active", "aliases", "units", "ports_leased"] {
            assert_eq!(
                number(chain, &format!("/flows/{left}")),
                0,
                "{left}: {chain}"
            );
        }
    }
    for side in [0, 1] {
        let (sent, got) = (
            after.sent[side] - before.sent[side],
            after.got[side] - before.got[side],
        );
        // `noticed` has the kernel's drops once more, and packets that a full veth
        // has not taken, which are none that were sent.
        let came = number(&summary, &format!("/ports/in/{side}/packets"))
            + sum(&summary, &format!("/ports/in/{side}/drops"));
        let left = number(&summary, &format!("/ports/out/{side}/packets"));
        assert!(
            sent.abs_diff(came) <= strangers,
            "{side}: sent {sent}, came {came}: {summary:#}"
        );
        assert!(
            got.abs_diff(left) <= strangers,
            "{side}: got {got}, left {left}: {summary:#}"
        );
    }
    summary
}

/// A number of the summary that is left out where it is 0.
pub(crate) fn counted(summary: &Value, pointer: &str) -> u64 {
    summary
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

/// Files of mixed sizes, from 1 octet on, that nginx serves.
pub(crate) struct Files {
    folder: String,
    sizes: Vec<usize>,
}

impl Files {
    /// Writes them: sizes up to `largest`, so that each power of two has about
    /// as many files as the next.
    pub(crate) fn new(bed: &Bed, largest: usize) -> Files {
        let folder = bed.folder.path("nginx/www");
        std::fs::create_dir_all(&folder).unwrap();
        let mut sizes = Vec::new();
        let mut size = 1usize;
        while size < largest {
            sizes.extend([size, size + size / 3]);
            size *= 2;
        }
        for &size in &sizes {
            std::fs::write(format!("{folder}/{size}"), content(size)).unwrap();
        }
        Files { folder, sizes }
    }
}

/// Octets that depend on their place and on the size of the whole.
pub(crate) fn content(size: usize) -> Vec<u8> {
    let mut state = (size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Curls at work, several at once.
pub(crate) struct Downloads {
    curls: Vec<(Child, String)>,
    wanted: Vec<(String, String)>,
}

impl Downloads {
    /// Starts `count` downloads of the files in turn: from all of the client's
    /// addresses, by IPv4 and IPv6, half of them with a connection for each.
    pub(crate) fn start(bed: &Bed, files: &Files, count: usize) -> Downloads {
        let mut downloads = Downloads {
            curls: Vec::new(),
            wanted: Vec::new(),
        };
        let curls = 2 * CLIENTS;
        for curl in 0..curls {
            let (six, number) = (curl % 2 == 1, curl / 2);
            let mut config = format!("interface = {}\n", client(number, six));
            if number % 2 == 1 {
                config.push_str("header = \"Connection: close\"\n");
            }
            for place in (curl..count).step_by(curls) {
                // Neighbours in the list differ in size by much.
                let size = files.sizes[place * 7 % files.sizes.len()];
                let got = bed.folder.path(&format!("got-{place}"));
                let url = format!("http://{}/{size}", WEB[usize::from(six)]);
                let _ = write!(config, "url = {url}\noutput = {got}\n");
                downloads
                    .wanted
                    .push((got, format!("{}/{size}", files.folder)));
            }
            let name = format!("curl-{curl}");
            let path = bed.folder.write(&name, config);
            // No --retry: what fails has failed.
            let line = format!(
                "curl --silent --show-error --fail --globoff --max-time 120 --parallel --parallel-max 3 --config {path}"
            );
            let child = bed.command("client", &line).spawn().expect("ip is there");
            downloads.curls.push((child, line));
        }
        downloads
    }

    /// Waits until all are done: what failed, and what came wrong.
    pub(crate) fn wait(self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (curl, line) in self.curls {
            let output = curl.wait_with_output().expect("it is ours");
            if !output.status.success() {
                // Some versions show progress in spite of --silent.
                let said = String::from_utf8_lossy(&output.stderr);
                let why = |line: &str| line.find("curl: ").map(|at| line[at..].to_owned());
                let said: Vec<String> = said.split(['\r', '\n']).filter_map(why).collect();
                wrong.push(format!("{line}: {}", said.join("; ")));
            }
        }
        for (got, file) in self.wanted {
            let right = std::fs::read(&file).expect("a file of ours");
            match std::fs::read(&got) {
                Ok(bytes) if bytes == right => {}
                Ok(bytes) => wrong.push(format!("{got}: {} octets, not {file}", bytes.len())),
                Err(error) => wrong.push(format!("{got}: {error}")),
            }
            let _ = std::fs::remove_file(&got);
        }
        wrong
    }
}

/// A TCP connection over which small messages go to and fro for as long as it is
/// not ended.
pub(crate) struct Talk {
    rounds: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    why: Arc<Mutex<String>>,
    client: JoinHandle<()>,
}

impl Talk {
    /// Starts one between the client and port 443 of the server's own address of a
    /// family, and waits until it is under way. A message that is not answered for
    /// 20 s ends it.
    pub(crate) fn start(bed: &Bed, six: bool) -> Talk {
        let (ready, is_ready) = mpsc::channel();
        let address = at(SERVER[usize::from(six)], 443);
        bed.network.spawn("server", move || {
            let listener = TcpListener::bind(address).expect("the port is free");
            ready.send(()).expect("the test waits");
            let (mut stream, _) = listener.accept().expect("a client");
            let mut message = [0; 8];
            while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
        });
        is_ready.recv().expect("the server starts");
        let (rounds, over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, end) = (rounds.clone(), over.clone());
        let why = Arc::new(Mutex::new(String::new()));
        let said = why.clone();
        let client = bed.network.spawn("client", move || {
            if let Err(error) = talk(address, &count, &end) {
                *said.lock().expect("no panic") = format!("{address}: {error}");
            }
        });
        let talk = Talk {
            rounds,
            over,
            why,
            client,
        };
        talk.goes_on();
        talk
    }

    /// Waits until it has gone on from here, for a bounded time.
    #[track_caller]
    pub(crate) fn goes_on(&self) {
        let wanted = self.rounds.load(Ordering::Relaxed) + 20;
        let end = Instant::now() + Duration::from_secs(90);
        while self.rounds.load(Ordering::Relaxed) < wanted {
            let why = self.why.lock().expect("no panic").clone();
            assert_eq!(why, "", "the connection has ended");
            assert!(Instant::now() < end, "the connection hangs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it: how many messages were answered, all of them rightly.
    #[track_caller]
    pub(crate) fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.client.join().expect("no panic");
        assert_eq!(*self.why.lock().expect("no panic"), "");
        self.rounds.load(Ordering::Relaxed)
    }
}

/// The client's end of a talk: until it is told to end, or a message is not answered.
fn talk(address: SocketAddr, rounds: &AtomicU64, over: &AtomicBool) -> std::io::Result<()> {
    let patience = Duration::from_secs(60);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    while !over.load(Ordering::Relaxed) {
        let (message, mut answer) = (rounds.load(Ordering::Relaxed).to_be_bytes(), [0; 8]);
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        if answer != message {
            return Err(std::io::Error::other(format!(
                "{answer:?} answers {message:?}"
            )));
        }
        rounds.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
