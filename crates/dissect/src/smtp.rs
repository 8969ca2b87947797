//! SMTP (RFC 5321): commands, replies and mails.
//!
//! A mail is handed out once it is whole, up to the bound of a body: each of its parts as `file.data`, decoded,
//! with its name where it has one.

use crate::field::{Field, Notice, Number, Protocol};
use crate::limits::Limits;
use crate::lines::{Line, Lines, code, word};
use crate::mime;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8, put_u32};
use crate::values::{Phase, Sink, Value};

/// Kinds of bytes that the client sends.
mod mode {
    pub(super) const COMMANDS: u8 = 0;
    /// The text behind DATA.
    pub(super) const TEXT: u8 = 1;
    /// A chunk behind BDAT (RFC 3030), and the last one.
    pub(super) const CHUNK: u8 = 2;
    pub(super) const LAST_CHUNK: u8 = 3;
    /// A line that answers the server's question, not a command (RFC 4954 section 4).
    pub(super) const ANSWER: u8 = 4;
    /// STARTTLS was accepted (RFC 3207), or framing is lost.
    pub(super) const OVER: u8 = 5;
}

/// Places in the text of a mail, as far as its end is concerned.
mod place {
    /// At the start of a line.
    pub(super) const START: u8 = 0;
    /// Behind a dot at the start of a line.
    pub(super) const DOT: u8 = 1;
    /// Behind such a dot and a CR.
    pub(super) const DOT_CR: u8 = 2;
    pub(super) const WITHIN: u8 = 3;
}

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Smtp {
    lines: [Lines; 2],
    mode: u8,
    /// STARTTLS waits for its reply.
    secures: bool,
    /// The mail is longer than is kept.
    full: bool,
    /// Bytes of the mail were lost.
    torn: bool,
    /// The server wants the text behind DATA.
    wanted: bool,
    /// Progress towards the end of that text, one of [`place`].
    place: u8,
    /// Bytes left of a chunk.
    left: u32,
    mail: Vec<u8>,
}

impl Smtp {
    pub(crate) fn is_over(&self) -> bool {
        self.mode == mode::OVER
    }

    pub(crate) fn data(
        &mut self,
        to_server: bool,
        mut bytes: &[u8],
        limits: &Limits,
        sink: &mut Sink<'_, '_>,
    ) {
        while !bytes.is_empty() && !self.is_over() {
            if to_server && matches!(self.mode, mode::CHUNK | mode::LAST_CHUNK) {
                let (piece, rest) = bytes.split_at(bytes.len().min(self.left as usize));
                bytes = rest;
                self.left -= piece.len() as u32;
                self.add(piece, limits);
                self.chunk_ends(sink);
                continue;
            }
            if to_server && self.mode == mode::TEXT {
                self.text(&mut bytes, limits, sink);
                continue;
            }
            let [down, up] = &mut self.lines;
            let lines = if to_server { up } else { down };
            let Some(line) = lines.next(&mut bytes) else {
                return;
            };
            match (to_server, self.mode) {
                (true, mode::ANSWER) => self.mode = mode::COMMANDS,
                (true, _) => self.command(&line, sink),
                (false, _) => self.reply(&line, limits, sink),
            }
        }
    }

    fn add(&mut self, bytes: &[u8], limits: &Limits) {
        let room = limits.body.saturating_sub(self.mail.len());
        self.full |= bytes.len() > room;
        self.mail
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Takes the text behind DATA, up to the line that is a dot alone; other dots at starts of lines are taken off
    /// (RFC 5321 section 4.5.2).
    fn text(&mut self, bytes: &mut &[u8], limits: &Limits, sink: &mut Sink<'_, '_>) {
        while let Some((&byte, rest)) = bytes.split_first() {
            let before = self.place;
            self.place = match (before, byte) {
                (place::START, b'.') => place::DOT,
                (place::DOT, b'\r') => place::DOT_CR,
                (place::DOT | place::DOT_CR, b'\n') => {
                    *bytes = rest;
                    self.mode = mode::COMMANDS;
                    self.give(sink);
                    return;
                }
                (_, b'\n') => place::START,
                _ => place::WITHIN,
            };
            if matches!(self.place, place::DOT | place::DOT_CR) {
                *bytes = rest;
                continue;
            }
            if before == place::DOT_CR {
                self.add(b"\r", limits);
            }
            // Up to the line's end at once.
            let end = bytes.iter().position(|&b| b == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |at| at + 1));
            self.place = if end.is_some() {
                place::START
            } else {
                place::WITHIN
            };
            self.add(line, limits);
            *bytes = rest;
        }
    }

    /// DATA was refused: what came behind it were commands.
    fn refused(&mut self, limits: &Limits, sink: &mut Sink<'_, '_>) {
        let text = std::mem::take(&mut self.mail);
        self.begin();
        self.mode = mode::COMMANDS;
        // Each command is shorter than the text, so that this ends.
        self.data(true, &text, limits, sink);
    }

    /// Forgets what was kept of the mail before.
    fn begin(&mut self) {
        self.mail.clear();
        (self.full, self.torn, self.wanted) = (false, false, false);
        self.place = place::START;
    }

    fn chunk_ends(&mut self, sink: &mut Sink<'_, '_>) {
        if self.left == 0 {
            if self.mode == mode::LAST_CHUNK {
                self.give(sink);
            }
            self.mode = mode::COMMANDS;
        }
    }

