//! Lines of events as messages.

/// Cuts lines into messages of at most so many bytes; a line is never cut.
pub(in super::super) fn in_messages(mut lines: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let end = |part: &[u8]| part.iter().rposition(|byte| *byte == b'\n');
        let first = || lines.iter().position(|byte| *byte == b'\n');
        let whole = match lines.get(..most) {
            Some(part) if lines.len() > most => end(part).or_else(first),
            _ => None,
        };
        let at = whole.map_or(lines.len(), |newline| newline + 1);
        let (message, rest) = lines.split_at(at);
        lines = rest;
        (!message.is_empty()).then_some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_behind_lines() {
        let cut = |lines, most| in_messages(lines, most).collect::<Vec<_>>();
        assert_eq!(cut(b"", 4), [&b""[..]; 0]);
        assert_eq!(cut(b"a\nb\n", 4), [b"a\nb\n"]);
        assert_eq!(cut(b"a\nb\ncc\n", 4), [&b"a\nb\n"[..], b"cc\n"]);
        // One that is too long goes alone, as a whole.
        assert_eq!(
            cut(b"a\nlonger\nb\n", 4),
            [&b"a\n"[..], b"longer\n", b"b\n"]
        );
        assert_eq!(cut(b"longer", 4), [b"longer"]);
    }
}
