//! Taps: copies of packets at points.

use weir_packet::{FrameMeta, Side};

use super::seen::{Seen, Taken};

/// A point at which packets are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapPoint {
    /// At the entry of the chain, from the ports with these numbers: bit
    /// `n` is port `n`, all bits all ports.
    In(u64),
    /// At the exit of the chain, on one side or on both, packets that functions made
    /// included.
    Out(Option<Side>),
    /// Before this function.
    Before(String),
    /// Behind this function: what it sends on or turns, and what it made.
    After(String),
    /// Dropped packets: all, or those dropped under this reason or under
    /// those that begin with it and a point (a function's name, `malformed`).
    Drops(Option<String>),
}

/// A packet at a tap.
#[derive(Debug)]
pub struct Tapped<'a> {
    /// Index of the point in the tap's list.
    pub point: usize,
    /// Metadata.
    pub meta: &'a FrameMeta,
    /// Bytes.
    pub bytes: &'a [u8],
    /// Why it is here, where the point does not say it.
    pub comment: Option<Comment<'a>>,
}

/// The comment on a packet at a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comment<'a> {
    /// Dropped, for this reason.
    Dropped(&'a str),
    /// This function made it.
    MadeBy(&'a str),
    /// This function turned it: it goes through the chain once more.
    TurnedBy(&'a str),
}

impl core::fmt::Display for Comment<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Comment::Dropped(reason) => write!(f, "dropped: {reason}"),
            Comment::MadeBy(function) => write!(f, "made by {function}"),
            Comment::TurnedBy(function) => write!(f, "turned by {function}"),
        }
    }
}

/// Receives the copies. It is called within a burst and must not block.
pub trait Tapper: Send {
    /// True where this packet is wanted.
    fn wants(&mut self, seen: &Seen<'_>) -> bool;
    /// One that it wants.
    fn put(&mut self, packet: &Tapped<'_>) -> Taken;
}

/// A tap to arm.
pub struct Tap {
    /// Its number, by which it is taken off.
    pub number: u64,
    /// Its points. Those of functions that are not here are without effect:
    /// they may be in another stage.
    pub points: Vec<TapPoint>,
    /// Receiver of the copies.
    pub tapper: Box<dyn Tapper>,
}

impl core::fmt::Debug for Tap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tap")
            .field("number", &self.number)
            .field("points", &self.points)
            .finish_non_exhaustive()
    }
}

/// An armed tap.
pub(crate) struct Armed {
    pub(super) tap: Tap,
    /// Functions by number: the tap's point before and behind each.
    pub(super) before: Vec<Option<usize>>,
    pub(super) after: Vec<Option<usize>>,
    pub(super) enough: bool,
}

impl Armed {
    /// `names` are those of the functions, in order.
    pub(super) fn new<'n>(tap: Tap, names: impl Iterator<Item = &'n str> + Clone) -> Armed {
        let points = &tap.points;
        let place = |wanted: &dyn Fn(&TapPoint) -> bool| points.iter().position(wanted);
        let before = names
            .clone()
            .map(|name| place(&|p| matches!(p, TapPoint::Before(n) if n == name)))
            .collect();
        let after = names
            .map(|name| place(&|p| matches!(p, TapPoint::After(n) if n == name)))
            .collect();
        Armed {
            tap,
            before,
            after,
            enough: false,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.tap.number
    }

    /// The point that wants what is dropped for a reason.
    pub(super) fn drops(&self, reason: &str) -> Option<usize> {
        let wanted = |point: &TapPoint| match point {
            TapPoint::Drops(None) => true,
            TapPoint::Drops(Some(wanted)) => {
                let rest = reason.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
            _ => false,
        };
        self.tap.points.iter().position(wanted)
    }
}
