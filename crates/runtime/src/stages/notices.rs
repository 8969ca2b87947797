//! Notices: what the first stage of a plan tells the later ones of its flows,
//! as bytes in frames of their own among the packets
//! ([`weir_packet::FrameKind::Notice`]).
//!
//! ```text
//! 1 flow opened { record: u32, id: u64, unit: u64, key, bits,
//!                 count: u8, count x { scope: u8, record: u32 } }
//! 2 unit opened { scope: u8, record: u32, id: u64, key }
//! 3 flow ended  { end }
//! 4 unit ended  { scope: u8, end }
//! end           { record: u32, id: u64, why: u8, now: u64, last: u64,
//!                 clock: u64, tcp: u16, phase: u8 }
//! ```
//!
//! Numbers are little endian, keys six words of 64 bits. Records are those of
//! the first stage; a scope is named by its fields' bits.

use weir_nf::CloseReason;
use weir_nf::host::FlowHead;
use weir_packet::FlowKey;
use weir_telemetry::Label as _;

use crate::bytes::{Damaged, Reader, put_key};
use crate::scratch::MAX_SCOPES;

/// Bytes of the longest notice.
pub(crate) const LONGEST: usize = 1 + 4 + 8 + 8 + 48 + 1 + 1 + MAX_SCOPES * 5;

/// One thing that later stages must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    FlowOpened(FlowOpened),
    UnitOpened {
        scope: u8,
        record: u32,
        id: u64,
        key: FlowKey,
    },
    FlowEnded(End),
    UnitEnded {
        scope: u8,
        end: End,
    },
}

/// A record has become a flow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowOpened {
    pub(crate) record: u32,
    pub(crate) id: u64,
    /// Id of the coarsest unit: that in the packets' metadata.
    pub(crate) unit: u64,
    pub(crate) key: FlowKey,
    /// [`FlowHead::CLIENT_IS_B`] and the like.
    pub(crate) bits: u8,
    pub(crate) units: Units,
}

/// The units of a flow: scope and record of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    count: u8,
    all: [(u8, u32); MAX_SCOPES],
}

impl Units {
    /// Adds one; more than there may be scopes are left out.
    pub(crate) fn push(&mut self, scope: u8, record: u32) {
        if let Some(place) = self.all.get_mut(usize::from(self.count)) {
            *place = (scope, record);
            self.count += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[(u8, u32)] {
        self.all.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// A record is no longer used. The last state of the first stage goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) record: u32,
    pub(crate) id: u64,
    /// None where nothing was ever kept in it.
    pub(crate) why: Option<CloseReason>,
    /// Time at which the end was found.
    pub(crate) now: u64,
    pub(crate) last_seen: u64,
    pub(crate) clock: u64,
    pub(crate) tcp: u16,
    pub(crate) phase: u8,
}

impl End {
    pub(crate) fn of(record: u32, head: &FlowHead, why: Option<CloseReason>, now: u64) -> End {
        End {
            record,
            id: head.id,
            why,
            now,
            last_seen: head.last_seen,
            clock: head.clock,
            tcp: head.tcp,
            phase: head.phase,
        }
    }

    /// Puts what was known last into the record's head.
    pub(crate) fn set(&self, head: &mut FlowHead) {
        head.last_seen = self.last_seen;
        head.clock = self.clock;
        head.tcp = self.tcp;
        head.phase = self.phase;
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.record.to_le_bytes());
        out.extend(self.id.to_le_bytes());
        out.push(self.why.map_or(NO_REASON, |why| why as u8));
        out.extend(self.now.to_le_bytes());
        out.extend(self.last_seen.to_le_bytes());
        out.extend(self.clock.to_le_bytes());
        out.extend(self.tcp.to_le_bytes());
        out.push(self.phase);
    }

    fn read(reader: &mut Reader<'_>) -> Result<End, Damaged> {
        Ok(End {
            record: reader.u32()?,
            id: reader.u64()?,
            why: match reader.u8()? {
                NO_REASON => None,
                why => Some(CloseReason::at(usize::from(why)).ok_or(Damaged)?),
            },
            now: reader.u64()?,
            last_seen: reader.u64()?,
            clock: reader.u64()?,
            tcp: reader.u16()?,
            phase: reader.u8()?,
        })
    }
}

const FLOW_OPENED: u8 = 1;
const UNIT_OPENED: u8 = 2;
const FLOW_ENDED: u8 = 3;
const UNIT_ENDED: u8 = 4;
const NO_REASON: u8 = u8::MAX;

/// Appends a notice.
pub(crate) fn write(notice: &Notice, out: &mut Vec<u8>) {
    match notice {
        Notice::FlowOpened(flow) => {
            out.push(FLOW_OPENED);
            out.extend(flow.record.to_le_bytes());
            out.extend(flow.id.to_le_bytes());
            out.extend(flow.unit.to_le_bytes());
            put_key(out, &flow.key);
            let units = flow.units.as_slice();
            out.extend([flow.bits, units.len() as u8]);
            for (scope, record) in units {
                out.push(*scope);
                out.extend(record.to_le_bytes());
            }
        }
        Notice::UnitOpened {
            scope,
            record,
            id,
            key,
        } => {
            out.extend([UNIT_OPENED, *scope]);
            out.extend(record.to_le_bytes());
            out.extend(id.to_le_bytes());
            put_key(out, key);
        }
        Notice::FlowEnded(end) => {
            out.push(FLOW_ENDED);
            end.write(out);
        }
        Notice::UnitEnded { scope, end } => {
            out.extend([UNIT_ENDED, *scope]);
            end.write(out);
        }
    }
}

/// The notices in a frame's bytes; ends after the first fault.
pub(crate) fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Notice, Damaged>> {
    let mut reader = Reader(bytes);
    core::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let notice = one(&mut reader);
        if notice.is_err() {
            reader.0 = &[];
        }
        Some(notice)
    })
}

