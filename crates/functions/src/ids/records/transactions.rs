//! From messages to transactions: which note waits, and when a record is whole.

use weir_dissect::{Field, Message, Notice, Number, Phase, Protocol};

use super::file::{self, File};
use super::kinds::{RecordKind, Recording, kind};
use super::note::{Note, Part};
use super::pending::Pending;
use super::record::{Record, Records, Sides, Transaction};

/// Fields of a request of HTTP that records show.
const REQUEST: &[Field] = &[
    Field::HttpHost,
    Field::HttpRawHost,
    Field::HttpRawUri,
    Field::HttpUserAgent,
    Field::HttpReferer,
    Field::HttpMethod,
    Field::HttpProtocol,
];
/// Fields of a response.
const RESPONSE: &[Field] = &[
    Field::HttpContentType,
    Field::HttpStatusCode,
    Field::HttpLocation,
];
const DNS_RECORDS: &[Field] = &[
    Field::DnsAnswerName,
    Field::DnsAnswerData,
    Field::DnsAuthorityName,
    Field::DnsAuthorityData,
];
const DNS_NUMBERS: &[Number] = &[
    Number::DnsId,
    Number::DnsFlags,
    Number::DnsOpcode,
    Number::DnsRcode,
    Number::DnsRrtype,
];
const DNS_RECORD_NUMBERS: &[Number] = &[
    Number::DnsAnswerType,
    Number::DnsAnswerTtl,
    Number::DnsAuthorityType,
    Number::DnsAuthorityTtl,
];
const TLS: &[Field] = &[
    Field::TlsSni,
    Field::TlsSubject,
    Field::TlsIssuer,
    Field::TlsSerial,
    Field::TlsFingerprint,
    Field::Ja3Hash,
    Field::Ja3String,
    Field::Ja3sHash,
    Field::Ja3sString,
    Field::Ja4Hash,
];
const TLS_NUMBERS: &[Number] = &[
    Number::TlsVersion,
    Number::TlsNotBefore,
    Number::TlsNotAfter,
    Number::TlsChainLength,
];
const SSH: &[Field] = &[
    Field::SshProto,
    Field::SshSoftware,
    Field::SshHassh,
    Field::SshHasshString,
    Field::SshHasshServer,
    Field::SshHasshServerString,
];
const SMTP: &[Field] = &[Field::SmtpHelo, Field::SmtpMailFrom, Field::SmtpRcptTo];
/// What the first command of an SMTP transaction leaves, so that one without a mail is told, too.
const COMMAND: &[Field] = &[Field::SmtpCommand];
const FTP: &[Field] = &[Field::FtpCommand, Field::FtpCommandData];
/// The number of TLS 1.3, whose certificates are encrypted; those of its drafts are higher.
const TLS_13: i64 = 0x0304;

/// Places of notes of protocols that have one transaction at a time: of the client (of SMTP its greeting), and
/// of the server (of SMTP the mail).
const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Place of the replies to FTP's commands, which wait behind it.
const REPLIES: usize = 0;

/// The transactions of a flow, while messages of it are read.
pub(in super::super) struct Transactions<'a> {
    asks: &'a Recording,
    /// Bytes of what waits, until they are needed.
    waiting: Option<&'a [u8]>,
    pub(in super::super) pending: Pending,
    records: &'a mut Records,
}

