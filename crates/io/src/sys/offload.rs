//! The header in front of packets of a socket with `PACKET_VNET_HDR`: work that the
//! sender left to a card (`struct virtio_net_hdr`).

/// Octets of the header.
pub(crate) const VNET_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const UDP: u8 = 5;
/// The window-reduced flag (CWR) says what RFC 3168 has it say: once.
const ECN: u8 = 0x80;
/// It is one bit of a counter (RFC 9768). Kernels that don't know this bit say
/// neither then.
const ACCURATE_ECN: u8 = 0x10;

/// Work on a packet that is left to a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    /// Its checksum: from which octet of the packet on it is over all octets, and
    /// where it stands, counted from there. That of the pseudo-header stands there.
    pub(crate) checksum: Option<(u16, u16)>,
    /// It is to be cut into segments of so many octets of payload.
    pub(crate) segments: Option<u16>,
    /// The first of them alone has the flag that the window was reduced; else all.
    pub(crate) reduced_once: bool,
}

impl Offload {
    /// Reads the header, which is in the machine's byte order.
    #[inline]
    pub(crate) fn read(header: &[u8; VNET_BYTES]) -> Offload {
        let [flags, kind, _, _, s0, s1, a0, a1, b0, b1] = *header;
        let ecn = kind & (ECN | ACCURATE_ECN);
        let segments = matches!(kind & !ecn, TCP_IPV4 | TCP_IPV6 | UDP);
        Offload {
            checksum: (flags & NEEDS_CHECKSUM != 0)
                .then_some((u16::from_ne_bytes([a0, a1]), u16::from_ne_bytes([b0, b1]))),
            segments: segments.then_some(u16::from_ne_bytes([s0, s1])),
            reduced_once: ecn == ECN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        assert_eq!(Offload::read(&[0; VNET_BYTES]), Offload::default());
        let mut header = [0; VNET_BYTES];
        header[0] = NEEDS_CHECKSUM;
        header[1] = TCP_IPV4 | ECN;
        header[4..6].copy_from_slice(&1_448u16.to_ne_bytes());
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        header[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let read = Offload {
            checksum: Some((34, 16)),
            segments: Some(1_448),
            reduced_once: true,
        };
        assert_eq!(Offload::read(&header), read);
        for ecn in [0, ACCURATE_ECN, ACCURATE_ECN | ECN] {
            header[1] = TCP_IPV4 | ecn;
            let read = Offload {
                reduced_once: false,
                ..read
            };
            assert_eq!(Offload::read(&header), read, "{ecn:#x}");
        }
    }
}
