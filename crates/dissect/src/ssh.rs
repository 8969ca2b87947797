//! SSH banners and the algorithms that both sides offer behind them (RFC 4253 sections 4.2 and 7.1). What
//! follows is not read.

use md5::{Digest, Md5};

use crate::field::{Field, Notice, Protocol};
use crate::lines::Lines;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8};
use crate::values::Sink;

/// Lines that a server may send before its banner.
const MOST_LINES: u8 = 20;
/// Bytes of a banner (RFC 4253 section 4.2).
const LONGEST_BANNER: usize = 255;

/// Bytes of a packet, its length included (RFC 4253 section 6.1).
const LONGEST_PACKET: usize = 35_000;
/// The message with which a key exchange begins.
const KEXINIT: u8 = 20;

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Ssh {
    lines: [Lines; 2],
    /// The first packet of each direction, as far as it is there.
    packets: [Vec<u8>; 2],
    /// Lines seen of each direction; then [`BANNER_SEEN`] and [`OVER`].
    seen: [u8; 2],
}

/// The banner was read.
const BANNER_SEEN: u8 = 254;
/// Nothing more is read.
const OVER: u8 = 255;

impl Ssh {
    pub(crate) fn is_over(&self) -> bool {
        self.seen == [OVER; 2]
    }

    pub(crate) fn data(&mut self, to_server: bool, mut bytes: &[u8], sink: &mut Sink<'_, '_>) {
        let side = usize::from(to_server);
        let (Some(lines), Some(seen)) = (self.lines.get_mut(side), self.seen.get_mut(side)) else {
            return;
        };
        while !bytes.is_empty() && *seen < BANNER_SEEN {
            let Some(line) = lines.next(&mut bytes) else {
                return;
            };
            *seen += 1;
            let banner = line.bytes.strip_prefix(b"SSH-");
            if banner.is_none() && !to_server && *seen < MOST_LINES {
                continue;
            }
            *seen = BANNER_SEEN;
            sink.values.clear();
            let text = banner.unwrap_or(&[]);
            let mut parts = text.splitn(2, |&b| b == b'-');
            match (parts.next(), parts.next()) {
                (Some(proto), Some(software)) => {
                    sink.values.put(Field::SshProto, proto);
                    // Comments stand behind a space.
                    let software = software.split(|&b| b == b' ').next().unwrap_or(software);
                    sink.values.put(Field::SshSoftware, software);
                }
                _ => sink.values.notice(Notice::SshInvalidBanner),
            }
            if line.too_long || line.bytes.len() > LONGEST_BANNER {
                sink.values.notice(Notice::SshLongBanner);
            }
            sink.head((Protocol::Ssh, to_server), true);
        }
        if *seen == BANNER_SEEN && !bytes.is_empty() {
            self.packet(to_server, bytes, sink);
        }
    }

