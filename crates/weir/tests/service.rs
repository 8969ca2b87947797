//! Messages to the service manager (systemd), and the units of `deploy/systemd`.
//!
//! The part with interfaces needs root; it says SKIPPED without.

#[path = "support/network.rs"]
mod network;
mod support;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::{Cable, Network, must};
use support::{Folder, example, root, weir};

/// `WatchdogSec=`, in µs.
const WATCHDOG: &str = "400000";

/// A service manager's socket.
struct Manager(UnixDatagram, PathBuf);

impl Manager {
    fn new(folder: &Folder) -> Manager {
        let path = PathBuf::from(folder.path("notify"));
        let socket = UnixDatagram::bind(&path).unwrap();
        Manager(socket, path)
    }

    /// Starts it as the manager would.
    fn start(&self, command: &mut Command) -> Child {
        let command = command.env("NOTIFY_SOCKET", &self.1);
        let command = command.env("WATCHDOG_USEC", WATCHDOG);
        let pipes = command.stdout(Stdio::null()).stderr(Stdio::null());
        pipes.spawn().unwrap()
    }

    /// The next message, if there is one in this time.
    fn heard(&self, most: Duration) -> Option<String> {
        self.0.set_read_timeout(Some(most)).unwrap();
        let mut text = [0; 512];
        let read = self.0.recv(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text[..read]).trim().to_owned())
    }

    /// It is ready and then alive, for a second.
    fn expects_life(&self) {
        let ready = self.heard(Duration::from_secs(60));
        assert_eq!(ready.as_deref(), Some("READY=1"));
        let (start, mut signs) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            let sign = self.heard(Duration::from_secs(5));
            assert_eq!(sign.as_deref(), Some("WATCHDOG=1"));
            signs += 1;
        }
        assert!((2..50).contains(&signs), "{signs}");
    }

    /// One that hangs gives no sign, and one that goes on does again.
    fn expects_silence_while_stopped(&self, child: &Child) {
        self.expects_silence_of(&child.id().to_string());
    }

    fn expects_silence_of(&self, id: &str) {
        must("kill", &["-STOP", id]);
        std::thread::sleep(Duration::from_millis(50));
        while self.heard(Duration::from_millis(1)).is_some() {}
        assert_eq!(self.heard(Duration::from_millis(500)), None);
        must("kill", &["-CONT", id]);
        let sign = self.heard(Duration::from_secs(5));
        assert_eq!(sign.as_deref(), Some("WATCHDOG=1"));
    }
}

#[test]
fn an_agent_tells_that_it_is_ready_and_alive() {
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let key = folder.write("key", "000102030405060708090a0b0c0d0e0f");
    must("chmod", &["600", &key]);
    let chain = example("http.yaml");
    let words = ["agent", &chain, "--listen", "127.0.0.1:0", "--key", &key];
    let mut child = manager.start(&mut weir(words));
    manager.expects_life();
    manager.expects_silence_while_stopped(&child);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Of a whole cluster the process that was started tells, and none of those that it starts.
#[test]
fn a_cluster_tells_once() {
    let folder = Folder::new();
    let manager = Manager::new(&folder);
    let text = format!(
        "composition: told\nchain: {}\nhosts: [{{name: alpha, runtimes: 1}}, \
         {{name: beta, runtimes: 1}}]\nswitch: alpha\nports: {{in: \"gen:packets=100G\"}}\n",
        example("http.yaml")
    );
    let file = folder.write("cluster.yaml", text);
    let mut child = manager.start(&mut weir(["up", &file, "--control", "none"]));
    manager.expects_life();
    manager.expects_silence_while_stopped(&child);
    // A switch that hangs is noticed as well.
    let id = child.id().to_string();
    let switch = must("pgrep", &["-P", &id, "-f", "--", "--switch"]);
    manager.expects_silence_of(switch.trim());
    must("kill", &["-9", &child.id().to_string()]);
    child.wait().unwrap();
}

#[test]
fn a_run_with_interfaces_tells_of_its_end_too() {
    if !network::possible() {
        return;
    }
    for on_failure in ["closed", "open"] {
        let network = Network::new(&Cable::default());
        let folder = Folder::new();
        let manager = Manager::new(&folder);
        let text = format!(
            "chain: bump\nnetwork: {{mode: bump, on-failure: {on_failure}}}\nnfs: [monitor]\n"
        );
        let chain = folder.write("bump.yaml", text);
        let ports = ["--in", "af-packet:inside", "--out", "af-packet:outside"];
        let program = env!("CARGO_BIN_EXE_weir");
        let mut child = manager.start(&mut network.weir_by(program, &chain, &ports));
        manager.expects_life();
        if on_failure == "closed" {
            manager.expects_silence_while_stopped(&child);
        }
        must("kill", &["-TERM", &child.id().to_string()]);
        let status = child.wait().unwrap();
        assert!(status.success(), "{on_failure}: {status}");
        let mut last = None;
        while let Some(said) = manager.heard(Duration::from_millis(1)) {
            last = Some(said);
        }
        assert_eq!(last.as_deref(), Some("STOPPING=1"), "{on_failure}");
    }
}

/// A unit, and where it is.
fn unit(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy/systemd").join(name)).unwrap()
}

/// systemd takes the units.
#[test]
fn the_units_are_right() {
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    if analyze.is_err() {
        let text = "SKIPPED: systemd-analyze is missing\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        return;
    }
    for name in [
        "weir@.service",
        "weir-agent@.service",
        "weir-coordinator.service",
        "weir-host.service",
    ] {
        let folder = Folder::new();
        // It looks for the program.
        let text = unit(name).replace("/usr/bin/weir", env!("CARGO_BIN_EXE_weir"));
        let path = folder.write(&name.replace('@', "@edge"), text);
        let verify = ["verify", "--man=no", &path];
        let done = Command::new("systemd-analyze").args(verify).output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("weir")).collect();
        assert!(done.status.success() && ours.is_empty(), "{name}: {said}");
    }
}

/// weir takes the words of the units, with those of their examples.
#[test]
fn the_units_start_weir() {
    for (name, args, words) in [
        ("weir@.service", "$WEIR_ARGS", "--in gen:packets=100G"),
        (
            "weir-agent@.service",
            "$WEIR_AGENT_ARGS",
            "--listen 127.0.0.1:0",
        ),
        ("weir-coordinator.service", "$WEIR_COORDINATOR_ARGS", ""),
        (
            "weir-host.service",
            "$WEIR_HOST_ARGS",
            "--coordinator unix:/nowhere --host alpha",
        ),
    ] {
        let folder = Folder::new();
        let manager = Manager::new(&folder);
        let etc = folder.path("etc");
        std::fs::create_dir(&etc).unwrap();
        std::fs::copy(example("http.yaml"), format!("{etc}/edge.yaml")).unwrap();
        let key = folder.write("etc/edge.key", "000102030405060708090a0b0c0d0e0f");
        must("chmod", &["600", &key]);
        let text = unit(name);
        let starts: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("Exec"))
            .collect();
        let start = starts
            .iter()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/weir "));
        let start = start
            .unwrap()
            .replace("%i", "edge")
            .replace("/var/lib/weir", &folder.path("state"))
            .replace("/etc/weir", &etc);
        let start = start.replace(args, words);
        let mut command = weir(start.split_whitespace());
        let mut child = manager.start(command.env("XDG_RUNTIME_DIR", folder.path("")));
        manager.expects_life();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
