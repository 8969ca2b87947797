//! FTP, the control connection (RFC 959): commands and replies.

use crate::field::{Field, Notice, Number, Protocol};
use crate::lines::{Lines, code, word};
use crate::snapshot::{Reader, SnapshotError, put_u8};
use crate::values::Sink;

/// Reply to AUTH: what follows is TLS (RFC 4217 section 4).
const SECURED: u16 = 234;

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Ftp {
    lines: [Lines; 2],
    over: bool,
}

impl Ftp {
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn data(&mut self, to_server: bool, mut bytes: &[u8], sink: &mut Sink<'_, '_>) {
        while !bytes.is_empty() && !self.over {
            let [down, up] = &mut self.lines;
            let lines = if to_server { up } else { down };
            let Some(line) = lines.next(&mut bytes) else {
                return;
            };
            if line.bytes.is_empty() {
                continue;
            }
            sink.values.clear();
            if to_server {
                let (command, data) = word(&line.bytes);
                sink.values.put(Field::FtpCommand, command);
                sink.values.put(Field::FtpCommandData, data);
            } else {
                sink.values.put(Field::FtpReply, &line.bytes);
                let code = code(&line.bytes);
                if let Some(code) = code {
                    sink.values.number(Number::ReplyCode, code);
                }
                self.over = code == Some(SECURED);
            }
            if line.too_long {
                sink.values.notice(match to_server {
                    true => Notice::FtpCommandTooLong,
                    false => Notice::FtpReplyTooLong,
                });
            }
            sink.head((Protocol::Ftp, to_server), true);
        }
    }

    /// Reading goes on in the middle of a line.
    pub(crate) fn gap(&mut self, to_server: bool) {
        if let Some(lines) = self.lines.get_mut(usize::from(to_server)) {
            *lines = Lines::default();
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_u8(out, self.over.into());
        for lines in &self.lines {
            lines.save(out);
        }
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Ftp, SnapshotError> {
        Ok(Ftp {
            over: reader.u8()? != 0,
            lines: [Lines::load(reader)?, Lines::load(reader)?],
        })
    }
}