    /// Reads the first packet: 4 bytes of length, 1 of padding's length, the message.
    fn packet(&mut self, to_server: bool, bytes: &[u8], sink: &mut Sink<'_, '_>) {
        let side = usize::from(to_server);
        let (Some(packet), Some(seen)) = (self.packets.get_mut(side), self.seen.get_mut(side))
        else {
            return;
        };
        let room = LONGEST_PACKET - packet.len();
        packet.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        let Some((length, rest)) = packet.split_first_chunk::<4>() else {
            return;
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length <= LONGEST_PACKET - 4 && rest.len() < length {
            return;
        }
        *seen = OVER;
        let packet = std::mem::take(packet);
        // A length that is too large is none; the message stands behind the padding's length.
        let message = packet.get(5..4 + length).unwrap_or(&[]);
        if let Some(string) = hassh(message, to_server) {
            let (hash, written) = match to_server {
                true => (Field::SshHassh, Field::SshHasshString),
                false => (Field::SshHasshServer, Field::SshHasshServerString),
            };
            sink.values.clear();
            sink.values.make(hash, |out| {
                for byte in Md5::digest(&string) {
                    out.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
            });
            sink.values.put(written, &string);
            sink.head((Protocol::Ssh, to_server), true);
        }
    }

    pub(crate) fn gap(&mut self, to_server: bool) {
        if let Some(seen) = self.seen.get_mut(usize::from(to_server)) {
            *seen = OVER;
        }
        if let Some(packet) = self.packets.get_mut(usize::from(to_server)) {
            *packet = Vec::new();
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        for (lines, seen) in self.lines.iter().zip(self.seen) {
            lines.save(out);
            put_u8(out, seen);
        }
        for packet in &self.packets {
            put_bytes(out, packet);
        }
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Ssh, SnapshotError> {
        let mut ssh = Ssh::default();
        for (lines, seen) in ssh.lines.iter_mut().zip(&mut ssh.seen) {
            *lines = Lines::load(reader)?;
            *seen = reader.u8()?;
        }
        for packet in &mut ssh.packets {
            *packet = reader.bytes(LONGEST_PACKET)?;
        }
        Ok(ssh)
    }
}

/// The algorithms for one direction out of a `SSH_MSG_KEXINIT`: a cookie of 16 bytes and ten lists of names.
fn hassh(message: &[u8], to_server: bool) -> Option<Vec<u8>> {
    let (&kind, rest) = message.split_first()?;
    let mut rest = rest.get(16..).filter(|_| kind == KEXINIT)?;
    // Key exchange, host key, then encryption, MAC and compression, each to the server and to the client.
    let wanted: [usize; 4] = match to_server {
        true => [0, 2, 4, 6],
        false => [0, 3, 5, 7],
    };
    let mut string = Vec::new();
    for number in 0..8 {
        let (length, lists) = rest.split_first_chunk::<4>()?;
        let (list, behind) = lists.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = behind;
        if wanted.contains(&number) {
            if number > 0 {
                string.push(b';');
            }
            string.extend_from_slice(list);
        }
    }
    Some(string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Message, Values};

    /// A packet with a `SSH_MSG_KEXINIT` whose ten lists are a to j.
    fn packet() -> Vec<u8> {
        let mut message = vec![KEXINIT];
        message.extend([0; 16]);
        for name in b'a'..=b'j' {
            message.extend([0, 0, 0, 1, name]);
        }
        message.extend([0; 5 + 4]);
        let mut packet = (message.len() as u32 + 1).to_be_bytes().to_vec();
        packet.push(4);
        packet.extend(message);
        packet
    }

    /// The hassh strings, with the stream in pieces of this size and a snapshot between them.
    fn strings(to_server: bool, bytes: &[u8], size: usize) -> Vec<String> {
        let (mut ssh, mut found) = (Ssh::default(), Vec::new());
        for piece in bytes.chunks(size) {
            let mut values = Values::default();
            let mut take = |message: &Message<'_>| {
                for field in [Field::SshHasshString, Field::SshHasshServerString] {
                    let string = message.get(field).map(String::from_utf8_lossy);
                    found.extend(string.map(|s| s.into_owned()));
                }
            };
            let mut sink = Sink {
                values: &mut values,
                take: &mut take,
            };
            ssh.data(to_server, piece, &mut sink);
            let mut saved = Vec::new();
            ssh.save(&mut saved);
            assert_eq!(Ssh::load(&mut Reader(&saved)), Ok(ssh.clone()));
        }
        found
    }

    #[test]
    fn algorithms_are_those_of_the_direction() {
        let stream = [b"SSH-2.0-x\r\n".to_vec(), packet(), vec![7; 30]].concat();
        for size in [1, 7, 64, 1_000] {
            assert_eq!(strings(true, &stream, size), ["a;c;e;g"]);
            assert_eq!(strings(false, &stream, size), ["a;d;f;h"]);
        }
        // Cut lists, another message, a length that is none.
        let mut other = stream.clone();
        other[16] = 21;
        let mut long = stream.clone();
        long[11] = 0xff;
        let mut short = stream.clone();
        short[14] = 30;
        for bytes in [other, long, short] {
            assert_eq!(strings(true, &bytes, 5), [""; 0]);
        }
    }
}
