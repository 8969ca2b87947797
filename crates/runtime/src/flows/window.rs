//! Which resets and ends of a TCP connection are believed: those that lie where its ends are in
//! their sequence numbers (RFC 9293 section 3.10.7, RFC 5961 section 3). An attacker off the path
//! must guess numbers then, and not the ports alone.
//!
//! Of each end two numbers are kept: the one after all that it has sent, and the one that it
//! expects, as it last said. The window is taken as large as the connection's scale allows. A
//! number in it that is not the expected one is only doubted, so the true window would gain little.

use weir_nf::host::FlowHead;
use weir_nf::tcp_seen as seen;
use weir_packet::tcp::{TcpOption, TcpOptions};
use weir_packet::{HeaderFlags, Headers};

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

const FINS: [u16; 2] = [seen::FIN_CLIENT, seen::FIN_SERVER];

/// Marks of a head's `tcp` that are the tracker's own: a packet of the client, or the server, lay
/// outside, and nothing has been right since.
const STRAY: [u16; 2] = [1 << 11, 1 << 12];
const STRAYS: u16 = STRAY[0] | STRAY[1];
/// The client has sent a SYN that is not of the connection as it is known.
const SYN_AGAIN: u16 = 1 << 13;
/// The last segment of the client, or of the server, lies ahead of those before it, and the other end
/// has not acknowledged it: it may be forged. A FIN of this end is only doubted then.
const AHEAD: [u16; 2] = [1 << 14, 1 << 15];
/// Both.
pub(crate) const AHEADS: u16 = AHEAD[0] | AHEAD[1];
/// From a mark of `AHEAD` to the FIN of the same end.
const AHEAD_TO_FIN: u32 = 11;
const _: () = assert!(AHEAD[0] >> AHEAD_TO_FIN == FINS[0] && AHEAD[1] >> AHEAD_TO_FIN == FINS[1]);
/// While one of these is set each packet is looked at closely.
pub(crate) const CLOSE_LOOK: u16 = seen::RESET_DOUBTED | STRAYS | SYN_AGAIN | FINS[0] | FINS[1];
/// All that a head's `tcp` may have.
pub(crate) const MARKS: u16 = seen::ALL & !seen::RESET_OUTSIDE | STRAYS | SYN_AGAIN | AHEADS;

/// Of `bits`: the larger scale of both windows, plus one; 0 where no number is known yet.
const SCALE: u32 = FlowHead::WINDOW.trailing_zeros();
/// Binary logarithm of the span where no number is known; with a scale of 0 it is one more.
const SMALLEST_SPAN: u32 = 15;
// Numbers within a span of one another can be told apart by the sign of their difference.
const _: () = assert!(SMALLEST_SPAN + (FlowHead::WINDOW as u32 >> SCALE) < 31);
/// The largest scale (RFC 7323 section 2.3), for connections whose SYN was not seen.
const LARGEST: u8 = 14;

/// The verdict on a segment's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is in the window: its flags count.
    Believed,
    /// A reset or FIN in the window, but not at the number that its receiver expects.
    Doubted,
    /// It is not about this connection as it stands; its receiver knows better.
    Ignored,
    /// A reset outside of all windows.
    Outside,
}

/// The numbers of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// The number after it; SYN and FIN count.
    pub(crate) end: u32,
}

