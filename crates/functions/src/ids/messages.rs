//! Messages of application protocols, and the rules that look into them.

use weir_dissect::{Dissector, Field, Message, Protocol};
use weir_nf::prelude::*;
use weir_signatures::{
    Alert, AppEvent, AppEvents, AppNumber, Application, Buffer, Bytes, FlowContext, FlowVars,
    MessageState, Phase, Scratch, Transaction,
};

use super::Ids;
use super::counts::Count;
use super::inspect::Inspection;
use super::parser::{Head, Input, Live, append, give, snapshot};
use super::protocols;
use super::records::{self, AlertField, Pending, Transactions};
use super::report::Found;
use super::side_buffers::{PARSER, WAITING, WINDOWS};
use super::view::turned;

/// The buffer of each field, by the field's number.
pub(super) fn buffers() -> Vec<Option<weir_signatures::Buffer>> {
    let fields = weir_dissect::Field::ALL.iter();
    fields
        .map(|field| weir_signatures::Buffer::sticky(field.name()))
        .collect()
}

/// The numbers that rules ask for; those of the parsers have the same names.
fn numbers(message: &Message<'_>) -> Vec<(AppNumber, u32)> {
    let numbers = message.numbers().iter().filter_map(|&(number, value)| {
        Some((AppNumber::named(number.name())?, u32::try_from(value).ok()?))
    });
    let file = message
        .values()
        .find(|value| value.field == Field::FileData);
    let size = file.filter(|value| match message.protocol {
        Protocol::Smtp => value.complete,
        protocol => message.last && protocol == Protocol::Http,
    });
    let size = size.map(|value| (AppNumber::FileSize, value.bytes.len() as u32));
    numbers.chain(size).collect()
}

/// The events that rules ask for, among the notices of a message; both have the same names.
fn events(message: &Message<'_>) -> AppEvents {
    let notices = message.notices().iter();
    let events = notices.filter_map(|notice| AppEvent::named(notice.name()));
    events.fold(AppEvents::NONE, AppEvents::with)
}

/// What rules see of a flow while a message of it is inspected.
struct Around<'a> {
    ids: &'a Ids,
    flow: &'a FlowContext,
    payload: &'a [u8],
}

impl Around<'_> {
    fn inspect(
        &self,
        message: &Message<'_>,
        head: &mut Head,
        bits: &mut FlowVars,
        rules: &mut Scratch,
        found: &mut Found,
        transactions: &mut Transactions<'_>,
    ) {
        let known = protocols::of_rules(message.protocol);
        if found.is_muted() || !self.ids.messages.contains(known) {
            return;
        }
        let phase = match message.phase {
            weir_dissect::Phase::Head => Phase::Head,
            weir_dissect::Phase::Body => Phase::Body,
        };
        let [up, down] = &mut head.matched;
        let state = if message.to_server { up } else { down };
        if !message.continues {
            *state = MessageState::default();
        }
        let buffers = message.values().filter_map(|value| {
            Some(Bytes {
                buffer: (*self.ids.buffers.get(value.field as usize)?)?,
                bytes: value.bytes,
                offset: 0,
                complete: value.complete,
            })
        });
        let name = match self.ids.recording.names() {
            true => transactions.file_name(message),
            false => None,
        };
        let name = name
            .as_deref()
            .map(|name| Bytes::whole(Buffer::FileName, name));
        let buffers: Vec<Bytes<'_>> = buffers.chain(name).collect();
        let transaction = Transaction {
            protocol: known,
            phase,
            numbers: &numbers(message),
            events: events(message),
            buffers: &buffers,
            payload: self.payload,
        };
        // What a protocol begins with may be read only when the other side answers.
        let flow = match message.to_server == self.flow.to_server {
            true => *self.flow,
            false => turned(self.flow),
        };
        let mut note = |alert: &Alert<'_>| found.note(alert);
        let set = &self.ids.rules;
        let inspection =
            set.inspect_transaction(&flow, &transaction, state, bits, rules, &mut note);
        found.after(inspection);
    }
}

