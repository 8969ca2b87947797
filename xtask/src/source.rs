//! Rust source as a check reads it: comments, literals and test-only items
//! blanked out, every other character where it was, so that line numbers hold.

/// Blanks comments and the insides of string and character literals.
///
/// Newlines stay. Doc comments are comments: examples in them are the
/// reader's program, not the crate's.
pub(crate) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        let rest = bytes.get(i..).unwrap_or(&[]);
        let end = if rest.starts_with(b"//") {
            i + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            i + block_comment(rest)
        } else if let Some(length) = literal(rest, out.last().copied()) {
            i + length
        } else {
            out.push(byte);
            i += 1;
            continue;
        };
        for &b in bytes.get(i..end).unwrap_or(&[]) {
            out.push(if b == b'\n' { b'\n' } else { b' ' });
        }
        i = end;
    }
    // Whole literals and comments were replaced, byte for byte, by ASCII.
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < rest.len() {
        match rest.get(i..i + 2) {
            Some(b"/*") => (depth, i) = (depth + 1, i + 2),
            Some(b"*/") => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i.min(rest.len())
}

/// Length of the literal that starts here, if one does; `before` is the
/// character before it.
fn literal(rest: &[u8], before: Option<u8>) -> Option<usize> {
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match rest.first()? {
        b'"' => Some(quoted(rest)),
        b'r' | b'b' | b'c' if !in_word => {
            let prefix = rest.iter().take_while(|b| b"rbc".contains(b)).count();
            let after = rest.get(prefix..)?;
            if prefix > 2 {
                return None;
            }
            if rest.get(..prefix)?.contains(&b'r') {
                let hashes = after.iter().take_while(|&&b| b == b'#').count();
                if after.get(hashes) != Some(&b'"') {
                    return None;
                }
                return Some(prefix + raw(after, hashes));
            }
            match after.first()? {
                b'"' => Some(prefix + quoted(after)),
                b'\'' => character(after).map(|length| prefix + length),
                _ => None,
            }
        }
        b'\'' => character(rest),
        _ => None,
    }
}

/// Length of a string literal with escapes.
fn quoted(rest: &[u8]) -> usize {
    let mut i = 1;
    while let Some(&byte) = rest.get(i) {
        match byte {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// Length of a raw string, from its first `#` or `"`.
fn raw(rest: &[u8], hashes: usize) -> usize {
    let mut i = hashes + 1;
    while i < rest.len() {
        let closes = rest.get(i) == Some(&b'"')
            && rest
                .get(i + 1..i + 1 + hashes)
                .is_some_and(|h| h.iter().all(|&b| b == b'#'));
        if closes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    rest.len()
}

/// Length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        // The escaped character itself may be the quote.
        let close = rest.get(3..)?.iter().position(|&b| b == b'\'')?;
        return Some(close + 4);
    }
    let length = match rest.get(1)? {
        b if b.is_ascii() => 1,
        b if *b >= 0xF0 => 4,
        b if *b >= 0xE0 => 3,
        _ => 2,
    };
    (rest.get(1 + length) == Some(&b'\'')).then_some(length + 2)
}

/// Blanks items under `#[cfg(test)]`, and names the files of test modules
/// declared there (`mod tests;` → `tests`, `#[path = "x.rs"] mod …;` → `x.rs`,
/// read from `original`).
pub(crate) fn without_tests(blanked: &str, original: &str) -> (String, Vec<String>) {
    let mut out = blanked.as_bytes().to_vec();
    let mut files = Vec::new();
    let mut from = 0;
    while let Some(start) = find_attribute(&out, from) {
        let end = item_end(&out, start);
        if let Some(name) = module_file(&out[start..end], &original[start..end]) {
            files.push(name);
        }
        for byte in &mut out[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        from = end;
    }
    (String::from_utf8_lossy(&out).into_owned(), files)
}

/// Start of the next `#[cfg(test)]`.
fn find_attribute(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find(|&i| {
        text[i] == b'#' && {
            let mut head = text[i..]
                .iter()
                .copied()
                .filter(|b| !b.is_ascii_whitespace());
            b"#[cfg(test)]".iter().all(|&b| head.next() == Some(b))
        }
    })
}

/// End of the item that the attribute at `start` belongs to: past its `;` or
/// its closing brace.
fn item_end(text: &[u8], start: usize) -> usize {
    let mut depth = 0_i32;
    let mut i = start;
    while let Some(&byte) = text.get(i) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => {
                depth -= 1;
                if depth == 0 && byte == b'}' {
                    return i + 1;
                }
                if depth < 0 {
                    // A field or statement without an end of its own.
                    return i;
                }
            }
            b';' | b',' if depth == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    text.len()
}

fn module_file(item: &[u8], original: &str) -> Option<String> {
    let item = String::from_utf8_lossy(item);
    let at = item.find("mod ")?;
    let name = item[at + 4..].trim().strip_suffix(';')?.trim();
    match original.find("path") {
        Some(path) if item[..at].contains("path") => {
            original[path..].split('"').nth(1).map(str::to_owned)
        }
        _ => Some(name.to_owned()),
    }
}

/// The number of the line that a byte is on, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(at)
        .filter(|&&b| b == b'\n')
        .count()
}

/// The words of a text with where they start; `::` and every other sign stand
/// as words of their own.
pub(crate) fn words(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        if byte.is_ascii_whitespace() {
            i += 1;
            continue;
        }
        let length = if word_byte(byte) {
            bytes[i..].iter().take_while(|b| word_byte(**b)).count()
        } else if bytes[i..].starts_with(b"::") {
            2
        } else {
            1
        };
        words.push((i, &text[i..i + length]));
        i += length;
    }
    words
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        let text = "a // std::fs\nb /* x /* y */ z */ c \"std::\\\"fs\" d r#\"q\"q\"# e 'f' '\\'' &'g h b'\"' i";
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len());
        let words: Vec<&str> = words(&blanked).into_iter().map(|(_, w)| w).collect();
        assert_eq!(words, ["a", "b", "c", "d", "e", "&", "'", "g", "h", "i"]);
        assert_eq!(line_of(text, text.find('b').unwrap_or(0)), 2);
    }

    #[test]
    fn other_alphabets_keep_their_places() {
        let text = "let é = 'é'; // ü\nlet x = \"…\";";
        assert_eq!(blank(text).len(), text.len());
        assert!(!blank(text).contains('…'));
    }

    #[test]
    fn test_items_go_and_test_files_are_named() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { { } }\n}\nfn c() {}\n\
                    #[cfg(test)]\n#[path = \"d_tests.rs\"]\nmod tests;\n\
                    #[cfg(test)]\nmod e;\nfn f() {}\n";
        let (rest, files) = without_tests(&blank(text), text);
        let words: Vec<&str> = words(&rest)
            .into_iter()
            .map(|(_, w)| w)
            .filter(|w| w.len() == 1 && w.as_bytes()[0].is_ascii_lowercase())
            .collect();
        assert_eq!(words, ["a", "c", "f"]);
        assert_eq!(files, ["d_tests.rs", "e"]);
        assert_eq!(rest.lines().count(), text.lines().count());
    }
}
