//! Files in bodies of HTTP and in mails: their names, sizes and hashes.

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;
use weir_dissect::{Field, Message, Notice};

use super::kinds::{FileHash, Recording};

/// Bytes of a name; longer ones are cut.
const LONGEST_NAME: usize = 1024;

/// A file that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct File {
    pub(super) name: Vec<u8>,
    /// Bytes of it that were read, after decompression.
    pub(super) size: u64,
    /// It was read to its end.
    pub(super) whole: bool,
    /// Bytes of it were lost.
    pub(super) gaps: bool,
    /// Name of each hash, and its digits.
    pub(super) hashes: Vec<(&'static str, String)>,
}

impl File {
    /// The file in a message whose body is complete; `asked` is the target of its request.
    pub(super) fn of(message: &Message<'_>, asked: &[u8], asks: &Recording) -> Option<File> {
        File::named(message, name(message, asked), asks)
    }

    /// The same, where its name is known.
    pub(super) fn named(message: &Message<'_>, name: &[u8], asks: &Recording) -> Option<File> {
        let mut values = message.values();
        let body = values.find(|value| value.field == Field::FileData)?;
        if body.bytes.is_empty() {
            return None;
        }
        let has = |notice| message.notices().contains(&notice);
        let whole =
            body.complete && !has(Notice::HttpBodyShort) && !has(Notice::HttpBadCompression);
        let mut hashes = Vec::new();
        if whole {
            for (hash, name) in [
                (FileHash::Md5, "md5"),
                (FileHash::Sha1, "sha1"),
                (FileHash::Sha256, "sha256"),
            ] {
                if asks.hashes(hash) {
                    hashes.push((name, digits(hash, body.bytes)));
                }
            }
        }
        Some(File {
            name: name.get(..LONGEST_NAME).unwrap_or(name).to_vec(),
            size: body.bytes.len() as u64,
            whole,
            gaps: has(Notice::HttpBodyGap) || has(Notice::SmtpMailGap),
            hashes,
        })
    }
}

/// The name of the file in a message; `asked` is the target of its request.
pub(super) fn name<'m>(message: &Message<'m>, asked: &'m [u8]) -> &'m [u8] {
    let header = message.get(Field::HttpHeader).unwrap_or(&[]);
    let (_, path) = target(asked);
    let path = path.split(|&b| b == b'?').next().unwrap_or(path);
    disposition(header).unwrap_or(path)
}

/// A request's target in two: host and port where it has them (RFC 9112 section 3.2.2), and what follows.
pub(super) fn target(asked: &[u8]) -> (Option<&[u8]>, &[u8]) {
    const SCHEMES: [&[u8]; 2] = [b"http://", b"https://"];
    for scheme in SCHEMES {
        if let Some((front, rest)) = asked.split_at_checked(scheme.len())
            && front.eq_ignore_ascii_case(scheme)
        {
            let end = rest.iter().position(|b| b"/?#".contains(b));
            let (host, path) = rest.split_at(end.unwrap_or(rest.len()));
            return (Some(host), path);
        }
    }
    (None, asked)
}

fn digits(hash: FileHash, bytes: &[u8]) -> String {
    fn hex(digest: &[u8]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
    match hash {
        FileHash::Md5 => hex(&Md5::digest(bytes)),
        FileHash::Sha1 => hex(&Sha1::digest(bytes)),
        FileHash::Sha256 => hex(&Sha256::digest(bytes)),
    }
}

/// The `filename` of a `Content-Disposition` among header lines (RFC 6266).
fn disposition(header: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"content-disposition:";
    const PARAMETER: &[u8] = b"filename=";
    let mut lines = header.split(|&b| b == b'\n');
    let line = lines.find(|line| {
        let name = line.get(..NAME.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })?;
    let at = line
        .windows(PARAMETER.len())
        .enumerate()
        .find(|(at, found)| {
            let before = at.checked_sub(1).and_then(|at| line.get(at));
            found.eq_ignore_ascii_case(PARAMETER) && matches!(before, Some(b';' | b' ' | b'\t'))
        });
    let value = line.get(at?.0 + PARAMETER.len()..)?;
    let value = match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|&b| b == b'"').next().unwrap_or(quoted),
        None => value
            .split(|&b| b == b';')
            .next()
            .unwrap_or(value)
            .trim_ascii(),
    };
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_of_dispositions() {
        for (header, name) in [
            (
                "Host: a\r\nContent-Disposition: attachment; filename=\"a b.exe\"\r\n",
                Some("a b.exe"),
            ),
            (
                "Content-Disposition: attachment; filename=\"a;b.txt\"; x=y\r\n",
                Some("a;b.txt"),
            ),
            (
                "content-disposition:inline;FileName=x.pdf\r\n",
                Some("x.pdf"),
            ),
            ("Content-Disposition: attachment\r\n", None),
            ("Content-Disposition: attachment; filename=\"\"\r\n", None),
            ("X-Content-Disposition: a; filename=b\r\n", None),
        ] {
            assert_eq!(disposition(header.as_bytes()), name.map(str::as_bytes));
        }
    }

    #[test]
    fn targets_come_apart() {
        for (asked, host, path) in [
            ("/a?b", None, "/a?b"),
            ("http://h:81/p", Some("h:81"), "/p"),
            ("HTTPS://h", Some("h"), ""),
            ("*", None, "*"),
        ] {
            let parts = (host.map(str::as_bytes), path.as_bytes());
            assert_eq!(target(asked.as_bytes()), parts);
        }
    }

    #[test]
    fn hashes_are_those_of_their_standards() {
        assert_eq!(
            digits(FileHash::Md5, b"abc"),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(
            digits(FileHash::Sha1, b"abc"),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert!(digits(FileHash::Sha256, b"abc").starts_with("ba7816bf8f01cfea"));
    }
}
