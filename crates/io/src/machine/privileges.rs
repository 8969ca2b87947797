//! Privileges of this process.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

use super::text::{read, read_number, value};

/// A capability of Linux that ports may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Capability {
    /// To change interfaces, to attach programs to them, to make a TAP.
    NetAdmin = 12,
    /// To open packet and XDP sockets.
    NetRaw = 13,
    /// To pin any amount of memory.
    IpcLock = 14,
    /// Nearly everything: namespaces, and all that CAP_BPF allows.
    SysAdmin = 21,
    /// To raise priorities, to run in real time.
    SysNice = 23,
    /// To load programs into the kernel (Linux 5.8 and newer).
    Bpf = 39,
}

impl Capability {
    /// All of them, by number.
    pub const ALL: [Capability; 6] = [
        Capability::NetAdmin,
        Capability::NetRaw,
        Capability::IpcLock,
        Capability::SysAdmin,
        Capability::SysNice,
        Capability::Bpf,
    ];

    /// Its name without `CAP_`, as containers are given it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "NET_ADMIN",
            Capability::NetRaw => "NET_RAW",
            Capability::IpcLock => "IPC_LOCK",
            Capability::SysAdmin => "SYS_ADMIN",
            Capability::SysNice => "SYS_NICE",
            Capability::Bpf => "BPF",
        }
    }
}

/// Privileges of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Its user; 0 is root.
    pub user: u32,
    /// Capabilities that it has, a bit each.
    pub effective: u64,
    /// Capabilities that it could get.
    pub bounding: u64,
    /// It can't get more by starting a program (`NoNewPrivs`).
    pub no_new_privileges: bool,
    /// It runs in a user namespace of its own, where being root means less.
    pub user_namespace: bool,
    /// It runs in a container.
    pub container: bool,
    /// Octets of memory that it may pin without CAP_IPC_LOCK; `None` is no
    /// limit.
    pub locked_memory: Option<u64>,
    /// `kernel.unprivileged_bpf_disabled`: with 0 everybody may load programs into the
    /// kernel, with 1 and 2 only processes with CAP_BPF.
    pub bpf_disabled: Option<u8>,
    /// The file of this program.
    pub program: PathBuf,
}

impl Privileges {
    pub(super) fn read() -> Privileges {
        let status = read("/proc/self/status").unwrap_or_default();
        let bits = |name| value(&status, name).and_then(|bits| u64::from_str_radix(bits, 16).ok());
        let user = value(&status, "Uid").and_then(|ids| ids.split_whitespace().nth(1));
        Privileges {
            user: user.and_then(|id| id.parse().ok()).unwrap_or(u32::MAX),
            effective: bits("CapEff").unwrap_or(0),
            bounding: bits("CapBnd").unwrap_or(u64::MAX),
            no_new_privileges: value(&status, "NoNewPrivs") == Some("1"),
            user_namespace: read("/proc/self/uid_map").is_some_and(|map| !is_whole(&map)),
            container: is_container(),
            locked_memory: getrlimit(Resource::Memlock).current,
            bpf_disabled: read_number("/proc/sys/kernel/unprivileged_bpf_disabled"),
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("weir")),
        }
    }

    /// True if it has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective >> (capability as u8) & 1 == 1
    }

    /// True if it could get a capability, by being started otherwise.
    pub fn could_have(&self, capability: Capability) -> bool {
        self.bounding >> (capability as u8) & 1 == 1
    }
}

/// True where the map of users is that of the machine: all onto themselves.
fn is_whole(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

fn is_container() -> bool {
    let marked =
        ["/.dockerenv", "/run/.containerenv"].map(|path| fs::exists(path).unwrap_or(false));
    let names = ["docker", "containerd", "kubepods", "libpod", "lxc"];
    let groups = read("/proc/1/cgroup").unwrap_or_default();
    marked.contains(&true) || names.iter().any(|name| groups.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machine_s_own_map_of_users_is_whole() {
        assert!(is_whole("         0          0 4294967295"));
        assert!(!is_whole("         0       1000          1"));
        assert!(!is_whole(""));
    }

    #[test]
    fn capabilities_are_bits() {
        let some = Privileges {
            effective: 1 << 13,
            bounding: 1 << 13 | 1 << 12,
            ..Privileges::default()
        };
        assert!(some.has(Capability::NetRaw) && !some.has(Capability::NetAdmin));
        assert!(some.could_have(Capability::NetAdmin) && !some.could_have(Capability::Bpf));
    }
}
