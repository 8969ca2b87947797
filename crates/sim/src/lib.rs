//! The cluster under virtual time: the same switch, actors and streams as the
//! program's, with hosts, links and faults driven by one seed.
//!
//! A [`plan::Plan`] is drawn from a seed: packets, owner changes, faults.
//! [`run::run`] carries it out, and checks the invariants of the protocol at
//! each step of the switch (`check`); a failing plan is made smaller by
//! [`minimise::minimise`]. Nothing else decides a run: one seed, one run, bit
//! for bit.

mod bug;
pub mod campaign;
pub mod central;
pub mod chain;
mod check;
pub mod fault;
pub mod lease;
pub mod minimise;
pub mod plan;
pub mod plants;
pub mod random;
pub mod run;
pub mod scaling;
pub mod settings;
pub mod slip;
pub mod trace;
pub mod traffic;
mod wanderer;
mod world;

pub use check::{Invariant, Tally, Violation};
pub use world::Outcome;