impl Segment {
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8], headers: &Headers) -> Option<Segment> {
        let head = bytes.get(usize::from(headers.l4)..)?.first_chunk()?;
        let flags = u32::from(headers.tcp_flags);
        let marks = (flags & 1) + (flags >> 1 & 1);
        let length = headers.payload_len().wrapping_add(marks);
        Some(Segment::of(head, length))
    }

    /// The same of a TCP header's first octets and the length in numbers.
    #[inline(always)]
    pub(crate) fn of(head: &[u8; 12], length: u32) -> Segment {
        let seq = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let ack = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let end = seq.wrapping_add(length);
        Segment { seq, ack, end }
    }

    /// True where both numbers are about where the ends are. Old ones are (retransmissions, keep-alive
    /// probes), and so is what is ahead: segments may have been lost before they came here.
    #[inline(always)]
    fn fits(&self, head: &FlowHead, to_server: bool) -> bool {
        let (me, peer) = ends(to_server);
        let span = span(head);
        is_near(self.end, head.sent[me], span) & is_near(self.ack, head.sent[peer], span)
    }

    /// Moves the numbers on; never back.
    #[inline(always)]
    fn note(&self, head: &mut FlowHead, to_server: bool) {
        let (me, peer) = ends(to_server);
        if !is_after(head.sent[peer], self.ack) {
            // A receiver of all data has the FIN at its end; data beyond a FIN show that it was none.
            if self.ack != head.sent[peer] {
                doubt_no_fin(head, peer);
            }
            if head.tcp & AHEADS != 0 {
                head.tcp &= !AHEAD[peer];
            }
            head.sent[peer] = self.ack;
        }
        head.acked[me] = later(head.acked[me], self.ack);
        if is_after(self.end, head.sent[me]) {
            let is_ahead = is_after(self.seq, head.sent[me]);
            if is_ahead && fins(head.tcp) & FINS[me] != 0 {
                // Nothing comes after the end.
                return;
            }
            doubt_no_fin(head, me);
            if is_ahead {
                head.tcp |= AHEAD[me];
            }
            head.sent[me] = self.end;
        }
    }

    /// True where its receiver, who has all that came before, takes it now.
    fn is_next(&self, head: &FlowHead, to_server: bool) -> bool {
        let (me, peer) = ends(to_server);
        let meets = |number| !is_after(self.seq, number) && !is_after(number, self.end);
        meets(head.acked[peer]) || head.tcp & AHEAD[me] == 0 && meets(head.sent[me])
    }

    /// Takes a segment with ACK for where both ends are.
    fn learn(&self, head: &mut FlowHead, to_server: bool, scale: u8) {
        let (me, peer) = ends(to_server);
        head.sent[me] = self.end;
        head.acked[me] = self.ack;
        head.sent[peer] = self.ack;
        head.acked[peer] = self.seq;
        forget_ahead(head);
        set_scale(head, scale);
    }
}

/// The sender's place in pairs (client, server), and the receiver's.
#[inline(always)]
fn ends(to_server: bool) -> (usize, usize) {
    (usize::from(!to_server), usize::from(to_server))
}

#[inline(always)]
fn span(head: &FlowHead) -> u32 {
    1 << (SMALLEST_SPAN + u32::from(head.bits >> SCALE))
}

#[inline(always)]
fn is_near(number: u32, around: u32, span: u32) -> bool {
    number.wrapping_sub(around).wrapping_add(span) <= 2 * span
}

#[inline(always)]
fn later(a: u32, b: u32) -> u32 {
    if (b.wrapping_sub(a) as i32) > 0 { b } else { a }
}

#[inline(always)]
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// The FINs among the marks `tcp` that are not doubted.
#[inline(always)]
pub(crate) fn fins(tcp: u16) -> u16 {
    tcp & (FINS[0] | FINS[1]) & !(tcp >> AHEAD_TO_FIN)
}

/// Forgets this end's FIN if it is a doubted one.
#[inline(always)]
fn doubt_no_fin(head: &mut FlowHead, end: usize) {
    head.tcp &= !((head.tcp & AHEAD[end]) >> AHEAD_TO_FIN);
}

fn forget_ahead(head: &mut FlowHead) {
    doubt_no_fin(head, 0);
    doubt_no_fin(head, 1);
    head.tcp &= !AHEADS;
}

fn is_known(head: &FlowHead) -> bool {
    head.bits & FlowHead::WINDOW != 0
}

fn set_scale(head: &mut FlowHead, scale: u8) {
    head.bits = head.bits & !FlowHead::WINDOW | (scale.min(LARGEST) + 1) << SCALE;
}

/// True for a whole TCP segment with ACK and without SYN, FIN and RST.
#[inline(always)]
pub(crate) fn is_ack_alone(headers: &Headers) -> bool {
    const LOOKED_AT: HeaderFlags = HeaderFlags::TCP.union(HeaderFlags::FRAGMENT);
    headers.flags.bits() & LOOKED_AT.bits() == HeaderFlags::TCP.bits()
        && has_ack_alone(headers.tcp_flags)
}

/// True for flags with ACK and without SYN, FIN and RST.
#[inline(always)]
pub(crate) fn has_ack_alone(flags: u8) -> bool {
    flags & (SYN | FIN | RST | ACK) == ACK
}

