//! Connections, packet by packet, and what is made of resets and ends in and outside of their
//! windows.

use proptest::prelude::*;
use weir_nf::host::{FlowHead, Timeouts};
use weir_nf::{Phase, tcp_seen as seen};
use zerocopy::FromZeros;

use super::tcp::follow_tcp;
use super::window::{ACK, FIN, Heard, RST, SYN, Segment};

const CLIENT: bool = true;
const SERVER: bool = false;

/// A flow, and the next numbers of its client and its server.
struct Talk {
    head: FlowHead,
    next: [u32; 2],
}

impl Talk {
    fn new(client: u32, server: u32) -> Talk {
        Talk {
            head: FlowHead::new_zeroed(),
            next: [client, server],
        }
    }

    /// With its handshake: these first numbers, and the scale that both offer.
    fn open(client: u32, server: u32, scale: Option<u8>) -> Talk {
        let mut talk = Talk::new(client, server);
        talk.offer(CLIENT, SYN, scale);
        talk.offer(SERVER, SYN | ACK, scale);
        talk.say(CLIENT, ACK, 0);
        assert_eq!(talk.head.phase(), Phase::Established);
        talk
    }

    fn offer(&mut self, from: bool, flags: u8, scale: Option<u8>) {
        let seq = self.next[usize::from(!from)];
        let ack = if flags & ACK == 0 {
            0
        } else {
            self.next[usize::from(from)]
        };
        let heard = self.hear(from, flags, seq, ack, 0, scale);
        assert_eq!(heard, Heard::Believed);
        self.next[usize::from(!from)] = seq.wrapping_add(1);
    }

    fn hear(
        &mut self,
        from: bool,
        flags: u8,
        seq: u32,
        ack: u32,
        len: u32,
        scale: Option<u8>,
    ) -> Heard {
        let marks = u32::from(flags & FIN) + u32::from(flags & SYN != 0);
        let end = seq.wrapping_add(len).wrapping_add(marks);
        let segment = Segment { seq, ack, end };
        let timeouts = Timeouts::default();
        follow_tcp(&mut self.head, &segment, flags, scale, from, &timeouts)
    }

    /// The next segment of one end.
    fn say(&mut self, from: bool, flags: u8, len: u32) -> Heard {
        let (me, peer) = (usize::from(!from), usize::from(from));
        let heard = self.hear(from, flags, self.next[me], self.next[peer], len, None);
        self.next[me] = self.next[me].wrapping_add(len + u32::from(flags & FIN));
        heard
    }

    /// A reset from the server, so far from where it is.
    fn reset(&mut self, off: u32) -> Heard {
        let seq = self.next[1].wrapping_add(off);
        self.hear(SERVER, RST, seq, 0, 0, None)
    }

    fn is(&self, phase: Phase, idle_ms: u32) {
        assert_eq!((self.head.phase(), self.head.idle_ms), (phase, idle_ms));
    }
}

const ESTABLISHED: u32 = 7_440_000;
const CLOSING: u32 = 240_000;
const CLOSED: u32 = 10_000;

#[test]
fn a_reset_counts_where_it_is_expected() {
    for isn in [0, 5, u32::MAX - 2, 1 << 31] {
        let mut talk = Talk::open(isn, isn.wrapping_add(77), Some(7));
        talk.say(CLIENT, ACK, 500);
        talk.say(SERVER, ACK, 9_000);
        assert_eq!(talk.reset(1 << 30), Heard::Outside);
        assert_eq!(talk.reset(1 << 31), Heard::Outside);
        assert_eq!(talk.reset(0u32.wrapping_sub(1 << 25)), Heard::Outside);
        talk.is(Phase::Established, ESTABLISHED);
        // In the window it is doubted, until somebody speaks.
        assert_eq!(talk.reset(1), Heard::Doubted);
        assert_eq!(talk.reset(1 << 20), Heard::Doubted);
        talk.is(Phase::Established, CLOSING);
        assert_ne!(talk.head.tcp & seen::RESET_DOUBTED, 0);
        assert_eq!(talk.say(CLIENT, ACK, 0), Heard::Believed);
        talk.is(Phase::Established, ESTABLISHED);
        // The answer to what the client said last: it has not acknowledged all of the server's.
        assert_eq!(talk.reset(0), Heard::Believed);
        talk.is(Phase::Closed, CLOSED);
    }
    let mut talk = Talk::open(1, 2, Some(0));
    talk.say(SERVER, ACK, 9_000);
    assert_eq!(talk.reset(0u32.wrapping_sub(9_000)), Heard::Believed);
}

