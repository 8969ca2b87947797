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
const DNS: &[Field] = &[
    Field::DnsQuery,
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

    /// Takes note of a message.
    pub(in super::super) fn take(&mut self, message: &Message<'_>) {
        if self.asks.is_off() {
            return;
        }
        self.read();
        match message.protocol {
            Protocol::Http => self.http(message),
            Protocol::Dns => self.dns(message),
            Protocol::Tls => self.tls(message),
            Protocol::Ssh => self.ssh(message),
            Protocol::Smtp => self.smtp(message),
            Protocol::Ftp => self.ftp(message),
        }
        // A body is handed out as it grows, each time with the same notices.
        let is_told = message.protocol == Protocol::Http && !message.last;
        if self.asks.has(RecordKind::Anomaly) && !is_told {
            let notices = message.notices().iter();
            self.records
                .list
                .extend(notices.map(|&notice| Record::Anomaly {
                    protocol: message.protocol,
                    to_server: message.to_server,
                    notice,
                }));
        }
    }

    /// The flow ends, or is parsed no more: what waits is told as it is.
    pub(in super::super) fn end(&mut self, protocol: Protocol) {
        if self.asks.is_off() {
            return;
        }
        self.read();
        match protocol {
            Protocol::Dns => {}
            Protocol::Http => {
                while let Some((number, request)) = self.pending.pop() {
                    let sides = [request, Note::default()];
                    self.give(protocol, number, sides);
                }
            }
            Protocol::Tls if self.pending.at(SERVER).is_none() => {}
            Protocol::Tls | Protocol::Ssh => self.both(protocol),
            Protocol::Smtp => self.mail(),
            Protocol::Ftp => self.replied(),
        }
    }

    fn read(&mut self) {
        if let Some(bytes) = self.waiting.take() {
            self.pending = Pending::read(bytes);
        }
    }

    fn give(&mut self, protocol: Protocol, number: u32, sides: Sides) {
        if self.asks.has(kind(protocol)) {
            self.records.list.push(Record::Transaction(Transaction {
                protocol,
                number,
                sides,
            }));
        }
    }

    /// Requests wait for responses.
    fn http(&mut self, message: &Message<'_>) {
        let to_server = message.to_server;
        if to_server && !message.continues {
            let note = Note::of(message, REQUEST, &[]);
            self.records.lost += self.pending.push(note, 0);
        }
        if !message.last || !to_server && is_interim(message) {
            return;
        }
        let (number, request) = match to_server {
            // The newest: a client sends one request after another.
            true => match self.pending.last() {
                Some((number, note)) => (number, note.clone()),
                None => (self.pending.done(), Note::default()),
            },
            false => match self.pending.pop() {
                Some(first) => first,
                None => (self.pending.next(), Note::default()),
            },
        };
        let response = match to_server {
            true => Note::default(),
            false => Note::of(message, RESPONSE, &[Number::HttpBodyLength]),
        };
        if self.asks.has(RecordKind::Fileinfo) {
            let asked = request.get(Field::HttpRawUri).unwrap_or(&[]);
            if let Some(file) = File::of(message, asked, self.asks) {
                let of = Transaction {
                    protocol: Protocol::Http,
                    number,
                    sides: [request.clone(), response.clone()],
                };
                self.records.list.push(Record::File {
                    of,
                    to_server,
                    file,
                });
            }
        }
        if !to_server {
            self.give(Protocol::Http, number, [request, response]);
        }
    }

    fn dns(&mut self, message: &Message<'_>) {
        let number = self.pending.next();
        if self.asks.has(RecordKind::Dns) {
            let sides = [Note::of(message, DNS, DNS_NUMBERS), Note::default()];
            self.give(Protocol::Dns, number, sides);
        }
    }

    /// Both hellos, and the certificates that follow the server's.
    fn tls(&mut self, message: &Message<'_>) {
        // One of each connection.
        if self.pending.done() > 0 {
            return;
        }
        let note = Note::of(message, TLS, TLS_NUMBERS);
        if note.is_empty() {
            return;
        }
        let place = if message.to_server { CLIENT } else { SERVER };
        let whole = note.number(Number::TlsChainLength).is_some()
            || note
                .number(Number::TlsVersion)
                .is_some_and(|version| version >= TLS_13);
        self.pending.set(place, note);
        if place == SERVER && whole {
            self.both(Protocol::Tls);
        }
    }

    /// Both banners; the algorithms follow in a message of their own.
    fn ssh(&mut self, message: &Message<'_>) {
        if self.pending.done() > 0 {
            return;
        }
        let place = if message.to_server { CLIENT } else { SERVER };
        let mut note = self.pending.at(place).cloned().unwrap_or_default();
        note.add(&Note::of(message, SSH, &[]));
        self.pending.set(place, note);
        let has = |place, field| {
            let note = self.pending.at(place);
            note.is_some_and(|note| note.get(field).is_some())
        };
        if has(CLIENT, Field::SshHassh) && has(SERVER, Field::SshHasshServer) {
            self.both(Protocol::Ssh);
        }
    }

    /// The notes of both sides as one record, which is the flow's only one.
    fn both(&mut self, protocol: Protocol) {
        let (client, server) = (self.pending.take(CLIENT), self.pending.take(SERVER));
        if self.pending.done() > 0 || client.is_empty() && server.is_empty() {
            return;
        }
        let number = self.pending.next();
        self.give(protocol, number, [client, server]);
    }

    fn smtp(&mut self, message: &Message<'_>) {
        if !message.to_server {
            return;
        }
        if message.last && message.get(Field::FileData).is_some() {
            return self.mail();
        }
        let mut note = Note::of(message, SMTP, &[]);
        if note.get(Field::SmtpHelo).is_some() {
            self.pending.set(CLIENT, core::mem::take(&mut note));
        }
        let begun = self.pending.at(SERVER).cloned().unwrap_or_default();
        let has_sender = |note: &Note| note.get(Field::SmtpMailFrom).is_some();
        let mut mail = match has_sender(&note) && has_sender(&begun) {
            true => {
                self.mail();
                Note::default()
            }
            false => begun,
        };
        if mail.is_empty() {
            mail = Note::of(message, COMMAND, &[]);
        }
        mail.add(&note);
        self.pending.set(SERVER, mail);
        if message.get(Field::SmtpCommand) == Some(b"RSET") {
            self.mail();
        }
    }

    /// The mail is over.
    fn mail(&mut self) {
        let mail = self.pending.take(SERVER);
        if mail.is_empty() {
            return;
        }
        let greeting = self.pending.at(CLIENT).cloned().unwrap_or_default();
        let number = self.pending.next();
        self.give(Protocol::Smtp, number, [greeting, mail]);
    }

    /// Commands wait for their replies; a reply has several lines, and 1xx comes before the last one.
    fn ftp(&mut self, message: &Message<'_>) {
        if message.to_server {
            if self.pending.at(REPLIES).is_none() {
                self.pending.set(REPLIES, Note::default());
            }
            let mut command = Note::of(message, FTP, &[]);
            command.notice(message, Notice::FtpCommandTooLong);
            self.records.lost += self.pending.push(command, REPLIES + 1);
            return;
        }
        let line = message.get(Field::FtpReply).unwrap_or(&[]);
        let mut replies = self.pending.at(REPLIES).cloned().unwrap_or_default();
        replies.put(Part::Value(Field::FtpReply, line));
        replies.notice(message, Notice::FtpReplyTooLong);
        self.pending.set(REPLIES, replies);
        let code = message.number(Number::ReplyCode);
        let is_last = line.get(3).is_none_or(|&b| b == b' ');
        if is_last && code.is_some_and(|code| code >= 200) {
            self.replied();
        }
    }

    /// The replies at hand belong to the oldest command; without one they are the greeting.
    fn replied(&mut self) {
        let command = self.pending.take_behind(REPLIES + 1).unwrap_or_default();
        let replies = self.pending.take(REPLIES);
        if command.is_empty() && replies.is_empty() {
            return;
        }
        let number = self.pending.next();
        self.give(Protocol::Ftp, number, [command, replies]);
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
                .at(0)
                .and_then(|note| note.get(Field::HttpRawUri)),
        };
        Some(file::name(message, request.unwrap_or(&[])).to_vec())
    }

    /// The transaction that a message belongs to, as far as it is known.
    pub(in super::super) fn of(&mut self, message: &Message<'_>) -> Transaction {
        self.read();
        let to_server = message.to_server;
        let (own, place) = match message.protocol {
            Protocol::Http if to_server => (Note::of(message, REQUEST, &[]), CLIENT),
            Protocol::Http => {
                let numbers = &[Number::HttpBodyLength];
                (Note::of(message, RESPONSE, numbers), SERVER)
            }
            Protocol::Dns => (Note::of(message, DNS, DNS_NUMBERS), CLIENT),
            Protocol::Tls => {
                let place = if to_server { CLIENT } else { SERVER };
                (Note::of(message, TLS, TLS_NUMBERS), place)
            }
            Protocol::Ssh => {
                let place = if to_server { CLIENT } else { SERVER };
                (Note::of(message, SSH, &[]), place)
            }
            Protocol::Smtp => (Note::of(message, SMTP, &[]), SERVER),
            Protocol::Ftp if to_server => (Note::of(message, FTP, &[]), CLIENT),
            Protocol::Ftp => {
                let mut note = Note::default();
                let line = message.get(Field::FtpReply).unwrap_or(&[]);
                note.put(Part::Value(Field::FtpReply, line));
                (note, SERVER)
            }
        };
        // A request that comes is none that waits.
        let mut known = match (message.protocol, to_server) {
            (protocol @ (Protocol::Http | Protocol::Ftp), true) => {
                let places = if protocol == Protocol::Ftp {
                    REPLIES + 1
                } else {
                    0
                };
                let number = match self.pending.last() {
                    Some((number, _)) if message.continues => number,
                    _ => self.pending.coming(places),
                };
                Transaction {
                    protocol,
                    number,
                    sides: Sides::default(),
                }
            }
            (protocol @ Protocol::Http, false) => {
                let request = self.pending.at(0).cloned().unwrap_or_default();
                Transaction {
                    protocol,
                    number: self.pending.done(),
                    sides: [request, Note::default()],
                }
            }
            (protocol, _) => under_way(&self.pending, protocol),
        };
        if let Some(side) = known.sides.get_mut(place) {
            match message.protocol {
                Protocol::Smtp | Protocol::Ssh => side.add(&own),
                _ => *side = own,
            }
        }
        known
    }
}

/// The transaction under way, for what is found in a stream or a packet of its flow.
pub(in super::super) fn under_way(pending: &Pending, protocol: Protocol) -> Transaction {
    let at = |place| pending.at(place).cloned().unwrap_or_default();
    let (number, sides) = match protocol {
        Protocol::Dns => (pending.done(), Sides::default()),
        Protocol::Http => {
            let last = pending.last().map(|(number, note)| (number, note.clone()));
            let (number, note) = last.unwrap_or((pending.done(), Note::default()));
            (number, [note, Note::default()])
        }
        Protocol::Ftp => (pending.done(), [at(REPLIES + 1), at(REPLIES)]),
        Protocol::Tls | Protocol::Ssh | Protocol::Smtp => {
            (pending.done(), [at(CLIENT), at(SERVER)])
        }
    };
    Transaction {
        protocol,
        number,
        sides,
    }
}

/// A response before the final one (RFC 9110 section 15.2).
fn is_interim(message: &Message<'_>) -> bool {
    let status = message.get(Field::HttpStatusCode).unwrap_or(&[]);
    status.first() == Some(&b'1') && status != b"101"
}
