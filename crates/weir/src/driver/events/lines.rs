//! Lines of events, each with its end.

/// Octets of the first line, with its end.
pub(super) fn first_length(lines: &[u8]) -> usize {
    let end = lines.iter().position(|octet| *octet == b'\n');
    end.map_or(lines.len(), |end| end + 1)
}

/// The lines, each with its end.
pub(super) fn each(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|octet| *octet == b'\n')
}

/// Number of lines.
pub(super) fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|octet| **octet == b'\n').count() as u64
}
