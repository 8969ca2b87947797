//! From packets to inspections: what is in order goes to the rules with the
//! bytes before it, everything else as a packet.

use weir_nf::packet::tcp::{TcpView, flag};
use weir_nf::prelude::*;
use weir_signatures::{Alert, Application, FlowContext, PacketView, StreamBytes, view};

use super::Ids;
use super::counts::Count;
use super::parser::Input;
use super::records::AlertField;
use super::report::{About, Space, tell};
use super::side_buffers::{self, WINDOWS};
use super::state::{IdsState, SideState};
use super::view::{flow_of_key, packet_view, turned};
use crate::stream::{Pending, Segment, Step};

/// Most bytes of a payload in an alert, as Suricata's `payload-buffer-size`.
const MOST_SHOWN: usize = 4096;

/// One packet (or the end) of one flow on its way through the rules.
pub(super) struct Inspection<'i, 'f, 'c> {
    pub(super) ids: &'i Ids,
    pub(super) flow: &'i mut Flow<'f, Ids>,
    pub(super) cx: &'i mut Context<'c>,
    pub(super) space: &'i mut Space,
    /// The packet's payload and frame; nothing at the end of a flow.
    payload: &'i [u8],
    frame: &'i [u8],
    /// Bytes that come now are not inspected before the handshake is complete.
    defer: bool,
    blocked: bool,
}

impl<'i, 'f, 'c> Inspection<'i, 'f, 'c> {
    pub(super) fn new(
        ids: &'i Ids,
        flow: &'i mut Flow<'f, Ids>,
        cx: &'i mut Context<'c>,
        space: &'i mut Space,
    ) -> Self {
        let is_passed = ids.has_passed(&flow.state);
        if !is_passed && flow.state.progress.is_passed() {
            // By rules of before a reload.
            flow.state.progress.forget_pass();
        }
        space.found.begin(is_passed);
        Inspection {
            ids,
            flow,
            cx,
            space,
            payload: &[],
            frame: &[],
            defer: false,
            blocked: false,
        }
    }

    /// Inspects a packet; true where the flow is to be blocked.
    #[inline]
    pub(super) fn packet(mut self, packet: &'i Packet<'_>) -> bool {
        let info = self.flow.info;
        let side = usize::from(!info.to_server());
        let ports = || {
            let (key, direction) = (info.key(), info.direction());
            (key.source(direction).1, key.destination(direction).1)
        };
        let Some(mut view) = packet_view(packet, ports) else {
            return false;
        };
        (self.payload, self.frame) = (view.payload, packet.bytes());
        let segment = view.tcp.and_then(|_| Segment::of(packet));
        let before = self.flow.state.progress;
        let mut progress = before;
        if self.ids.decodes || self.ids.watches {
            self.odd(side, packet, &mut view);
        }
        view.first_in_direction = progress.packet(side);
        if let Some(segment) = &segment {
            let first = before == Default::default();
            progress.segment(side, segment.flags, self.ids.midstream, first);
        }
        if progress != before {
            self.flow.state.progress = progress;
        }
        view.flow.to_server = side == 0;
        self.space.records.packet(&self.ids.recording, &view);
        let established = progress.is_established(segment.is_some());
        // The packet that completes the handshake counts as one before it,
        // unless it brings data already.
        view.flow.established = established
            && (segment.is_none() || before.is_established(true) || !view.payload.is_empty());
        if self.ids.asks {
            self.decided(side, &mut view);
        }
        let mut inspected = false;
        if let Some(segment) = &segment
            && self.ids.streams
            && progress.is_followed()
        {
            view.in_stream = segment.flags & flag::RST == 0;
            view.stream_bytes = Some(self.stream_bytes(side, segment));
            inspected = self.segment(side, segment, &view, established);
        }
        if !inspected {
            self.alone(&view, false);
        }
        // A fragment's message has its end elsewhere, and nothing is no message.
        if view.flow.protocol == view::UDP
            && self.ids.parses_datagrams()
            && !packet.headers().is_fragment()
            && !view.payload.is_empty()
        {
            self.messages(side, &view.flow, Input::Datagram(view.payload));
        }
        if self.ids.asks && view.flow.application == Application::Undecided {
            self.decided(side, &mut view);
            if view.first_decided {
                self.alone(&view, true);
            }
        }
        self.tell(&view.flow);
        self.note_passed();
        if self.blocked {
            // Nothing more is looked at.
            self.end_records();
            self.tell(&view.flow);
        }
        self.blocked
    }

