//! HTTP/1.x: a reader of messages out of TCP streams, and the function
//! `http`, which reports transactions.
//!
//! [`mod@line`] judges and reads first lines, [`head`] reads heads, [`message`]
//! cuts a stream into heads and bodies; [`reader`] drives them from packets and
//! is shared by all functions that read HTTP.

mod function;
pub mod head;
pub mod line;
pub mod message;
pub mod reader;
mod settings;

pub use function::{Http, HttpState, Settings};
pub use settings::Reading;
