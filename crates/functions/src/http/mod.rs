//! HTTP/1.x: a reader of messages out of TCP streams, and the function
//! `http`, which reports transactions.
//!
//! `weir_dissect::http` judges and reads first lines and heads and cuts a stream into heads and
//! bodies; [`reader`] drives it from packets and is shared by all functions that read HTTP.

mod function;
pub mod reader;
mod settings;

pub use function::{Http, HttpState, Settings};
pub use settings::Reading;
