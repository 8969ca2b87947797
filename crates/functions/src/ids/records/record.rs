//! Records before they are written as events.

use weir_dissect::{Notice, Protocol};
use weir_signatures::{DecodeEvents, PacketView, StreamEvents};

use super::file::File;
use super::kinds::{RecordKind, Recording};
use super::note::Note;

/// Most records of one packet; more are counted and not told.
const MOST: usize = 256;

/// The client's and the server's fields of a transaction; of SMTP the greeting, and the mail.
pub(super) type Sides = [Note; 2];

/// A transaction, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Transaction {
    pub(in super::super) protocol: Protocol,
    /// Its number in the flow, from 0.
    pub(super) number: u32,
    pub(super) sides: Sides,
}

impl Transaction {
    /// Its number in the flow, from 0.
    pub(in super::super) fn number(&self) -> u32 {
        self.number
    }
}

/// A record that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Record {
    /// Of a transaction.
    Transaction(Transaction),
    /// Of a file in a transaction.
    File {
        /// The transaction.
        of: Transaction,
        /// The client has sent it.
        to_server: bool,
        /// The file.
        file: File,
    },
    /// Of something out of the ordinary.
    Anomaly {
        /// The message's protocol.
        protocol: Protocol,
        /// It is a message of the client.
        to_server: bool,
        /// What is odd.
        notice: Notice,
    },
    /// Of something out of the ordinary in a packet.
    Packet {
        /// `decode` or `stream`.
        kind: &'static str,
        /// It is a packet of the client.
        to_server: bool,
        /// The event's name.
        event: &'static str,
    },
}

/// Records of one inspection.
#[derive(Debug, Default)]
pub(in super::super) struct Records {
    pub(in super::super) list: Vec<Record>,
    /// Notes that had no room to wait, and records beyond the bound.
    pub(in super::super) lost: u64,
}

impl Records {
    /// Takes note of what is odd about a packet.
    #[inline]
    pub(in super::super) fn packet(&mut self, asks: &Recording, view: &PacketView<'_>) {
        let (decode, stream) = (view.events, view.stream_events);
        let is_plain = decode == DecodeEvents::NONE && stream == StreamEvents::NONE;
        if is_plain || !asks.has(RecordKind::Anomaly) {
            return;
        }
        let to_server = view.flow.to_server;
        let packet = |kind, event| Record::Packet {
            kind,
            to_server,
            event,
        };
        let decode = decode.iter().map(|event| packet("decode", event.name()));
        let stream = stream.iter().map(|event| packet("stream", event.name()));
        decode.chain(stream).for_each(|record| self.push(record));
    }

    /// Adds a record, or counts it as lost where there are too many.
    pub(super) fn push(&mut self, record: Record) {
        if self.list.len() < MOST {
            self.list.push(record);
        } else {
            self.lost += 1;
        }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.lost == 0
    }
}