    /// Hands out the mail, part by part.
    fn give(&mut self, sink: &mut Sink<'_, '_>) {
        let parts = mime::parts(&self.mail, self.torn, self.full);
        for (number, part) in (1..).zip(&parts) {
            sink.values.clear();
            if self.torn {
                sink.values.notice(Notice::SmtpMailGap);
            }
            if !part.name.is_empty() {
                sink.values.put(Field::FileName, &part.name);
            }
            let body = [Value {
                field: Field::FileData,
                bytes: &part.bytes,
                old: 0,
                complete: part.complete,
            }];
            let is_last = number == parts.len();
            let of = (Protocol::Smtp, true);
            (sink.take)(&sink.values.message(of, Phase::Body, is_last, &body));
        }
        self.mail = Vec::new();
        self.begin();
    }

    fn command(&mut self, line: &Line, sink: &mut Sink<'_, '_>) {
        if line.bytes.is_empty() {
            return;
        }
        let (command, rest) = word(&line.bytes);
        let command = command.to_ascii_uppercase();
        sink.values.clear();
        sink.values.put(Field::SmtpCommand, &command);
        match &command[..] {
            b"HELO" | b"EHLO" => {
                self.begin();
                sink.values.put(Field::SmtpHelo, rest);
            }
            b"RSET" => self.begin(),
            b"MAIL" => {
                self.begin();
                put_path(Field::SmtpMailFrom, rest, sink);
            }
            b"RCPT" => put_path(Field::SmtpRcptTo, rest, sink),
            b"DATA" => {
                self.begin();
                self.mode = mode::TEXT;
            }
            b"STARTTLS" => self.secures = true,
            _ => {}
        }
        if line.too_long {
            sink.values.notice(Notice::SmtpCommandTooLong);
        }
        sink.head((Protocol::Smtp, true), true);
        if command == b"BDAT" {
            let (size, last) = word(rest);
            let size = size.iter().try_fold(0u32, |n, b| {
                let digit = b.is_ascii_digit().then(|| u32::from(b - b'0'))?;
                n.checked_mul(10)?.checked_add(digit)
            });
            let is_last = last.eq_ignore_ascii_case(b"LAST");
            self.left = size.unwrap_or(0);
            self.mode = if is_last {
                mode::LAST_CHUNK
            } else {
                mode::CHUNK
            };
            self.chunk_ends(sink);
        }
    }

    fn reply(&mut self, line: &Line, limits: &Limits, sink: &mut Sink<'_, '_>) {
        let code = code(&line.bytes);
        sink.values.clear();
        sink.values.put(Field::SmtpReply, &line.bytes);
        if let Some(code) = code {
            sink.values.number(Number::ReplyCode, code);
        }
        if line.too_long {
            sink.values.notice(Notice::SmtpReplyTooLong);
        }
        sink.head((Protocol::Smtp, false), true);
        match code {
            Some(220) if self.secures => self.mode = mode::OVER,
            Some(334) if self.mode == mode::COMMANDS => self.mode = mode::ANSWER,
            Some(354) if matches!(self.mode, mode::COMMANDS | mode::TEXT) => {
                self.mode = mode::TEXT;
                self.wanted = true;
            }
            Some(400..) if self.mode == mode::TEXT && !self.wanted => self.refused(limits, sink),
            _ => {}
        }
        if code.is_some_and(|code| code >= 400) {
            self.secures = false;
        }
    }

    /// Reading goes on in the middle of a line, or of a mail that is not handed out.
    pub(crate) fn gap(&mut self, to_server: bool) {
        if let Some(lines) = self.lines.get_mut(usize::from(to_server)) {
            *lines = Lines::default();
        }
        if to_server {
            if self.mode == mode::TEXT {
                self.torn = true;
                self.place = place::WITHIN;
            }
            if matches!(self.mode, mode::CHUNK | mode::LAST_CHUNK) {
                self.mode = mode::OVER;
            }
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        for lines in &self.lines {
            lines.save(out);
        }
        put_u8(out, self.mode);
        let flags = [self.secures, self.full, self.torn, self.wanted];
        let flags = flags
            .into_iter()
            .rev()
            .fold(0, |all, flag| all << 1 | u8::from(flag));
        put_u8(out, flags | self.place << 4);
        put_u32(out, self.left);
        put_bytes(out, &self.mail);
    }

    pub(crate) fn load(reader: &mut Reader<'_>, limits: &Limits) -> Result<Smtp, SnapshotError> {
        let lines = [Lines::load(reader)?, Lines::load(reader)?];
        let (mode, flags) = (reader.u8()?, reader.u8()?);
        Ok(Smtp {
            lines,
            mode: mode.min(mode::OVER),
            secures: flags & 1 != 0,
            full: flags & 2 != 0,
            torn: flags & 4 != 0,
            wanted: flags & 8 != 0,
            place: (flags >> 4).min(place::WITHIN),
            left: reader.u32()?,
            mail: reader.bytes(limits.body)?,
        })
    }
}

/// The address between `FROM:<` or `TO:<` and `>`.
fn put_path(field: Field, argument: &[u8], sink: &mut Sink<'_, '_>) {
    let colon = argument.iter().position(|&b| b == b':');
    let path = colon.and_then(|at| argument.get(at + 1..)).unwrap_or(&[]);
    let path = path.trim_ascii_start();
    let path = match path.strip_prefix(b"<") {
        Some(path) => path.split(|&b| b == b'>').next().unwrap_or(path),
        None => word(path).0,
    };
    sink.values.put(field, path);
}

#[cfg(test)]
#[path = "smtp_tests.rs"]
mod tests;
