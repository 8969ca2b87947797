//! Taps: copies of packets at points.

use weir_packet::{Frame, FrameMeta, PacketMemory, Side};

use super::{Seen, Taken, Watches, Why};
use crate::classify::Classified;
use crate::execute::Dispositions;
use crate::runtime::Runtime;
use crate::stages::Kind;

/// Where packets are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapPoint {
    /// Where they come into the chain, from the ports with these numbers: bit
    /// `n` is port `n`, all bits all ports.
    In(u64),
    /// Where they leave the chain, on one side or on both; what functions made
    /// is among them.
    Out(Option<Side>),
    /// Before this function.
    Before(String),
    /// Behind this function: what it sends on or turns, and what it made.
    After(String),
    /// What is dropped: all, or what is dropped under this reason or under
    /// those that begin with it and a point (a function's name, `malformed`).
    Drops(Option<String>),
}

/// A packet at a tap.
#[derive(Debug)]
pub struct Tapped<'a> {
    /// Which of the tap's points, by its place in their list.
    pub point: usize,
    /// Metadata.
    pub meta: &'a FrameMeta,
    /// Bytes.
    pub bytes: &'a [u8],
    /// Why it is here, where the point does not say it.
    pub comment: Option<Comment<'a>>,
}

/// What there is to say of a packet at a tap.
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

/// Who takes the copies. Its calls come from within a burst: they must not
/// wait for anything.
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
    /// Who takes the copies.
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
    tap: Tap,
    /// Functions by number: the tap's point before and behind each.
    before: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
    enough: bool,
}

impl Armed {
    pub(super) fn new(tap: Tap, runtime: &Runtime) -> Armed {
        let points = &tap.points;
        let place = |wanted: &dyn Fn(&TapPoint) -> bool| points.iter().position(wanted);
        let nodes = || runtime.functions.nodes().iter().map(|node| &node.name);
        let before = nodes()
            .map(|name| place(&|p| matches!(p, TapPoint::Before(n) if n == name)))
            .collect();
        let after = nodes()
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
    fn drops(&self, reason: &str) -> Option<usize> {
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

impl Runtime {
    /// Offers a packet to all taps that have a point here.
    fn offer(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frame: &Frame,
        comment: Option<Comment<'_>>,
        point_of: impl Fn(&Armed) -> Option<usize>,
    ) {
        let options = watches.options;
        for armed in &mut watches.taps {
            let Some(point) = point_of(armed) else {
                continue;
            };
            if armed.enough {
                continue;
            }
            let tapper = &mut armed.tap.tapper;
            if !self.see(memory, frame, &options, |seen| tapper.wants(seen)) {
                continue;
            }
            let (meta, bytes) = memory.read(frame);
            let packet = Tapped {
                point,
                meta,
                bytes,
                comment,
            };
            armed.enough = tapper.put(&packet) == Taken::Enough;
        }
    }

    fn offer_all(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frames: &[Frame],
        mut mask: u64,
        point_of: impl Fn(&Armed) -> Option<usize>,
    ) {
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if let Some(frame) = frames.get(i) {
                self.offer(watches, memory, frame, None, &point_of);
            }
        }
    }

    /// Packets have come in.
    pub(super) fn tap_in(&self, watches: &mut Watches, memory: &PacketMemory, frames: &[Frame]) {
        if self.plan.kind() == Kind::Later {
            return;
        }
        for frame in frames {
            let meta = memory.meta(frame);
            // One that is on its second way came in before.
            if meta.flags & weir_packet::frame_flags::TURNED != 0 {
                continue;
            }
            self.offer(watches, memory, frame, None, |armed| {
                armed.tap.points.iter().position(|point| {
                    matches!(point, TapPoint::In(ports)
                        if *ports == u64::MAX || ports.checked_shr(meta.port.into()).unwrap_or(0) & 1 != 0)
                })
            });
        }
    }

    /// Function `number` is about to see the packets of `mask`.
    pub(super) fn tap_before(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frames: &[Frame],
        number: usize,
        mask: u64,
    ) {
        self.offer_all(watches, memory, frames, mask, |armed| {
            armed.before.get(number).copied().flatten()
        });
    }

    /// Function `number` has seen the packets of `mask`; `made` packets came
    /// out of functions before it.
    pub(super) fn tap_after(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frames: &[Frame],
        number: usize,
        mask: u64,
        made: usize,
    ) {
        let Some(node) = self.functions.nodes().get(number) else {
            return;
        };
        let after = |armed: &Armed| armed.after.get(number).copied().flatten();
        let mut left = mask;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(frame) = frames.get(i) else { continue };
            match self.way_of(number, i) {
                super::trace::Way::Dropped(reason) => {
                    let comment = Some(Comment::Dropped(&reason));
                    self.offer(watches, memory, frame, comment, |a| a.drops(&reason));
                }
                super::trace::Way::Turned => {
                    let comment = Some(Comment::TurnedBy(&node.name));
                    self.offer(watches, memory, frame, comment, after);
                }
                super::trace::Way::On(..) => self.offer(watches, memory, frame, None, after),
                super::trace::Way::Nothing => {}
            }
        }
        for frame in self.world.emits.frames.get(made..).unwrap_or_default() {
            let comment = Some(Comment::MadeBy(&node.name));
            self.offer(watches, memory, frame, comment, after);
        }
    }

    /// The engine drops a packet.
    pub(super) fn tap_drop(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frame: &Frame,
        why: Why,
    ) {
        let reason = why.name();
        let comment = Some(Comment::Dropped(&reason));
        self.offer(watches, memory, frame, comment, |armed| {
            armed.drops(&reason)
        });
    }

    /// Packets are about to leave.
    pub(super) fn tap_out(
        &self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frames: &[Frame],
        found: &Classified,
        dispositions: &Dispositions,
    ) {
        // What is for other stages, or passes them, has not left.
        if self.plan.kind() != Kind::Alone && !self.plan.fed().is_some_and(|fed| fed.last) {
            return;
        }
        let frames = frames.get(..found.count).unwrap_or(frames);
        let out = |side: Side| {
            move |armed: &Armed| {
                armed.tap.points.iter().position(
                    |point| matches!(point, TapPoint::Out(on) if on.is_none_or(|s| s == side)),
                )
            }
        };
        let mut left = dispositions.out;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(frame) = frames.get(i) else { continue };
            let side = memory.meta(frame).side.opposite();
            self.offer(watches, memory, frame, None, out(side));
        }
        for frame in &self.world.emits.frames {
            let side = memory.meta(frame).side.opposite();
            self.offer(watches, memory, frame, None, out(side));
        }
    }

    /// Takes off the taps that have enough.
    pub(super) fn drop_ended_taps(watches: &mut Watches) {
        watches.taps.retain(|armed| !armed.enough);
    }
}
