//! Events that depend on a flow's earlier packets: fragments that overlap, timestamps that go back.

use weir_nf::packet::tcp::{TcpOption, TcpView, flag};
use weir_nf::prelude::*;
use weir_signatures::{DecodeEvent, DecodeEvents, StreamEvent, StreamEvents};

/// Ranges of a fragmented packet that are remembered; fragments that touch one are joined to it.
const RANGES: usize = 4;
/// A timestamp this many ticks old is another clock's, not an old one (RFC 7323 section 5.5: 24 days in
/// milliseconds).
const PAWS_IDLE: i32 = 24 * 24 * 3600 * 1000;

/// Memory of a flow's packets, for the events of later ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Seen {
    /// Identification of the fragmented packet at hand.
    identification: u32,
    /// Bytes of it that were seen, from and to; empty ranges are free.
    ranges: [[u16; 2]; RANGES],
    /// The last timestamp of each direction; 0 where there is none.
    timestamps: [u32; 2],
    /// The connection was opened without timestamps (1), or it is not known (0).
    without_timestamps: u32,
}

/// A fragment of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) identification: u32,
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) v6: bool,
}

impl Seen {
    /// Notes a fragment; gives the event of one that overlaps.
    pub(super) fn fragment(&mut self, fragment: Fragment) -> DecodeEvents {
        if self.identification != fragment.identification {
            self.identification = fragment.identification;
            self.ranges = Default::default();
        }
        let Fragment { from, to, .. } = fragment;
        let known = |range: &[u16; 2]| range[0] < range[1];
        let mut ranges = self.ranges.iter();
        let overlaps = ranges.any(|range| known(range) && from < range[1] && range[0] < to);
        let mut joined = [from, to];
        for range in &mut self.ranges {
            if known(range) && range[0] <= joined[1] && joined[0] <= range[1] {
                joined = [range[0].min(joined[0]), range[1].max(joined[1])];
                *range = [0, 0];
            }
        }
        // Without room it is forgotten, so that an overlap with it is not told.
        if let Some(free) = self.ranges.iter_mut().find(|range| !known(range)) {
            *free = joined;
        }
        match (overlaps, fragment.v6) {
            (false, _) => DecodeEvents::NONE,
            (true, true) => DecodeEvents::NONE.with(DecodeEvent::Ipv6FragmentOverlap),
            (true, false) => DecodeEvents::NONE.with(DecodeEvent::Ipv4FragmentOverlap),
        }
    }

    /// Notes the timestamp of a segment of a direction; gives the event of one that goes back, or that was not agreed
    /// on: the SYN had none (RFC 7323 section 3.2).
    pub(super) fn segment(&mut self, side: usize, tcp: &TcpView) -> StreamEvents {
        let mut options = tcp.options().map_while(Result::ok);
        let stamp = options.find_map(|option| match option {
            TcpOption::Timestamps { value, .. } => Some(value),
            _ => None,
        });
        if tcp.has(flag::SYN) && !tcp.has(flag::ACK) {
            self.without_timestamps = stamp.is_none().into();
        }
        let (Some(stamp), Some(last)) = (stamp, self.timestamps.get_mut(side)) else {
            return StreamEvents::NONE;
        };
        let invalid = StreamEvents::NONE.with(StreamEvent::InvalidTimestamp);
        if self.without_timestamps != 0 {
            return invalid;
        }
        // A reset need not have the clock's time (RFC 7323 section 5.2).
        if tcp.has(flag::RST) {
            return StreamEvents::NONE;
        }
        // The clock runs modulo 2^32.
        let age = last.wrapping_sub(stamp) as i32;
        if *last != 0 && age > 0 && age < PAWS_IDLE {
            return invalid;
        }
        *last = stamp;
        StreamEvents::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(identification: u32, from: u16, to: u16) -> Fragment {
        Fragment {
            identification,
            from,
            to,
            v6: true,
        }
    }

    #[test]
    fn fragments_that_overlap_are_told() {
        let mut seen = Seen::default();
        for (number, (identification, from, to, overlaps)) in [
            (1, 0, 8, false),
            (1, 8, 16, false),
            (1, 32, 40, false),
            (1, 12, 20, true),
            (1, 8, 16, true),
            (1, 16, 32, true),
            (1, 40, 48, false),
            (2, 0, 8, false),
            (2, 64, 72, false),
            (2, 63, 65, true),
            (3, 0, 8, false),
            (3, 16, 24, false),
            (3, 32, 40, false),
            (3, 8, 16, false),
            (3, 24, 32, false),
            (3, 48, 56, false),
            (3, 64, 72, false),
            (3, 64, 72, true),
        ]
        .into_iter()
        .enumerate()
        {
            let events = seen.fragment(fragment(identification, from, to));
            assert_eq!(
                events.contains(DecodeEvent::Ipv6FragmentOverlap),
                overlaps,
                "{number}"
            );
        }
    }

    #[test]
    fn timestamps_that_go_back_are_told() {
        let mut header = [0u8; 32];
        (header[12], header[20], header[21]) = (8 << 4, 8, 10);
        let mut seen = Seen::default();
        for (side, stamp, event) in [
            (0, 100u32, false),
            (0, 99, true),
            (0, 100, false),
            (1, 7, false),
            (0, u32::MAX, true),
            (0, 100u32.wrapping_sub(PAWS_IDLE as u32), false),
        ] {
            header[22..26].copy_from_slice(&stamp.to_be_bytes());
            let tcp = TcpView::new(&header).unwrap();
            let events = seen.segment(side, &tcp);
            assert_eq!(
                events.contains(StreamEvent::InvalidTimestamp),
                event,
                "{stamp}"
            );
        }
    }
}
