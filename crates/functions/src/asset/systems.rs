//! Which operating system has which TCP/IP stack: coarse signatures, by what the vendors document
//! and packets on any network show.

use super::stack::{Kind, Stack};
use Kind::{End, Mss, Nop, Sack, Scale, Time};

/// Window of a signature.
#[derive(Clone, Copy, Debug)]
enum Window {
    Any,
    Is(&'static [u16]),
    /// A multiple of the maximum segment size, or of it less the twelve octets that timestamps
    /// take.
    Segments(u16, u16),
}

/// Role of the host that sends a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Client,
    Server,
}

struct Signature {
    name: &'static str,
    who: Who,
    ttl: u8,
    options: &'static [Kind],
    window: Window,
    /// Smallest and largest window scale; `(0, 255)` for any.
    scale: (u8, u8),
}

const ANY: (u8, u8) = (0, 255);

const fn client(
    name: &'static str,
    ttl: u8,
    options: &'static [Kind],
    window: Window,
    scale: (u8, u8),
) -> Signature {
    Signature {
        name,
        who: Who::Client,
        ttl,
        options,
        window,
        scale,
    }
}

const fn server(
    name: &'static str,
    ttl: u8,
    options: &'static [Kind],
    window: Window,
    scale: (u8, u8),
) -> Signature {
    Signature {
        name,
        who: Who::Server,
        ttl,
        options,
        window,
        scale,
    }
}

const LINUX: &[Kind] = &[Mss, Sack, Time, Nop, Scale];
const LINUX_NO_TIME: &[Kind] = &[Mss, Nop, Nop, Sack, Nop, Scale];
const WINDOWS: &[Kind] = &[Mss, Nop, Scale, Nop, Nop, Sack];
const WINDOWS_OLD: &[Kind] = &[Mss, Nop, Nop, Sack];
const WINDOWS_TIME: &[Kind] = &[Mss, Nop, Scale, Nop, Nop, Time, Nop, Nop, Sack];
const WINDOWS_ANSWER: &[Kind] = &[Mss, Nop, Scale, Sack, Time];
const APPLE: &[Kind] = &[Mss, Nop, Scale, Nop, Nop, Time, Sack, End];
const FREEBSD: &[Kind] = &[Mss, Nop, Scale, Sack, Time];
const FREEBSD_NO_TIME: &[Kind] = &[Mss, Nop, Scale, Sack, End];
const OPENBSD: &[Kind] = &[Mss, Nop, Nop, Sack, Nop, Scale, Nop, Nop, Time];
const OLD_BSD: &[Kind] = &[Mss, Nop, Scale, Nop, Nop, Time];
const SOLARIS_TIME: &[Kind] = &[Nop, Nop, Time, Mss, Nop, Scale, Nop, Nop, Sack];
const SOLARIS_11: &[Kind] = &[Sack, Time, Mss, Nop, Scale];
const HPUX: &[Kind] = &[Mss, Scale, Nop];
const ONLY_MSS: &[Kind] = &[Mss];

