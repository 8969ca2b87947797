//! Stages in processes of their own, on packet memory that all of them have.
//!
//! The main process has the ports to the world, the first stage of each chain,
//! and the chain's end; each process has one later stage ([`StageProcess`]),
//! compiled from the same chain file, and frames go from one to the next over
//! rings, without being copied.
//!
//! A process that dies is started again ([`Host`]). The frames that it had come
//! back to the main process's pool; the packets in them are lost, and so are
//! its flows' states in that stage: the flows themselves live on in the first
//! stage, which tells the new process of them. When the main process dies, the
//! kernel ends the others, and memory and rings, which have no names, go with
//! the last of them.
//!
//! A stage that is not trusted ([`Tenant`]) gets none of that memory, but a
//! little one of its own behind a border, and nothing that it says is believed.

mod allowance;
mod child;
mod claims;
mod host;
mod tenant;
mod wire;

pub use child::StageProcess;
pub use host::{BorderEnd, ProcessEnd};
pub use tenant::Patience;

pub(super) use host::{Host, Process, ProcessDone, Want, account};
pub(super) use tenant::{Tenant, WantTenant, border_settings};
pub(in super::super) use wire::HELLO;

/// Frames on their way between two stages, a power of two.
pub(super) const PLACES: u32 = 512;
/// Free frames on their way, likewise.
pub(super) const SUPPLY: u32 = 512;