impl<'a> Transactions<'a> {
    pub(in super::super) fn new(
        asks: &'a Recording,
        waiting: &'a [u8],
        records: &'a mut Records,
    ) -> Transactions<'a> {
        Transactions {
            asks,
            waiting: Some(waiting),
            pending: Pending::default(),
            records,
        }
    }

    /// Takes note of a message. Gives its transaction as far as it is known now, where it is `wanted`.
    pub(in super::super) fn take(
        &mut self,
        message: &Message<'_>,
        wanted: bool,
    ) -> Option<Transaction> {
        // A body is handed out as it grows, each time with the same notices.
        let comes_again = message.protocol == Protocol::Http && !message.last;
        if self.asks.has(RecordKind::Anomaly) && !comes_again {
            for &notice in message.notices() {
                self.records.push(Record::Anomaly {
                    protocol: message.protocol,
                    to_server: message.to_server,
                    notice,
                });
            }
        }
        // Of an HTTP message that goes on only the start of a request is noted.
        let begins = message.to_server && !message.continues;
        let is_idle = comes_again && !begins && !wanted;
        if !self.asks.notes(message.protocol) || is_idle {
            return None;
        }
        self.read();
        let (number, sides) = match message.protocol {
            Protocol::Http => self.http(message),
            Protocol::Dns => self.dns(message, wanted),
            Protocol::Tls => self.tls(message),
            Protocol::Ssh => self.ssh(message),
            Protocol::Smtp => self.smtp(message),
            Protocol::Ftp => self.ftp(message),
        };
        wanted.then_some(Transaction {
            protocol: message.protocol,
            number,
            sides,
        })
    }

    /// The flow ends, or is parsed no more: requests and commands without an answer become records.
    pub(in super::super) fn end(&mut self, protocol: Protocol) {
        if !self.asks.notes(protocol) {
            return;
        }
        self.read();
        match protocol {
            Protocol::Dns => {}
            Protocol::Http => {
                while let Some((number, request)) = self.pending.pop(0) {
                    self.give(protocol, number, &[request, Note::default()]);
                }
            }
            Protocol::Tls if self.pending.at(SERVER).is_none() => {}
            Protocol::Tls | Protocol::Ssh => self.both(protocol),
            Protocol::Smtp => drop(self.mail()),
            Protocol::Ftp => {
                while self.pending.waits_behind(REPLIES + 1) || self.has(REPLIES) {
                    self.replied();
                }
            }
        }
    }

    fn read(&mut self) {
        if let Some(bytes) = self.waiting.take() {
            self.pending = Pending::read(bytes);
        }
    }

    /// True where there is something in the note of a place.
    fn has(&self, place: usize) -> bool {
        self.pending.at(place).is_some_and(|note| !note.is_empty())
    }

    fn give(&mut self, protocol: Protocol, number: u32, sides: &Sides) {
        if self.asks.has(kind(protocol)) {
            self.records.push(Record::Transaction(Transaction {
                protocol,
                number,
                sides: sides.clone(),
            }));
        }
    }

    /// Requests wait for responses.
    fn http(&mut self, message: &Message<'_>) -> (u32, Sides) {
        let to_server = message.to_server;
        let own = match to_server {
            true => Note::of(message, REQUEST, &[]),
            false => Note::of(message, RESPONSE, &[Number::HttpBodyLength]),
        };
        let (number, sides) = if to_server {
            if !message.continues {
                self.records.lost += self.pending.push(own.clone(), 0);
            }
            // The newest: a client sends one request after another. The response may have come already.
            let number = self.pending.coming(0).saturating_sub(1);
            (number, [own, Note::default()])
        } else if !message.last || is_interim(message) {
            let request = self.pending.first().cloned().unwrap_or_default();
            return (self.pending.done(), [request, own]);
        } else {
            let (number, request) = match self.pending.pop(0) {
                Some(first) => first,
                None => (self.pending.next(), Note::default()),
            };
            (number, [request, own])
        };
        if message.last && self.asks.has(RecordKind::Fileinfo) {
            let [request, _] = &sides;
            let asked = request.get(Field::HttpRawUri).unwrap_or(&[]);
            let file = File::of(message, asked, self.asks);
            self.file(file, to_server, (Protocol::Http, number, &sides));
        }
        if !to_server {
            self.give(Protocol::Http, number, &sides);
        }
        (number, sides)
    }

    fn dns(&mut self, message: &Message<'_>, wanted: bool) -> (u32, Sides) {
        let number = self.pending.next();
        if !wanted && !self.asks.has(RecordKind::Dns) {
            return (number, Sides::default());
        }
        // The question first, so that no number of records hides it.
        let mut note = Note::of(message, &[Field::DnsQuery], DNS_NUMBERS);
        note.add(&Note::of(message, DNS_RECORDS, DNS_RECORD_NUMBERS));
        let sides = [note, Note::default()];
        self.give(Protocol::Dns, number, &sides);
        (number, sides)
    }

    /// Both hellos, and the certificates that follow the server's.
    fn tls(&mut self, message: &Message<'_>) -> (u32, Sides) {
        let note = Note::of(message, TLS, TLS_NUMBERS);
        if !note.is_empty() && self.pending.done() == 0 {
            let place = if message.to_server { CLIENT } else { SERVER };
            let version = note.number(Number::TlsVersion);
            let whole = note.number(Number::TlsChainLength).is_some()
                || version.is_some_and(|version| version >= TLS_13);
            self.pending.set(place, note);
            if place == SERVER && whole {
                self.both(Protocol::Tls);
            }
        }
        (0, self.sides())
    }

    /// Both banners; the algorithms follow in a message of their own.
    fn ssh(&mut self, message: &Message<'_>) -> (u32, Sides) {
        if self.pending.done() == 0 {
            let place = if message.to_server { CLIENT } else { SERVER };
            self.pending.add(place, &Note::of(message, SSH, &[]));
            let has = |place, field| {
                let note = self.pending.at(place);
                note.is_some_and(|note| note.get(field).is_some())
            };
            if has(CLIENT, Field::SshHassh) && has(SERVER, Field::SshHasshServer) {
                self.both(Protocol::Ssh);
            }
        }
        (0, self.sides())
    }

    /// The notes of both sides as one record, which is the flow's only one. They stay, for later alerts.
    fn both(&mut self, protocol: Protocol) {
        let sides = self.sides();
        if self.pending.done() > 0 || sides.iter().all(Note::is_empty) {
            return;
        }
        let number = self.pending.next();
        self.give(protocol, number, &sides);
    }

    fn sides(&self) -> Sides {
        let at = |place| self.pending.at(place).cloned().unwrap_or_default();
        [at(CLIENT), at(SERVER)]
    }

    fn smtp(&mut self, message: &Message<'_>) -> (u32, Sides) {
        if !message.to_server {
            return (self.pending.done(), self.sides());
        }
        if message.get(Field::FileData).is_some() {
            self.attachment(message);
            return match message.last {
                true => self.mail(),
                false => (self.pending.done(), self.sides()),
            };
        }
        let note = Note::of(message, SMTP, &[]);
        let begins = note.get(Field::SmtpMailFrom).is_some();
        let begun = self.pending.at(SERVER);
        if begins && begun.is_some_and(|begun| begun.get(Field::SmtpMailFrom).is_some()) {
            self.mail();
        }
        if note.get(Field::SmtpHelo).is_some() {
            self.pending.set(CLIENT, note);
            self.pending.add(SERVER, &Note::of(message, COMMAND, &[]));
        } else if self.has(SERVER) {
            self.pending.add(SERVER, &note);
        } else {
            let mut mail = Note::of(message, COMMAND, &[]);
            mail.add(&note);
            self.pending.set(SERVER, mail);
        }
        if message.get(Field::SmtpCommand) == Some(b"RSET") {
            return self.mail();
        }
        (self.pending.done(), self.sides())
    }

    /// Records a part of a mail that has the name of a file.
    fn attachment(&mut self, message: &Message<'_>) {
        let name = message.get(Field::FileName);
        let name = name.filter(|_| self.asks.has(RecordKind::Fileinfo));
        let file = name.and_then(|name| File::named(message, name, self.asks));
        let of = (Protocol::Smtp, self.pending.done(), &self.sides());
        self.file(file, message.to_server, of);
    }

    /// Records a file, where there is one, with the transaction that it is of.
    fn file(
        &mut self,
        file: Option<File>,
        to_server: bool,
        (protocol, number, sides): (Protocol, u32, &Sides),
    ) {
        if let Some(file) = file {
            let of = Transaction {
                protocol,
                number,
                sides: sides.clone(),
            };
            self.records.push(Record::File {
                of,
                to_server,
                file,
            });
        }
    }

    /// The mail is over.
    fn mail(&mut self) -> (u32, Sides) {
        let sides = self.sides();
        if !self.has(SERVER) {
            return (self.pending.done(), sides);
        }
        self.pending.take(SERVER);
        let number = self.pending.next();
        self.give(Protocol::Smtp, number, &sides);
        (number, sides)
    }

    /// Commands wait for their replies; a reply has several lines, and 1xx comes before the last one.
    fn ftp(&mut self, message: &Message<'_>) -> (u32, Sides) {
        if message.to_server {
            self.pending.add(REPLIES, &Note::default());
            let mut command = Note::of(message, FTP, &[]);
            command.notice(message, Notice::FtpCommandTooLong);
            self.records.lost += self.pending.push(command.clone(), REPLIES + 1);
            let number = self.pending.coming(REPLIES + 1).saturating_sub(1);
            return (number, [command, Note::default()]);
        }
        let line = message.get(Field::FtpReply).unwrap_or(&[]);
        let mut reply = Note::default();
        reply.put(Part::Value(Field::FtpReply, line));
        reply.notice(message, Notice::FtpReplyTooLong);
        self.pending.add(REPLIES, &reply);
        let code = message.number(Number::ReplyCode);
        let is_last = line.get(3).is_none_or(|&b| b == b' ');
        if is_last && code.is_some_and(|code| code >= 200) {
            return self.replied();
        }
        let command = self.pending.at(REPLIES + 1).cloned().unwrap_or_default();
        (self.pending.done(), [command, reply])
    }

    /// The replies at hand belong to the oldest command; without one they are the greeting.
    fn replied(&mut self) -> (u32, Sides) {
        let replies = self.pending.take(REPLIES);
        let (number, command) = match self.pending.pop(REPLIES + 1) {
            Some(oldest) => oldest,
            None => (self.pending.next(), Note::default()),
        };
        let sides = [command, replies];
        self.give(Protocol::Ftp, number, &sides);
        (number, sides)
    }

    /// The name of the file in a message, if it has one.
    pub(in super::super) fn file_name(&mut self, message: &Message<'_>) -> Option<Vec<u8>> {
        if message.phase != Phase::Body || message.protocol != Protocol::Http {
            return None;
        }
        self.read();
        let request = match message.to_server {
            true => message.get(Field::HttpRawUri),
            false => self
                .pending
                .first()
                .and_then(|note| note.get(Field::HttpRawUri)),
        };
        Some(file::name(message, request.unwrap_or(&[])).to_vec())
    }
}