impl Inspection<'_, '_, '_> {
    /// Gives the flow's parser the last bytes of the window, which waited for the handshake.
    pub(super) fn deferred_messages(&mut self, side: usize, about: &FlowContext, count: usize) {
        if !self.ids.parses() {
            return;
        }
        // A copy: the window can't be read while another buffer is written.
        let mut piece = core::mem::take(&mut self.space.piece);
        let window = self.flow.buffered(WINDOWS + side, self.cx);
        let from = window.len().saturating_sub(count);
        piece.clear();
        piece.extend_from_slice(window.get(from..).unwrap_or(&[]));
        self.messages(side, about, Input::Stream(&piece));
        self.space.piece = piece;
    }

    /// Gives the flow's parser more, and what it reads to the rules.
    pub(super) fn messages(&mut self, side: usize, about: &FlowContext, input: Input<'_>) {
        if !self.ids.parses() || self.flow.state.progress.is_unparsed() {
            return;
        }
        let bytes = self.flow.buffered(PARSER, self.cx);
        if bytes.is_empty() && matches!(input, Input::End) {
            return;
        }
        let id = self.flow.info.id();
        let mut head = match Head::read_from_prefix(bytes) {
            Ok((head, _)) => head,
            Err(_) => Head::new(id),
        };
        let parser = self.space.parsers.get(id, &head, bytes);
        let Some(mut parser) = parser else {
            return self.stop_parsing(true);
        };
        let window = self.flow.buffered(WINDOWS + side, self.cx);
        let around = Around {
            ids: self.ids,
            flow: about,
            payload: match input {
                Input::Datagram(bytes) => bytes,
                Input::Stream(bytes) if window.is_empty() => bytes,
                _ => window,
            },
        };
        let mut bits = self.flow.state.bits;
        let token = head.token;
        let (rules, found) = (&mut self.space.rules, &mut self.space.found);
        let waiting = self.flow.buffered(WAITING, self.cx);
        let records = &mut self.space.records;
        let mut transactions = Transactions::new(&self.ids.recording, waiting, records);
        let shows = self.ids.recording.shows(AlertField::App);
        let mut take = |message: &Message<'_>| {
            around.inspect(
                message,
                &mut head,
                &mut bits,
                rules,
                found,
                &mut transactions,
            );
            // Alerts of the bytes that brought the message are about it, too.
            let wanted = shows && found.has_unattached();
            if let Some(transaction) = transactions.take(message, wanted) {
                found.attach(transaction);
            }
        };
        let (means, given) = (&mut self.space.parsers.means, (about.to_server, input));
        head.token = give(&mut parser, given, token, means, &mut take);
        let pending = transactions.pending;
        self.keep_waiting(&pending);
        if bits != self.flow.state.bits {
            self.flow.state.bits = bits;
        }
        let decided = self.decide(&parser);
        self.keep(about.to_server, input, head, parser);
        self.tell(about);
        if decided && self.ids.asks {
            self.look_again(side, about);
            self.look_again(1 - side, &turned(about));
        }
    }

    /// Notes what the flow speaks; true where that is new.
    fn decide(&mut self, parser: &Dissector) -> bool {
        let application = match parser.protocol() {
            Some(known) => Application::Known(protocols::of_rules(known)),
            None if parser.is_over() => Application::Other,
            None => return false,
        };
        // Most messages change nothing: the state is marked changed only by one that does.
        let mut progress = self.flow.state.progress;
        progress.decide(application);
        let new = progress != self.flow.state.progress;
        if new {
            self.flow.state.progress = progress;
        }
        new
    }

    /// Writes the parser into its side buffer, and keeps it alive.
    fn keep(&mut self, to_server: bool, input: Input<'_>, head: Head, parser: Dissector) {
        let known = parser.protocol().map(protocols::of_rules);
        let unwanted = known.is_some_and(|known| !self.ids.parsed.contains(known));
        if parser.is_over() || unwanted {
            return self.stop_parsing(false);
        }
        let id = self.flow.info.id();
        let Some(mut buffer) = self.flow.buffer(PARSER, self.cx) else {
            return;
        };
        let parsers = &mut self.space.parsers;
        let appended = match input {
            Input::Stream(bytes) => append(&mut buffer, head, to_server, bytes),
            _ => false,
        };
        let kept = appended || snapshot(&mut buffer, head, &parser, &mut parsers.saved);
        if !kept {
            return self.stop_parsing(true);
        }
        let token = head.token;
        if let Some(place) = parsers.place(id) {
            *place = Some(Live {
                flow: id,
                token,
                parser,
            });
        }
    }

    /// Writes the pending notes into their side buffer.
    fn keep_waiting(&mut self, pending: &Pending) {
        if !pending.is_changed() {
            return;
        }
        let saved = &mut self.space.parsers.saved;
        saved.clear();
        pending.write(saved);
        let Some(mut buffer) = self.flow.buffer(WAITING, self.cx) else {
            return;
        };
        buffer.clear();
        if buffer.extend(saved).is_err() {
            // Numbers go on.
            saved.clear();
            self.space.records.lost += pending.write_head(saved);
            buffer.clear();
            let _ = buffer.extend(saved);
        }
    }

    /// Ends the flow's transactions: requests and commands without an answer become records.
    pub(super) fn end_records(&mut self) {
        let Application::Known(known) = self.flow.state.progress.application() else {
            return;
        };
        let waiting = self.flow.buffered(WAITING, self.cx);
        if waiting.is_empty() {
            return;
        }
        let records = &mut self.space.records;
        let mut transactions = Transactions::new(&self.ids.recording, waiting, records);
        transactions.end(protocols::of_parsers(known));
        let pending = transactions.pending;
        self.keep_waiting(&pending);
    }

    /// The transaction under way, for alerts that are about no message.
    pub(super) fn under_way(&self, to_server: bool) -> Option<records::Transaction> {
        let Application::Known(known) = self.flow.state.progress.application() else {
            return None;
        };
        let pending = Pending::read(self.flow.buffered(WAITING, self.cx));
        records::under_way(&pending, protocols::of_parsers(known), to_server)
    }

    /// Nothing more of this flow is parsed.
    fn stop_parsing(&mut self, lost: bool) {
        self.end_records();
        self.flow.state.progress.stop_parsing();
        if let Some(mut buffer) = self.flow.buffer(PARSER, self.cx) {
            buffer.clear();
        }
        self.cx.count(Count::MessagesLost, u64::from(lost));
    }
}
