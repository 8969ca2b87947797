//! Notes: what a packet caused beside packets, as bytes in a frame of its own
//! ([`weir_packet::Disposition::Notes`]).
//!
//! ```text
//! 1 alias { key of the flow, key, bits: client | side << 1 | open << 2 }
//! 2 flow ended { key }
//! 3 flow opened { key, the client is its second end }
//! 4 event { length: u32, line }
//! 5 leased { pool, address: u16, port: u16, space }
//! 6 alias ended { key }
//! 7 emits lost { count: u32 }
//! ```
//!
//! Numbers are little endian, keys six words of 64 bits.

use weir_nf::host::{AliasRequest, NO_FLOW};
use weir_nf::{PoolId, PortLease, PortSpace};
use weir_packet::{Direction, FlowKey, Side};

use crate::bytes::{Damaged, Reader, put_bytes, put_key};

/// One thing that a packet caused. Those of one packet come in the order of
/// ends, openings, leases, aliases, lost packets, events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// The flow has another name from now on.
    Alias {
        /// The flow's own key.
        flow: FlowKey,
        /// The name (`flow` in it means nothing).
        request: AliasRequest,
    },
    /// A flow has ended, with all its names.
    FlowEnded {
        /// Its key.
        key: FlowKey,
    },
    /// A flow was opened by the packet that ended one, or in a wide unit by
    /// another packet than its first: its key is a name of the unit, whatever
    /// [`Note::FlowEnded`] before it took away. (The switch may have numbered
    /// the packet before it heard of that end. The flow of a unit's first
    /// packet has the key that the switch knows it by.)
    FlowOpened {
        /// Its key.
        key: FlowKey,
        /// True where the client is the key's second end.
        client_is_b: bool,
    },
    /// An open alias has ended while its unit may live on: the record of a
    /// finer scope that had it is no more. (Those of a flow end with
    /// [`Note::FlowEnded`].)
    AliasEnded {
        /// Its key.
        key: FlowKey,
    },
    /// A line of the event log, with its newline.
    Event(&'a [u8]),
    /// A port was taken.
    Leased {
        /// Its pool.
        pool: PoolId,
        /// The port.
        lease: PortLease,
    },
    /// Packets that functions would have made: no frame was free, the packet had made as
    /// many as it may, or they were too long for a message.
    EmitsLost {
        /// How many.
        count: u32,
    },
}

/// Bytes that are no notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNotes;

impl core::fmt::Display for NotNotes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the bytes are no notes")
    }
}

impl std::error::Error for NotNotes {}

const ALIAS: u8 = 1;
const ENDED: u8 = 2;
const OPENED: u8 = 3;
const EVENT: u8 = 4;
const LEASED: u8 = 5;
const ALIAS_ENDED: u8 = 6;
const EMITS_LOST: u8 = 7;

/// Appends a note.
pub fn write(note: &Note<'_>, out: &mut Vec<u8>) {
    match note {
        Note::Alias { flow, request } => {
            out.push(ALIAS);
            put_key(out, flow);
            put_key(out, &request.key);
            let (client, side) = (request.client as u8, request.side as u8);
            out.push(client | side << 1 | u8::from(request.open) << 2);
        }
        Note::FlowEnded { key } => {
            out.push(ENDED);
            put_key(out, key);
        }
        Note::FlowOpened { key, client_is_b } => {
            out.push(OPENED);
            put_key(out, key);
            out.push(u8::from(*client_is_b));
        }
        Note::AliasEnded { key } => {
            out.push(ALIAS_ENDED);
            put_key(out, key);
        }
        Note::Event(line) => {
            out.push(EVENT);
            put_bytes(out, line);
        }
        Note::Leased { pool, lease } => {
            out.extend_from_slice(&[LEASED, pool.0]);
            out.extend_from_slice(&lease.address.to_le_bytes());
            out.extend_from_slice(&lease.port.to_le_bytes());
            out.push(lease.space as u8);
        }
        Note::EmitsLost { count } => {
            out.push(EMITS_LOST);
            out.extend_from_slice(&count.to_le_bytes());
        }
    }
}