/// [`moves_on`] for a segment that begins at the number after all that was sent, or before it, and
/// ends there or behind it: nearly all do. `me` is the sender's place in pairs; neither end may have
/// a mark of [`AHEADS`]. False, and nothing is moved, for all others, whether they fit or not.
#[inline(always)]
pub(crate) fn moves_on_in_order(head: &mut FlowHead, segment: &Segment, me: usize) -> bool {
    debug_assert!(head.tcp & AHEADS == 0, "such a segment may end a doubt");
    let (me, peer) = (me % 2, (me + 1) % 2);
    let length = segment.end.wrapping_sub(segment.seq);
    let new = segment.end.wrapping_sub(head.sent[me]);
    let behind = head.sent[peer].wrapping_sub(segment.ack);
    // A span is a power of two: both are below it if no bit of either is at it or above.
    if new > length || (new | behind) >> SMALLEST_SPAN >> (head.bits >> SCALE) != 0 {
        return false;
    }
    head.sent[me] = segment.end;
    head.acked[me] = later(head.acked[me], segment.ack);
    true
}

/// Moves the numbers on with a segment that has ACK and no SYN, FIN or RST. False, and nothing is
/// moved, where it does not fit.
pub(crate) fn moves_on(head: &mut FlowHead, segment: &Segment, to_server: bool) -> bool {
    let fits = segment.fits(head, to_server);
    if fits {
        segment.note(head, to_server);
    }
    fits
}

/// The scale that a SYN offers; `None` where it offers none.
pub(crate) fn scale_of(bytes: &[u8], headers: &Headers) -> Option<u8> {
    let options = bytes.get(usize::from(headers.l4) + 20..usize::from(headers.payload))?;
    let mut options = TcpOptions::new(options).flatten();
    options.find_map(|option| match option {
        TcpOption::WindowScale(shift) => Some(shift),
        _ => None,
    })
}

/// Judges a segment that is not steady, and moves the numbers on. `is_asked`: a SYN, perhaps this
/// one, awaits its answer; `is_over`: something of the flow has ended.
pub(crate) fn hear(
    head: &mut FlowHead,
    segment: &Segment,
    flags: u8,
    scale: Option<u8>,
    to_server: bool,
    (is_asked, is_over): (bool, bool),
) -> Heard {
    if flags & RST != 0 {
        return reset(head, segment, flags, to_server, (is_asked, is_over));
    }
    match (flags & (SYN | ACK), to_server) {
        (SYN, true) => open(head, segment, scale, is_asked, is_over),
        (SYN, false) if is_asked && is_known(head) => head.sent[1] = segment.end,
        (SYN, false) => {}
        (answer, false) if answer == SYN | ACK && is_asked && is_known(head) => {
            return answered(head, segment, scale);
        }
        (0, _) => return lone(head, flags),
        _ => return said(head, segment, flags, to_server, is_asked),
    }
    Heard::Believed
}

/// The client's SYN.
fn open(head: &mut FlowHead, segment: &Segment, scale: Option<u8>, is_asked: bool, is_over: bool) {
    if is_asked && !is_over {
        let scale = scale.unwrap_or(0);
        head.tcp &= !(STRAYS | SYN_AGAIN);
        forget_ahead(head);
        if is_known(head) && head.acked[1] == segment.seq {
            // Once more, perhaps without the data or the options of the first: either may be answered.
            head.sent[0] = later(head.sent[0], segment.end);
            set_scale(head, scale.max((head.bits >> SCALE) - 1));
            return;
        }
        // Nothing is expected of the server but an answer.
        head.sent = [segment.end, 0];
        head.acked = [0, segment.seq];
        set_scale(head, scale);
    } else if is_over || !is_known(head) || !is_near(segment.end, head.sent[0], span(head)) {
        // The answer tells whether the connection begins anew.
        head.tcp |= SYN_AGAIN;
    }
}

/// The server's answer to a SYN that awaits one.
fn answered(head: &mut FlowHead, segment: &Segment, scale: Option<u8>) -> Heard {
    if head.tcp & SYN_AGAIN != 0 {
        begin_anew(head, segment);
        return Heard::Believed;
    }
    if !answers(head, segment) {
        return Heard::Ignored;
    }
    forget_ahead(head);
    head.sent[1] = segment.end;
    head.acked = [segment.seq, segment.ack];
    let asked = (head.bits >> SCALE) - 1;
    // Scales count where both offer one (RFC 7323 section 2.2).
    set_scale(head, scale.map_or(0, |scale| scale.max(asked)));
    Heard::Believed
}