/// Bytes of as many whole notices as there are in the first `most`; all where
/// they are fewer.
pub(crate) fn whole_within(bytes: &[u8], most: usize) -> usize {
    let mut reader = Reader(bytes);
    let mut whole = 0;
    while !reader.0.is_empty() && one(&mut reader).is_ok() {
        let end = bytes.len() - reader.0.len();
        if end > most && whole > 0 {
            break;
        }
        whole = end;
    }
    whole
}

fn one(reader: &mut Reader<'_>) -> Result<Notice, Damaged> {
    Ok(match reader.u8()? {
        FLOW_OPENED => {
            let (record, id, unit) = (reader.u32()?, reader.u64()?, reader.u64()?);
            let (key, bits, count) = (reader.key()?, reader.u8()?, reader.u8()?);
            if usize::from(count) > MAX_SCOPES {
                return Err(Damaged);
            }
            let mut units = Units::default();
            for _ in 0..count {
                units.push(reader.u8()?, reader.u32()?);
            }
            Notice::FlowOpened(FlowOpened {
                record,
                id,
                unit,
                key,
                bits,
                units,
            })
        }
        UNIT_OPENED => Notice::UnitOpened {
            scope: reader.u8()?,
            record: reader.u32()?,
            id: reader.u64()?,
            key: reader.key()?,
        },
        FLOW_ENDED => Notice::FlowEnded(End::read(reader)?),
        UNIT_ENDED => Notice::UnitEnded {
            scope: reader.u8()?,
            end: End::read(reader)?,
        },
        _ => return Err(Damaged),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> (Vec<u8>, Vec<Notice>) {
        let address = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let (key, _) = FlowKey::new(address(1), 1, address(2), 2, 17, 0, 3);
        let mut units = Units::default();
        (0..9).for_each(|n| units.push(n, u32::from(n) * 1_000));
        assert_eq!(units.as_slice().len(), MAX_SCOPES);
        let end = End {
            record: 7,
            id: 1 << 40,
            why: Some(CloseReason::Evicted),
            now: 5,
            last_seen: 4,
            clock: 3,
            tcp: 0x101,
            phase: 2,
        };
        let notices = vec![
            Notice::UnitOpened {
                scope: 3,
                record: 9,
                id: 8,
                key,
            },
            Notice::FlowOpened(FlowOpened {
                record: 7,
                id: 1 << 40,
                unit: 8,
                key,
                bits: 1,
                units,
            }),
            Notice::FlowEnded(end),
            Notice::UnitEnded {
                scope: 3,
                end: End { why: None, ..end },
            },
        ];
        let mut bytes = Vec::new();
        for notice in &notices {
            let before = bytes.len();
            write(notice, &mut bytes);
            assert!(bytes.len() - before <= LONGEST);
        }
        (bytes, notices)
    }

    #[test]
    fn notices_come_back_as_they_were_written() {
        let (bytes, notices) = some();
        let back: Result<Vec<_>, _> = read(&bytes).collect();
        assert_eq!(back, Ok(notices));
    }

    #[test]
    fn frames_hold_whole_notices() {
        let (bytes, notices) = some();
        let mut ends = vec![0];
        for notice in &notices {
            let mut one = Vec::new();
            write(notice, &mut one);
            ends.push(ends.last().expect("one") + one.len());
        }
        for most in 0..bytes.len() + 9 {
            let whole = whole_within(&bytes, most);
            assert!(ends.contains(&whole) && (whole <= most || whole == ends[1]));
        }
        assert_eq!(whole_within(&bytes, bytes.len()), bytes.len());
    }

    #[test]
    fn damage_ends_the_notices_with_a_fault() {
        let (bytes, notices) = some();
        for len in 0..bytes.len() {
            let back: Vec<_> = read(&bytes[..len]).collect();
            let good = back.iter().filter(|notice| notice.is_ok()).count();
            assert!(back.len() <= good + 1 && good < notices.len());
        }
        assert_eq!(read(&[9]).last(), Some(Err(Damaged)));
        for at in 0..bytes.len() {
            let mut worse = bytes.clone();
            worse[at] ^= 0xff;
            assert!(read(&worse).count() <= bytes.len());
        }
    }
}
