//! State of the IDS for one flow.

use weir_nf::packet::tcp::flag;
use weir_nf::prelude::*;
use weir_signatures::{AppProtocol, Application, FlowVars, StreamState as MatchState};

use super::seen::Seen;
use crate::stream::StreamState;

/// State of a flow: plain data; the bytes that wait and the windows are in its
/// side buffers.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdsState {
    pub(super) bits: FlowVars,
    pub(super) sides: [SideState; 2],
    pub(super) progress: Progress,
    pub(super) seen: Seen,
}

impl State for IdsState {
    const VERSION: u16 = 3;
}

/// One direction of a TCP connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SideState {
    pub(super) stream: StreamState,
    pub(super) matching: MatchState,
    /// Bytes at the end of the window that no rule has looked at yet: they
    /// came with a SYN (RFC 7413).
    pub(super) deferred: u32,
    /// The window holds bytes of a message that may go on.
    pub(super) talking: u32,
}

impl IdsState {
    /// Tells it field by field.
    pub(super) fn show(&self, shown: &mut Shown) {
        let progress = self.progress;
        shown
            .flag("blocked", progress.is_blocked())
            .flag("passed", progress.is_passed())
            .flag("followed", progress.is_followed())
            .flag("handshake", progress.all(fact::HANDSHAKE))
            .flag("unparsed", progress.is_unparsed())
            .number("flowbits_set", self.bits.count());
        if progress.application() != Application::Undecided {
            shown.text("speaks", speaks(progress.application()));
        }
        for (side, name) in self.sides.iter().zip(["side_0", "side_1"]) {
            shown.within(name, |shown| {
                side.stream.show(shown);
                shown
                    .number("scanned", side.matching.scanned())
                    .number("deferred", side.deferred)
                    .flag("talking", side.talking != 0);
            });
        }
    }

    /// The direction `side`: 0 is that of the flow's first packet.
    #[inline]
    pub(super) fn side(&self, side: usize) -> &SideState {
        &self.sides[side & 1]
    }

    #[inline]
    pub(super) fn side_mut(&mut self, side: usize) -> &mut SideState {
        &mut self.sides[side & 1]
    }
}

/// The word for what a flow speaks.
fn speaks(application: Application) -> &'static str {
    match application {
        Application::Undecided => "undecided",
        Application::Known(protocol) => protocol.name(),
        Application::Other => "other",
    }
}

/// How far a flow has come, as a set.
///
/// The engine knows the handshake too; this one also takes unusual ones (a
/// split or simultaneous open, RFC 9293 section 3.5) for what they are, and is
/// that of the moment of a packet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Progress {
    facts: u64,
}

/// Facts about a flow. Those with `_0` have one for side 1 in the next bit.
mod fact {
    pub(super) const SEEN_0: u64 = 1;
    pub(super) const SYN_0: u64 = 4;
    pub(super) const ACK_0: u64 = 16;
    pub(super) const PICKED_UP: u64 = 64;
    pub(super) const BLOCKED: u64 = 128;
    pub(super) const OPENED: u64 = 256;
    pub(super) const UNPARSED: u64 = 512;
    /// A packet of the side was inspected since it is known what the flow speaks.
    pub(super) const DECIDED_0: u64 = 1024;
    pub(super) const PASSED: u64 = 4096;
    /// Lowest bit of what the flow speaks: 0 undecided, 1 other, 2 and more the protocols.
    pub(super) const APPLICATION: u32 = 16;
    pub(super) const APPLICATION_MASK: u64 = 0xff;
    pub(super) const HANDSHAKE: u64 = (SYN_0 | ACK_0) * 3;
    pub(super) const SYN: u64 = SYN_0 * 3;
    pub(super) const SEEN: u64 = SEEN_0 * 3;
}

impl Progress {
    fn all(self, facts: u64) -> bool {
        self.facts & facts == facts
    }

    /// Notes a packet of `side`; true where it is the side's first.
    #[inline]
    pub(super) fn packet(&mut self, side: usize) -> bool {
        let had = self.facts;
        self.facts |= fact::SEEN_0 << (side & 1);
        self.facts != had
    }

    /// Notes the flags of a TCP segment of `side`. Where the connection was
    /// under way already it is picked up if `midstream` says so; a SYN+ACK as
    /// the first packet (the engine takes its sender for the server) stands
    /// for the SYN before it, too.
    #[inline]
    pub(super) fn segment(&mut self, side: usize, flags: u8, midstream: bool, first: bool) {
        let side = side & 1;
        if flags & flag::RST != 0 {
            return;
        }
        if first && midstream {
            match flags & (flag::SYN | flag::ACK) {
                flag::SYN => {}
                0 => {}
                flag::ACK => self.facts |= fact::PICKED_UP,
                _ => self.facts |= fact::OPENED | fact::SYN_0 << (1 - side),
            }
        }
        if flags & (flag::SYN | flag::ACK) == flag::SYN {
            self.facts |= fact::OPENED;
        }
        if flags & flag::SYN != 0 {
            self.facts |= fact::SYN_0 << side;
        }
        // An ACK counts for the handshake only where there is one.
        if flags & flag::ACK != 0 && self.facts & fact::SYN != 0 {
            self.facts |= fact::ACK_0 << side;
        }
    }

