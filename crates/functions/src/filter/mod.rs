//! Stateless filter and classifier on layers 3 and 4.

pub(crate) mod matcher;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

pub use matcher::Match;
use matcher::{Fields as PacketFields, Matcher};

/// Three lists, looked at in the order `drop`, `accept`, `classes`: the first entry that a packet
/// meets decides.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Packets to drop.
    pub drop: Vec<Match>,
    /// Packets to pass on without a class.
    pub accept: Vec<Match>,
    /// At most six classes: packets of the first leave by the link `class-1`, of the second by
    /// `class-2`, and so on.
    pub classes: Vec<Match>,
    /// Action on packets that no entry matches. Without an entry in any list all pass.
    pub otherwise: Otherwise,
}

/// Action on packets that no entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Otherwise {
    /// They pass.
    #[default]
    Accept,
    /// They are dropped.
    Drop,
}

/// Drops, passes and labels packets by their headers.
#[derive(Debug)]
pub struct Filter {
    drop: Vec<Matcher>,
    accept: Vec<Matcher>,
    classes: Vec<Matcher>,
    needs_addresses: bool,
    drop_others: bool,
}

/// Labels of classes, in filters and classifiers.
pub(crate) const LABELS: [&str; 6] = [
    "class-1", "class-2", "class-3", "class-4", "class-5", "class-6",
];
weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// An entry of `drop` matches it.
        Filtered = "filtered",
        /// No entry matches it, and `otherwise` says to drop it.
        NoMatch = "no_match",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets that an entry of `accept` matched.
        Accepted = "accepted",
        /// Packets that entry 1 of `classes` matched.
        Class1 = "class_1",
        /// Packets that entry 2 of `classes` matched.
        Class2 = "class_2",
        /// Packets that entry 3 of `classes` matched.
        Class3 = "class_3",
        /// Packets that entry 4 of `classes` matched.
        Class4 = "class_4",
        /// Packets that entry 5 of `classes` matched.
        Class5 = "class_5",
        /// Packets that entry 6 of `classes` matched.
        Class6 = "class_6",
    }
}

/// Counters of classes, in the order of [`LABELS`].
const CLASSES: [Count; 6] = [
    Count::Class1,
    Count::Class2,
    Count::Class3,
    Count::Class4,
    Count::Class5,
    Count::Class6,
];

/// Most entries of one list.
const MOST: usize = 1_024;

impl NetworkFunction for Filter {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Decides on each packet by its headers alone, without memory: entries of `drop` \
                 drop it (counted as filtered), entries of `accept` let it pass, entries of \
                 `classes` send it out by the link class-1 to class-6; a class whose link is not \
                 named in the chain passes. The first entry that is met decides; what meets \
                 none is treated as `otherwise` says (dropped packets are counted as no_match).\n\n\
                 In an opened tunnel addresses and ports are the inner packet's. Later fragments \
                 have no ports and meet no entry with from-port or to-port; for a filter by \
                 port that holds for whole datagrams take `firewall`, which knows flows. \
                 Entries are compared one after another: beyond some dozens `firewall`, which \
                 remembers its verdict per flow, costs less.",
        needs: Needs::Transport,
        reads: Parts::LINK.and(Parts::NETWORK).and(Parts::TRANSPORT),
        drops: Reason::TABLE,
        labels: &LABELS,
        counters: Count::TABLE,
        cycles: 40,
        ..Descriptor::new("filter", "filters and classifies by headers, without state")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Filter, SettingsError> {
        check_number(settings.classes.len())?;
        let drop = list("drop", &settings.drop)?;
        let accept = list("accept", &settings.accept)?;
        let classes = list("classes", &settings.classes)?;
        let mut all = drop.iter().chain(&accept).chain(&classes);
        Ok(Filter {
            needs_addresses: all.any(Matcher::needs_addresses),
            drop,
            accept,
            classes,
            drop_others: settings.otherwise == Otherwise::Drop,
        })
    }

    fn labels_used(&self) -> u64 {
        labels_of(self.classes.len())
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let fields = PacketFields::of(packet, self.needs_addresses);
        if self.drop.iter().any(|entry| entry.meets(&fields)) {
            return Verdict::Drop(Reason::Filtered.into());
        }
        if self.accept.iter().any(|entry| entry.meets(&fields)) {
            cx.count(Count::Accepted, 1);
            return Verdict::Pass;
        }
        if let Some(class) = self.classes.iter().position(|entry| entry.meets(&fields)) {
            if let Some(counter) = CLASSES.get(class) {
                cx.count(*counter, 1);
            }
            return Verdict::Label(class as u8 + 1);
        }
        if self.drop_others {
            Verdict::Drop(Reason::NoMatch.into())
        } else {
            Verdict::Pass
        }
    }
}

/// The labels of so many classes, as a function tells them.
pub(crate) fn labels_of(classes: usize) -> u64 {
    (1..=classes.min(LABELS.len())).fold(0, |labels, label| labels | 1 << label)
}

/// A class has a label of its own.
pub(crate) fn check_number(classes: usize) -> Result<(), SettingsError> {
    if classes <= LABELS.len() {
        return Ok(());
    }
    let message = format!("{classes} classes are more than {}", LABELS.len());
    let error = SettingsError::new("classes", message);
    Err(error.help("put a second one behind `pass` for the others"))
}

/// Entries of the list `name`, ready to be compared.
pub(crate) fn list(name: &str, entries: &[Match]) -> Result<Vec<Matcher>, SettingsError> {
    if entries.len() > MOST {
        let message = format!("{} entries are more than {MOST}", entries.len());
        return Err(SettingsError::new(name, message).help("use `firewall` for long lists"));
    }
    entries
        .iter()
        .enumerate()
        .map(|(number, entry)| Matcher::new(&format!("{name}[{number}]"), entry))
        .collect()
}
