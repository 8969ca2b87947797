//! The values of one file.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::fingerprint::Fingerprint;
use crate::transform::hexadecimal;

/// Most values of a file.
const MOST: usize = 2_000_000;

/// What the values of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKind {
    /// Bytes, in base 64 (RFC 4648 section 4).
    String,
    /// MD5, 32 hexadecimal digits.
    Md5,
    /// SHA-1, 40 hexadecimal digits.
    Sha1,
    /// SHA-256, 64 hexadecimal digits.
    Sha256,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses; `::ffff:10.0.0.1` counts as 10.0.0.1.
    Ipv6,
    /// Addresses of either version.
    Ip,
}

impl DataKind {
    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<DataKind> {
        Some(match name {
            "string" => DataKind::String,
            "md5" => DataKind::Md5,
            "sha1" => DataKind::Sha1,
            "sha256" => DataKind::Sha256,
            "ipv4" => DataKind::Ipv4,
            "ipv6" => DataKind::Ipv6,
            "ip" => DataKind::Ip,
            _ => return None,
        })
    }

    fn is_hash(self) -> bool {
        matches!(self, DataKind::Md5 | DataKind::Sha1 | DataKind::Sha256)
    }

    /// True for addresses, which are no bytes of a buffer.
    pub(crate) fn is_address(self) -> bool {
        matches!(self, DataKind::Ipv4 | DataKind::Ipv6 | DataKind::Ip)
    }

    /// Reads a value.
    fn value(self, text: &str) -> Result<Vec<u8>, String> {
        let digits = match self {
            DataKind::String => {
                let bytes = STANDARD.decode(text);
                return bytes.map_err(|why| format!("`{}` is not in base 64: {why}", start(text)));
            }
            DataKind::Md5 => 32,
            DataKind::Sha1 => 40,
            DataKind::Sha256 => 64,
            DataKind::Ipv4 | DataKind::Ipv6 | DataKind::Ip => return self.address(text),
        };
        hexadecimal(text)
            .filter(|_| text.len() == digits)
            .ok_or_else(|| {
                format!(
                    "`{}` is not a hash of {digits} hexadecimal digits",
                    start(text)
                )
            })
    }

    fn address(self, text: &str) -> Result<Vec<u8>, String> {
        let address: Result<IpAddr, _> = text.parse();
        let address = address.map_err(|_| format!("`{}` is not an IP address", start(text)))?;
        Ok(match address {
            IpAddr::V4(address) if self != DataKind::Ipv6 => address.octets().to_vec(),
            IpAddr::V6(address) if self != DataKind::Ipv4 => match address.to_canonical() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            },
            _ => return Err(format!("`{}` is of the other version of IP", start(text))),
        })
    }
}

/// The values of a file, each with a number where the file gives one.
#[derive(Debug, PartialEq, Eq)]
pub struct DataSet {
    /// In order.
    values: Vec<(Box<[u8]>, u16)>,
    /// Of all of it.
    fingerprint: u64,
}

impl DataSet {
    /// Reads a file: one value per line, and `,NUMBER` behind it, which is 0 where it is left out. Behind a hash and a
    /// blank there may be any text, such as the name that `md5sum` writes. `#` begins a comment.
    ///
    /// # Errors
    ///
    /// The first line that is wrong, counted from 1, and what is wrong with it.
    pub fn parse(kind: DataKind, text: &str) -> Result<DataSet, (usize, String)> {
        let mut values = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| (number + 1, why);
            let end = line.find(|c: char| c == ',' || c.is_whitespace());
            let (value, rest) = line.split_at(end.unwrap_or(line.len()));
            let rest = rest.trim_start();
            let behind = match rest.strip_prefix(',') {
                Some(number) => number.trim(),
                None if rest.is_empty() || kind.is_hash() => "0",
                None => return Err(wrong(format!("`{}` is no value", start(line)))),
            };
            let of = behind.parse::<u16>();
            let of =
                of.map_err(|_| wrong(format!("`{}` is not a number up to 65535", start(behind))))?;
            values.push((kind.value(value).map_err(wrong)?.into_boxed_slice(), of));
            if values.len() > MOST {
                return Err(wrong(format!("a file has at most {MOST} values")));
            }
        }
        // Of a value that is there twice the last line counts.
        values.reverse();
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.dedup_by(|(a, _), (b, _)| a == b);
        let mut fingerprint = Fingerprint::default();
        for (value, of) in &values {
            fingerprint.add(value);
            fingerprint.add(&of.to_le_bytes());
        }
        Ok(DataSet {
            values,
            fingerprint: fingerprint.number(),
        })
    }

    /// The number of a value, 0 where the file gives none; `None` where it does not have the value.
    #[inline]
    pub fn get(&self, value: &[u8]) -> Option<u16> {
        let found = self
            .values
            .binary_search_by(|(known, _)| (**known).cmp(value));
        found
            .ok()
            .and_then(|place| self.values.get(place))
            .map(|&(_, of)| of)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A number that other values do not have.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// What of a file's text is shown in a message.
fn start(text: &str) -> String {
    text.chars()
        .take(60)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_each_kind() {
        let hash = "0123456789abcdefABCDEF0123456789";
        for (kind, line, value) in [
            (DataKind::String, "bXlpZA==", b"myid".to_vec()),
            (
                DataKind::Md5,
                hash,
                vec![
                    0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef, 1, 0x23,
                    0x45, 0x67, 0x89,
                ],
            ),
            (DataKind::Ipv4, "10.0.0.1", vec![10, 0, 0, 1]),
            (DataKind::Ip, "::ffff:10.0.0.1", vec![10, 0, 0, 1]),
        ] {
            let behind = if kind.is_hash() {
                "  the name, of a file"
            } else {
                " "
            };
            let set = DataSet::parse(kind, &format!("# list\n\n{line}{behind}\n"));
            let set = set.unwrap();
            assert_eq!((set.get(&value), set.len()), (Some(0), 1), "{line}");
            assert_eq!(set.get(b"other"), None);
        }
        for (kind, line) in [
            (DataKind::String, "?"),
            (DataKind::Md5, "0123"),
            (DataKind::Md5, "+123456789abcdefABCDEF0123456789"),
            (DataKind::Sha256, hash),
            (DataKind::Ipv4, "::1"),
            (DataKind::Ipv6, "10.0.0.1"),
            (DataKind::Ip, "10.0.0"),
            (DataKind::Ip, "10.0.0.1 10.0.0.2"),
        ] {
            let (number, _) = DataSet::parse(kind, &format!("\n{line}")).unwrap_err();
            assert_eq!(number, 2, "{line}");
        }
    }

    #[test]
    fn the_last_line_of_a_value_counts() {
        let numbered = |text| DataSet::parse(DataKind::Ipv4, text);
        let set = numbered("10.0.0.2,7\n10.0.0.1,1\n10.0.0.1, 65535\n").unwrap();
        assert_eq!(set.get(&[10, 0, 0, 1]), Some(65_535));
        assert_eq!((set.get(&[10, 0, 0, 2]), set.len()), (Some(7), 2));
        assert_eq!(numbered("10.0.0.1\n").unwrap().get(&[10, 0, 0, 1]), Some(0));
        assert!(numbered("10.0.0.1,65536\n").is_err() && numbered("10.0.0.1,x\n").is_err());
        let same = numbered("10.0.0.1,65535\n10.0.0.2,7\n").unwrap();
        assert_eq!(set.fingerprint(), same.fingerprint());
        let other = numbered("10.0.0.1,65535\n10.0.0.2,8\n").unwrap();
        assert_ne!(set.fingerprint(), other.fingerprint());
    }
}
