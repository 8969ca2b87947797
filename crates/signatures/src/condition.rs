//! The typed tree of conditions on the bytes of a buffer.

use crate::buffers::Buffer;
use crate::compare::Compare;
use crate::content::Content;
use crate::data::DataTest;
use crate::pcre::Pcre;
use crate::transform::Transform;

/// Most variables of a rule (`byte_extract`, `byte_math`).
pub const MAX_VARIABLES: usize = 8;

/// A number in a rule: written there, or read from the bytes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Written.
    Fixed(i64),
    /// The variable of this index.
    Variable(u8),
}

/// How bytes are read as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// How many bytes: 1 to 8, or 1 to 23 digits. A variable that is larger lets the condition fail.
    pub bytes: Number,
    /// Digits of this base, rather than a binary number.
    pub digits: Option<u32>,
    /// Binary numbers begin with the lowest byte.
    pub little: bool,
    /// The field begins at `offset` behind the match before, not at that of the buffer.
    pub relative: bool,
    /// Offset in bytes.
    pub offset: Number,
    /// Bits that count; they are shifted down by the zeros at their end.
    pub mask: u64,
}

/// Comparison of `byte_test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOperator {
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `&`: a common bit.
    And,
    /// `^`: differing bits.
    Xor,
}

/// Operation of `byte_math`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    Left,
    /// `>>`
    Right,
}

/// `byte_jump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// The distance.
    pub field: Field,
    /// The distance is multiplied by this.
    pub multiplier: i64,
    /// The distance is rounded up to a multiple of four.
    pub align: bool,
    /// Starting point of the jump.
    pub from: JumpFrom,
    /// Added at the end.
    pub post: Number,
}

/// Starting point of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JumpFrom {
    /// The end of the field.
    Field,
    /// The buffer's start (`from_beginning`).
    Start,
    /// The buffer's end (`from_end`).
    End,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `content`, `uricontent`.
    Content(Content),
    /// `pcre`.
    Pcre(Pcre),
    /// `isdataat`.
    DataAt {
        /// The place that must be in the buffer.
        at: Number,
        /// It counts from the end of the match before.
        relative: bool,
        /// It must not be in the buffer.
        negated: bool,
    },
    /// `byte_test`.
    ByteTest {
        /// The number tested.
        field: Field,
        /// Comparison.
        operator: ByteOperator,
        /// The comparison must fail.
        negated: bool,
        /// What it is compared with.
        value: Number,
    },
    /// `byte_jump`.
    ByteJump(Jump),
    /// `byte_extract`: the number becomes a variable.
    ByteExtract {
        /// The number.
        field: Field,
        /// It is multiplied by this.
        multiplier: i64,
        /// It is rounded up to a multiple of this; 0 for none.
        align: u8,
        /// Index of the variable.
        variable: u8,
    },
    /// `byte_math`: the result becomes a variable.
    ByteMath {
        /// Left operand.
        field: Field,
        /// Operation.
        operator: MathOperator,
        /// Right operand.
        value: Number,
        /// Index of the variable.
        variable: u8,
    },
    /// `bsize`: size of the buffer in bytes.
    Size(Compare),
    /// `base64_decode` and what follows `base64_data`.
    Base64(Base64),
    /// `dataset`, `datarep`, `filemd5` and its like: the whole buffer is one of the values of a file.
    Data(DataTest),
}

/// `base64_decode`: bytes of the buffer are decoded (RFC 4648 section 4), up to the first that is no digit of
/// base 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64 {
    /// How many bytes, at most; `None` for all. [`Base64::MOST`] are decoded at most.
    pub bytes: Option<u32>,
    /// Offset of the first one.
    pub offset: u32,
    /// The offset counts from the end of the match before.
    pub relative: bool,
    /// The conditions behind `base64_data`: they look at what was decoded.
    pub decoded: Vec<Condition>,
}

impl Base64 {
    /// Bytes that are decoded, at most; in Suricata 65,535.
    pub const MOST: usize = 65_535;
}

impl Condition {
    /// True if the place where it looks depends on the match before it.
    pub(crate) fn is_relative(&self) -> bool {
        match self {
            Condition::Content(content) => content.is_relative(),
            Condition::Pcre(pcre) => pcre.relative,
            Condition::DataAt { relative, .. } => *relative,
            Condition::ByteTest { field, .. }
            | Condition::ByteExtract { field, .. }
            | Condition::ByteMath { field, .. } => field.relative,
            Condition::ByteJump(jump) => jump.field.relative,
            Condition::Base64(base64) => base64.relative,
            Condition::Size(_) | Condition::Data(_) => false,
        }
    }
}

/// The conditions of a rule on one buffer, in the order of the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The buffer; `None` is the payload or the stream.
    pub buffer: Option<Buffer>,
    /// Changes of the buffer before the conditions look at it, in order.
    pub transforms: Vec<Transform>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}