/// The first one that fits is taken: the narrow ones stand before the wide ones.
const SIGNATURES: &[Signature] = &[
    // Scanners make their segments themselves.
    client(
        "nmap SYN scan",
        64,
        ONLY_MSS,
        Window::Is(&[1024, 2048, 3072, 4096]),
        ANY,
    ),
    client(
        "nmap OS detection",
        64,
        &[Scale, Nop, Mss, Time, Sack],
        Window::Any,
        ANY,
    ),
    client("masscan", 255, &[], Window::Is(&[1024]), ANY),
    client("ZMap", 255, &[], Window::Is(&[65_535]), ANY),
    client("hping", 64, &[], Window::Is(&[512]), ANY),
    client("Scapy", 64, &[], Window::Is(&[8_192]), ANY),
    client("Linux (Android)", 64, LINUX, Window::Is(&[65_535]), (5, 10)),
    client(
        "Linux 4.20 or newer",
        64,
        LINUX,
        Window::Is(&[64_240, 64_800, 65_160, 64_860]),
        (6, 14),
    ),
    client(
        "Linux 4.20 or newer",
        64,
        LINUX,
        Window::Segments(44, 46),
        (6, 14),
    ),
    client(
        "Linux 3.11 to 4.19",
        64,
        LINUX,
        Window::Segments(20, 20),
        (5, 14),
    ),
    client(
        "Linux 3.0 to 3.10",
        64,
        LINUX,
        Window::Segments(10, 10),
        ANY,
    ),
    client("Linux 2.6", 64, LINUX, Window::Segments(3, 4), (4, 14)),
    client("Linux 2.4", 64, LINUX, Window::Segments(3, 4), (0, 3)),
    client("Linux", 64, LINUX, Window::Any, ANY),
    client(
        "Linux without timestamps",
        64,
        LINUX_NO_TIME,
        Window::Any,
        ANY,
    ),
    client(
        "Windows 10 or newer",
        128,
        WINDOWS,
        Window::Is(&[64_240, 65_535, 64_800, 62_720]),
        (8, 8),
    ),
    client(
        "Windows Vista to 8",
        128,
        WINDOWS,
        Window::Is(&[8_192]),
        (2, 8),
    ),
    client("Windows XP or 2003", 128, WINDOWS, Window::Any, (0, 3)),
    client("Windows", 128, WINDOWS, Window::Any, ANY),
    client("Windows 2000", 128, WINDOWS_OLD, Window::Is(&[16_384]), ANY),
    client(
        "Windows Vista to 8",
        128,
        WINDOWS_OLD,
        Window::Is(&[8_192]),
        ANY,
    ),
    client("Windows XP or 2003", 128, WINDOWS_OLD, Window::Any, ANY),
    client(
        "Windows with timestamps",
        128,
        WINDOWS_TIME,
        Window::Any,
        ANY,
    ),
    client("Windows with timestamps", 128, LINUX, Window::Any, ANY),
    client(
        "macOS 10.10 or newer, or iOS",
        64,
        APPLE,
        Window::Is(&[65_535]),
        (5, 8),
    ),
    client(
        "Mac OS X up to 10.9",
        64,
        APPLE,
        Window::Is(&[65_535]),
        (1, 4),
    ),
    client("macOS or iOS", 64, APPLE, Window::Any, ANY),
    client("FreeBSD", 64, FREEBSD, Window::Is(&[65_535]), (6, 14)),
    client("FreeBSD up to 8", 64, FREEBSD, Window::Any, (0, 5)),
    client("OpenBSD", 64, OPENBSD, Window::Any, ANY),
    client(
        "NetBSD or FreeBSD 4",
        64,
        OLD_BSD,
        Window::Is(&[16_384, 32_768, 57_344, 65_535]),
        ANY,
    ),
    client("Solaris 10", 64, WINDOWS, Window::Segments(34, 34), (0, 2)),
    client("Solaris", 64, SOLARIS_TIME, Window::Any, ANY),
    client("Solaris 11", 64, SOLARIS_11, Window::Any, ANY),
    client("HP-UX", 64, HPUX, Window::Is(&[32_768]), ANY),
    client("Cisco IOS", 255, ONLY_MSS, Window::Is(&[4_128]), ANY),
    client(
        "embedded (lwIP)",
        255,
        ONLY_MSS,
        Window::Segments(2, 8),
        ANY,
    ),
    server(
        "Linux 4.20 or newer",
        64,
        LINUX,
        Window::Is(&[65_160, 64_704, 65_483]),
        (6, 14),
    ),
    server(
        "Linux 3.0 to 4.19",
        64,
        LINUX,
        Window::Is(&[14_480, 28_960, 26_847, 26_883, 14_600]),
        ANY,
    ),
    server(
        "Linux 2.4 or 2.6",
        64,
        LINUX,
        Window::Is(&[5_792, 5_672]),
        ANY,
    ),
    server("Linux", 64, LINUX, Window::Any, ANY),
    server("OpenBSD", 64, LINUX_NO_TIME, Window::Is(&[16_384]), (3, 6)),
    server("Linux", 64, LINUX_NO_TIME, Window::Any, ANY),
    server(
        "Linux",
        64,
        &[Mss, Nop, Nop, Time, Nop, Scale],
        Window::Any,
        ANY,
    ),
    server(
        "Linux 2.4 or 2.6",
        64,
        WINDOWS_OLD,
        Window::Is(&[5_840]),
        ANY,
    ),
    server(
        "Linux 3.0 to 4.19",
        64,
        WINDOWS_OLD,
        Window::Is(&[14_600, 29_200]),
        ANY,
    ),
    server(
        "Linux 4.20 or newer",
        64,
        WINDOWS_OLD,
        Window::Is(&[64_240]),
        ANY,
    ),
    server("Linux", 64, &[Mss, Nop, Scale], Window::Any, (5, 14)),
    server(
        "Windows Vista or newer",
        128,
        WINDOWS_ANSWER,
        Window::Any,
        ANY,
    ),
    server(
        "Windows 10 or newer",
        128,
        WINDOWS,
        Window::Is(&[64_240, 65_535, 64_000, 62_720]),
        (8, 8),
    ),
    server(
        "Windows Vista to 8",
        128,
        WINDOWS,
        Window::Is(&[8_192]),
        (2, 8),
    ),
    server("Windows", 128, WINDOWS, Window::Any, ANY),
    server("Windows", 128, LINUX_NO_TIME, Window::Any, ANY),
    server("Windows XP or 2003", 128, WINDOWS_TIME, Window::Any, ANY),
    server("Windows", 128, WINDOWS_OLD, Window::Any, ANY),
    server("macOS or iOS", 64, APPLE, Window::Any, ANY),
    server("FreeBSD", 64, FREEBSD, Window::Is(&[65_535]), ANY),
    server("FreeBSD", 64, FREEBSD_NO_TIME, Window::Is(&[65_535]), ANY),
    server("OpenBSD", 64, OPENBSD, Window::Any, ANY),
    server(
        "NetBSD or FreeBSD 4",
        64,
        OLD_BSD,
        Window::Is(&[16_384, 32_768, 57_344]),
        ANY,
    ),
    server("Solaris", 64, SOLARIS_TIME, Window::Any, ANY),
    server("Citrix NetScaler", 255, ONLY_MSS, Window::Is(&[8_190]), ANY),
    server("Citrix NetScaler", 255, WINDOWS, Window::Is(&[8_190]), ANY),
    server("Cisco IOS", 255, ONLY_MSS, Window::Is(&[4_128]), ANY),
];

