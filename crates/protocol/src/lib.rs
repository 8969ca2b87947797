//! The protocol of weir: how flows change owners while packets go on.
//!
//! One rule carries everything: *packet n is applied to state n−1, in one view
//! at a time, and what it puts out is let out once.* A unit's home [`Switch`]
//! numbers its packets (the clock), alone says who owns it (the view), and is
//! the gate through which all output leaves. A runtime's [`Actors`] keep the
//! states, one flow actor per (unit, view), and hand them to one another.
//!
//! Both are state machines: `(now, event) → actions`. They name no clock,
//! thread, socket or random source. Events are bursts of frames, messages and
//! the passing of time; actions are what lies in their outbox afterwards. The
//! driver (threads and rings in the program, hosts and links in the simulator)
//! carries it from there.
//!
//! # Frames on the data path
//!
//! A data frame goes switch → runtime with its unit, clock and view in its
//! metadata, and comes back as (part of) the *entry* of that clock: every
//! input frame comes back, also when the packet was dropped, and
//! [`weir_packet::Disposition`] says what it is now. Side effects of the packet
//! (emitted packets, notes: aliases, events, ends) come right before it,
//! with the same unit, view and clock. So an entry is: side frames, then the
//! packet's own frame, which closes it.

pub mod actors;
pub mod auth;
pub mod codec;
mod delta;
pub mod entry;
pub mod flowlets;
pub mod heartbeat;
pub mod ids;
pub mod in_process;
pub mod journal;
pub mod link;
pub mod message;
pub mod plant;
mod rtt;
pub mod selection;
pub mod settings;
pub mod stream;
pub mod switch;
pub mod wire;

pub use actors::Actors;
pub use auth::Key;
pub use ids::{Clock, Peer, RuntimeId, UnitId, View};
pub use message::Message;
pub use switch::Switch;
