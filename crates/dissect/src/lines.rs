//! Lines out of a stream, whatever its pieces.

use crate::limits::Limits;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8};

/// The unfinished line.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    too_long: bool,
}

/// A line without its end.
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    /// It was longer than [`Limits::LINE`], and is cut.
    pub(crate) too_long: bool,
}

impl Lines {
    /// The next line; `None` where the input is used up before its end.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Line> {
        let end = input.iter().position(|&b| b == b'\n');
        let (piece, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        *input = rest;
        let text = piece.strip_suffix(b"\n").unwrap_or(piece);
        let room = Limits::LINE - self.partial.len();
        self.too_long |= text.len() > room;
        self.partial
            .extend_from_slice(text.get(..room).unwrap_or(text));
        end?;
        let mut bytes = std::mem::take(&mut self.partial);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Some(Line {
            bytes,
            too_long: std::mem::take(&mut self.too_long),
        })
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_u8(out, self.too_long.into());
        put_bytes(out, &self.partial);
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Lines, SnapshotError> {
        Ok(Lines {
            too_long: reader.u8()? != 0,
            partial: reader.bytes(Limits::LINE)?,
        })
    }
}

/// The first word and what follows the blanks behind it.
pub(crate) fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    (word, rest.trim_ascii_start())
}

/// The code in front of a reply.
pub(crate) fn code(line: &[u8]) -> Option<u16> {
    let digits = line.get(..3)?;
    digits.iter().try_fold(0, |n, b| {
        b.is_ascii_digit().then(|| n * 10 + u16::from(b - b'0'))
    })
}
