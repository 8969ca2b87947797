//! Messages as bytes.
//!
//! A message is a head of 8 bytes and a body. Numbers are little endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version, 2 |
//! | 1 | 1 | kind |
//! | 2 | 2 | zero |
//! | 4 | 4 | bytes of the body, at most [`MAX_BODY`] |
//! | 8 | | the fields of the kind, in order |
//!
//! A body must be used up exactly, and every value has one form only, so what
//! decodes is encoded to the same bytes. Lengths are checked against what is
//! left before room is made for them: the memory that decoding takes is a small
//! multiple of the bytes that came. `docs/wire.md` has the kinds and the forms
//! of their fields.

mod field;
mod values;

use core::fmt;

use crate::message::{Message, Open, Workload};
use field::{Field, Reader};

/// Version of the encoding.
pub const VERSION: u8 = 2;

/// Bytes in front of a message's body.
pub const HEAD: usize = 8;

/// Most bytes that a message's body may have.
pub const MAX_BODY: usize = 64 << 20;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end inside the message, or a value ends outside of it.
    Truncated,
    /// The version is not [`VERSION`].
    Version(u8),
    /// There is no such kind.
    Kind(u8),
    /// The body is longer than [`MAX_BODY`].
    TooLong,
    /// The body goes on after its last field, or something follows what was to
    /// be one message.
    Trailing,
    /// A list has more values than its message has room for.
    Count,
    /// A value that this field can't have.
    Value(&'static str),
}

impl DecodeError {
    /// The name under which messages with this fault are counted.
    pub const fn name(self) -> &'static str {
        match self {
            DecodeError::Truncated => "message_truncated",
            DecodeError::Version(_) => "message_bad_version",
            DecodeError::Kind(_) => "message_unknown_kind",
            DecodeError::TooLong => "message_too_long",
            DecodeError::Trailing => "message_trailing_bytes",
            DecodeError::Count => "message_bad_count",
            DecodeError::Value(_) => "message_bad_value",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the message ends early"),
            DecodeError::Version(version) => write!(f, "message version {version} is not known"),
            DecodeError::Kind(kind) => write!(f, "message kind {kind} is not known"),
            DecodeError::TooLong => write!(f, "a message of more than {MAX_BODY} bytes"),
            DecodeError::Trailing => f.write_str("bytes after the message's last field"),
            DecodeError::Count => f.write_str("a list is longer than its message"),
            DecodeError::Value(what) => write!(f, "no such value of {what}"),
        }
    }
}

impl core::error::Error for DecodeError {}

macro_rules! messages {
    ($($number:literal = $variant:ident $(($inner:ident: $kind:ty))? $({ $($field:ident),+ })?;)+) => {
        fn kind(message: &Message) -> u8 {
            match message { $(Message::$variant { .. } => $number,)+ }
        }

        fn put_body(message: &Message, out: &mut Vec<u8>) {
            match message {
                $(Message::$variant $(($inner))? $({ $($field),+ })? => {
                    $(<$kind as Field>::put($inner, out);)?
                    $($($field.put(out);)+)?
                })+
            }
        }

        fn get_body(kind: u8, reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
            Ok(match kind {
                $($number => Message::$variant
                    $((<$kind as Field>::get(reader)?))?
                    $({ $($field: Field::get(reader)?),+ })?,)+
                kind => return Err(DecodeError::Kind(kind)),
            })
        }
    };
}

// A number is never used for another kind; fields stay in this order.
messages! {
    1 = Open(open: Open);
    2 = Closed { unit, old, at, new, to, mode };
    3 = Forget { unit, below, ended };
    4 = Out { unit, view, out };
    5 = Prepare { unit, view, to };
    6 = Recover { generation, from, most };
    7 = SendAhead { unit, view, clock, to };
    16 = Entries(batches: Vec<crate::message::EntryBatch>);
    17 = Held { unit, view };
    18 = Move { unit, view, to, mode };
    19 = End { unit, view, clock };
    20 = Tick { unit, view };
    21 = Repeat { unit, view, after };
    22 = Refuse { unit, view, why };
    23 = Claims { generation, piece, pieces, claims, suspected };
    24 = Forgotten { unit, below };
    25 = Stored { unit, view, clock };
    32 = Pull { unit, old, new, at };
    33 = State { unit, old, new, image };
    34 = Copy { unit, old, clock, after, packet };
    36 = Outputs { unit, view, entries };
    35 = Copied { unit, old, new, clock, changed, touched, outputs };
    37 = Ahead { unit, view, image };
    38 = Compare { unit, view, clock, digest, round };
    39 = Compared { unit, view, round, found };
    48 = LeaseWanted { pool };
    49 = LeaseGranted { pool, address, block };
    50 = PortFreed { pool, lease };
    51 = PortsDoubted { pool, doubts };
    52 = PortsKnown { pool, free, leased };
    64 = PollWorkload;
    65 = Workload(workload: Workload);
    66 = NotifyClusterCfg { runtimes };
    67 = SetMigrationTarget { from, to, what, mode };
    68 = SetReplica { of, replica };
    69 = Suspect { runtime };
}

impl Message {
    /// Appends the message's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, kind(self), 0, 0, 0, 0, 0, 0]);
        let body = out.len();
        put_body(self, out);
        let length = (out.len() - body) as u32;
        if let Some(place) = out.get_mut(body - 4..body) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The one message that `bytes` are: what a stream gives at a time.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`]; [`DecodeError::Trailing`] where bytes follow.
    pub fn decode_one(bytes: &[u8]) -> Result<Message, DecodeError> {
        match Message::decode(bytes)? {
            (message, used) if used == bytes.len() => Ok(message),
            _ => Err(DecodeError::Trailing),
        }
    }

    /// The message at the start of `bytes`, and how many bytes it takes.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`].
    ///
    /// # Example
    ///
    /// ```
    /// use weir_protocol::{Message, UnitId, View};
    ///
    /// let held = Message::Held { unit: UnitId(7), view: View(9) };
    /// let mut bytes = Vec::new();
    /// held.encode(&mut bytes);
    /// Message::PollWorkload.encode(&mut bytes);
    /// let (first, used) = Message::decode(&bytes)?;
    /// assert_eq!(first, held);
    /// assert_eq!(Message::decode(&bytes[used..])?, (Message::PollWorkload, 8));
    /// # Ok::<(), weir_protocol::codec::DecodeError>(())
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<(Message, usize), DecodeError> {
        let mut reader = Reader(bytes);
        let [version, kind, a, b] = reader.array()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        if [a, b] != [0, 0] {
            return Err(DecodeError::Value("zero"));
        }
        let length = u32::get(&mut reader)? as usize;
        if length > MAX_BODY {
            return Err(DecodeError::TooLong);
        }
        let mut body = Reader(reader.bytes(length)?);
        let message = get_body(kind, &mut body)?;
        if body.0.is_empty() {
            Ok((message, HEAD + length))
        } else {
            Err(DecodeError::Trailing)
        }
    }
}
