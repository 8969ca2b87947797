//! The control interface of a running weir.
//!
//! - [`command`]: what a thread that moves packets is told over its command channel.
//!   A driver implements [`command::CommandTarget`] per thread, and has a
//!   [`command::CommandHandler`] carry commands out between bursts.
//! - [`observe`]: traces and taps, from the engines' rings to messages.
//! - [`server`]: the gRPC service and the metrics of one instance. A driver gives it a
//!   [`server::Offer`]: facts of the run, and the senders of its command channels.
//! - [`sets`]: changes of sets of addresses, for all processes of a run (docs/sets.md).
//! - [`configuration`]: another one for a run, which its driver reads (docs/reload.md).
//! - [`upgrade`]: the programs of its processes, and others in their places (docs/upgrade.md).
//! - [`hosts`]: the hosts that a run looks after; [`events`]: events of these and of runtimes.
//! - [`ledger`]: what tenants have used, in memory or a file that outlives a process.
//! - [`client`]: the instances of this user, and a connection to one.
//!
//! `server` and `client` are behind the feature `service`. Arguments of commands are
//! `crates/weir`'s.

#![forbid(unsafe_code)]

#[cfg(feature = "service")]
pub mod client;
pub mod command;
pub mod configuration;
pub mod counters;
pub mod events;
pub mod hosts;
pub mod ledger;
pub mod observe;
#[cfg(feature = "service")]
pub mod server;
pub mod sets;
#[cfg(feature = "service")]
mod socket;
pub mod upgrade;

mod drops;

pub use drops::DriverDrop;
