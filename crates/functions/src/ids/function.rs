//! The function itself: settings in, packets to inspections, verdicts out.

use weir_nf::WorkSpace;
use weir_nf::prelude::*;
use weir_signatures::{AppProtocols, FlowVars};

use super::counts::{Count, Reason};
use super::inspect::Inspection;
use super::messages::buffers;
use super::parser::MOST_BYTES as PARSER_BYTES;
use super::records::RecordKind;
use super::report::{About, Space, tell};
use super::seen::Seen;
use super::side_buffers::{self, BUFFER_BYTES};
use super::view::packet_view;
use super::{Ids, IdsState, Settings};

/// Bytes moved at a time from those that waited into a window.
const PIECE: usize = 16 * 1024;

// A parser's state fits its side buffer.
const _: () = assert!(PARSER_BYTES <= BUFFER_BYTES as usize);

impl NetworkFunction for Ids {
    type Settings = Settings;
    type State = IdsState;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Matches packets and reassembled TCP streams against rules in the language of \
Suricata and Snort, and records an `alert` event per match with Suricata's fields (action, gid, \
signature_id, rev, signature, category, severity).\n\n\
Rule keywords: content with nocase, depth, offset, distance, within, startswith, endswith, fast_pattern; \
pcre, isdataat, byte_test, byte_jump, byte_extract, byte_math; ipv4.hdr and the other headers with bsize; \
flow, flowbits, flowint, dsize, flags, seq, ack, window, ttl, id, ipopts, ip_proto, sameip, fragbits, \
fragoffset, tos, itype, icode, icmp_id, \
icmp_seq, tcp.mss, icmpv6.mtu, decode-event; app-layer-protocol, app-layer-event, dns.opcode and other numbers; \
dotprefix, to_lowercase and other changes of buffers; msg, sid, gid, rev, classtype, priority, reference, \
metadata, target, threshold, detection_filter; dataset (isset, isnotset), datarep, iprep, filemd5 and its like, xbits, \
hostbits. Protocols: ip, tcp, tcp-pkt, tcp-stream, udp, icmp, icmpv6, sctp, pkthdr, http, dns, tls, \
ssh, smtp, ftp. Others (lua, geoip, ...) are errors, or \
left out with `unsupported: skip`.\n\n\
Rules look into messages of HTTP/1, DNS, TLS, SSH, SMTP and FTP, found by content on any port: http.* \
and the modifiers of Snort (http_uri, uricontent, urilen, ...), file.data (decompressed), dns.query, \
dns.answer.name, tls.*, ja3.*, ja4.hash, ssh.*, smtp.*, ftp.*. Of a message 24 KiB of its head and 100 KiB of \
its body are read. The parser's state (at most 256 KiB, of the memory for side buffers) moves with the flow; \
where it finds no memory the flow's messages are given up (messages_lost). Parsers allocate memory; \
flows are parsed only where a rule needs it.\n\n\
TCP rules look at the stream, put in order within a bounded window; patterns are found however they are \
cut into segments, and the number of alerts does not depend on it. Of bytes that arrive twice the first \
copy counts. Rules look at packets where they ask for it (dsize, flags, tcp-pkt, ...) and where a \
connection's handshake was not seen, unless `midstream` is set. Bytes are inspected when they arrive, \
before they leave: there is no inline mode to choose.\n\n\
`records` writes a line per transaction of HTTP, DNS, TLS, SSH, SMTP and FTP, per file and per anomaly, with \
the fields of Suricata's EVE and from the same parsers, with rules or without; alerts show the transaction that \
they are about.\n\n\
Thresholds (`threshold`, `detection_filter`, `threshold-files`) count the alerts of a whole run, whichever runtimes \
find them, where events are written; a rule whose threshold waits for other matches (all but `type limit`) drops nothing.\n\n\
Limits: a datagram's fragments are inspected one by one; checksums are not verified; `reject` \
sends no reset.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        buffers: side_buffers::COUNT,
        buffer_bytes: BUFFER_BYTES,
        events: true,
        cycles: 2_700,
        ..Descriptor::new("ids", "reports or drops what Suricata or Snort rules match")
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<Ids, SettingsError> {
        let limits = settings.limits()?;
        let (rules, catalogue) = settings.compile(set_up)?;
        let recording = settings.recording(&rules)?;
        let recorded = recording.protocols();
        let has_anomalies = recording.has(RecordKind::Anomaly);
        Ok(Ids {
            streams: rules.needs_streams()
                || rules.needs_messages()
                || rules.needs_application()
                || recorded != AppProtocols::NONE,
            decodes: rules.needs_decode_events() || has_anomalies,
            watches: rules.needs_stream_events() || has_anomalies,
            asks: rules.needs_application(),
            messages: rules.message_protocols(),
            parsed: rules.message_protocols().and(recorded),
            recording,
            buffers: buffers(),
            rules,
            catalogue,
            limits,
            window: settings.window as usize,
            midstream: settings.midstream,
            watch: settings.watch,
        })
    }

