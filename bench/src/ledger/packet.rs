//! Numbered packets: UDP over IPv4, made and read without weir's help.

/// Octets in front of the payload: Ethernet, IPv4, UDP.
const HEAD: usize = 14 + 20 + 8;
/// Length of a packet.
pub(super) const LEN: usize = HEAD + 4 + 4 + 4 + 8;
const MAGIC: [u8; 4] = *b"ldgr";
/// Ports of a client, from 1,024.
const PORTS: u32 = 16_384;

/// The payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Its flow, from 0.
    pub(super) flow: u32,
    /// Its number in the flow, from 0.
    pub(super) number: u32,
    /// When it was sent, in nanoseconds after the start.
    pub(super) sent: u64,
}

impl Numbered {
    /// The packet, from a client in 10.0.0.0/16 to 198.18.0.1, port 9.
    pub(super) fn write(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0xb]);
        out[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xa]);
        out[12..14].copy_from_slice(&[8, 0]);
        let client = self.flow / PORTS + 1;
        let ip = [
            [0x45, 0, 0, (LEN - 14) as u8],
            [0, 0, 0x40, 0],
            [64, 17, 0, 0],
            [10, 0, (client >> 8) as u8, client as u8],
            [198, 18, 0, 1],
        ]
        .concat();
        out[14..34].copy_from_slice(&ip);
        let sum = checksum(&ip);
        out[24..26].copy_from_slice(&sum.to_be_bytes());
        let port = 1_024 + (self.flow % PORTS) as u16;
        out[34..36].copy_from_slice(&port.to_be_bytes());
        out[36..38].copy_from_slice(&9u16.to_be_bytes());
        out[38..40].copy_from_slice(&((LEN - 34) as u16).to_be_bytes());
        // No UDP checksum (RFC 768: zero).
        out[HEAD..HEAD + 4].copy_from_slice(&MAGIC);
        out[HEAD + 4..HEAD + 8].copy_from_slice(&self.flow.to_be_bytes());
        out[HEAD + 8..HEAD + 12].copy_from_slice(&self.number.to_be_bytes());
        out[HEAD + 12..].copy_from_slice(&self.sent.to_be_bytes());
        out
    }

    /// Reads a packet and who it comes from; `None` where it is none of ours.
    pub(super) fn read(bytes: &[u8]) -> Option<(Numbered, ([u8; 4], u16))> {
        let bytes: &[u8; LEN] = bytes.get(..LEN)?.try_into().ok()?;
        if bytes[12..14] != [8, 0] || bytes[23] != 17 || bytes[HEAD..HEAD + 4] != MAGIC {
            return None;
        }
        let four = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let numbered = Numbered {
            flow: four(HEAD + 4)?,
            number: four(HEAD + 8)?,
            sent: u64::from(four(HEAD + 12)?) << 32 | u64::from(four(HEAD + 16)?),
        };
        let address = bytes.get(26..30)?.try_into().ok()?;
        Some((
            numbered,
            (address, u16::from_be_bytes([bytes[34], bytes[35]])),
        ))
    }
}

/// The Internet checksum (RFC 1071) of an even number of octets.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks_exact(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        for (flow, port, client) in [(0, 1_024, 1), (16_383, 17_407, 1), (99_999, 2_719, 7)] {
            let numbered = Numbered {
                flow,
                number: 7,
                sent: 1 << 40 | 5,
            };
            let bytes = numbered.write();
            assert_eq!(
                Numbered::read(&bytes),
                Some((numbered, ([10, 0, 0, client], port)))
            );
            assert_eq!(
                checksum(&bytes[14..34]),
                0,
                "the sum with its sum is nothing"
            );
        }
        assert_eq!(Numbered::read(&[0; LEN]), None);
        assert_eq!(Numbered::read(&[]), None);
    }
}
