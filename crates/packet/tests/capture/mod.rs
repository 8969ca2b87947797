//! A reader of pcap and pcapng files, no more than the tests need: packets and their link types.

use std::path::{Path, PathBuf};

use weir_packet::LinkType;

/// One captured packet.
pub(crate) struct Packet {
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
}

/// The folder of shared captures; `None`, said aloud, where it is missing.
pub(crate) fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let named = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    let found = [Some(beside), named]
        .into_iter()
        .flatten()
        .find(|path| path.is_dir());
    if found.is_none() {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: no captures in ../shared/traces nor in $WEIR_TRACES\n",
        );
    }
    found
}

struct Input<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl Input<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        let octets = self.bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.big {
            u16::from_be_bytes(octets)
        } else {
            u16::from_le_bytes(octets)
        })
    }

    fn u32(&self, at: usize) -> Option<usize> {
        let octets = self.bytes.get(at..at + 4)?.try_into().ok()?;
        let value = if self.big {
            u32::from_be_bytes(octets)
        } else {
            u32::from_le_bytes(octets)
        };
        Some(value as usize)
    }
}

/// The packets of a capture file, up to where it ends.
pub(crate) fn read(path: &Path) -> Vec<Packet> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut packets = Vec::new();
    let _ended = match bytes.first_chunk::<4>() {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(&bytes, &mut packets),
        Some([0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1]) => pcap(
            &Input {
                bytes: &bytes,
                big: false,
            },
            16,
            &mut packets,
        ),
        Some([0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d]) => pcap(
            &Input {
                bytes: &bytes,
                big: true,
            },
            16,
            &mut packets,
        ),
        // The modified format of Linux 2.x: eight more octets per packet.
        Some([0x34, 0xcd, 0xb2, 0xa1]) => pcap(
            &Input {
                bytes: &bytes,
                big: false,
            },
            24,
            &mut packets,
        ),
        Some([0xa1, 0xb2, 0xcd, 0x34]) => pcap(
            &Input {
                bytes: &bytes,
                big: true,
            },
            24,
            &mut packets,
        ),
        other => panic!("{}: not a capture ({other:02x?})", path.display()),
    };
    packets
}

fn pcap(file: &Input, record: usize, packets: &mut Vec<Packet>) -> Option<()> {
    // The upper bits of the link type tell about the frame check sequence.
    let link = LinkType::from_dlt(file.u32(20)? as u32 & 0x0fff_ffff);
    let mut at = 24;
    loop {
        let length = file.u32(at + 8)?;
        at += record;
        packets.push(Packet {
            link,
            bytes: file.bytes.get(at..at + length)?.to_vec(),
        });
        at += length;
    }
}

fn pcapng(bytes: &[u8], packets: &mut Vec<Packet>) -> Option<()> {
    let mut file = Input { bytes, big: false };
    let mut interfaces: Vec<(LinkType, usize)> = Vec::new();
    let mut at = 0;
    loop {
        let kind = file.u32(at)?;
        if kind == 0x0a0d_0d0a {
            file.big = bytes.get(at + 8..at + 12)? == [0x1a, 0x2b, 0x3c, 0x4d];
            interfaces.clear();
        }
        let length = file.u32(at + 4)?;
        let end = at + length.max(12);
        match kind {
            1 => {
                let link = LinkType::from_dlt(u32::from(file.u16(at + 8)?));
                interfaces.push((link, file.u32(at + 12)?));
            }
            // Enhanced packets, and the packet blocks before them.
            6 | 2 => {
                let number = if kind == 6 {
                    file.u32(at + 8)?
                } else {
                    file.u16(at + 8)?.into()
                };
                let size = file.u32(at + 20)?;
                let bytes = bytes.get(at + 28..at + 28 + size)?.to_vec();
                let link = interfaces.get(number).map_or(LinkType::Opaque, |i| i.0);
                packets.push(Packet { link, bytes });
            }
            // Simple packets: interface 0, cut at its snap length.
            3 => {
                let &(link, snap) = interfaces.first()?;
                let size = file.u32(at + 8)?;
                let size = if snap == 0 { size } else { size.min(snap) }.min(length - 16);
                packets.push(Packet {
                    link,
                    bytes: bytes.get(at + 12..at + 12 + size)?.to_vec(),
                });
            }
            _ => {}
        }
        at = end;
    }
}
