//! Forms in which the kernel writes lists and tables.

use std::fs;
use std::path::Path;

/// A file's text without the newline at its end.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// The number in a file.
pub(super) fn read_number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    read(path)?.trim().parse().ok()
}

/// A list of numbers, as `0-2,5`; what is no number in it is left out.
pub(super) fn numbers(list: &str) -> Vec<usize> {
    /// More than any machine has.
    const MOST: usize = 1 << 16;
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < MOST
        {
            all.extend(first..=last);
        }
    }
    all
}

/// The value behind `name:` at the start of a line.
pub(super) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (before, after) = line.split_once(':')?;
        (before == name).then(|| after.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(numbers("7"), [7]);
        for nothing in ["", "\n", "3-1", "x", "0-99999999999", "-"] {
            assert_eq!(numbers(nothing), [0; 0], "{nothing:?}");
        }
    }

    #[test]
    fn values_stand_behind_their_names() {
        let text = "Name:\tweir\nCapEff:\t0000000000003000\n";
        assert_eq!(value(text, "CapEff"), Some("0000000000003000"));
        assert_eq!(value(text, "Cap"), None);
    }
}