/// The transaction under way, for what is found in a stream or a packet of this direction and is about no message.
pub(in super::super) fn under_way(
    pending: &Pending,
    protocol: Protocol,
    to_server: bool,
) -> Option<Transaction> {
    let at = |place| pending.at(place).cloned().unwrap_or_default();
    let last = || pending.last().cloned().unwrap_or_default();
    let newest = |places| pending.coming(places).saturating_sub(1);
    let (number, sides) = match (protocol, to_server) {
        (Protocol::Dns, _) => return None,
        (Protocol::Http, true) => (newest(0), [last(), Note::default()]),
        (Protocol::Http, false) => {
            let first = pending.first().cloned().unwrap_or_default();
            (pending.done(), [first, Note::default()])
        }
        (Protocol::Ftp, true) => (newest(REPLIES + 1), [last(), Note::default()]),
        (Protocol::Ftp, false) => (pending.done(), [at(REPLIES + 1), at(REPLIES)]),
        (Protocol::Tls | Protocol::Ssh, _) => (0, [at(CLIENT), at(SERVER)]),
        (Protocol::Smtp, _) => (pending.done(), [at(CLIENT), at(SERVER)]),
    };
    let is_known = !sides.iter().all(Note::is_empty);
    is_known.then_some(Transaction {
        protocol,
        number,
        sides,
    })
}

/// A response before the final one (RFC 9110 section 15.2).
fn is_interim(message: &Message<'_>) -> bool {
    let status = message.get(Field::HttpStatusCode).unwrap_or(&[]);
    status.first() == Some(&b'1') && status != b"101"
}
