//! The rule that makes runs repeatable: nothing below the drivers names a
//! clock, thread, socket, file, environment, global or ambient random source.

use crate::paths::paths;
use crate::source::{line_of, words};
use crate::{Finding, SourceFile};

/// Crates below the drivers.
pub(crate) const CRATES: [&str; 13] = [
    "telemetry",
    "api",
    "packet",
    "router",
    "nf",
    "dissect",
    "signatures",
    "functions",
    "runtime",
    "protocol",
    "control",
    "sim",
    "graph",
];

/// Names that are allowed although a ban below covers them.
const ALLOWED: [&str; 9] = [
    // Lengths of time and addresses are values, not sources.
    "std::time::Duration",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
    "std::net::SocketAddrV4",
    "std::net::SocketAddrV6",
    "std::net::AddrParseError",
    // A fixed hash function with keys of the caller's is fine; `RandomState` is not.
    "std::hash::BuildHasherDefault",
];

/// Names that bring one of the forbidden things in, and what they bring.
const BANNED: [(&str, &str); 31] = [
    ("std::time", "a clock"),
    ("std::thread", "a thread"),
    ("std::fs", "a file"),
    ("std::path", "a file"),
    ("std::os", "the operating system"),
    ("std::env", "the environment"),
    ("std::process", "a process"),
    ("std::net", "a socket"),
    ("std::io::stdin", "a file"),
    ("std::io::stdout", "a file"),
    ("std::io::stderr", "a file"),
    ("std::io::Stdin", "a file"),
    ("std::io::Stdout", "a file"),
    ("std::io::Stderr", "a file"),
    ("std::io::*", "a file, perhaps"),
    ("std::sync::Mutex", "a lock"),
    ("std::sync::RwLock", "a lock"),
    ("std::sync::Condvar", "a lock"),
    ("std::sync::Barrier", "a lock"),
    ("std::sync::mpsc", "a thread"),
    ("std::sync::OnceLock", "a global"),
    ("std::sync::LazyLock", "a global"),
    ("std::sync::Once", "a global"),
    ("std::cell::LazyCell", "a global"),
    (
        "std::collections::HashMap",
        "an ambient random source (its hasher's seed)",
    ),
    (
        "std::collections::HashSet",
        "an ambient random source (its hasher's seed)",
    ),
    (
        "std::collections::hash_map",
        "an ambient random source (its hasher's seed)",
    ),
    (
        "std::collections::hash_set",
        "an ambient random source (its hasher's seed)",
    ),
    ("std::hash::RandomState", "an ambient random source"),
    ("std::arch::x86_64::_rdtsc", "a clock"),
    ("std::arch::x86_64::__rdtscp", "a clock"),
];

/// Crates that bring them in.
const BANNED_CRATES: [(&str, &str); 13] = [
    ("rand", "an ambient random source"),
    ("fastrand", "an ambient random source"),
    ("getrandom", "an ambient random source"),
    ("tokio", "threads, sockets and a clock"),
    ("mio", "sockets"),
    ("rayon", "threads"),
    ("crossbeam", "threads"),
    ("parking_lot", "a lock"),
    ("once_cell", "a global"),
    ("lazy_static", "a global"),
    ("chrono", "a clock"),
    ("libc", "the operating system"),
    ("rustix", "the operating system"),
];

/// Macros that write to the outside or make something global.
const MACROS: [(&str, &str); 6] = [
    ("println", "a file (standard output)"),
    ("print", "a file (standard output)"),
    ("eprintln", "a file (standard error)"),
    ("eprint", "a file (standard error)"),
    ("dbg", "a file (standard error)"),
    ("thread_local", "a global"),
];

/// Types that make a `static` a changeable global.
const CHANGEABLE: [&str; 9] = [
    "Atomic",
    "Mutex",
    "RwLock",
    "OnceLock",
    "OnceCell",
    "LazyLock",
    "LazyCell",
    "UnsafeCell",
    "RefCell",
];

/// Exceptions: file, what is named there, why it may be.
pub(crate) const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "crates/packet/src/memory.rs",
    "static NEXT_MEMORY",
    "numbers packet memories, so that a frame of one is never taken for a frame of another; no decision depends on the number",
)];