/// The name of the first signature that fits.
pub(super) fn system(stack: &Stack) -> Option<&'static str> {
    let who = if stack.answer {
        Who::Server
    } else {
        Who::Client
    };
    let found = SIGNATURES.iter().find(|signature| {
        signature.who == who
            && signature.ttl == stack.first_ttl()
            && has_options(signature.options, stack.kinds())
            && fits(signature.window, stack)
            && (signature.scale.0..=signature.scale.1).contains(&stack.scale.unwrap_or(0))
    });
    found.map(|signature| signature.name)
}

/// True if the options are those of a signature. Multipath TCP and fast open are left out:
/// applications ask for them, no stack sends them by itself, and they come after the others, with
/// padding of their own.
fn has_options(expected: &[Kind], kinds: &[Kind]) -> bool {
    const MULTIPATH: u8 = 30;
    const FAST_OPEN: u8 = 34;
    const FAST_OPEN_TRIAL: u8 = 254;
    let asked = |kind: &Kind| matches!(kind, Kind::Other(MULTIPATH | FAST_OPEN | FAST_OPEN_TRIAL));
    match kinds.iter().position(asked) {
        None => kinds == expected,
        Some(end) => {
            let own = kinds.get(..end).unwrap_or(&[]);
            own == expected.strip_suffix(&[End]).unwrap_or(expected)
        }
    }
}

fn fits(window: Window, stack: &Stack) -> bool {
    match window {
        Window::Any => true,
        Window::Is(values) => values.contains(&stack.window),
        Window::Segments(least, most) => {
            let mss = stack.mss.unwrap_or(0);
            [mss, mss.saturating_sub(12)].into_iter().any(|size| {
                size > 0
                    && stack.window.is_multiple_of(size)
                    && (least..=most).contains(&(stack.window / size))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_signature_hides_behind_an_earlier_one() {
        for (number, one) in SIGNATURES.iter().enumerate() {
            for other in &SIGNATURES[..number] {
                let same =
                    other.who == one.who && other.ttl == one.ttl && other.options == one.options;
                let wider = matches!(other.window, Window::Any)
                    && other.scale.0 <= one.scale.0
                    && other.scale.1 >= one.scale.1;
                assert!(!(same && wider), "{} hides {}", other.name, one.name);
            }
        }
    }
}
