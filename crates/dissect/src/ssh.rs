//! SSH banners (RFC 4253 section 4.2). What follows them is not read.

use crate::field::{Field, Notice, Protocol};
use crate::lines::Lines;
use crate::snapshot::{Reader, SnapshotError, put_u8};
use crate::values::Sink;

/// Lines that a server may send before its banner.
const MOST_LINES: u8 = 20;
/// Bytes of a banner (RFC 4253 section 4.2).
const LONGEST_BANNER: usize = 255;

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Ssh {
    lines: [Lines; 2],
    /// Lines seen of each direction; [`OVER`] once its banner was read.
    seen: [u8; 2],
}

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
        while !bytes.is_empty() && *seen != OVER {
            let Some(line) = lines.next(&mut bytes) else {
                return;
            };
            *seen += 1;
            let banner = line.bytes.strip_prefix(b"SSH-");
            if banner.is_none() && !to_server && *seen < MOST_LINES {
                continue;
            }
            *seen = OVER;
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
    }

    pub(crate) fn gap(&mut self, to_server: bool) {
        if let Some(seen) = self.seen.get_mut(usize::from(to_server)) {
            *seen = OVER;
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        for (lines, seen) in self.lines.iter().zip(self.seen) {
            lines.save(out);
            put_u8(out, seen);
        }
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Ssh, SnapshotError> {
        let mut ssh = Ssh::default();
        for (lines, seen) in ssh.lines.iter_mut().zip(&mut ssh.seen) {
            *lines = Lines::load(reader)?;
            *seen = reader.u8()?;
        }
        Ok(ssh)
    }
}