#[test]
fn windows_are_as_large_as_both_scales_allow() {
    for (client, server, far) in [
        (None, None, 1 << 16),
        (Some(7), None, 1 << 16),
        (Some(0), Some(7), 1 << 23),
        (Some(9), Some(2), 1 << 25),
        (Some(14), Some(255), 1 << 30),
    ] {
        let mut talk = Talk::new(100, 200);
        talk.offer(CLIENT, SYN, client);
        talk.offer(SERVER, SYN | ACK, server);
        talk.say(CLIENT, ACK, 0);
        assert_eq!(talk.reset(far), Heard::Doubted);
        assert_eq!(talk.reset(far + 1), Heard::Outside);
    }
}

#[test]
fn ends_count_in_the_window_only() {
    let mut talk = Talk::open(10, 20, None);
    let far = 1 << 20;
    assert_eq!(
        talk.hear(SERVER, FIN | ACK, far, 11, 0, None),
        Heard::Ignored
    );
    assert_eq!(
        talk.hear(SERVER, FIN | ACK, 21, far, 0, None),
        Heard::Ignored
    );
    assert_eq!(talk.hear(SERVER, FIN, 21, 0, 0, None), Heard::Ignored);
    talk.is(Phase::Established, ESTABLISHED);
    // Half closed, with the FIN once more; the other end goes on.
    assert_eq!(talk.say(CLIENT, FIN | ACK, 30), Heard::Believed);
    assert_eq!(
        talk.hear(CLIENT, FIN | ACK, 11, 21, 30, None),
        Heard::Believed
    );
    talk.is(Phase::Closing, CLOSING);
    for _ in 0..100 {
        assert_eq!(talk.say(SERVER, ACK, 60_000), Heard::Believed);
    }
    assert_eq!(talk.say(SERVER, FIN | ACK, 0), Heard::Believed);
    talk.is(Phase::Closed, CLOSED);
    // The end of all is no invalid packet.
    assert_eq!(talk.reset(5_000_000), Heard::Ignored);
}

#[test]
fn a_reset_does_not_count_where_a_guess_has_moved_its_number() {
    let mut talk = Talk::open(1, 2, Some(7));
    let [client, server] = talk.next;
    let far = server + (1 << 20);
    assert_eq!(
        talk.hear(SERVER, ACK, far, client, 0, None),
        Heard::Believed
    );
    assert_eq!(talk.hear(SERVER, RST, far, 0, 0, None), Heard::Doubted);
    talk.is(Phase::Established, CLOSING);
    // It goes on; its own reset is believed.
    talk.say(SERVER, ACK, 500);
    talk.say(CLIENT, ACK, 0);
    talk.is(Phase::Established, ESTABLISHED);
    assert_eq!(talk.reset(0), Heard::Believed);
    // Data lost before it came here does not matter once it is acknowledged.
    let mut talk = Talk::open(1, 2, Some(7));
    talk.next[1] += 5_000;
    talk.say(SERVER, ACK, 500);
    assert_eq!(Talk { ..talk }.reset(0), Heard::Doubted);
    talk.say(CLIENT, ACK, 0);
    talk.say(SERVER, ACK, 500);
    assert_eq!(talk.reset(0), Heard::Believed);
}

