//! Targets and hosts, normalised as Suricata 7 does with its default settings.
//!
//! Of an absolute target scheme and authority are left out. In the path `%HH` and `%uHHHH` are decoded once
//! (invalid ones stay), a backslash is a slash, slashes in a row are one, and `.` and `..` are resolved (RFC
//! 3986 section 5.2.4). In the query `%HH` is decoded once. Upper and lower case stay as they are.

use crate::percent::decode;

/// Appends the normalised form of a target.
pub(super) fn normalise(target: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let (target, fragment) = split(target, b'#');
    let (path, query) = split(target, b'?');
    decode(path, true, out);
    for byte in out.get_mut(start..).unwrap_or(&mut []) {
        if *byte == b'\\' {
            *byte = b'/';
        }
    }
    resolve(start, out);
    if let Some(query) = query {
        out.push(b'?');
        decode(query, false, out);
    }
    if let Some(fragment) = fragment {
        out.push(b'#');
        out.extend_from_slice(fragment);
    }
}

/// Appends a host in lower case, without port and final dots.
pub(super) fn normalise_host(host: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(host.iter().map(u8::to_ascii_lowercase));
    while out.len() > start && out.last() == Some(&b'.') {
        out.pop();
    }
}

fn split(bytes: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|&b| b == at) {
        Some(position) => {
            let (head, rest) = bytes.split_at(position);
            (head, rest.get(1..))
        }
        None => (bytes, None),
    }
}

/// Joins slashes and resolves dots of the path that begins at `start`, in place.
fn resolve(start: usize, out: &mut Vec<u8>) {
    let Some(path) = out.get_mut(start..) else {
        return;
    };
    if path.first() != Some(&b'/') {
        return;
    }
    let (mut read, mut write) = (0, 0);
    while read < path.len() {
        // Here a slash, and perhaps more of them.
        while path.get(read) == Some(&b'/') {
            read += 1;
        }
        let rest = path.get(read..).unwrap_or(&[]);
        let length = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
        let last = read + length == path.len();
        match rest.get(..length) {
            Some(b".") => {
                if last {
                    put(path, &mut write, b'/');
                }
            }
            Some(b"..") => {
                let kept = path.get(..write).unwrap_or(&[]);
                write = kept.iter().rposition(|&b| b == b'/').unwrap_or(0);
                if last {
                    put(path, &mut write, b'/');
                }
            }
            _ => {
                put(path, &mut write, b'/');
                path.copy_within(read..read + length, write);
                write += length;
            }
        }
        read += length;
    }
    out.truncate(start + write);
}

fn put(path: &mut [u8], write: &mut usize, byte: u8) {
    if let Some(place) = path.get_mut(*write) {
        *place = byte;
        *write += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (target, expected) in [
            ("/abc%2fdef", "/abc/def"),
            ("/abc/def?ghi%2fjkl", "/abc/def?ghi/jkl"),
            ("/abc/def?ghi%252fjkl", "/abc/def?ghi%2fjkl"),
            ("/a/./b/../c//d/", "/a/c/d/"),
            ("/a/..", "/"),
            ("/../../x", "/x"),
            ("/.", "/"),
            ("//", "/"),
            ("", ""),
            ("/a\\b", "/a/b"),
            ("/%2e%2e/%5cx", "/x"),
            ("/%zz%4", "/%zz%4"),
            ("/%u002f%uff0fx%u0041", "/xA"),
            ("/x?a=../b\\c+d", "/x?a=../b\\c+d"),
            ("/x#f%20", "/x#f%20"),
            ("*", "*"),
            ("host:80", "host:80"),
            ("/a%00b", "/a\0b"),
            ("/a.../..b", "/a.../..b"),
        ] {
            let mut out = b"before".to_vec();
            normalise(target.as_bytes(), &mut out);
            assert_eq!(&out[6..], expected.as_bytes(), "{target}");
        }
    }
}
