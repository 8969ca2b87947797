//! Leases of the place of a switch under virtual time: voters and contenders of
//! [`weir_control::lease`], with clocks of their own, links that lose, delay, double and reorder, and
//! processes that die, stand still and are cut off.
//!
//! One seed is one run. In one of four the first contender has the place before the others start and
//! reaches a majority from then on without faults: nobody may take it from it.

mod campaign;
mod check;
mod clock;
mod plant;
mod scene;
#[cfg(test)]
mod tests;
mod world;

pub use campaign::{Campaign, Failed, MOST, find, near};
pub use check::{Rule, Violation};
pub use plant::Plant;
pub use world::{Outcome, run};
