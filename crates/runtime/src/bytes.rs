//! Numbers and keys as bytes, little endian, and back.

use weir_packet::{Direction, FlowKey};

/// The bytes end too soon, or say what can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Reads from the front of a slice; holds the bytes not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Damaged> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their number (32 bits).
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Damaged> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    /// A key whose end points are in their order.
    pub(crate) fn key(&mut self) -> Result<FlowKey, Damaged> {
        let mut words = [0; 6];
        for word in &mut words {
            *word = self.u64()?;
        }
        let key = FlowKey::from_words(words);
        let ((a, a_port), (b, b_port)) = (key.a(), key.b());
        let (proto, zone, chain) = (key.proto(), key.zone(), key.chain());
        let (same, way) = FlowKey::new(a, a_port, b, b_port, proto, zone, chain);
        let forms = [Direction::Forward, Direction::Reverse].map(|way| same.turned(way));
        if (same == key || forms.contains(&key)) && way == Direction::Forward {
            Ok(key)
        } else {
            Err(Damaged)
        }
    }
}

pub(crate) fn put_key(out: &mut Vec<u8>, key: &FlowKey) {
    for word in key.to_words() {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
