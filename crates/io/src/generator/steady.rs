//! The quick way for the commonest traffic.

use super::headers::{MIN_FRAME, checksum, checksum_of};
use super::plain::Plain;
use super::spec::{Family, Protocol};
use super::tuples::{ClassTuples, Tuple};

/// The commonest traffic, and what other things are measured with: untagged TCP or UDP over IPv4,
/// frames of one size and content. All offsets are known to the compiler.
pub(super) struct Steady {
    protocol: Protocol,
    flows: ClassTuples,
    /// Flow of the next frame: drawn one call ahead, so that two chains of dependent
    /// multiplications overlap.
    ahead: u32,
    frame: Vec<u8>,
    ip_sum: u32,
    l4_sum: u32,
}

impl Steady {
    /// The same as `plain`, if it is of this kind.
    pub(super) fn new(plain: &Plain) -> Option<Self> {
        let (template, flows) = plain.only_choice()?;
        let headers = &template.headers;
        let class = headers.class;
        if class.family != Family::V4 || class.protocol == Protocol::Icmp || headers.ip != 14 {
            return None;
        }
        let mut frame = template.frame.clone();
        let blank = Tuple {
            src: 0,
            dst: 0,
            sport: 0,
            dport: 0,
        };
        template.write(template.usual, blank, &mut frame)?; // fills in the lengths
        Some(Self {
            protocol: class.protocol,
            flows,
            ahead: 0,
            frame,
            ip_sum: template.usual.ip_sum,
            l4_sum: template.usual.l4_sum,
        })
    }

    /// Writes a frame of the flow named in the call before, and takes the `next` one's: its
    /// length.
    #[inline(always)]
    pub(super) fn write(&mut self, next: u32, buffer: &mut [u8]) -> Option<usize> {
        let length = self.frame.len();
        match (buffer.first_chunk_mut::<64>(), self.frame.as_array::<64>()) {
            // A copy of known length is four moves, any other a call.
            (Some(place), Some(frame)) => *place = *frame,
            _ => buffer.get_mut(..length)?.copy_from_slice(&self.frame),
        }
        let head = buffer.first_chunk_mut::<MIN_FRAME>()?;
        let tuple = self.flows.tuple(self.ahead);
        self.ahead = next;
        let addresses = u64::from(tuple.src) + u64::from(tuple.dst);
        let addresses = (addresses & 0xffff) as u32 + (addresses >> 16) as u32;
        let ports = u32::from(tuple.sport) << 16 | u32::from(tuple.dport);
        head[24..26].copy_from_slice(&checksum(self.ip_sum + addresses).to_be_bytes());
        head[26..30].copy_from_slice(&tuple.src.to_be_bytes());
        head[30..34].copy_from_slice(&tuple.dst.to_be_bytes());
        head[34..38].copy_from_slice(&ports.to_be_bytes());
        let covered = self.l4_sum + addresses + u32::from(tuple.sport) + u32::from(tuple.dport);
        let checksum = checksum_of(self.protocol, covered).to_be_bytes();
        match self.protocol {
            Protocol::Udp => head[40..42].copy_from_slice(&checksum),
            _ => head[50..52].copy_from_slice(&checksum),
        }
        Some(length)
    }

    /// Names the flow of the first frame.
    pub(super) fn begin(&mut self, flow: u32) {
        self.ahead = flow;
    }
}
