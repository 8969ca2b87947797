//! Form of a payload between the two ends.
//!
//! ```text
//! not coded   any bytes that do not begin with MAGIC
//! stored      MAGIC, kind, the payload without its first four bytes (which are MAGIC)
//! compressed  MAGIC, kind, length (2, big-endian), check (4, big-endian), LZ4 block
//! ```
//!
//! Kind: version (4 bits, 1), [`Marks`] (2 bits), stored 0 or compressed 1 (2 bits). Length and
//! check are those of the payload as it was.
//!
//! No code can leave every payload as long as it was or shorter, save the one that shortens none.
//! So one kind of payload is sent one byte longer: one that begins with `MAGIC`, as if it were
//! coded, and can't be compressed.

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// First bytes of every coded payload. No text in UTF-8 has the first byte.
pub const MAGIC: [u8; 4] = [0xf5, 0x77, 0x7a, 0x8a];

/// Bytes in front of a stored payload's fifth byte.
const STORED_HEADER: usize = MAGIC.len() + 1;
/// Bytes in front of a compressed payload's LZ4 block.
const HEADER: usize = STORED_HEADER + 2 + 4;
/// No transport payload is longer.
const LONGEST: usize = u16::MAX as usize;

const VERSION: u8 = 1 << 4;
const STORED: u8 = 0;
const COMPRESSED: u8 = 1;
const TRANSPORT_ONES: u8 = 1 << 2;
const NETWORK_ONES: u8 = 1 << 3;

/// Checksums that an update by the difference (RFC 1624) can't restore: the update writes the zero
/// of ones' complement as `0x0000`, and a sender may have written `0xffff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// TCP's checksum was `0xffff`.
    pub transport_ones: bool,
    /// The IPv4 header's checksum was `0xffff`.
    pub network_ones: bool,
}

impl Marks {
    const ALL: u8 = TRANSPORT_ONES | NETWORK_ONES;

    fn bits(self) -> u8 {
        let transport = if self.transport_ones {
            TRANSPORT_ONES
        } else {
            0
        };
        let network = if self.network_ones { NETWORK_ONES } else { 0 };
        transport | network
    }

    fn of(bits: u8) -> Marks {
        Marks {
            transport_ones: bits & TRANSPORT_ONES != 0,
            network_ones: bits & NETWORK_ONES != 0,
        }
    }
}

/// Result of coding a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded<'a> {
    /// It is sent as it is.
    Plain,
    /// This is sent instead, shorter by a byte at least.
    Compressed(&'a [u8]),
    /// This is sent instead, longer by one byte.
    Stored(&'a [u8]),
}

/// Codes payloads. One value serves any number of them and allocates when it is made only.
pub struct Encoder {
    table: CompressTable,
    out: Vec<u8>,
}

impl core::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// Reserves what it needs (about 80 KiB).
    pub fn new() -> Encoder {
        Encoder {
            table: CompressTable::small(),
            out: vec![0; HEADER + get_maximum_output_size(LONGEST)],
        }
    }

    /// Codes one payload; with `compress` off only where it must be told from a coded one.
    pub fn encode(&mut self, payload: &[u8], compress: bool, marks: Marks) -> Coded<'_> {
        if compress && let Some(length) = self.compress(payload, marks) {
            return self
                .out
                .get(..length)
                .map_or(Coded::Plain, Coded::Compressed);
        }
        match payload.strip_prefix(&MAGIC) {
            None => Coded::Plain,
            Some(rest) => {
                let length = self.store(rest, marks).unwrap_or(0);
                Coded::Stored(self.out.get(..length).unwrap_or(&[]))
            }
        }
    }

    /// Bytes in `out`; `None` where nothing was won.
    fn compress(&mut self, payload: &[u8], marks: Marks) -> Option<usize> {
        // At 65,535 bytes the table would be made anew.
        if payload.len() <= HEADER || payload.len() >= LONGEST {
            return None;
        }
        let length = u16::try_from(payload.len()).ok()?;
        let (header, block) = self.out.split_first_chunk_mut::<HEADER>()?;
        let size = compress_into_with_table(payload, block, &mut self.table).ok()?;
        if HEADER + size >= payload.len() {
            return None;
        }
        let [l0, l1] = length.to_be_bytes();
        let [c0, c1, c2, c3] = check(payload).to_be_bytes();
        let [m0, m1, m2, m3] = MAGIC;
        let kind = VERSION | COMPRESSED | marks.bits();
        *header = [m0, m1, m2, m3, kind, l0, l1, c0, c1, c2, c3];
        Some(HEADER + size)
    }

    fn store(&mut self, rest: &[u8], marks: Marks) -> Option<usize> {
        let (header, room) = self.out.split_first_chunk_mut::<STORED_HEADER>()?;
        room.get_mut(..rest.len())?.copy_from_slice(rest);
        let [m0, m1, m2, m3] = MAGIC;
        *header = [m0, m1, m2, m3, VERSION | STORED | marks.bits()];
        Some(STORED_HEADER + rest.len())
    }
}

