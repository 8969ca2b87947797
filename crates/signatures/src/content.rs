//! The typed tree of a `content` and its modifiers.

/// The `fast_pattern` keyword of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPattern {
    /// `fast_pattern`, or `fast_pattern:only`, which is the same here.
    Whole,
    /// `fast_pattern:OFFSET,LENGTH`: only this part is looked for first. Bytes from the content's start.
    Part {
        /// First byte of the part.
        offset: u32,
        /// Its length in bytes.
        length: u32,
    },
}

/// A byte string to be found in a packet's payload or in a stream, and its modifiers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// `!`: the bytes must not be found.
    pub negated: bool,
    /// `nocase`: ASCII letters match in either case.
    pub nocase: bool,
    /// `offset`: bytes from the start of payload or stream at which the search begins.
    pub offset: Option<u32>,
    /// `depth`: bytes from `offset` within which the content must end.
    pub depth: Option<u32>,
    /// `distance`: bytes from the end of the match before at which the search begins; may be negative.
    pub distance: Option<i32>,
    /// `within`: bytes, from the end of the match before plus `distance`, within which the content must end.
    pub within: Option<u32>,
    /// `startswith`: at the start of payload or stream.
    pub starts_with: bool,
    /// `endswith`: at the end of payload, or of a stream's message.
    pub ends_with: bool,
    /// `fast_pattern`.
    pub fast_pattern: Option<FastPattern>,
    /// `rawbytes`: accepted, changes nothing.
    pub rawbytes: bool,
    /// Modifiers whose number is that of a variable, with the variable's index.
    pub variables: Vec<(Place, u8)>,
}

/// A modifier that says where a content stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `offset`
    Offset,
    /// `depth`
    Depth,
    /// `distance`
    Distance,
    /// `within`
    Within,
}

impl Content {
    /// True if the content's place depends on the match before it.
    pub fn is_relative(&self) -> bool {
        let named = |(place, _): &(Place, u8)| matches!(place, Place::Distance | Place::Within);
        self.distance.is_some() || self.within.is_some() || self.variables.iter().any(named)
    }
}