    /// Marks the flow as passed where this packet passes it. Records alone still need what the buffers have.
    fn note_passed(&mut self) {
        if !self.space.found.passes() {
            return;
        }
        let state = &mut *self.flow.state;
        state.progress.pass();
        // It is passed by these rules, not by those of a reload.
        state.bits.adopt(self.ids.rules.generation());
        if !self.ids.recording.writes_any() {
            for buffer in 0..side_buffers::COUNT as usize {
                if let Some((_, mut kept)) = self.flow.parts(buffer, self.cx) {
                    kept.clear();
                }
            }
        }
    }

    /// Bytes of the client's and of the server's stream, each with its SYN, this segment among them.
    fn stream_bytes(&self, side: usize, segment: &Segment<'_>) -> [u32; 2] {
        [0, 1].map(|of| {
            let stream = &self.flow.state.side(of).stream;
            let bytes = match of == side {
                true => stream.end_of(segment),
                false => stream.offset(),
            };
            u32::try_from(bytes.saturating_add(1)).unwrap_or(u32::MAX)
        })
    }

    /// Writes the events of the packet into its view.
    fn odd(&mut self, side: usize, packet: &Packet<'_>, view: &mut PacketView<'_>) {
        let before = self.flow.state.seen;
        let mut seen = before;
        view.events = self.ids.decode_events(packet, &mut seen);
        if self.ids.watches
            && let Some(tcp) = TcpView::of(packet.bytes(), packet.headers())
        {
            view.stream_events = seen.segment(side, &tcp);
        }
        // The state is written where something was noted only.
        if seen != before {
            self.flow.state.seen = seen;
        }
    }

    /// Writes the application protocol of the flow into the view of its packet.
    fn decided(&mut self, side: usize, view: &mut PacketView<'_>) {
        let mut progress = self.flow.state.progress;
        view.flow.application = progress.application();
        view.first_decided = progress.inspected(side);
        if view.first_decided {
            self.flow.state.progress = progress;
        }
    }

    /// Inspects what is left when the flow ends.
    pub(super) fn end(mut self) {
        let info = self.flow.info;
        let progress = self.flow.state.progress;
        for side in 0..2 {
            let client = info.client_direction();
            let direction = if side == 0 { client } else { client.opposite() };
            let about = flow_of_key(info.key(), direction, side == 0, progress);
            self.run(side, &mut Pending::flush(), &about, None);
            self.finish(side, &about);
            self.messages(side, &about, Input::End);
        }
        let client = info.client_direction();
        let about = flow_of_key(info.key(), client, true, self.flow.state.progress);
        self.end_records();
        self.tell(&about);
    }

    /// Tries the rules on the packet alone; those on application protocols only where the others have seen it
    /// (`again`).
    fn alone(&mut self, view: &PacketView<'_>, again: bool) {
        if self.space.found.is_muted() {
            return;
        }
        // Most packets change no bit: the state is marked changed only by one
        // that does.
        let mut bits = self.flow.state.bits;
        let (rules, found) = (&mut self.space.rules, &mut self.space.found);
        let set = &self.ids.rules;
        let mut note = |alert: &Alert<'_>| found.note(alert);
        let inspection = match again {
            false => set.inspect_packet(view, &mut bits, rules, &mut note),
            true => set.inspect_packet_again(view, &mut bits, rules, &mut note),
        };
        found.after(inspection);
        if inspection.wrote_vars && bits != self.flow.state.bits {
            self.flow.state.bits = bits;
        }
    }

    /// Tries the rules on application protocols on the window of a side, once the protocol is known.
    pub(super) fn look_again(&mut self, side: usize, about: &FlowContext) {
        if self.space.found.is_muted() {
            return;
        }
        let about = &self.speaking(about);
        let Some((state, window)) = self.flow.parts(WINDOWS + side, self.cx) else {
            return;
        };
        let IdsState { bits, sides, .. } = state;
        let own = &mut sides[side & 1];
        let all = window.as_slice();
        // Those at the end wait for the handshake.
        let seen = all.len().saturating_sub(own.deferred as usize);
        let bytes = StreamBytes {
            window: all.get(..seen).unwrap_or(all),
            new_from: 0,
            offset: own.stream.offset().saturating_sub(all.len() as u64),
            last: false,
        };
        if bytes.window.is_empty() {
            return;
        }
        let (rules, found) = (&mut self.space.rules, &mut self.space.found);
        let set = &self.ids.rules;
        let mut note = |alert: &Alert<'_>| found.note(alert);
        let inspection =
            set.inspect_stream_again(about, &mut own.matching, &bytes, bits, rules, &mut note);
        found.after(inspection);
        self.tell(about);
    }

