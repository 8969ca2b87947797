//! Counters, declared once, beside the code that counts them.
//!
//! A declaration is the counter: [`counters!`] makes a struct of plain `u64` fields,
//! [`labels!`] an enum of reasons or names that [`Counts`] counts in an array. Both
//! make a table of [`Entry`]s with it: name, kind, unit and meaning, which is the
//! doc comment. JSON, the Prometheus text, messages, documents and tests read the
//! table, so none of them can lag behind the code.
//!
//! What is counted for bills is in [`usage`]: a ledger's numbers, and how they are put together.
//!
//! Counting is an addition to a field or an array slot. Everything else here is for
//! readers of the counts.

mod counters;
mod counts;
mod entry;
pub mod prometheus;
pub mod usage;

pub use counters::Counters;
pub use counts::{Counts, Label};
pub use entry::{Entry, Kind, Unit, check};
