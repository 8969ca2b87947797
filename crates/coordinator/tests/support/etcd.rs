//! A real etcd of several members, as processes on the loopback.

#![allow(dead_code)] // each test needs another part of it

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Members of an etcd, which end with the test.
pub(crate) struct Members {
    folder: PathBuf,
    ports: Vec<[u16; 2]>,
    /// Words about TLS for clients, and the scheme.
    tls: Vec<String>,
    /// Octets that each may take; 0: as etcd is delivered.
    quota: u64,
    running: Vec<Option<Child>>,
}

impl Members {
    /// So many, each with a disk of its own.
    pub(crate) fn start(many: usize) -> Members {
        Members::start_with(many, Vec::new(), 0)
    }

    /// One, which may take so many octets.
    pub(crate) fn start_small(quota: u64) -> Members {
        Members::start_with(1, Vec::new(), quota)
    }

    /// The same, with words about TLS for clients.
    pub(crate) fn start_with(many: usize, tls: Vec<String>, quota: u64) -> Members {
        // Held together, so that no two are the same.
        let held: Vec<TcpListener> = (0..2 * many)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let ports: Vec<[u16; 2]> = (held.chunks(2))
            .map(|two| [port(&two[0]), port(&two[1])])
            .collect();
        drop(held);
        let name = format!("weir-etcd-{}-{}", std::process::id(), ports[0][0]);
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut members = Members {
            folder,
            ports,
            tls,
            quota,
            running: (0..many).map(|_| None).collect(),
        };
        (0..many).for_each(|member| members.run(member));
        members.wait_for_leader();
        members
    }

    /// Starts a member, also one that was killed.
    pub(crate) fn run(&mut self, member: usize) {
        let [client, peer] = self.ports[member];
        let scheme = if self.tls.is_empty() { "http" } else { "https" };
        let cluster: Vec<String> = (self.ports.iter().enumerate())
            .map(|(member, [_, peer])| format!("m{member}=http://127.0.0.1:{peer}"))
            .collect();
        let log = std::fs::File::create(self.folder.join(format!("m{member}.log"))).unwrap();
        let child = Command::new("etcd")
            .args(["--name", &format!("m{member}"), "--log-outputs", "stderr"])
            .args(["--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.folder.join(format!("m{member}")))
            .args([
                "--listen-client-urls",
                &format!("{scheme}://127.0.0.1:{client}"),
            ])
            .args([
                "--advertise-client-urls",
                &format!("{scheme}://127.0.0.1:{client}"),
            ])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer}")])
            .args([
                "--initial-advertise-peer-urls",
                &format!("http://127.0.0.1:{peer}"),
            ])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(&self.tls)
            .arg(format!("--quota-backend-bytes={}", self.quota))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is installed (Debian's etcd-server)");
        self.running[member] = Some(child);
    }

    pub(crate) fn kill(&mut self, member: usize) {
        let mut child = self.running[member].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal to a member: SIGSTOP, say.
    pub(crate) fn signal(&self, member: usize, signal: Signal) {
        let child = self.running[member].as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Where clients reach the members.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |[client, _]: &[u16; 2]| format!("127.0.0.1:{client}");
        self.ports.iter().map(name).collect()
    }

    /// Asks a member by its gateway for JSON; `None` where it does not answer.
    pub(crate) fn ask(&self, member: usize, path: &str, body: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}{path}", self.ports[member][0]);
        let asked = Command::new("curl")
            .args(["-sf", "-m", "2", "-d", body, &url])
            .output()
            .unwrap();
        let answer = String::from_utf8(asked.stdout).unwrap();
        (asked.status.success() && !answer.is_empty()).then_some(answer)
    }

    /// The member that leads the others.
    pub(crate) fn leader(&self) -> Option<usize> {
        let number = |text: &str, name: &str| {
            let rest = text.split_once(&format!("\"{name}\":\""))?.1;
            Some(rest.split('"').next()?.to_owned())
        };
        (0..self.running.len()).find(|member| {
            self.running[*member].is_some()
                && self
                    .ask(*member, "/v3/maintenance/status", "{}")
                    .is_some_and(|it| {
                        number(&it, "leader").is_some()
                            && number(&it, "leader") == number(&it, "member_id")
                    })
        })
    }

    fn wait_for_leader(&self) {
        // With TLS the gateway asks for a certificate: the log is silent then, and so is this.
        if !self.tls.is_empty() {
            return;
        }
        let until = Instant::now() + Duration::from_secs(30);
        while self.leader().is_none() {
            assert!(
                Instant::now() < until,
                "etcd has no leader:\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn said(&self) -> String {
        let read = |member| std::fs::read_to_string(self.folder.join(format!("m{member}.log")));
        (0..self.running.len())
            .filter_map(|member| read(member).ok())
            .collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
