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