/// Faults of a payload that begins with [`MAGIC`]: no [`Encoder`] made it, or it was changed on
/// its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends within its header.
    Truncated,
    /// A kind or version that is not known.
    Version,
    /// The length it declares is not above its own, or no packet's.
    Length,
    /// The block is no LZ4, or not of the length declared.
    Data,
    /// The bytes that came out are not those that went in.
    Check,
}

/// A payload as it was, where it had been coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// Marks that the encoder was given.
    pub marks: Marks,
    /// It had been compressed, not stored.
    pub compressed: bool,
}

/// Brings payloads back. One value serves any number of them and allocates when it is made only.
#[derive(Debug)]
pub struct Decoder {
    out: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Reserves what it needs (64 KiB).
    pub fn new() -> Decoder {
        Decoder {
            out: vec![0; LONGEST],
        }
    }

    /// The payload as it was, at most 65,535 bytes; `None` where it was not coded.
    ///
    /// # Errors
    ///
    /// The payload begins like a coded one and is damaged.
    pub fn decode(&mut self, coded: &[u8]) -> Result<Option<Decoded<'_>>, Fault> {
        let Some(rest) = coded.strip_prefix(&MAGIC) else {
            return Ok(None);
        };
        let (&kind, body) = rest.split_first().ok_or(Fault::Truncated)?;
        let marks = Marks::of(kind);
        let (payload, compressed) = match kind & !Marks::ALL {
            bits if bits == VERSION | STORED => (self.stored(body)?, false),
            bits if bits == VERSION | COMPRESSED => (self.compressed(body, coded.len())?, true),
            _ => return Err(Fault::Version),
        };
        Ok(Some(Decoded {
            payload,
            marks,
            compressed,
        }))
    }

    fn stored(&mut self, rest: &[u8]) -> Result<&[u8], Fault> {
        let length = MAGIC.len() + rest.len();
        let place = self.out.get_mut(..length).ok_or(Fault::Length)?;
        if let Some((front, back)) = place.split_first_chunk_mut::<4>() {
            *front = MAGIC;
            back.copy_from_slice(rest);
        }
        Ok(place)
    }

    fn compressed(&mut self, body: &[u8], coded: usize) -> Result<&[u8], Fault> {
        let Some((&[l0, l1, c0, c1, c2, c3], block)) = body.split_first_chunk() else {
            return Err(Fault::Truncated);
        };
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if length <= coded {
            return Err(Fault::Length);
        }
        let place = self.out.get_mut(..length).ok_or(Fault::Length)?;
        match decompress_into(block, place) {
            Ok(made) if made == length => {}
            _ => return Err(Fault::Data),
        }
        if check(place) != u32::from_be_bytes([c0, c1, c2, c3]) {
            return Err(Fault::Check);
        }
        Ok(place)
    }
}

/// Thirty-two bits that tell a payload from a damaged one: its words of eight bytes
/// (little-endian, the last filled up with zeros) multiplied into one another. It keeps nobody
/// from forging; TCP's checksum does not either.
fn check(payload: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| {
        let product = u128::from(sum ^ word) * u128::from(ODD);
        product as u64 ^ (product >> 64) as u64
    };
    let mut words = payload.chunks_exact(8);
    let mut sum = payload.len() as u64 ^ ODD;
    for word in &mut words {
        if let Some(word) = word.first_chunk::<8>() {
            sum = mix(sum, u64::from_le_bytes(*word));
        }
    }
    let last = words.remainder().iter().rev();
    sum = mix(sum, last.fold(0, |word, &byte| word << 8 | u64::from(byte)));
    (sum ^ sum >> 32) as u32
}
