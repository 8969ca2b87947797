//! Records to handshake messages, messages to fields.

use super::certificate;
use super::fingerprint::{hash, ja3, ja3s, ja4};
use super::hello::{Bytes, Hello};
use crate::field::{Field, Notice, Number, Protocol};
use crate::limits::Limits;
use crate::snapshot::{Reader, SnapshotError, put_bytes, put_u8, put_u32};
use crate::values::{Sink, Values};

/// Content types (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const CHANGE: u8 = 20;
/// Handshake messages (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
/// Random bytes of a server's hello that asks for another one of the client's (RFC 8446 section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Certificates of a chain that are handed out.
const MOST_CERTIFICATES: usize = 16;

/// One direction.
#[derive(Debug, Default, Clone, PartialEq)]
struct Side {
    /// The record's header, as far as it is there.
    header: Vec<u8>,
    /// Bytes left of the record.
    left: u32,
    /// The unfinished handshake message with its header, as far as it is kept.
    message: Vec<u8>,
    /// Bytes of a message too long to be kept that are left.
    skip: u32,
    /// A message was handed out. Further ones belong to it: a server's certificates, or hellos that are repeated.
    told: bool,
    /// The parser reads no more: bytes are encrypted, lost or no TLS.
    over: bool,
}

/// State of a connection.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Tls {
    sides: [Side; 2],
    /// The server's hello, for the message with its certificate.
    hello: Vec<u8>,
}

impl Tls {
    pub(crate) fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.over)
    }

    fn side(&mut self, to_server: bool) -> &mut Side {
        let [down, up] = &mut self.sides;
        if to_server { up } else { down }
    }

    pub(crate) fn data(&mut self, to_server: bool, mut bytes: &[u8], sink: &mut Sink<'_, '_>) {
        while !bytes.is_empty() && !self.side(to_server).over {
            let retries = self.hello.get(2..34) == Some(&RETRY[..]);
            let side = self.side(to_server);
            if side.left == 0 {
                let missing = 5usize.saturating_sub(side.header.len());
                let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
                side.header.extend_from_slice(piece);
                bytes = rest;
                if side.header.len() == 5 {
                    side.record(to_server, retries, sink);
                }
                continue;
            }
            let count = bytes.len().min(side.left as usize);
            let (piece, rest) = bytes.split_at(count);
            bytes = rest;
            side.left -= count as u32;
            if side.header.first() == Some(&HANDSHAKE) {
                self.handshake(to_server, piece, sink);
            }
            let side = self.side(to_server);
            if side.left == 0 {
                side.header.clear();
            }
        }
    }

    /// Where the next record begins is not known.
    pub(crate) fn gap(&mut self, to_server: bool) {
        self.side(to_server).stop();
    }

    fn handshake(&mut self, to_server: bool, mut bytes: &[u8], sink: &mut Sink<'_, '_>) {
        while !bytes.is_empty() {
            let side = self.side(to_server);
            if side.skip > 0 {
                let count = bytes.len().min(side.skip as usize);
                side.skip -= count as u32;
                bytes = bytes.get(count..).unwrap_or(&[]);
                continue;
            }
            let mut header = Bytes(&side.message);
            let wanted = match (header.number(1), header.number(3)) {
                (Some(_), Some(length)) => 4 + length as usize,
                _ => 4,
            };
            if wanted > Limits::HANDSHAKE {
                side.skip = (wanted - side.message.len()) as u32;
                side.message.clear();
                continue;
            }
            let missing = wanted - side.message.len();
            let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
            side.message.extend_from_slice(piece);
            bytes = rest;
            let is_whole = side.message.len() == wanted;
            if is_whole && (wanted > 4 || side.message.get(1..4) == Some(&[0, 0, 0])) {
                let message = std::mem::take(&mut side.message);
                self.message(to_server, &message, sink);
            }
        }
    }

    fn message(&mut self, to_server: bool, message: &[u8], sink: &mut Sink<'_, '_>) {
        let (kind, body) = (message.first().copied(), message.get(4..).unwrap_or(&[]));
        sink.values.clear();
        match (kind, to_server) {
            (Some(CLIENT_HELLO), true) => put_client_hello(body, sink.values),
            (Some(SERVER_HELLO), false) => {
                put_server_hello(body, sink.values);
                self.hello = body.to_vec();
            }
            (Some(CERTIFICATE), false) => {
                if !self.hello.is_empty() {
                    put_server_hello(&self.hello, sink.values);
                }
                put_certificates(body, sink.values);
            }
            _ => return,
        }
        match std::mem::replace(&mut self.side(to_server).told, true) {
            false => sink.head((Protocol::Tls, to_server), true),
            true => sink.more((Protocol::Tls, to_server)),
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.hello);
        for side in &self.sides {
            put_bytes(out, &side.header);
            put_u32(out, side.left);
            put_bytes(out, &side.message);
            put_u32(out, side.skip);
            put_u8(out, u8::from(side.over) | u8::from(side.told) << 1);
        }
    }

    pub(crate) fn load(reader: &mut Reader<'_>) -> Result<Tls, SnapshotError> {
        let mut tls = Tls {
            hello: reader.bytes(Limits::HANDSHAKE)?,
            ..Tls::default()
        };
        for side in &mut tls.sides {
            side.header = reader.bytes(5)?;
            side.left = reader.u32()?;
            side.message = reader.bytes(Limits::HANDSHAKE)?;
            side.skip = reader.u32()?;
            let flags = reader.u8()?;
            (side.over, side.told) = (flags & 1 != 0, flags & 2 != 0);
            // A message that is whole was taken.
            let wanted = Bytes(side.message.get(1..).unwrap_or(&[])).number(3);
            if wanted.is_some_and(|wanted| side.message.len() > 4 + wanted as usize) {
                return Err(SnapshotError::Malformed);
            }
        }
        Ok(tls)
    }
}