/// Forbidden names in a file.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |at: usize, name: &str, what: &str| {
        let excepted = EXCEPTIONS
            .iter()
            .any(|(path, allowed, _)| *path == file.path && *allowed == name);
        if !excepted {
            findings.push(Finding {
                path: file.path.clone(),
                line: line_of(&file.code, at),
                text: format!("`{name}` is {what}; below the drivers it comes in from outside (the context, the packet's time, a seed given)"),
            });
        }
    };
    for path in paths(&file.code, &["std", "core", "alloc"]) {
        let name = format!("std::{}", path.parts.get(1..).unwrap_or(&[]).join("::"));
        if ALLOWED.iter().any(|allowed| within(&name, allowed)) {
            continue;
        }
        // A word alone is the library only where it is imported: `core` may also
        // be a variable, of a processor's core.
        if path.parts.len() == 1 && !is_imported(&file.code, path.at) {
            continue;
        }
        if path.parts.len() == 1 || path.parts.get(1).is_some_and(|part| part == "*") {
            report(
                path.at,
                &path.text(),
                "all of the standard library under another name",
            );
        } else if let Some((_, what)) = BANNED.iter().find(|(banned, _)| within(&name, banned)) {
            report(path.at, &path.text(), what);
        }
    }
    let words = words(&file.code);
    for (i, &(at, word)) in words.iter().enumerate() {
        let next = words.get(i + 1).map(|w| w.1);
        let before = i.checked_sub(1).and_then(|b| words.get(b)).map(|w| w.1);
        let crate_root = before != Some("::") && before != Some(".") && next == Some("::");
        if let Some((_, what)) = BANNED_CRATES.iter().find(|(name, _)| *name == word)
            && (crate_root || before == Some("use"))
        {
            report(at, word, what);
        }
        if let Some((_, what)) = MACROS.iter().find(|(name, _)| *name == word)
            && next == Some("!")
        {
            report(at, &format!("{word}!"), what);
        }
        if word == "static" && before != Some("'") {
            if next == Some("mut") {
                report(at, "static mut", "a global");
            } else if let Some(name) = next
                && changeable(words.get(i..).unwrap_or(&[]))
            {
                report(at, &format!("static {name}"), "a global");
            }
        }
    }
    findings
}

/// True where the word at `at` stands in a `use`.
fn is_imported(code: &str, at: usize) -> bool {
    let before = code.get(..at).unwrap_or("");
    let statement = before.rfind(';').map_or(before, |end| &before[end + 1..]);
    // Behind `use` come only words, braces and commas.
    statement.rsplit_once("use ").is_some_and(|(_, list)| {
        list.chars()
            .all(|c| c.is_alphanumeric() || " \n_:{},*".contains(c))
    })
}

/// True if `name` is `prefix` or something in it.
fn within(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// True if the type of the `static` that starts here can change.
fn changeable(words: &[(usize, &str)]) -> bool {
    words
        .iter()
        .take_while(|(_, word)| *word != "=" && *word != ";")
        .any(|(_, word)| CHANGEABLE.iter().any(|name| word.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let file = SourceFile::of("crates/nf/src/x.rs", text);
        let quoted = |finding: Finding| finding.text.split('`').nth(1).unwrap_or("").to_owned();
        check(&file).into_iter().map(quoted).collect()
    }

    #[test]
    fn it_bites() {
        for (text, name) in [
            ("use std::time::Instant;", "std::time::Instant"),
            ("use core::time;", "core::time"),
            ("use {core as other, super::x};", "core"),
            (
                "fn f() { std::time::SystemTime::now(); }",
                "std::time::SystemTime::now",
            ),
            ("use std::{thread, fmt};", "std::thread"),
            ("use std::net::{IpAddr, TcpStream};", "std::net::TcpStream"),
            ("use std::net::ToSocketAddrs;", "std::net::ToSocketAddrs"),
            ("fn f() { ::std::fs::read(1); }", "std::fs::read"),
            (
                "use std::collections::{BTreeMap, HashMap};",
                "std::collections::HashMap",
            ),
            (
                "fn f() { std::hash::RandomState::new(); }",
                "std::hash::RandomState::new",
            ),
            ("use std as s;", "std"),
            ("use std::*;", "std::*"),
            ("static mut A: u8 = 0;", "static mut"),
            ("static A: AtomicU32 = AtomicU32::new(0);", "static A"),
            ("thread_local! { }", "thread_local!"),
            ("fn f() { println!(\"x\"); }", "println!"),
            ("fn f() { rand::random(); }", "rand"),
            ("use tokio;", "tokio"),
            (
                "fn f() { unsafe { core::arch::x86_64::_rdtsc() } }",
                "core::arch::x86_64::_rdtsc",
            ),
        ] {
            assert_eq!(names(text), [name], "{text}");
        }
    }

    #[test]
    fn it_lets_pass_what_is_fine() {
        for text in [
            "use std::net::{IpAddr, Ipv4Addr, SocketAddr};",
            "use core::time::Duration;",
            "fn f(core: Option<usize>) { let core = core; }",
            "use std::collections::BTreeMap;",
            "static TABLE: [u8; 4] = [0; 4];",
            "fn f(x: &'static str, time: u64) -> u64 { time }",
            "// std::time::Instant\nfn f() { let s = \"std::fs::read\"; }",
            "#[cfg(test)]\nmod tests { use std::fs; static A: AtomicU8 = AtomicU8::new(0); }",
            "fn f(p: &Packet) { p.time::<u8>(); self.time.max(crate::time::NOW) }",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_exception_holds_in_its_file_alone() {
        let text = "static NEXT_MEMORY: AtomicU32 = AtomicU32::new(1);";
        let excepted = SourceFile::of(EXCEPTIONS[0].0, text);
        assert_eq!(check(&excepted), []);
        assert_eq!(names(text), ["static NEXT_MEMORY"]);
    }

    #[test]
    fn a_finding_names_its_line() {
        let file = SourceFile::of("crates/nf/src/x.rs", "\n\nuse std::{\n    fs,\n};\n");
        assert_eq!(check(&file).first().map(|f| f.line), Some(4));
    }
}
