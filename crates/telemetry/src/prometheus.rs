//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use crate::{Entry, Kind, Unit};

/// Labels of a sample, by name.
pub type Labels = Vec<(&'static str, String)>;

/// A metric: all samples of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    name: String,
    kind: Kind,
    unit: Unit,
    help: &'static str,
    labels: &'static [&'static str],
}

impl Family {
    /// A metric that no table declares.
    pub fn new(
        name: &str,
        kind: Kind,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family {
        Family {
            name: name.to_owned(),
            kind,
            unit: Unit::Times,
            help,
            labels,
        }
    }

    /// The same whose values are given in nanoseconds, and shown in seconds.
    pub fn seconds(
        name: &str,
        kind: Kind,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family {
        Family {
            unit: Unit::Nanoseconds,
            ..Family::new(name, kind, help, labels)
        }
    }

    /// The metric of an entry, with the names of its labels.
    pub fn of(entry: &Entry, prefix: &str, labels: &'static [&'static str]) -> Family {
        Family {
            name: entry.metric(prefix),
            kind: entry.kind(),
            unit: entry.unit(),
            help: entry.meaning(),
            labels,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counter or gauge.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its row in a table of a Markdown document: name, kind, labels, meaning.
    pub fn row(&self) -> String {
        let (name, kind, labels) = (&self.name, self.kind.name(), self.labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {} |", self.help)
    }
}

/// The text, metric by metric.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: String,
    families: Vec<Family>,
}

impl Text {
    /// An empty text.
    pub fn new() -> Text {
        Text::default()
    }

    /// Writes a metric: its head, and a line per sample. One without samples is left
    /// out. Values are in the unit of the entry.
    pub fn write(&mut self, family: &Family, samples: impl IntoIterator<Item = (Labels, u64)>) {
        self.families.push(family.clone());
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let (name, kind) = (&family.name, family.kind.name());
        // Writing to a `String` can't fail.
        let _ = writeln!(
            self.text,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            family.help
        );
        for (labels, value) in samples {
            self.text.push_str(name);
            for (i, (label, text)) in labels.iter().enumerate() {
                self.text.push(if i == 0 { '{' } else { ',' });
                let _ = write!(self.text, "{label}=\"");
                escape(&mut self.text, text);
                self.text.push('"');
            }
            if !labels.is_empty() {
                self.text.push('}');
            }
            let _ = match family.unit {
                Unit::Nanoseconds => writeln!(self.text, " {}", value as f64 / 1e9),
                _ => writeln!(self.text, " {value}"),
            };
        }
    }

    /// All metrics so far, those without samples included.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The text so far.
    pub fn into_string(self) -> String {
        self.text
    }
}

fn escape(into: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_time_is_in_seconds() {
        let idle = Entry::new("idle", Kind::Counter, Unit::Nanoseconds, "Time asleep.");
        let mut text = Text::new();
        let samples = [(vec![("thread", "a\"b\\c\nd".to_owned())], 2_500_000_000)];
        text.write(&Family::of(&idle, "weir_thread", &["thread"]), samples);
        let flows = Family::new("weir_flows", Kind::Gauge, "Flows open.", &[]);
        text.write(&flows, [(vec![], u64::MAX)]);
        text.write(&flows, []);
        let expected = "# HELP weir_thread_idle_seconds_total Time asleep.\n\
            # TYPE weir_thread_idle_seconds_total counter\n\
            weir_thread_idle_seconds_total{thread=\"a\\\"b\\\\c\\nd\"} 2.5\n\
            # HELP weir_flows Flows open.\n# TYPE weir_flows gauge\n\
            weir_flows 18446744073709551615\n";
        assert_eq!(text.into_string(), expected);
        assert_eq!(flows.row(), "| `weir_flows` | gauge |  | Flows open. |");
    }
}
