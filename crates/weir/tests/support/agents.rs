//! Agents on this machine, each on a port of the loopback that the kernel chose.

#![allow(dead_code)] // each test needs another part of it

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::Folder;

/// A key that nobody else has.
pub(crate) const KEY: &str = "8f1d5a0c3b7e9246d0a1b2c3d4e5f607";

/// Writes a key to a file that others can't read; gives its path.
pub(crate) fn key(folder: &Folder, name: &str, key: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.path(name);
    std::fs::write(&path, key).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// An agent. Dropped, it is killed, and its runtimes with it.
pub(crate) struct Agent {
    child: Child,
    /// The address that it listens on.
    pub(crate) at: String,
    said: Arc<Mutex<String>>,
}

impl Agent {
    /// Starts an agent for a chain.
    pub(crate) fn start(chain: &str, at: &str, key: &str, more: &[&str]) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["agent", chain, "--listen", at, "--key", key]);
        Agent::of(command.args(more))
    }

    /// The agent that a command starts.
    pub(crate) fn of(command: &mut Command) -> Agent {
        let pipes = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        while !first.contains("agent for") && errors.read_line(&mut first).unwrap() > 0 {}
        let at = first.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(at.parse::<std::net::SocketAddr>().is_ok(), "{first}");
        let said = Arc::new(Mutex::new(first));
        let into = said.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            while errors.read_line(&mut line).is_ok_and(|read| read > 0) {
                into.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        Agent { child, at, said }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its lines on standard error so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// False where it has ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