#[test]
fn an_end_counts_where_nothing_is_missing_before_it() {
    for off in [100_000, 0u32.wrapping_sub(100_000)] {
        let mut talk = Talk::open(1 << 20, 1 << 20, Some(7));
        let [client, server] = talk.next;
        let guess = server.wrapping_add(off);
        let heard = talk.hear(SERVER, FIN | ACK, guess, client, 0, None);
        assert_eq!(heard, Heard::Doubted);
        talk.is(Phase::Established, CLOSING);
        for _ in 0..10 {
            assert_eq!(talk.say(SERVER, ACK, 20_001), Heard::Believed);
            assert_eq!(talk.say(CLIENT, ACK, 1_000), Heard::Believed);
            talk.is(Phase::Established, ESTABLISHED);
        }
        assert_eq!(talk.head.tcp & seen::FIN_SERVER, 0, "it was none");
        assert_eq!(talk.say(SERVER, FIN | ACK, 10), Heard::Believed);
        talk.is(Phase::Closing, CLOSING);
    }
    // Missing data come later. The end counts once it is acknowledged, or comes again.
    for again in [false, true] {
        let mut talk = Talk::open(1, 2, Some(7));
        let [client, server] = talk.next;
        let end = |talk: &mut Talk| talk.hear(SERVER, FIN | ACK, server + 900, client, 100, None);
        assert_eq!(end(&mut talk), Heard::Doubted);
        assert_eq!(talk.say(SERVER, ACK, 900), Heard::Believed);
        talk.is(Phase::Established, ESTABLISHED);
        if again {
            talk.say(CLIENT, ACK, 0);
            talk.is(Phase::Established, ESTABLISHED);
            assert_eq!(end(&mut talk), Heard::Believed);
        } else {
            // An end that has sent its FIN shows that in each ACK.
            talk.hear(SERVER, ACK, server + 1_001, client, 0, None);
            talk.hear(CLIENT, ACK, client, server + 1_001, 0, None);
        }
        talk.is(Phase::Closing, CLOSING);
        talk.next[1] = server + 1_001;
        assert_eq!(talk.say(CLIENT, FIN | ACK, 5), Heard::Believed);
        talk.is(Phase::Closed, CLOSED);
    }
}

#[test]
fn a_syn_says_nothing_of_a_connection_whose_numbers_are_not_known() {
    let mut talk = Talk::open(1, 2, Some(7));
    talk.head.bits &= !FlowHead::WINDOW;
    (talk.head.sent, talk.head.acked) = ([0; 2], [0; 2]);
    talk.hear(CLIENT, SYN, talk.next[0], 0, 0, None);
    for _ in 0..2 {
        talk.say(CLIENT, ACK, 10);
        talk.say(SERVER, ACK, 10);
    }
    talk.is(Phase::Established, ESTABLISHED);
    assert_eq!(talk.reset(0u32.wrapping_sub(1 << 20)), Heard::Doubted);
}

#[test]
fn probes_and_repeated_segments_are_a_connection_s_own() {
    let mut talk = Talk::open(u32::MAX - 100, 50, Some(2));
    for _ in 0..50 {
        talk.say(CLIENT, ACK, 1_000);
        let [client, server] = talk.next;
        // Keep-alive, zero-window probe, retransmission, an old acknowledgement.
        for (seq, len) in [(1, 0), (1, 1), (0, 1), (900, 900)] {
            let seq = client.wrapping_sub(seq);
            assert_eq!(
                talk.hear(CLIENT, ACK, seq, server, len, None),
                Heard::Believed
            );
        }
        let old = client.wrapping_sub(1_000);
        assert_eq!(
            talk.hear(SERVER, ACK, server, old, 0, None),
            Heard::Believed
        );
        talk.say(SERVER, ACK, 10);
    }
    talk.is(Phase::Established, ESTABLISHED);
    assert_eq!(talk.reset(0), Heard::Believed);
}

