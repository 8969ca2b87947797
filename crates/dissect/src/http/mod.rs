//! HTTP/1.x (RFC 9110, RFC 9112).
//!
//! [`mod@line`] judges and reads first lines, [`ending`] finds the ends of lines and heads, [`head`] reads heads,
//! [`message`] cuts a stream into heads and bodies: these four are also for callers with memory of their own
//! ([`store`]). [`mod@uri`] normalises targets, `odd` notes anomalies of heads; the parser makes fields of it all and
//! decompresses bodies.

pub mod ending;
mod fields;
pub mod head;
pub mod line;
pub mod message;
mod odd;
mod parser;
pub mod store;
pub mod uri;

pub(crate) use parser::{Http, Means};
