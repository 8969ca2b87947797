//! Description of a counter.

/// Kind of a value: a counter only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows from 0 at the start of the process.
    Counter,
    /// Says how much there is now.
    Gauge,
}

impl Kind {
    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Octets.
    Bytes,
    /// Flows, both directions of a connection being one.
    Flows,
    /// Units of a scope: flows that move together.
    Units,
    /// Events written for operators.
    Events,
    /// Messages between processes.
    Messages,
    /// Frames of packet memory.
    Frames,
    /// Transport ports of addresses that functions lease.
    Ports,
    /// Entries of a set of addresses.
    Entries,
    /// Cycles of the processor's time-stamp counter.
    Cycles,
    /// Nanoseconds; Prometheus is given seconds.
    Nanoseconds,
    /// How often something happened.
    Times,
}

impl Unit {
    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
            Unit::Flows => "flows",
            Unit::Units => "units",
            Unit::Events => "events",
            Unit::Messages => "messages",
            Unit::Frames => "frames",
            Unit::Ports => "ports",
            Unit::Entries => "entries",
            Unit::Cycles => "cycles",
            Unit::Nanoseconds => "nanoseconds",
            Unit::Times => "times",
        }
    }

    /// End of a Prometheus name; empty if it adds nothing.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "seconds",
            Unit::Times => "",
            unit => unit.name(),
        }
    }
}

/// The declaration of one counter, or of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    name: &'static str,
    kind: Kind,
    unit: Unit,
    meaning: &'static str,
    metric: Option<&'static str>,
}

impl Entry {
    /// An entry; `meaning` is a doc comment, whose leading space is cut.
    pub const fn new(name: &'static str, kind: Kind, unit: Unit, meaning: &'static str) -> Entry {
        Entry {
            name,
            kind,
            unit,
            meaning: meaning.trim_ascii(),
            metric: None,
        }
    }

    /// The same with a Prometheus name of its own, where the rule of
    /// [`Entry::metric`] does not give it.
    #[must_use]
    pub const fn called(self, metric: &'static str) -> Entry {
        Entry {
            metric: Some(metric),
            ..self
        }
    }

    /// The name in JSON and in messages, `snake_case`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Counter or gauge.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Counters.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Its meaning, in sentences for operators.
    pub const fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// The Prometheus name: `prefix_name_unit`, with `_total` behind a counter. The
    /// unit is left out where the name has it.
    pub fn metric(&self, prefix: &str) -> String {
        if let Some(metric) = self.metric {
            return metric.to_owned();
        }
        let mut name = format!("{prefix}_{}", self.name);
        let unit = self.unit.suffix();
        if !unit.is_empty() && !self.name.split('_').any(|word| word == unit) {
            name = format!("{name}_{unit}");
        }
        match self.kind {
            Kind::Counter => name + "_total",
            Kind::Gauge => name,
        }
    }
}

/// True if a table keeps the rules: names are `snake_case` and occur once, meanings
/// are sentences without links of rustdoc. The macros assert it at compile time.
pub const fn check(table: &[Entry]) -> bool {
    let mut i = 0;
    while i < table.len() {
        if !is_snake_case(table[i].name.as_bytes()) || !is_sentence(table[i].meaning.as_bytes()) {
            return false;
        }
        let mut j = 0;
        while j < i {
            if same(table[i].name.as_bytes(), table[j].name.as_bytes()) {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}

const fn is_snake_case(name: &[u8]) -> bool {
    let mut i = 0;
    while i < name.len() {
        if !matches!(name[i], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        i += 1;
    }
    !name.is_empty()
}

const fn is_sentence(text: &[u8]) -> bool {
    let mut i = 0;
    while i + 1 < text.len() {
        if text[i] == b'[' && text[i + 1] == b'`' {
            return false;
        }
        i += 1;
    }
    text.len() > 10 && text[text.len() - 1] == b'.'
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS_IN: Entry = Entry::new(
        "packets_in",
        Kind::Counter,
        Unit::Packets,
        " Packets taken in.",
    );

    #[test]
    fn metrics_have_prefix_unit_and_total() {
        let metric = |name, kind, unit| Entry::new(name, kind, unit, "").metric("weir_chain");
        assert_eq!(
            PACKETS_IN.metric("weir_chain"),
            "weir_chain_packets_in_total"
        );
        assert_eq!(
            metric("held", Kind::Gauge, Unit::Packets),
            "weir_chain_held_packets"
        );
        assert_eq!(
            metric("idle", Kind::Counter, Unit::Nanoseconds),
            "weir_chain_idle_seconds_total"
        );
        assert_eq!(
            metric("deaths", Kind::Counter, Unit::Times),
            "weir_chain_deaths_total"
        );
        assert_eq!(PACKETS_IN.called("weir_in").metric("weir_chain"), "weir_in");
    }

    #[test]
    fn tables_that_break_a_rule_are_refused() {
        let entry = |name, meaning| Entry::new(name, Kind::Counter, Unit::Packets, meaning);
        let good = entry("kept", "Packets that ended here.");
        assert!(check(&[PACKETS_IN, good]));
        assert!(!check(&[good, PACKETS_IN, good]), "a name occurs twice");
        for bad in [
            entry("Kept", "Packets that ended here."),
            entry("", "Packets that ended here."),
            entry("kept", "Packets that ended here"),
            entry("kept", "Kept."),
            entry("kept", "Packets, see [`Kept`]."),
        ] {
            assert!(!check(&[bad]), "{bad:?}");
        }
    }
}