#[test]
fn data_with_a_syn_may_be_taken_or_not() {
    for (acked, again) in [
        (1, None),
        (401, None),
        (1, Some(400)),
        (1, Some(0)),
        (401, Some(0)),
    ] {
        let mut talk = Talk::new(0, 9);
        talk.hear(CLIENT, SYN, 1_000, 0, 400, Some(7));
        // The answer may be lost; the SYN comes again, perhaps without the data.
        if let Some(len) = again {
            talk.hear(CLIENT, SYN, 1_000, 0, len, Some(7));
        }
        // Refused by whom the number says that it was asked, and by nobody else.
        for (ack, heard) in [(999, Heard::Ignored), (1_402, Heard::Ignored)] {
            assert_eq!(talk.hear(SERVER, RST | ACK, 0, ack, 0, None), heard);
        }
        talk.is(Phase::Open, CLOSING);
        let mut refused = Talk { ..talk };
        let refusal = refused.hear(SERVER, RST | ACK, 0, 1_000 + acked, 0, None);
        assert_eq!(
            (refusal, refused.head.phase()),
            (Heard::Believed, Phase::Closed)
        );
        let wrong = talk.hear(SERVER, SYN | ACK, 9, 77, 0, Some(7));
        assert_eq!((wrong, talk.head.phase()), (Heard::Ignored, Phase::Open));
        talk.hear(SERVER, SYN | ACK, 9, 1_000 + acked, 0, Some(7));
        talk.hear(CLIENT, ACK, 1_000 + acked, 10, 0, None);
        talk.is(Phase::Established, ESTABLISHED);
        talk.next = [1_000 + acked, 10];
        assert_eq!(talk.reset(0), Heard::Believed);
    }
}

#[test]
fn a_connection_under_way_is_picked_up_where_it_is() {
    for first in [CLIENT, SERVER] {
        let mut talk = Talk::new(1 << 31, 3);
        assert_eq!(talk.say(first, ACK, 100), Heard::Believed);
        assert_eq!(talk.reset(0), Heard::Believed);
        let mut talk = Talk::new(1 << 31, 3);
        for _ in 0..20 {
            // Scales are not known, so it may be as far as any allows.
            talk.next[0] = talk.next[0].wrapping_add(900_000_000);
            assert_eq!(talk.say(CLIENT, ACK, 1_000), Heard::Believed);
            assert_eq!(talk.say(SERVER, ACK, 0), Heard::Believed);
        }
        talk.is(Phase::Established, ESTABLISHED);
        assert_eq!(talk.reset(1 << 31), Heard::Outside);
        assert_eq!(talk.reset(0), Heard::Believed);
    }
}

#[test]
fn one_way_traffic_is_believed() {
    for (sees, other) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let mut talk = Talk::new(1 << 31, 1 << 29);
        talk.next[usize::from(sees)] += 1;
        talk.offer(sees, if sees { SYN } else { SYN | ACK }, Some(3));
        for _ in 0..99 {
            assert_eq!(talk.say(sees, ACK, 9_000), Heard::Believed);
            let unseen = usize::from(!other);
            talk.next[unseen] = talk.next[unseen].wrapping_add(60_000);
        }
        assert_eq!(talk.say(sees, FIN | ACK, 9_000), Heard::Believed);
        assert_eq!(talk.head.phase(), Phase::Closing);
    }
}

#[test]
fn what_was_missed_is_made_up_for() {
    let mut talk = Talk::open(1, 2, Some(1));
    talk.next = [1 << 30, 3 << 30];
    // Nothing is believed of one end alone.
    for _ in 0..9 {
        assert_eq!(talk.say(CLIENT, ACK, 10), Heard::Ignored);
    }
    // In doubt no reset is invalid.
    assert_eq!(talk.reset(0), Heard::Doubted);
    assert_eq!(talk.say(SERVER, ACK, 10), Heard::Believed);
    assert_eq!(talk.say(CLIENT, ACK, 10), Heard::Believed);
    assert_eq!(talk.reset(1 << 30), Heard::Outside);
    assert_eq!(talk.reset(0), Heard::Believed);
}

