//! A store in etcd, for several coordinators of which one leads.
//!
//! The one that leads alone reads and writes it ([`term`]). A composition is written in parts, since etcd
//! takes 1.5 MiB at a time; it counts once the record that names its parts is there.

mod campaign;
mod client;
mod keys;
mod ledger;
mod link;
mod store;
mod term;
mod wire;

pub(super) use campaign::Candidate;
pub use client::{EtcdPlace, EtcdTls};
pub(super) use store::EtcdStore;
