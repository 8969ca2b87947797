//! Text as the attacked program will see it.

/// Bytes looked at in one piece.
pub(super) const PIECE: usize = 4096;
/// Bytes of a piece that are looked at again with the next, so that nothing is
/// missed across the seam.
pub(super) const OVERLAP: usize = 512;

/// A piece of normalized text.
pub(super) struct Text {
    bytes: [u8; PIECE],
    len: usize,
}

impl Text {
    pub(super) fn new() -> Text {
        Text {
            bytes: [0; PIECE],
            len: 0,
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Fills it from at most [`PIECE`] raw bytes: percent-encoding is undone
    /// (twice where it was done twice), `+` is a space, letters are lower
    /// case, SQL comments and runs of white space are one space.
    pub(super) fn fill(&mut self, raw: &[u8]) {
        let raw = raw.get(..PIECE).unwrap_or(raw);
        self.len = 0;
        let mut at = 0;
        while let Some((b, used)) = decoded(raw, at) {
            at += used;
            self.push(if b == b'+' && used == 1 { b' ' } else { b });
        }
        if self.as_slice().contains(&b'%') {
            self.decode_again();
        }
        self.squeeze();
    }

    fn push(&mut self, b: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = b;
            self.len += 1;
        }
    }

    fn decode_again(&mut self) {
        let end = self.len;
        self.len = 0;
        let mut at = 0;
        while at < end {
            let Some((b, used)) = decoded(self.bytes.get(..end).unwrap_or(&[]), at) else {
                break;
            };
            at += used;
            // The place to write never overtakes the place to read.
            self.push(b);
        }
    }

    fn squeeze(&mut self) {
        let end = self.len;
        self.len = 0;
        let (mut at, mut space) = (0, false);
        while at < end {
            let rest = self.bytes.get(at..end).unwrap_or(&[]);
            let (b, used) = match rest {
                [b'/', b'*', body @ ..] => {
                    let close = body.windows(2).position(|w| w == b"*/");
                    (b' ', close.map_or(rest.len(), |close| close + 4))
                }
                [b, ..] if b.is_ascii_whitespace() || *b < 0x20 => (b' ', 1),
                [b, ..] => (b.to_ascii_lowercase(), 1),
                [] => break,
            };
            at += used;
            if b != b' ' || !space {
                self.push(b);
            }
            space = b == b' ';
        }
    }
}

/// The byte at `at`, decoded, and how many raw bytes it took.
fn decoded(raw: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = raw.get(at..)?;
    match rest {
        [b'%', high, low, ..] => {
            let digit = |b: &u8| (*b as char).to_digit(16);
            match (digit(high), digit(low)) {
                (Some(high), Some(low)) => Some(((high << 4 | low) as u8, 3)),
                _ => Some((b'%', 1)),
            }
        }
        [b, ..] => Some((*b, 1)),
        [] => None,
    }
}

/// True where the text holds a condition that is always true, behind `or`,
/// `and`, `having`, `||` or `&&`: `or 1=1`, `' or 'a'='a`.
pub(super) fn has_tautology(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or(&[]);
        let before = at.checked_sub(1).and_then(|i| text.get(i));
        let free = before.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_');
        let joined = [&b"or"[..], b"and", b"having", b"||", b"&&"]
            .into_iter()
            .find(|word| free && rest.starts_with(word))
            .and_then(|word| rest.get(word.len()..));
        if joined.is_some_and(always_true) {
            return true;
        }
        at += 1;
    }
    false
}

/// `1=1`, `'a'='a`, `"x" like "x`, `2>1`: the rest after `or`.
fn always_true(text: &[u8]) -> bool {
    let mut text = text.trim_ascii_start();
    while let [b'(', rest @ ..] | [b'!', rest @ ..] = text {
        text = rest.trim_ascii_start();
    }
    let Some((left, rest)) = operand(text) else {
        return false;
    };
    let rest = rest.trim_ascii_start();
    let rest = match rest {
        [b'<', b'=' | b'>', rest @ ..]
        | [b'>', b'=', rest @ ..]
        | [b'=' | b'<' | b'>', rest @ ..] => rest,
        [b'l', b'i', b'k', b'e', rest @ ..] => rest,
        _ => return false,
    };
    // `or 'a'='b'` is as much an attack as `or 'a'='a'`.
    operand(rest.trim_ascii_start()).is_some_and(|(right, _)| right == left)
}

#[derive(PartialEq, Eq)]
enum Operand {
    Number,
    Text,
}

/// A number or a quoted text (the closing quote may be missing: the attacked
/// program adds it).
fn operand(text: &[u8]) -> Option<(Operand, &[u8])> {
    match text {
        [quote @ (b'\'' | b'"'), rest @ ..] => {
            let end = rest
                .iter()
                .position(|b| b == quote)
                .map_or(rest.len(), |at| at + 1);
            (end > 0).then(|| (Operand::Text, rest.get(end..).unwrap_or(&[])))
        }
        _ => {
            let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
            let rest = text.get(digits..)?;
            let word = rest
                .first()
                .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
            (digits > 0 && !word).then_some((Operand::Number, rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(raw: &str) -> String {
        let mut text = Text::new();
        text.fill(raw.as_bytes());
        String::from_utf8_lossy(text.as_slice()).into_owned()
    }

    #[test]
    fn encodings_comments_and_spaces_vanish() {
        assert_eq!(normal("a%27+UNION%0a%09/**/SELECT"), "a' union select");
        assert_eq!(normal("%2527%20x%"), "' x%");
        assert_eq!(normal("un/*open"), "un ");
        assert_eq!(normal(&"%41".repeat(2_000)).len(), PIECE.div_ceil(3));
    }

    #[test]
    fn tautologies() {
        for text in [
            "1' or '1'='1",
            "1 or 1=1",
            "x\" or \"a\"=\"a",
            "1) or (1=1",
            "' || 2>1--",
            "1 and 1 = 1",
            "' or 'x' like 'x",
        ] {
            assert!(has_tautology(text.as_bytes()), "{text}");
        }
        for text in [
            "q=black or white",
            "for 1=1",
            "order=1",
            "a&&b=1",
            "or=1&x=1",
            "or 1",
            "sand=1=1",
            "and 12px=12px",
            "it's or isn't",
        ] {
            assert!(!has_tautology(text.as_bytes()), "{text}");
        }
    }
}
