//! Parsers of application protocols: the bytes of a flow in, messages with named fields out.
//!
//! A [`Dissector`] is the state of one flow. It is given each direction's stream in order
//! ([`Dissector::stream`]), or datagrams, finds out which protocol the flow speaks, and hands out
//! [`Message`]s whose [`Field`]s are named as rules name them. It knows no packets, no clock and no engine.
//!
//! - What it keeps of a flow is bounded ([`Limits`]) and can be written and read back at any byte
//!   ([`Dissector::save`], [`Dissector::load`]).
//! - Messages are the same however the streams are cut. Only bodies are handed out as they come; the last
//!   time they are handed out ([`Message::last`]) they are the same, too.
//! - No bytes make it panic, and none cost more than a bounded factor of work.

mod coding;
mod detect;
mod dissector;
mod dns;
mod field;
mod ftp;
pub mod http;
mod limits;
mod lines;
mod mime;
mod percent;
mod smtp;
mod snapshot;
mod ssh;
mod tls;
mod values;

pub use dissector::{Dissector, Scratch};
pub use field::{Field, Notice, Number, Protocol};
pub use limits::Limits;
pub use snapshot::SnapshotError;
pub use values::{Message, Phase, Take, Value};