    #[inline]
    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if flow.state.progress.is_blocked() {
            return Verdict::Drop(Reason::Rule.into());
        }
        if self.has_passed(&flow.state) && !self.recording.writes_any() {
            return Verdict::Pass;
        }
        let blocked = cx.with_work_space::<Space, _>(|space, cx| {
            let blocked = Inspection::new(self, flow, cx, space).packet(packet);
            count_limits(space, cx);
            blocked
        });
        if blocked == Some(true) {
            flow.state.progress.block();
            return Verdict::Drop(Reason::Rule.into());
        }
        Verdict::Pass
    }

    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let Some(mut view) = packet_view(packet, || (0, 0)) else {
            return Verdict::Pass;
        };
        view.events = self.decode_events(packet, &mut Seen::default());
        let blocked = cx.with_work_space::<Space, _>(|space, cx| {
            space.records.packet(&self.recording, &view);
            space.found.begin(false);
            let (rules, found) = (&mut space.rules, &mut space.found);
            let mut bits = FlowVars::default();
            self.rules
                .inspect_packet(&view, &mut bits, rules, &mut |alert| found.note(alert));
            let about = About {
                flow: &view.flow,
                id: None,
                recording: &self.recording,
                under_way: None,
                payload: view.payload,
                frame: packet.bytes(),
            };
            tell(&self.catalogue, &about, space, cx)
        });
        match blocked {
            Some(true) => Verdict::Drop(Reason::Rule.into()),
            _ => Verdict::Pass,
        }
    }

    fn show(&self, state: &IdsState, (): &(), shown: &mut Shown) {
        state.show(shown);
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        let progress = flow.state.progress;
        if !self.streams || !progress.is_followed() || progress.is_blocked() {
            return;
        }
        if self.has_passed(&flow.state) && !self.recording.writes_any() {
            return;
        }
        cx.with_work_space::<Space, _>(|space, cx| {
            Inspection::new(self, flow, cx, space).end();
            count_limits(space, cx);
        });
    }

    fn work_space(&self) -> WorkSpace {
        let mut space = Space::new(self.rules.len(), PIECE, self.parses());
        if let Some(watch) = &self.watch {
            space.rules = space.rules.watched(watch.clone());
        }
        WorkSpace::new(space)
    }
}

/// Counts what inspection could not remember or search to the end.
#[inline]
fn count_limits(space: &mut Space, cx: &mut Context<'_>) {
    let (now, had) = (space.rules.counters(), space.counted);
    if now == had {
        return;
    }
    space.counted = now;
    cx.count(
        Count::WaitingDropped,
        now.waiting_dropped - had.waiting_dropped,
    );
    cx.count(
        Count::WaitingExpired,
        now.waiting_expired - had.waiting_expired,
    );
    cx.count(
        Count::AlertsForgotten,
        now.alerts_forgotten - had.alerts_forgotten,
    );
    cx.count(Count::SearchesCut, now.searches_cut - had.searches_cut);
    cx.count(Count::PcreCut, now.pcre_cut - had.pcre_cut);
    cx.count(Count::ChangesCut, now.changes_cut - had.changes_cut);
    cx.count(Count::FlowVarsLost, now.flow_vars_lost - had.flow_vars_lost);
}