    /// Writes what was found.
    pub(super) fn tell(&mut self, flow: &FlowContext) {
        if self.space.found.is_empty() && self.space.records.is_empty() {
            return;
        }
        let recording = &self.ids.recording;
        let shows = |field| recording.shows(field) && !self.space.found.is_empty();
        let under_way = match shows(AlertField::App) {
            true => self.under_way(flow.to_server),
            false => None,
        };
        // A copy: the window can't be read while an event is written.
        let mut payload = Vec::new();
        if shows(AlertField::Payload) || shows(AlertField::PayloadPrintable) {
            let side = usize::from(!flow.to_server);
            let window = self.flow.buffered(WINDOWS + side, self.cx);
            let bytes = if window.is_empty() {
                self.payload
            } else {
                window
            };
            let from = bytes.len().saturating_sub(MOST_SHOWN);
            payload.extend_from_slice(bytes.get(from..).unwrap_or(bytes));
        }
        let about = About {
            flow,
            id: Some(self.flow.info.id()),
            recording,
            under_way,
            payload: &payload,
            frame: self.frame,
        };
        if tell(&self.ids.catalogue, &about, self.space, self.cx) {
            self.blocked = true;
        }
    }

    /// Puts a segment into its stream; true where the packet was inspected
    /// with the bytes that it added.
    fn segment(
        &mut self,
        side: usize,
        segment: &Segment<'_>,
        view: &PacketView<'_>,
        established: bool,
    ) -> bool {
        let other = 1 - side;
        if established {
            let about = FlowContext {
                established,
                ..view.flow
            };
            self.inspect_deferred(side, &about);
            self.inspect_deferred(other, &turned(&about));
        }
        if segment.flags & flag::ACK != 0 && self.flow.state.side(other).stream.is_waiting() {
            let peer = self.flow.state.side_mut(other);
            peer.stream.acknowledged(segment.ack);
        }
        if self.flow.state.side(side).stream.is_idle_for(segment) {
            return false;
        }
        self.defer = segment.flags & flag::SYN != 0;
        let Some((state, mut buffer)) = self.flow.parts(side, self.cx) else {
            return false;
        };
        let stream = &mut state.side_mut(side).stream;
        let mut pending = stream.arrive(segment, &self.ids.limits, &mut buffer);
        self.run(side, &mut pending, &view.flow, Some(view))
    }

    /// Takes everything out of a stream that is in order; true where the
    /// packet was inspected with it.
    fn run(
        &mut self,
        side: usize,
        pending: &mut Pending<'_>,
        about: &FlowContext,
        view: Option<&PacketView<'_>>,
    ) -> bool {
        let mut inspected = false;
        loop {
            let Some((state, mut buffer)) = self.flow.parts(side, self.cx) else {
                return inspected;
            };
            let stream = &mut state.side_mut(side).stream;
            match stream.step(pending, &self.ids.limits, &mut buffer) {
                Step::Data(bytes) => {
                    let view = view.filter(|_| !inspected);
                    inspected |= self.feed(side, bytes, about, view);
                }
                Step::Stored => {
                    // A side buffer can't be read while another is written.
                    let mut piece = core::mem::take(&mut self.space.piece);
                    let stored = stream.stored(buffer.as_slice());
                    let count = stored.len().min(piece.capacity());
                    piece.clear();
                    piece.extend_from_slice(stored.get(..count).unwrap_or(&[]));
                    stream.take(count, &mut buffer);
                    self.feed(side, &piece, about, None);
                    self.space.piece = piece;
                }
                Step::Gap(count) => {
                    self.cx.count(Count::LostBytes, count);
                    self.forget(side);
                    self.messages(side, about, Input::Gap(count));
                }
                Step::End => {
                    self.finish(side, about);
                    self.messages(side, about, Input::End);
                    // The other side may still decide what the flow speaks.
                    let progress = self.flow.state.progress;
                    if !self.ids.asks || progress.application() != Application::Undecided {
                        self.forget(side);
                    }
                }
                Step::Done => return inspected,
            }
        }
    }

    /// New bytes of a stream; true where they were inspected, and the packet
    /// with them.
    fn feed(
        &mut self,
        side: usize,
        bytes: &[u8],
        about: &FlowContext,
        view: Option<&PacketView<'_>>,
    ) -> bool {
        if self.flow.state.side(1 - side).talking != 0 {
            self.finish(1 - side, &turned(about));
        }
        let Some((state, mut window)) = self.flow.parts(WINDOWS + side, self.cx) else {
            return false;
        };
        let SideState {
            deferred, talking, ..
        } = state.side_mut(side);
        *talking = 1;
        let kept = window.extend(bytes).is_ok();
        let mut fresh = bytes.len();
        if kept {
            fresh += *deferred as usize;
            if self.defer && fresh <= self.ids.window {
                *deferred = fresh as u32;
                return false;
            }
        } else {
            // No memory for a window: the rules see these bytes alone.
            window.clear();
        }
        *deferred = 0;
        self.match_stream(side, bytes, fresh, kept, about, view);
        // Alerts of the stream are told behind the messages, whose fields they show.
        self.parse(side, about, bytes, fresh);
        self.tell(about);
        self.shorten(side);
        view.is_some()
    }

