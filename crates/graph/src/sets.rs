//! `sets:` — named sets of addresses, which rules name and commands change (docs/sets.md).

use std::net::IpAddr;
use std::sync::Arc;

use weir_nf::host::Timeouts;
use weir_nf::{NamedSet, Sources};
use weir_packet::{AddressSet, Prefix};

use crate::diagnostic::{Diagnostic, Report, Severity, Span};
use crate::form::{Choice, Duration, Form as _, Integer, List, Name, OneOrMore, Placed, Text};
use crate::keys::Keys;
use crate::tree::Node;
use crate::units::show_duration;

/// Entries of a set that says nothing of `most`, and the most that it may say.
const MOST: usize = 65_536;
const MOST_OF_ALL: u64 = 16 << 20;

/// A set of a chain file.
#[derive(Clone, Debug)]
pub struct SetDefinition {
    /// The file that entries are read from, as it is written.
    pub file: Option<String>,
    /// The entries of the chain file and of that file, sorted, each once.
    pub entries: Arc<[Prefix]>,
    /// Most entries.
    pub most: usize,
    /// When entries that are added by a command go, where it does not say; in milliseconds.
    pub timeout: Option<u32>,
    /// The set itself, by its name.
    pub set: NamedSet,
}

/// A set whose entries, or whose time-out, a changed chain file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    /// Its name.
    pub name: String,
    /// Entries that the file did not have.
    pub added: u64,
    /// Entries that it does not have any more.
    pub removed: u64,
    /// The time-out of entries that are added by a command, before and after, where it differs.
    pub timeout: Option<(String, String)>,
}