/// The notes in a frame's bytes; ends after the first fault.
pub fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Note<'_>, NotNotes>> {
    let mut reader = Reader(bytes);
    core::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let note = one(&mut reader).map_err(|Damaged| NotNotes);
        if note.is_err() {
            reader.0 = &[];
        }
        Some(note)
    })
}

fn one<'a>(reader: &mut Reader<'a>) -> Result<Note<'a>, Damaged> {
    Ok(match reader.u8()? {
        ALIAS => {
            let (flow, key, bits) = (reader.key()?, reader.key()?, reader.u8()?);
            let (client, side) = client_and_side(bits & 3);
            if bits > 7 {
                return Err(Damaged);
            }
            let request = AliasRequest {
                flow: NO_FLOW,
                key,
                client,
                side,
                open: bits & 4 != 0,
            };
            Note::Alias { flow, request }
        }
        ENDED => Note::FlowEnded { key: reader.key()? },
        OPENED => {
            let key = reader.key()?;
            let client_is_b = match reader.u8()? {
                0 => false,
                1 => true,
                _ => return Err(Damaged),
            };
            Note::FlowOpened { key, client_is_b }
        }
        ALIAS_ENDED => Note::AliasEnded { key: reader.key()? },
        EVENT => Note::Event(reader.counted()?),
        LEASED => {
            let pool = PoolId(reader.u8()?);
            let (address, port) = (reader.u16()?, reader.u16()?);
            let space = match reader.u8()? {
                0 => PortSpace::Tcp,
                1 => PortSpace::Udp,
                2 => PortSpace::Icmp,
                _ => return Err(Damaged),
            };
            let lease = PortLease {
                address,
                port,
                space,
            };
            Note::Leased { pool, lease }
        }
        EMITS_LOST => Note::EmitsLost {
            count: reader.u32()?,
        },
        _ => return Err(Damaged),
    })
}

/// From the two low bits of what stands for an alias.
pub(crate) fn client_and_side(bits: u8) -> (Direction, Side) {
    let client = if bits & 1 == 0 {
        Direction::Forward
    } else {
        Direction::Reverse
    };
    let side = if bits & 2 == 0 {
        Side::Inside
    } else {
        Side::Outside
    };
    (client, side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> (Vec<u8>, Vec<Note<'static>>) {
        let address = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let (flow, _) = FlowKey::new(address(1), 1, address(2), 2, 17, 0, 3);
        let (key, way) = FlowKey::new(address(9), 9, address(2), 2, 17, 0, 3);
        let request = AliasRequest {
            flow: NO_FLOW,
            key,
            client: way.opposite(),
            side: Side::Outside,
            open: true,
        };
        let lease = PortLease {
            address: 300,
            port: 40_000,
            space: PortSpace::Icmp,
        };
        let notes = vec![
            Note::FlowEnded { key: flow },
            Note::AliasEnded { key },
            Note::FlowOpened {
                key: flow.turned(Direction::Reverse),
                client_is_b: true,
            },
            Note::Leased {
                pool: PoolId(4),
                lease,
            },
            Note::EmitsLost { count: 70_000 },
            Note::Alias { flow, request },
            Note::Event(b"{}\n"),
        ];
        let mut bytes = Vec::new();
        notes.iter().for_each(|note| write(note, &mut bytes));
        (bytes, notes)
    }

    #[test]
    fn notes_come_back_as_they_were_written() {
        let (bytes, notes) = some();
        let back: Result<Vec<_>, _> = read(&bytes).collect();
        assert_eq!(back, Ok(notes));
    }

    #[test]
    fn damage_ends_the_notes_with_a_fault() {
        let (bytes, notes) = some();
        let mut whole = 0;
        for len in 0..bytes.len() {
            let back: Vec<_> = read(&bytes[..len]).collect();
            let good = back.iter().filter(|note| note.is_ok()).count();
            assert!(back.len() <= good + 1 && good < notes.len());
            whole += usize::from(back.len() == good);
        }
        assert_eq!(
            whole,
            notes.len(),
            "cut between two notes there is no fault"
        );
        assert_eq!(read(&[9]).last(), Some(Err(NotNotes)));
        let mut worse = bytes;
        worse[49] = 99;
        assert!(read(&worse).any(|note| note.is_err()));
    }
}