#[test]
fn a_new_connection_by_the_same_ports_has_numbers_of_its_own() {
    let mut talk = Talk::open(1, 2, Some(1));
    let old = talk.next[1];
    talk.next = [1 << 30, 3 << 30];
    // A SYN alone changes nothing: the server may know the connection still, and say so.
    talk.offer(CLIENT, SYN, Some(1));
    assert_eq!(talk.hear(SERVER, ACK, old, 2, 0, None), Heard::Believed);
    assert_eq!(talk.head.sent, [2, 3]);
    // Or it has forgotten it, and refuses.
    let mut refused = Talk { ..talk };
    assert_eq!(
        refused.hear(SERVER, RST | ACK, 0, (1 << 30) + 1, 0, None),
        Heard::Doubted
    );
    talk.offer(SERVER, SYN | ACK, Some(1));
    assert_eq!(talk.say(CLIENT, ACK, 0), Heard::Believed);
    talk.is(Phase::Established, ESTABLISHED);
    assert_eq!(talk.reset(1 << 31), Heard::Outside);
    assert_eq!(talk.reset(0), Heard::Believed);
}

/// The next step of one end.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: bool,
    len: u32,
    /// Does not get here at all.
    lost: bool,
    /// Comes again so many steps later.
    again: usize,
}

fn step() -> impl Strategy<Value = Step> {
    (any::<bool>(), 0..30_000u32, 0..10u8, 0..4usize).prop_map(|(from, len, lost, again)| Step {
        from,
        len,
        lost: lost == 0,
        again,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost, late and repeated: all of a connection's own is believed, what is far
    /// away ends nothing, and its own reset ends it.
    #[test]
    fn a_connection_is_believed_and_a_guess_is_not(
        client: u32,
        server: u32,
        scale in 2u8..15,
        steps in prop::collection::vec(step(), 1..60),
        guess in 0u32..1 << 31,
        by_client: bool,
    ) {
        let mut talk = Talk::open(client, server, Some(scale));
        let mut late: Vec<(usize, bool, u32, u32, u32)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let (me, peer) = (usize::from(!step.from), usize::from(step.from));
            let (seq, ack) = (talk.next[me], talk.next[peer]);
            talk.next[me] = seq.wrapping_add(step.len);
            if !step.lost {
                prop_assert_eq!(talk.hear(step.from, ACK, seq, ack, step.len, None), Heard::Believed);
            }
            // Lost data are sent again, at the latest at once.
            if step.again > 0 || step.lost {
                late.push((number + step.again, step.from, seq, ack, step.len));
            }
            for &(_, from, seq, ack, len) in late.iter().filter(|late| late.0 == number) {
                prop_assert_eq!(talk.hear(from, ACK, seq, ack, len, None), Heard::Believed);
            }
        }
        for &(_, from, seq, ack, len) in late.iter().filter(|late| late.0 >= steps.len()) {
            prop_assert_eq!(talk.hear(from, ACK, seq, ack, len, None), Heard::Believed);
        }
        let me = usize::from(!by_client);
        let span = 1u32 << (16 + scale);
        let far = (span + 1).wrapping_add(guess % (u32::MAX - 2 * span - 1));
        let wrong = talk.hear(by_client, RST, talk.next[me].wrapping_add(far), 0, 0, None);
        prop_assert_eq!(wrong, Heard::Outside);
        prop_assert_eq!(talk.head.phase(), Phase::Established);
        prop_assert_eq!(talk.head.idle_ms, ESTABLISHED);
        let mut over = Talk { ..talk };
        over.say(by_client, FIN | ACK, 9);
        prop_assert_eq!(over.say(!by_client, ACK, 9), Heard::Believed);
        prop_assert_eq!(over.head.phase(), Phase::Closing);
        // A late segment counts once all is acknowledged.
        talk.say(!by_client, ACK, 0);
        prop_assert_eq!(talk.hear(by_client, RST, talk.next[me], 0, 0, None), Heard::Believed);
        prop_assert_eq!(talk.head.phase(), Phase::Closed);
    }
}
