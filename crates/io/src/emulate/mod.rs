//! Bad links, emulated: `emu(loss=1%,delay=20ms,…):PORT`.
//!
//! [`Link`] decides: `(now, item) → when it arrives, if it does`, from a
//! seed. Around it are ports that wrap a port: an interface in both
//! directions, by the machine's clock ([`EmulatedPort`]), and an input or an
//! output of packets with times of their own, by those ([`EmulatedInput`],
//! [`EmulatedOutput`]).

mod frames;
mod input;
mod link;
mod output;
mod port;
mod settings;
#[cfg(test)]
mod tests;

pub use input::EmulatedInput;
pub use link::{Link, LinkCounts};
pub use output::EmulatedOutput;
pub use port::EmulatedPort;
pub use settings::LinkSettings;
