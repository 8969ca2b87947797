//! The phase of a TCP connection, and the idle time-out in each phase.

use weir_nf::host::{FlowHead, Timeouts};
use weir_nf::{Phase, tcp_seen as seen};
use weir_packet::{HeaderFlags, Headers};

use super::window::{self, ACK, FIN, Heard, RST, SYN, Segment};

/// True for a SYN without ACK: the start of a connection.
pub(crate) fn opens(headers: &Headers) -> bool {
    headers.is_tcp() && headers.tcp_flags & (SYN | ACK | RST | FIN) == SYN
}

/// True where a segment with ACK alone leaves the phase as it is, since all of it was noted before.
/// The sequence numbers are moved on then; [`follow`] has nothing to do. `me` is the sender's place in
/// pairs: 0 for the client, 1 for the server.
#[inline(always)]
pub(crate) fn goes_on(head: &mut FlowHead, segment: &Segment, me: usize) -> bool {
    const { assert!(seen::ACK_CLIENT << 1 == seen::ACK_SERVER) };
    const SHAKEN: u16 = seen::SYN_ACK | seen::HANDSHAKE;
    // Of a connection under way there was no handshake.
    let marks = head.tcp & (SHAKEN | window::CLOSE_LOOK | window::AHEADS);
    let in_order = (marks == SHAKEN || marks == 0)
        && head.tcp & seen::ACK_CLIENT << me != 0
        && window::moves_on_in_order(head, segment, me);
    in_order || goes_on_somehow(head, segment, me == 0)
}

/// [`goes_on`] for any such segment.
#[inline(never)]
fn goes_on_somehow(head: &mut FlowHead, segment: &Segment, to_server: bool) -> bool {
    // The client's ACK completes a handshake that was answered.
    const { assert!(seen::SYN_ACK << 1 == seen::HANDSHAKE) };
    let noted = if to_server {
        seen::ACK_CLIENT | (head.tcp & seen::SYN_ACK) << 1
    } else {
        seen::ACK_SERVER
    };
    head.tcp & (noted | window::CLOSE_LOOK) == noted && window::moves_on(head, segment, to_server)
}

/// The same of packets that are no such segments: true for whole packets of other protocols but a
/// flow's first answer.
#[inline(always)]
pub(crate) fn is_steady_without(head: &FlowHead, headers: &Headers, to_server: bool) -> bool {
    const LOOKED_AT: HeaderFlags = HeaderFlags::TCP.union(HeaderFlags::FRAGMENT);
    !headers.flags.intersects(LOOKED_AT) && (head.phase != Phase::Open as u8 || to_server)
}

/// Moves a flow's phase on with a packet, and its time-out with the phase. An
/// ICMP error about a flow of another protocol moves nothing. True for a reset
/// that was not believed at all.
pub(crate) fn follow(
    head: &mut FlowHead,
    bytes: &[u8],
    headers: &Headers,
    to_server: bool,
    timeouts: &Timeouts,
) -> bool {
    if headers.proto != head.key.proto() {
        return false;
    }
    if headers.is_tcp() {
        let Some(segment) = Segment::read(bytes, headers) else {
            return false;
        };
        let flags = headers.tcp_flags;
        let scale = match flags & SYN {
            0 => None,
            _ => window::scale_of(bytes, headers),
        };
        return follow_tcp(head, &segment, flags, scale, to_server, timeouts) == Heard::Outside;
    }
    if head.phase == Phase::Open as u8 && !to_server {
        head.phase = Phase::Established as u8;
    }
    false
}

