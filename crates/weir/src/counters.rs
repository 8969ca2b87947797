//! Counters of the engine and the ports in JSON.

use serde_json::{Map, Value, json};
use weir_telemetry::{Counts, Entry, Label};

/// An object of counters, by their names.
pub(crate) fn to_json(entries: impl Iterator<Item = (&'static Entry, u64)>) -> Value {
    let pairs = entries.map(|(entry, n)| (entry.name().to_owned(), json!(n)));
    pairs.collect::<Map<_, _>>().into()
}

/// An object of names and numbers.
pub(crate) fn named<N: ToString>(counts: impl IntoIterator<Item = (N, u64)>) -> Value {
    let pairs = counts
        .into_iter()
        .map(|(name, n)| (name.to_string(), json!(n)));
    pairs.collect::<Map<_, _>>().into()
}

/// An object of what was counted.
pub(crate) fn labelled<K: Label>(counts: &Counts<K>) -> Value {
    named(counts.named())
}

#[cfg(test)]
mod tests {
    use weir_api::v1;
    use weir_ctl::counters::Carries as _;
    use weir_runtime::Report;
    use weir_telemetry::Counters as _;

    use super::*;

    #[test]
    fn counters_of_a_message_are_named_in_json() {
        let mut report = Report::default();
        for (place, value) in report.values_mut().into_iter().enumerate() {
            *value = 1 << place;
        }
        let message = v1::ChainStats::of(&report);
        assert_eq!(to_json(message.counters())["held"], json!(report.held));
    }
}
