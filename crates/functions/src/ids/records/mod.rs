//! Records: one event per transaction, with the fields of Suricata's EVE; and the transactions that alerts show.
//!
//! Rules and records share one parser. A message gives a [`note::Note`], a copy of the fields that records
//! show. Requests wait for their responses in a side buffer of the flow ([`pending::Pending`]), so that a
//! record is whole wherever the flow has moved in between.

mod dns;
mod dns_names;
mod file;
mod kinds;
mod members;
mod note;
mod pending;
mod record;
mod section;
mod transactions;
mod write;

pub use kinds::{AlertField, FileHash, RecordKind};

pub(super) use kinds::Recording;
pub(super) use pending::Pending;
pub(super) use record::{Record, Records, Transaction};
pub(super) use transactions::{Transactions, under_way};
pub(super) use write::{write_object, write_record};
