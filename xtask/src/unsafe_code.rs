//! `unsafe` lives in a few modules that are known by name, each run under Miri
//! where Miri can.

use crate::source::{line_of, words};
use crate::{Finding, SourceFile};

/// Files that may say `unsafe`, and why they must.
pub(crate) const MODULES: &[(&str, &str)] = &[
    (
        "crates/packet/src/arena.rs",
        "aligned, zeroed memory that may ask for large pages",
    ),
    (
        "crates/packet/src/memory.rs",
        "frames of one mapping, each with one owner",
    ),
    (
        "crates/packet/src/mapping.rs",
        "a mapping that several processes have, with a table of owners",
    ),
    (
        "crates/packet/src/members.rs",
        "frames of one mapping in several processes",
    ),
    (
        "crates/packet/src/members_tests.rs",
        "a mapping that the tests make",
    ),
    (
        "crates/packet/src/lanes.rs",
        "comparison of several numbers at once",
    ),
    ("crates/packet/src/prefetch.rs", "the prefetch instruction"),
    (
        "crates/nf/src/host/blocks.rs",
        "the fixed head of a flow's block, by its number",
    ),
    ("crates/io/src/cycles.rs", "the cycle counter"),
    ("crates/io/src/pages.rs", "madvise"),
    (
        "crates/io/src/sys/bpf.rs",
        "bpf(2): the map, program and link of XDP ports",
    ),
    (
        "crates/io/src/sys/confine.rs",
        "what a process that is not trusted gives up",
    ),
    ("crates/io/src/sys/datagrams.rs", "sendmmsg and recvmmsg"),
    (
        "crates/io/src/sys/ethtool.rs",
        "ioctls of drivers: queues and offloads",
    ),
    (
        "crates/io/src/sys/interface.rs",
        "ioctls and statistics of network interfaces",
    ),
    ("crates/io/src/sys/mapping.rs", "memory of sockets, mapped"),
    (
        "crates/io/src/sys/packet_ring/mod.rs",
        "slots of packet sockets' rings",
    ),
    (
        "crates/io/src/sys/packet_ring/receive.rs",
        "the ring through which packets come",
    ),
    (
        "crates/io/src/sys/packet_ring/send.rs",
        "the ring through which packets go",
    ),
    ("crates/io/src/sys/whole.rs", "recvmsg with auxiliary data"),
    (
        "crates/io/src/sys/memfd.rs",
        "memory for several processes, mapped",
    ),
    (
        "crates/io/src/sys/ring.rs",
        "rings shared with the kernel, mapped",
    ),
    (
        "crates/io/src/sys/robust.rs",
        "robust futexes: a word that the kernel marks at a thread's end",
    ),
    (
        "crates/io/src/sys/scheduler.rs",
        "policy of a thread (sched_setscheduler)",
    ),
    (
        "crates/io/src/sys/signals.rs",
        "signals to wait for (signalfd)",
    ),
    (
        "crates/io/src/sys/socket.rs",
        "socket options and addresses",
    ),
    (
        "crates/io/src/sys/timex.rs",
        "adjtimex: whether the clock is kept right",
    ),
    ("crates/io/src/sys/tun.rs", "ioctls of TAP interfaces"),
    (
        "crates/io/src/sys/xsk.rs",
        "packet memory registered with the kernel",
    ),
    (
        "crates/packet/tests/counting/mod.rs",
        "an allocator that counts",
    ),
];

/// `unsafe` where it may not be.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    if MODULES.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    words(&file.all_code)
        .into_iter()
        .filter(|(_, word)| *word == "unsafe")
        .map(|(at, _)| Finding {
            path: file.path.clone(),
            line: line_of(&file.all_code, at),
            text: "`unsafe` outside the modules that may have it (xtask/src/unsafe_code.rs)".into(),
        })
        .collect()
}

/// Entries of the list that name no file with `unsafe` in it any more.
pub(crate) fn stale(files: &[SourceFile]) -> Vec<Finding> {
    MODULES
        .iter()
        .filter(|(path, _)| {
            !files.iter().any(|file| {
                file.path == *path && words(&file.code).iter().any(|(_, w)| *w == "unsafe")
            })
        })
        .map(|(path, _)| Finding {
            path: "xtask/src/unsafe_code.rs".into(),
            line: 1,
            text: format!("{path} needs no leave for `unsafe`: take it off the list"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_bites() {
        let text = "#![forbid(unsafe_code)]\nfn f() { unsafe { g() } } // unsafe\n";
        let file = SourceFile::of("crates/runtime/src/x.rs", text);
        assert_eq!(check(&file).iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
        assert_eq!(check(&SourceFile::of(MODULES[0].0, text)), []);
        let test = "#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }";
        assert_eq!(
            check(&SourceFile::of("crates/runtime/src/x.rs", test)).len(),
            1
        );
    }

    #[test]
    fn a_stale_entry_is_reported() {
        let files = [SourceFile::of(MODULES[0].0, "fn f() { unsafe { g() } }")];
        assert_eq!(stale(&files).len(), MODULES.len() - 1);
    }
}