impl SetDefinition {
    /// Stands for what the file says of the set.
    pub(crate) fn digest(&self) -> u64 {
        let SetDefinition {
            entries,
            most,
            timeout,
            ..
        } = self;
        let fold = |hash: u64, octets: &[u8]| {
            octets.iter().fold(hash, |hash, octet| {
                (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let first = fold(
            0xcbf2_9ce4_8422_2325,
            format!("{most} {timeout:?}").as_bytes(),
        );
        entries.iter().fold(first, |hash, entry| {
            let hash = match entry.address() {
                IpAddr::V4(address) => fold(hash, &address.octets()),
                IpAddr::V6(address) => fold(hash, &address.octets()),
            };
            fold(hash, &[entry.length()])
        })
    }

    fn shown_timeout(&self) -> String {
        self.timeout.map_or("none".to_owned(), show_duration)
    }
}

/// The sets that differ; or what differs and takes a restart.
pub(crate) fn changes(
    before: &[SetDefinition],
    after: &[SetDefinition],
) -> Result<Vec<SetChange>, String> {
    let shape = |of: &SetDefinition| (of.set.name.clone(), of.most);
    if before.iter().map(shape).ne(after.iter().map(shape)) {
        return Err(
            "`sets`: their names or their `most` have changed: that takes a restart".to_owned(),
        );
    }
    let alone = |some: &[Prefix], others: &[Prefix]| {
        let mut alone = 0;
        for entry in some {
            alone += u64::from(others.binary_search(entry).is_err());
        }
        alone
    };
    let pairs = before.iter().zip(after);
    let all = pairs.map(|(before, after)| SetChange {
        name: after.set.name.to_string(),
        added: alone(&after.entries, &before.entries),
        removed: alone(&before.entries, &after.entries),
        timeout: (before.timeout != after.timeout)
            .then(|| (before.shown_timeout(), after.shown_timeout())),
    });
    let differs = |of: &SetChange| of.added > 0 || of.removed > 0 || of.timeout.is_some();
    Ok(all.filter(differs).collect())
}

/// A set as written.
#[derive(Default)]
pub(crate) struct Written {
    name: Option<(String, Span)>,
    file: Option<(String, Span)>,
    entries: Vec<(String, Span)>,
    most: Option<usize>,
    timeout: Option<u32>,
}

/// Keys of a set.
pub(crate) fn keys() -> Keys<Written> {
    const KINDS: &[(&str, ())] = &[("addresses", ())];
    let most = Integer(1..=MOST_OF_ALL);
    let entries = OneOrMore("an address, a prefix, or a list of some", Placed(Text));
    Keys::<Written>::new("a set like `{name: blocked, file: blocked.txt}`", "")
        .key(
            "name",
            "The name by which rules and commands mean it.",
            Placed(Name("the name of a set")),
            |set, name| set.name = Some(name),
        )
        .needed("write `name: ...`")
        .key(
            "kind",
            "What is in it: addresses and prefixes.",
            Choice(KINDS),
            |_, ()| {},
        )
        .key(
            "file",
            "A text with entries, one a line.",
            Placed(Text),
            |set, file| set.file = Some(file),
        )
        .key("entries", "Entries.", entries, |set, entries| {
            set.entries = entries;
        })
        .key(
            "most",
            "Most entries; their memory is reserved at the start.",
            most,
            |set, most| set.most = Some(most as usize),
        )
        .key(
            "timeout",
            "When entries go that a command has added without saying when.",
            Duration,
            |set, ms| set.timeout = Some(ms).filter(|ms| *ms != Timeouts::NEVER),
        )
}

/// The list of sets.
pub(crate) fn list() -> List<Keys<Written>> {
    List(
        "a list of sets like `{name: blocked, file: blocked.txt}`",
        keys(),
    )
}

/// Reads the list; `sources` gives the texts that sets name, and the sets that run already.
pub(crate) fn read(
    node: &Node,
    seed: u64,
    sources: &mut dyn Sources,
    report: &mut Report<'_>,
) -> Vec<SetDefinition> {
    let running = sources.sets();
    let mut sets: Vec<SetDefinition> = Vec::new();
    for written in list().read(node, report).unwrap_or_default() {
        let Some((name, span)) = &written.name else {
            continue;
        };
        if sets.iter().any(|set| *set.set.name == **name) {
            report.error_help(
                *span,
                format!("the set `{name}` is here twice"),
                "give each set a name of its own",
            );
            continue;
        }
        let entries = entries(&written, sources, report);
        let most = written.most.unwrap_or(MOST);
        if entries.len() > most {
            report.error_help(
                *span,
                format!(
                    "the set `{name}` has {} entries, and may have {most}",
                    entries.len()
                ),
                format!(
                    "write `most: {}` or more: commands need room to add some",
                    entries.len()
                ),
            );
            continue;
        }
        let running = running.named(name).filter(|set| set.set.most() == most);
        let set = running.cloned().unwrap_or_else(|| NamedSet {
            name: name.as_str().into(),
            set: Arc::new(filled(most, seed, &entries)),
        });
        sets.push(SetDefinition {
            file: written.file.map(|(file, _)| file),
            entries: entries.into(),
            most,
            timeout: written.timeout,
            set,
        });
    }
    sets
}

fn filled(most: usize, seed: u64, entries: &[Prefix]) -> AddressSet {
    let set = AddressSet::new(most, seed);
    if let Some(mut change) = set.change() {
        // They were counted before.
        let _ = change.become_of(entries);
    }
    set
}

/// The entries of a set, sorted, each once.
fn entries(written: &Written, sources: &mut dyn Sources, report: &mut Report<'_>) -> Vec<Prefix> {
    let mut entries = Vec::new();
    for (text, span) in &written.entries {
        match text.parse::<Prefix>().and_then(Prefix::unmapped) {
            Ok(prefix) => entries.push(prefix),
            Err(why) => report.error(*span, format!("`{text}` {why}")),
        }
    }
    if let Some((name, span)) = &written.file {
        match sources.text(name) {
            Ok(text) => lines(name, &text, &mut entries, report),
            Err(why) => report.error(*span, why),
        }
    }
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// The entries of a text: one a line, and comments behind `#` or `;`.
fn lines(name: &str, text: &str, entries: &mut Vec<Prefix>, report: &mut Report<'_>) {
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split(['#', ';']).next().unwrap_or("");
        let word = entry.trim();
        if word.is_empty() {
            continue;
        }
        match word.parse::<Prefix>().and_then(Prefix::unmapped) {
            Ok(prefix) => entries.push(prefix),
            Err(why) => {
                let before = entry.len() - entry.trim_start().len();
                let column = entry.get(..before).map_or(0, |blank| blank.chars().count()) + 1;
                let place = (number, column, word.chars().count());
                let message = format!("`{word}` {why}");
                let fault = Diagnostic::new(Severity::Error, name, Some(text), place, message);
                report.push(fault.with_help(
                    "each line has one address or prefix; what stands behind `#` is for people",
                ));
            }
        }
        if report.full() {
            return;
        }
    }
}
