//! Names as a source writes them, in full: `use std::{fs, time::Instant}`
//! gives `std::fs` and `std::time::Instant`.

use crate::source::words;

/// A name and where it starts in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Byte offset of its last part.
    pub(crate) at: usize,
    /// Its parts.
    pub(crate) parts: Vec<String>,
}

impl Path {
    /// The name as one text.
    pub(crate) fn text(&self) -> String {
        self.parts.join("::")
    }
}

/// All names of a blanked text that begin with one of `roots`.
pub(crate) fn paths(text: &str, roots: &[&str]) -> Vec<Path> {
    let words = words(text);
    let mut found = Vec::new();
    let mut i = 0;
    while let Some(&(at, word)) = words.get(i) {
        let before = i.checked_sub(1).and_then(|b| words.get(b)).map(|w| w.1);
        // `crate::std::…` or `a.std` name something of the crate's own; a
        // leading `::` names the same crate as none.
        let own = match before {
            Some(".") => true,
            Some("::") => i
                .checked_sub(2)
                .and_then(|b| words.get(b))
                .is_some_and(|w| w.1.chars().all(|c| c.is_alphanumeric() || c == '_')),
            _ => false,
        };
        if !own && roots.contains(&word) {
            i = tree(&words, i + 1, at, vec![word.to_owned()], &mut found);
        } else {
            i += 1;
        }
    }
    found
}

/// Reads what follows the part just read; gives where to go on.
fn tree(
    words: &[(usize, &str)],
    mut i: usize,
    mut at: usize,
    mut parts: Vec<String>,
    found: &mut Vec<Path>,
) -> usize {
    while let Some(&(_, "::")) = words.get(i) {
        match words.get(i + 1) {
            Some(&(_, "{")) => {
                i += 2;
                loop {
                    match words.get(i) {
                        Some(&(_, "}")) => return i + 1,
                        Some(&(_, ",")) => i += 1,
                        Some(&(_, "self")) => {
                            found.push(Path {
                                at,
                                parts: parts.clone(),
                            });
                            i += 1;
                        }
                        Some(&(start, part)) => {
                            let mut deeper = parts.clone();
                            deeper.push(part.to_owned());
                            i = tree(words, i + 1, start, deeper, found);
                        }
                        None => return i,
                    }
                }
            }
            Some(&(start, part)) if part == "*" || is_word(part) => {
                at = start;
                parts.push(part.to_owned());
                i += 2;
            }
            // A turbofish.
            _ => break,
        }
    }
    if let (Some(&(_, "as")), Some(_)) = (words.get(i), words.get(i + 1)) {
        found.push(Path { at, parts });
        return i + 2;
    }
    found.push(Path { at, parts });
    i
}

fn is_word(part: &str) -> bool {
    part.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        paths(text, &["std"]).iter().map(Path::text).collect()
    }

    #[test]
    fn groups_are_spelled_out() {
        assert_eq!(
            names("use std::{fs, time::{self, Instant as I}, io::*};\nlet x = ::std::env::var(1);"),
            [
                "std::fs",
                "std::time",
                "std::time::Instant",
                "std::io::*",
                "std::env::var"
            ]
        );
        assert_eq!(names("use std as s; crate::std::fs"), ["std"]);
        assert_eq!(
            names("std::mem::size_of::<std::fs::File>()"),
            ["std::mem::size_of", "std::fs::File"]
        );
    }
}
