//! Which of several switches runs: the one that most voters have promised not to replace for a
//! while, and that asks them again in time.
//!
//! Voters are the agents of the hosts ([`Voter`]); a switch, and one that stands by, is a
//! [`Contender`]. Both are state machines without I/O: `(now, event) → actions`.
//!
//! # Why there are never two
//!
//! A voter promises the place to one [`Tenant`] for the length of a lease, from when it hears the
//! question. The contender counts from when it *asked*, which is earlier, and a fiftieth less
//! ([`DRIFT`]), so that its lease ends first though clocks differ in rate. Two majorities have a
//! voter in common, and that one promises to one at a time. A voter that has just started may have
//! promised before: it promises nothing for the length of a lease.
//!
//! A contender looks first, and asks for nothing while most voters say that a tenant lives: one
//! that was cut off from that tenant disturbs nobody (the *pre-vote* of Raft, Ongaro 2014, section
//! 9.6).
//!
//! # Generations
//!
//! A tenant's generation is newer than those of the tenants before it, as long as each majority has a
//! voter that promised the place to the one before and has not started since, or was told of its
//! generation ([`Voter::know`]). Where so many voters forget, generations may come again.
//!
//! A generation that was asked for in vain was never held. Its contender does not ask for it again, so
//! that a late [`Want::Withdraw`] ends no promise that counts, and a voter forgets that promise: the
//! tenant may have the voter, though its own generation is no newer. Where its contender is gone
//! before it says so, the voter is lost to the tenant: giving it back at a late [`Want::Keep`] would let
//! an older generation have the place after a newer one.

mod contender;
#[cfg(test)]
mod tests;
mod voter;

use weir_packet::Time;

pub use contender::{Contender, Stand};
pub use voter::{Voter, VoterState};

/// Which part of a lease its tenant leaves unused: one in so many. Clocks of two hosts may differ
/// in rate by 2 %; real ones do by 0.01 %.
pub const DRIFT: u64 = 50;
/// Longest lease in ns. A voter takes a longer one for this.
pub const LONGEST: u64 = 60_000_000_000;

/// A switch that has, or would like, the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its generation: each newer switch has a higher one.
    pub generation: u16,
    /// A number that no other start of a switch has.
    pub start: u32,
}

/// The wish of a contender in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Only to hear how the place stands.
    Look,
    /// The place, in this generation.
    Place(u16),
    /// To keep the place, which it has when it asks.
    Keep(u16),
    /// Nothing any more: another one may have it.
    Leave(u16),
    /// Nothing in this generation, in which it has never had the place.
    Withdraw(u16),
}

/// A contender's question to all voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// When it asks, on its own clock. The answer repeats it.
    pub asked: Time,
    /// The contender's start.
    pub start: u32,
    /// The contender's wish.
    pub want: Want,
    /// Length of the lease in ns.
    pub length: u64,
    /// A start of a switch that is known to be dead.
    pub dead: Option<u32>,
}

/// A voter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// That of the question.
    pub asked: Time,
    /// That of the question.
    pub start: u32,
    /// That of the question.
    pub want: Want,
    /// The place is the contender's, from the question on.
    pub granted: bool,
    /// The tenant whose lease runs now.
    pub by: Option<Tenant>,
    /// Nobody has it, and the voter would promise it for the length of the question's lease.
    pub free: bool,
    /// The newest generation that the voter has heard of; 0 of none.
    pub newest: u16,
}