pub(super) fn follow_tcp(
    head: &mut FlowHead,
    segment: &Segment,
    mut flags: u8,
    scale: Option<u8>,
    to_server: bool,
    timeouts: &Timeouts,
) -> Heard {
    let had = head.tcp;
    // Something of this flow is over: the connection, or one before it by the
    // same ports of which packets come late.
    let is_over = window::fins(had) | had & seen::RESET != 0;
    // One that was under way when it was first seen is no attempt that a SYN
    // could begin: it goes on until it ends (RFC 5382 REQ-5).
    let is_under_way = had & seen::MIDSTREAM != 0 && head.phase == Phase::Established as u8;
    let asks = flags & (SYN | ACK) == SYN && to_server;
    let is_asked = (asks || had & seen::SYN != 0) && had & seen::SYN_ACK == 0 && !is_under_way;
    let heard = window::hear(head, segment, flags, scale, to_server, (is_asked, is_over));
    let mut tcp = head.tcp;
    if heard != Heard::Believed {
        // It ends nothing, and answers no SYN.
        flags &= match flags & SYN {
            0 => !(FIN | RST),
            _ => 0,
        };
    }
    if flags & SYN != 0 {
        tcp = with_syn(tcp, flags, to_server, is_over);
    } else if had == 0 {
        tcp |= seen::MIDSTREAM;
    }
    if flags & ACK != 0 {
        tcp |= if to_server {
            seen::ACK_CLIENT
        } else {
            seen::ACK_SERVER
        };
        if to_server && tcp & seen::SYN_ACK != 0 && flags & SYN == 0 {
            tcp |= seen::HANDSHAKE;
        }
    }
    if flags & FIN != 0 {
        tcp |= if to_server {
            seen::FIN_CLIENT
        } else {
            seen::FIN_SERVER
        };
    }
    if flags & RST != 0 {
        tcp = tcp & !seen::RESET_DOUBTED | seen::RESET;
    }
    if heard == Heard::Doubted {
        tcp |= seen::RESET_DOUBTED;
    }
    head.tcp = tcp;
    if tcp == had && head.idle_ms != 0 {
        return heard;
    }
    let phase = phase_of(tcp, is_under_way);
    head.phase = phase as u8;
    head.idle_ms = match phase {
        Phase::Open | Phase::Answered => timeouts.tcp_opening,
        Phase::Established => timeouts.tcp_established,
        Phase::Closing => timeouts.tcp_closing,
        Phase::Closed => timeouts.tcp_closed,
    };
    if tcp & seen::RESET_DOUBTED != 0 {
        // As RFC 7857 section 2.2 has it for any reset: who is not reset says so in time.
        head.idle_ms = head.idle_ms.min(timeouts.tcp_closing);
    }
    heard
}

/// The marks after a SYN, by itself or in an answer. `is_over`: something of the flow has ended.
fn with_syn(tcp: u16, flags: u8, to_server: bool, is_over: bool) -> u16 {
    match (flags & ACK != 0, to_server) {
        // The answer tells whether it begins another connection.
        (false, true) if is_over => (tcp | seen::SYN) & !(seen::SYN_ACK | seen::HANDSHAKE),
        (false, true) => tcp | seen::SYN,
        // Both agree that it does.
        (true, false) if is_over && tcp & (seen::SYN | seen::SYN_ACK) == seen::SYN => {
            seen::SYN | seen::SYN_ACK
        }
        (true, false) if tcp & seen::SYN != 0 => tcp | seen::SYN_ACK,
        _ => tcp,
    }
}

fn phase_of(tcp: u16, is_under_way: bool) -> Phase {
    let both_acks = seen::ACK_CLIENT | seen::ACK_SERVER;
    let fins = window::fins(tcp);
    if tcp & seen::RESET != 0 || fins == seen::FIN_CLIENT | seen::FIN_SERVER {
        Phase::Closed
    } else if fins != 0 {
        Phase::Closing
    } else if tcp & seen::HANDSHAKE != 0
        || is_under_way
        || tcp & seen::SYN == 0 && tcp & both_acks == both_acks
    {
        Phase::Established
    } else if tcp & seen::SYN_ACK != 0 {
        Phase::Answered
    } else {
        Phase::Open
    }
}

