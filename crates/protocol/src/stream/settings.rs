//! Settings of a stream.

use weir_packet::actor_frame::ActorFrameRepr;
use weir_packet::ethernet::MacAddr;

/// Settings of one end of a stream. Times are in nanoseconds. Both ends need
/// the same [`StreamSettings::longest`].
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// Ethernet address of this end.
    pub local: MacAddr,
    /// Ethernet address of the other end.
    pub remote: MacAddr,
    /// Most bytes of a frame after its Ethernet header, at least 256.
    pub mtu: u16,
    /// Most bytes of payload that are on their way; at least one frame always
    /// is. No more than [`super::FRAMES_IN_FLIGHT`] frames are.
    pub window: usize,
    /// Most bytes of messages that wait for the window at the sender, or to be
    /// taken at the receiver.
    pub queue: usize,
    /// Longest message, in bytes; no more than 65,536 fragments.
    pub longest: usize,
    /// How long an acknowledgement waits for a frame that it can ride on.
    pub acknowledge_after: u64,
    /// The round trip before it was measured.
    pub round_trip: u64,
    /// Shortest wait before a frame is sent again.
    pub shortest_wait: u64,
    /// Longest such wait, however many rounds of repetitions there were.
    pub longest_wait: u64,
    /// Rounds of repetitions, without an answer, after which the peer counts
    /// as not answering.
    pub rounds: u32,
}

impl Default for StreamSettings {
    /// [`StreamSettings::DEFAULT`].
    fn default() -> StreamSettings {
        StreamSettings::DEFAULT
    }
}

impl StreamSettings {
    /// For a network of hosts close to one another: 1,500 bytes, 256 KiB on
    /// their way, 16 MiB waiting, messages up to 16 MiB, acknowledgements after
    /// 0.2 ms, a first round trip of 1 ms, waits of 2 ms to 1 s, 8 rounds.
    pub const DEFAULT: StreamSettings = StreamSettings {
        local: MacAddr([0; 6]),
        remote: MacAddr([0; 6]),
        mtu: 1_500,
        window: 256 << 10,
        queue: 16 << 20,
        longest: 16 << 20,
        acknowledge_after: 200_000,
        round_trip: 1_000_000,
        shortest_wait: 2_000_000,
        longest_wait: 1_000_000_000,
        rounds: 8,
    };

    /// The same with values that work.
    pub(super) fn bounded(mut self) -> StreamSettings {
        self.mtu = self.mtu.max(256);
        self.longest = self.longest.min(self.payload() << 16);
        self.shortest_wait = self.shortest_wait.max(1);
        self.longest_wait = self.longest_wait.max(self.shortest_wait);
        self
    }

    /// Bytes of payload that a frame has room for.
    pub(super) fn payload(&self) -> usize {
        usize::from(self.mtu) - ActorFrameRepr::LEN
    }
}