    /// Tries the rules on the last `fresh` bytes of a window, of which `bytes` are the last; where it has not
    /// `kept` them, on these alone.
    fn match_stream(
        &mut self,
        side: usize,
        bytes: &[u8],
        fresh: usize,
        kept: bool,
        about: &FlowContext,
        view: Option<&PacketView<'_>>,
    ) {
        if self.space.found.is_muted() {
            return;
        }
        let about = &self.speaking(about);
        let spoken;
        let view = match view {
            Some(view) if self.ids.asks => {
                spoken = PacketView {
                    flow: *about,
                    ..*view
                };
                Some(&spoken)
            }
            view => view,
        };
        let Some((state, window)) = self.flow.parts(WINDOWS + side, self.cx) else {
            return;
        };
        let IdsState { bits, sides, .. } = state;
        let SideState {
            stream, matching, ..
        } = &mut sides[side & 1];
        let all = if kept { window.as_slice() } else { bytes };
        let new = StreamBytes {
            window: all,
            new_from: all.len().saturating_sub(fresh),
            offset: stream.offset().saturating_sub(all.len() as u64),
            last: false,
        };
        let (rules, found) = (&mut self.space.rules, &mut self.space.found);
        let mut note = |alert: &Alert<'_>| found.note(alert);
        let set = &self.ids.rules;
        let inspection = match view {
            Some(view) => set.inspect_segment(view, matching, &new, bits, rules, &mut note),
            None => set.inspect_stream(about, matching, &new, bits, rules, &mut note),
        };
        found.after(inspection);
        if !kept {
            self.cx.count(Count::NoWindow, 1);
        }
    }

    /// Gives the parser the last `fresh` bytes of a window, of which `bytes` are the last.
    fn parse(&mut self, side: usize, about: &FlowContext, bytes: &[u8], fresh: usize) {
        if fresh > bytes.len() {
            self.deferred_messages(side, about, fresh);
        } else {
            self.messages(side, about, Input::Stream(bytes));
        }
    }

    /// Takes off the window what rules don't look back at; now and then rather
    /// than every time, since moving the bytes costs.
    #[inline]
    fn shorten(&mut self, side: usize) {
        let keep = self.ids.window;
        if let Some((_, mut window)) = self.flow.parts(WINDOWS + side, self.cx)
            && window.len() > keep + keep / 2
        {
            window.consume(window.len() - keep);
        }
    }

    /// Inspects bytes that waited for the handshake.
    #[inline]
    fn inspect_deferred(&mut self, side: usize, about: &FlowContext) {
        if self.flow.state.side(side).deferred != 0 {
            self.inspect_window(side, about, false);
        }
    }

    /// No more bytes of a message are to be expected.
    fn finish(&mut self, side: usize, about: &FlowContext) {
        if self.flow.state.side(side).talking != 0 {
            self.inspect_window(side, about, true);
        }
    }

    /// Inspects what of the window was not inspected yet.
    fn inspect_window(&mut self, side: usize, about: &FlowContext, last: bool) {
        let fresh = self.flow.state.side(side).deferred as usize;
        let about = &self.speaking(about);
        let Some((state, window)) = self.flow.parts(WINDOWS + side, self.cx) else {
            return;
        };
        let IdsState { bits, sides, .. } = state;
        let own = &mut sides[side & 1];
        let all = window.as_slice();
        own.deferred = 0;
        if last {
            own.talking = 0;
        }
        let bytes = StreamBytes {
            window: all,
            new_from: all.len().saturating_sub(fresh),
            offset: own.stream.offset().saturating_sub(all.len() as u64),
            last,
        };
        let (rules, found) = (&mut self.space.rules, &mut self.space.found);
        if !found.is_muted() {
            let (set, matching) = (&self.ids.rules, &mut own.matching);
            let mut note = |alert: &Alert<'_>| found.note(alert);
            let inspection = set.inspect_stream(about, matching, &bytes, bits, rules, &mut note);
            found.after(inspection);
        }
        if fresh != 0 {
            self.deferred_messages(side, about, fresh);
        }
        self.tell(about);
    }

    /// The flow, with what it is known to speak by now.
    fn speaking(&self, flow: &FlowContext) -> FlowContext {
        FlowContext {
            application: self.flow.state.progress.application(),
            ..*flow
        }
    }

    /// Nothing before the next bytes is theirs.
    fn forget(&mut self, side: usize) {
        if let Some((state, mut window)) = self.flow.parts(WINDOWS + side, self.cx) {
            state.side_mut(side).deferred = 0;
            window.clear();
        }
    }
}