impl Side {
    /// Reads a record's header.
    fn record(&mut self, to_server: bool, retries: bool, sink: &mut Sink<'_, '_>) {
        let mut header = Bytes(&self.header);
        let kind = header.number(1).unwrap_or(0) as u8;
        let (major, _) = (header.number(1), header.number(1));
        self.left = header.number(2).unwrap_or(0);
        // Records behind a change of ciphers are encrypted, and so is application data (RFC 8446 section 5).
        // Where hellos are repeated the change means nothing (appendix D.4).
        let clear = matches!(kind, HANDSHAKE | ALERT) || kind == CHANGE && retries;
        let known = clear && major == Some(3);
        if !known {
            if !matches!(kind, 20..=24) {
                sink.values.clear();
                sink.values.notice(Notice::TlsInvalidRecord);
                sink.head((Protocol::Tls, to_server), true);
            }
            self.stop();
        } else if self.left == 0 {
            self.header.clear();
        }
    }

    fn stop(&mut self) {
        *self = Side {
            over: true,
            told: self.told,
            ..Side::default()
        };
    }
}

fn put_client_hello(body: &[u8], values: &mut Values) {
    let Some(hello) = Hello::parse(body, true) else {
        values.notice(Notice::TlsInvalidHandshake);
        return;
    };
    values.number(Number::TlsVersion, hello.version(true));
    put_random(&hello, values);
    if let Some(name) = hello.server_name() {
        values.put(Field::TlsSni, name);
    }
    let mut string = Vec::new();
    ja3(&hello, &mut string);
    values.put(Field::Ja3String, &string);
    values.make(Field::Ja3Hash, |out| hash(&string, out));
    values.make(Field::Ja4Hash, |out| ja4(&hello, out));
}

fn put_server_hello(body: &[u8], values: &mut Values) {
    let Some(hello) = Hello::parse(body, false) else {
        values.notice(Notice::TlsInvalidHandshake);
        return;
    };
    values.number(Number::TlsVersion, hello.version(false));
    put_random(&hello, values);
    let mut string = Vec::new();
    ja3s(&hello, &mut string);
    values.put(Field::Ja3sString, &string);
    values.make(Field::Ja3sHash, |out| hash(&string, out));
}

/// The random of a hello; up to TLS 1.2 its first four bytes are the time (RFC 5246 section 7.4.1.2).
fn put_random(hello: &Hello<'_>, values: &mut Values) {
    let (time, bytes) = hello.random.split_at(hello.random.len().min(4));
    values.put(Field::TlsRandom, hello.random);
    values.put(Field::TlsRandomTime, time);
    values.put(Field::TlsRandomBytes, bytes);
}

/// The chain of a server up to TLS 1.2 (RFC 5246 section 7.4.2); later ones are encrypted.
fn put_certificates(body: &[u8], values: &mut Values) {
    let mut chain = Bytes(Bytes(body).vector(3).unwrap_or(&[]));
    let mut count = 0u32;
    while let Some(bytes) = chain.vector(3) {
        if count == 0 && !certificate::put(bytes, values) {
            values.notice(Notice::TlsInvalidCertificate);
        }
        if (count as usize) < MOST_CERTIFICATES {
            values.put(Field::TlsCertificate, bytes);
        }
        count += 1;
    }
    values.number(Number::TlsChainLength, count);
}
