//! Offers packets to taps.

use weir_packet::{Frame, PacketMemory, Side};

use super::current::Way;
use super::seen::Taken;
use super::tap::{Armed, Comment, TapPoint, Tapped};
use super::watches::{Watches, Why};
use crate::classify::Classified;
use crate::execute::Dispositions;
use crate::runtime::Runtime;
use crate::stages::Kind;

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
            self.offer(watches, memory, &frames[i], None, &point_of);
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
        let node = &self.functions.nodes()[number];
        let after = |armed: &Armed| armed.after.get(number).copied().flatten();
        let mut left = mask;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let frame = &frames[i];
            match self.way_of(number, i) {
                Way::Dropped(reason) => {
                    let comment = Some(Comment::Dropped(&reason));
                    self.offer(watches, memory, frame, comment, |a| a.drops(&reason));
                }
                Way::Turned => {
                    let comment = Some(Comment::TurnedBy(&node.name));
                    self.offer(watches, memory, frame, comment, after);
                }
                Way::On(..) => self.offer(watches, memory, frame, None, after),
                Way::Nothing => {}
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
        // Packets for or through other stages have not left the chain.
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
            let frame = &frames[i];
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