/// Time-out of a new flow of this protocol.
pub(crate) fn first_timeout(proto: u8, timeouts: &Timeouts) -> u32 {
    match proto {
        // Set by the first packet's phase.
        6 => timeouts.tcp_opening,
        17 => timeouts.udp,
        1 | 58 => timeouts.icmp,
        _ => timeouts.other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_packet::FlowKey;
    use zerocopy::{FromZeros, IntoBytes};

    fn walk(packets: &[(u8, bool)]) -> (Phase, u16) {
        let mut head = FlowHead::new_zeroed();
        head.key = FlowKey::default();
        for &(flags, to_server) in packets {
            // Nobody says anything, so the numbers stay.
            let (seq, ack) = if to_server { (1, 7) } else { (7, 1) };
            let end = seq + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
            let segment = Segment { seq, ack, end };
            let timeouts = Timeouts::default();
            follow_tcp(&mut head, &segment, flags, None, to_server, &timeouts);
        }
        (head.phase(), head.tcp & seen::ALL)
    }

    #[test]
    fn phases_follow_a_connection() {
        let handshake = [(SYN, true), (SYN | ACK, false), (ACK, true)];
        assert_eq!(walk(&handshake[..1]).0, Phase::Open);
        assert_eq!(walk(&handshake[..2]).0, Phase::Answered);
        let (phase, tcp) = walk(&handshake);
        assert_eq!(
            (phase, tcp & seen::HANDSHAKE),
            (Phase::Established, seen::HANDSHAKE)
        );
        let closing = [handshake.as_slice(), &[(FIN | ACK, true)]].concat();
        assert_eq!(walk(&closing).0, Phase::Closing);
        let closed = [closing.as_slice(), &[(FIN | ACK, false)]].concat();
        assert_eq!(walk(&closed).0, Phase::Closed);
        assert_eq!(walk(&[(SYN, true), (RST | ACK, false)]).0, Phase::Closed);
    }

    /// Packets of an earlier connection by the same ports end no new one.
    #[test]
    fn a_new_connection_outlives_late_packets_of_the_last_one() {
        let opened = [(SYN | ACK, false), (ACK, true)];
        // An ACK that comes late, and the server's word that it knows of nothing.
        let late = [(ACK, true), (SYN, true), (RST, false)];
        assert_eq!(walk(&late).0, Phase::Open);
        assert_eq!(walk(&[&late[..], &opened].concat()).0, Phase::Established);
        // The server still has the last one: it says so, and the client is rid
        // of it before it asks again.
        let rid = [(SYN, true), (ACK, false), (RST, true), (SYN, true)];
        assert_eq!(walk(&[&rid[..], &opened].concat()).0, Phase::Established);
        // The last one's end was seen from one side only, or on the way.
        for last in [(FIN | ACK, true), (FIN | ACK, false), (RST | ACK, true)] {
            let again = [(SYN, true), last, (SYN, true)];
            assert_ne!(walk(&again).0, Phase::Established);
            let (phase, tcp) = walk(&[&again[..], &opened].concat());
            let whole = seen::SYN | seen::SYN_ACK | seen::HANDSHAKE;
            let acks = seen::ACK_CLIENT | seen::ACK_SERVER;
            assert_eq!((phase, tcp), (Phase::Established, whole | acks));
        }
        // An answer that comes twice begins nothing.
        let twice = [
            (SYN, true),
            opened[0],
            opened[1],
            (FIN | ACK, true),
            opened[0],
        ];
        assert_eq!(walk(&twice).0, Phase::Closing);
    }

    #[test]
    fn a_connection_under_way_is_established_when_both_have_acked() {
        assert_eq!(
            walk(&[(ACK, true)]),
            (Phase::Open, seen::MIDSTREAM | seen::ACK_CLIENT)
        );
        assert_eq!(walk(&[(ACK, true), (ACK, false)]).0, Phase::Established);
        // A SYN ends it no more than any other connection; a reset does, and
        // so does an end, after which both may begin another one.
        let under_way = [(ACK, true), (ACK, false), (SYN, true)];
        assert_eq!(walk(&under_way).0, Phase::Established);
        let reset = [&under_way[..], &[(RST, false)]].concat();
        assert_eq!(walk(&reset).0, Phase::Closed);
        let ended = [&under_way[..], &[(FIN | ACK, true), (SYN, true)]].concat();
        assert_eq!(walk(&ended).0, Phase::Closing);
        let again = [&ended[..], &[(SYN | ACK, false)]].concat();
        assert_eq!(walk(&again).0, Phase::Answered);
        // A late packet before a SYN makes no connection of its answer.
        let late = [(ACK, true), (SYN, true), (SYN | ACK, false)];
        assert_eq!(walk(&late).0, Phase::Answered);
        // a scan: SYN, SYN+ACK without SYN seen first, is no handshake
        assert_eq!(
            walk(&[(SYN | ACK, true), (ACK, true)]).1 & seen::HANDSHAKE,
            0
        );
    }

    /// Marks, windows and numbers near one another, as connections have them, and far away.
    fn heads() -> impl Strategy<Value = FlowHead> {
        let near = prop_oneof![0u32..70_000, Just(1 << 15), Just(1 << 16), any::<u32>()];
        let numbers = prop::array::uniform4(near);
        let both = seen::ACK_CLIENT | seen::ACK_SERVER;
        let marks = prop_oneof![
            any::<u16>(),
            Just(both),
            (0u16..8).prop_map(move |m| both | m)
        ];
        (marks, any::<u8>(), numbers).prop_map(|(tcp, bits, [a, b, c, d])| FlowHead {
            tcp: tcp & window::MARKS,
            bits,
            sent: [a, b],
            acked: [c, d],
            ..FlowHead::new_zeroed()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// A segment in order moves the numbers as the general way does.
        #[test]
        fn the_short_way_agrees(
            head in heads(),
            offset in prop_oneof![-70_000i32..70_000, any::<i32>()],
            length in prop_oneof![0u32..70_000, Just(0)],
            ack_offset in prop_oneof![-70_000i32..70_000, Just(0), any::<i32>()],
            to_server: bool,
        ) {
            let (me, peer) = (usize::from(!to_server), usize::from(to_server));
            let seq = head.sent[me].wrapping_add_signed(offset);
            let segment = Segment {
                seq,
                ack: head.sent[peer].wrapping_add_signed(ack_offset),
                end: seq.wrapping_add(length),
            };
            let (mut short, mut general) = (head, head);
            let steady = goes_on(&mut short, &segment, me);
            prop_assert_eq!(steady, goes_on_somehow(&mut general, &segment, to_server));
            prop_assert_eq!(short.as_bytes(), general.as_bytes());
        }
    }
}