    /// TCP: the handshake is complete, or the connection was picked up. Other
    /// protocols: both sides were seen.
    #[inline]
    pub(super) fn is_established(self, tcp: bool) -> bool {
        if tcp {
            self.all(fact::HANDSHAKE) || self.all(fact::PICKED_UP)
        } else {
            self.all(fact::SEEN)
        }
    }

    /// TCP: the streams can be followed.
    #[inline]
    pub(super) fn is_followed(self) -> bool {
        self.facts & (fact::OPENED | fact::PICKED_UP) != 0
    }

    /// True once the flow's packets are to be dropped.
    #[inline]
    pub(super) fn is_blocked(self) -> bool {
        self.all(fact::BLOCKED)
    }

    pub(super) fn block(&mut self) {
        self.facts |= fact::BLOCKED;
    }

    /// True once a rule has passed the flow: no rule of the same generation looks at it any more.
    #[inline]
    pub(super) fn is_passed(self) -> bool {
        self.all(fact::PASSED)
    }

    pub(super) fn pass(&mut self) {
        self.facts |= fact::PASSED;
    }

    pub(super) fn forget_pass(&mut self) {
        self.facts &= !fact::PASSED;
    }

    /// True where no more messages are read: no rule looks at those of this protocol.
    #[inline]
    pub(super) fn is_unparsed(self) -> bool {
        self.all(fact::UNPARSED)
    }

    pub(super) fn stop_parsing(&mut self) {
        self.facts |= fact::UNPARSED;
    }

    /// Application protocol of the flow.
    #[inline]
    pub(super) fn application(self) -> Application {
        match self.facts >> fact::APPLICATION & fact::APPLICATION_MASK {
            0 => Application::Undecided,
            number => AppProtocol::ALL
                .get(number.wrapping_sub(2) as usize)
                .map_or(Application::Other, |&known| Application::Known(known)),
        }
    }

    /// Notes what the flow speaks; what is known stays.
    pub(super) fn decide(&mut self, application: Application) {
        if self.application() != Application::Undecided {
            return;
        }
        self.facts |= match application {
            Application::Undecided => 0,
            Application::Other => 1,
            Application::Known(protocol) => protocol as u64 + 2,
        } << fact::APPLICATION;
    }

    /// Notes a packet of `side` that is inspected; true for the side's first since it is known what the flow
    /// speaks.
    #[inline]
    pub(super) fn inspected(&mut self, side: usize) -> bool {
        if self.application() == Application::Undecided {
            return false;
        }
        let had = self.facts;
        self.facts |= fact::DECIDED_0 << (side & 1);
        self.facts != had
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: u8 = flag::SYN;
    const ACK: u8 = flag::ACK;

    fn walk(packets: &[(usize, u8)], midstream: bool) -> Progress {
        let mut progress = Progress::default();
        for (number, &(side, flags)) in packets.iter().enumerate() {
            progress.packet(side);
            progress.segment(side, flags, midstream, number == 0);
        }
        progress
    }

    #[test]
    fn handshakes_of_all_kinds_complete() {
        let usual = [(0, SYN), (1, SYN | ACK), (0, ACK)];
        assert!(!walk(&usual[..2], false).is_established(true));
        assert!(walk(&usual, false).is_established(true));
        let split = [(0, SYN), (1, ACK), (1, SYN), (0, SYN | ACK), (1, ACK)];
        assert!(!walk(&split[..3], false).is_established(true));
        assert!(walk(&split, false).is_established(true));
        let simultaneous = [(0, SYN), (1, SYN), (0, SYN | ACK), (1, SYN | ACK)];
        assert!(walk(&simultaneous, false).is_established(true));
        // answered by a reset only
        assert!(!walk(&[(0, SYN), (1, flag::RST | ACK)], false).is_established(true));
    }

    #[test]
    fn what_a_flow_speaks_is_decided_once() {
        let all = AppProtocol::ALL.map(Application::Known);
        for application in all.into_iter().chain([Application::Other]) {
            let mut progress = walk(&[(0, SYN)], false);
            assert!(!progress.inspected(0));
            assert_eq!(progress.application(), Application::Undecided);
            progress.decide(application);
            progress.decide(Application::Other);
            assert_eq!(progress.application(), application);
            assert!(progress.inspected(1) && !progress.inspected(1) && progress.inspected(0));
            assert_eq!(progress.application(), application);
            assert!(!progress.is_unparsed() && !progress.is_blocked());
        }
    }

    #[test]
    fn connections_under_way_are_followed_only_where_asked_for() {
        let under_way = [(0, ACK), (1, ACK), (0, ACK)];
        assert!(!walk(&under_way, false).is_followed());
        assert!(!walk(&under_way, false).is_established(true));
        assert!(
            walk(&under_way, true).is_followed() && walk(&under_way, true).is_established(true)
        );
        let answer_first = [(1, SYN | ACK), (0, ACK)];
        assert!(walk(&answer_first, true).is_established(true));
        assert!(!walk(&answer_first, false).is_followed());
    }
}
