//! Messages, their fields, and the memory that lends them.

use crate::field::{Field, Notice, Number, Protocol};

/// The part of a message that is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// All but the body.
    Head,
    /// The body, or what there is of it.
    Body,
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its name.
    pub field: Field,
    /// Its bytes, from the first one on.
    pub bytes: &'a [u8],
    /// Bytes at the front that were handed out before; 0 but for bodies.
    pub old: usize,
    /// Nothing follows these bytes.
    pub complete: bool,
}

/// A message of an application protocol, as far as it is known. A body is handed out as it grows, each time
/// with the fields of its head.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Protocol.
    pub protocol: Protocol,
    /// True for messages of the client.
    pub to_server: bool,
    /// The part that is new.
    pub phase: Phase,
    /// Nothing more of this message will come.
    pub last: bool,
    /// It is the message that was handed out before, with more of it: a body, a TLS server's certificates
    /// behind its hello, or a hello that is repeated.
    pub continues: bool,
    values: &'a Values,
    body: &'a [Value<'a>],
}

impl<'a> Message<'a> {
    /// Fields, in the order of the message; a field may be there several times.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let head = self.values.spans.iter().map(|&(field, start, end)| Value {
            field,
            bytes: self.values.bytes.get(start..end).unwrap_or(&[]),
            old: 0,
            complete: true,
        });
        head.chain(self.body.iter().copied())
    }

    /// Bytes of a field, the first of that name.
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.values()
            .find(|value| value.field == field)
            .map(|value| value.bytes)
    }

    /// Numbers, in the order of the message.
    pub fn numbers(&self) -> &'a [(Number, i64)] {
        &self.values.numbers
    }

    /// A number, the first of that name.
    pub fn number(&self, number: Number) -> Option<i64> {
        let found = self.values.numbers.iter().find(|(name, _)| *name == number);
        found.map(|&(_, value)| value)
    }

    /// What is out of the ordinary.
    pub fn notices(&self) -> &'a [Notice] {
        &self.values.notices
    }
}

/// Memory for the fields of one message, used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    spans: Vec<(Field, usize, usize)>,
    numbers: Vec<(Number, i64)>,
    notices: Vec<Notice>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.numbers.clear();
        self.notices.clear();
    }

    pub(crate) fn put(&mut self, field: Field, bytes: &[u8]) {
        self.make(field, |out| out.extend_from_slice(bytes));
    }

    /// Adds a field whose bytes `write` appends.
    pub(crate) fn make(&mut self, field: Field, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.spans.push((field, start, self.bytes.len()));
    }

    pub(crate) fn number(&mut self, number: Number, value: impl Into<i64>) {
        self.numbers.push((number, value.into()));
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    #[cfg(test)]
    pub(crate) fn notices(&self) -> &[Notice] {
        &self.notices
    }

    pub(crate) fn message<'a>(
        &'a self,
        (protocol, to_server): (Protocol, bool),
        phase: Phase,
        last: bool,
        body: &'a [Value<'a>],
    ) -> Message<'a> {
        Message {
            protocol,
            to_server,
            phase,
            last,
            continues: phase == Phase::Body,
            values: self,
            body,
        }
    }
}

/// Receives messages.
pub type Take<'t> = dyn FnMut(&Message<'_>) + 't;

/// Where parsers put their messages: memory that is used again, and the receiver.
pub(crate) struct Sink<'a, 't> {
    pub(crate) values: &'a mut Values,
    pub(crate) take: &'a mut Take<'t>,
}

impl Sink<'_, '_> {
    /// Hands out a message without a body.
    pub(crate) fn head(&mut self, of: (Protocol, bool), last: bool) {
        (self.take)(&self.values.message(of, Phase::Head, last, &[]));
    }

    /// Hands out a message again, with fields behind those of before.
    pub(crate) fn more(&mut self, of: (Protocol, bool)) {
        (self.take)(&Message {
            continues: true,
            ..self.values.message(of, Phase::Head, true, &[])
        });
    }
}