/// True if the server acknowledges what the client has sent with its SYN.
fn answers(head: &FlowHead, segment: &Segment) -> bool {
    let first = head.acked[1];
    segment.ack.wrapping_sub(first) <= head.sent[0].wrapping_sub(first)
}

/// Takes a SYN with ACK for the begin of another connection by the same ports. The scale that its
/// SYN offered is not known any more.
fn begin_anew(head: &mut FlowHead, answer: &Segment) {
    answer.learn(head, false, LARGEST);
    head.tcp &= !(seen::RESET_DOUBTED | STRAYS | SYN_AGAIN);
}

/// A segment without ACK that opens nothing: no connection sends it.
fn lone(head: &FlowHead, flags: u8) -> Heard {
    if flags & FIN != 0 && is_known(head) {
        Heard::Ignored
    } else {
        Heard::Believed
    }
}

/// A segment of a connection, or the end of one.
fn said(
    head: &mut FlowHead,
    segment: &Segment,
    flags: u8,
    to_server: bool,
    is_asked: bool,
) -> Heard {
    let (me, peer) = ends(to_server);
    let mut is_next = head.tcp == 0;
    if !is_known(head) {
        segment.learn(head, to_server, LARGEST);
    } else if segment.fits(head, to_server) {
        is_next = segment.is_next(head, to_server);
        segment.note(head, to_server);
        if to_server && flags & SYN == 0 {
            head.tcp &= !SYN_AGAIN;
        }
    } else if is_asked && to_server && is_near(segment.end, head.sent[0], span(head)) {
        // The answer to its SYN went another way, and so may all that the server says.
        is_next = segment.is_next(head, to_server);
        head.sent = [later(head.sent[0], segment.end), segment.ack];
        head.acked[0] = segment.ack;
        set_scale(head, LARGEST);
    } else if flags & SYN != 0 && !to_server && head.tcp & SYN_AGAIN != 0 {
        begin_anew(head, segment);
    } else if head.tcp & STRAY[peer] != 0 {
        // Both ends are elsewhere, and none where it was: much was missed here.
        segment.learn(head, to_server, (head.bits >> SCALE) - 1);
    } else {
        head.tcp |= STRAY[me];
        return Heard::Ignored;
    }
    // A connection that talks on was not reset (RFC 7857 section 2.2).
    head.tcp &= !(STRAYS | seen::RESET_DOUBTED);
    match flags & FIN {
        0 => Heard::Believed,
        _ => end(head, segment, me, is_next),
    }
}

/// The end of what one end says.
fn end(head: &mut FlowHead, segment: &Segment, me: usize, is_next: bool) -> Heard {
    if fins(head.tcp) & FINS[me] != 0 {
        return Heard::Believed;
    }
    if is_next {
        head.sent[me] = segment.end;
        head.tcp &= !AHEAD[me];
        return Heard::Believed;
    }
    if head.sent[me] == segment.end {
        // Something before it is missing here. It counts once it is acknowledged.
        head.tcp |= AHEAD[me] | FINS[me];
    }
    Heard::Doubted
}

fn reset(
    head: &FlowHead,
    segment: &Segment,
    flags: u8,
    to_server: bool,
    (is_asked, is_over): (bool, bool),
) -> Heard {
    let (me, peer) = ends(to_server);
    let is_expected = segment.seq == head.acked[peer]
        || segment.seq == head.sent[me] && head.tcp & AHEAD[me] == 0;
    if !is_known(head) {
        return match head.tcp {
            // There is nothing to protect.
            0 => Heard::Believed,
            _ => Heard::Doubted,
        };
    }
    if is_asked {
        // A reset without ACK is about an earlier connection: who sent the SYN ignores it, or has
        // sent it to be rid of that one. One with ACK must answer the SYN (RFC 9293 section 3.10.7.3).
        let refuses = match to_server {
            true => is_expected,
            false => answers(head, segment),
        };
        return match flags & ACK != 0 {
            true if head.tcp & SYN_AGAIN != 0 => Heard::Doubted,
            true if refuses => Heard::Believed,
            _ => Heard::Ignored,
        };
    }
    if is_expected {
        Heard::Believed
    } else if is_over && head.phase() == weir_nf::Phase::Closed {
        Heard::Ignored
    } else if head.tcp & (STRAYS | SYN_AGAIN) != 0
        || is_near(segment.seq, head.sent[me], span(head))
    {
        Heard::Doubted
    } else {
        Heard::Outside
    }
}
