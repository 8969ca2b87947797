//! Alerts: what they say, and how they leave.

use core::fmt;
use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use weir_nf::prelude::*;
use weir_nf::{Event, EventLimit, GateStep, GateWord, LimitKind};
use weir_signatures::{
    Action, Alert, Classifications, DEFAULT_PRIORITY, FlowContext, FlowbitKind, Inspection, Rule,
    Scratch, ScratchCounters, SharedBit, Suppression, Threshold, ThresholdKind, ThresholdLists,
    Track,
};

use super::counts::Count;
use super::parser::Parsers;
use super::records::{self, AlertField, Record, Recording, Records, Transaction, write_object};
use super::view::turned;

/// Most alerts of one inspection; more are counted and not told.
const MOST: usize = 256;

/// Memory of one runtime's inspections.
pub(super) struct Space {
    pub(super) rules: Scratch,
    pub(super) found: Found,
    /// Bytes on their way from one side buffer to another.
    pub(super) piece: Vec<u8>,
    pub(super) counted: ScratchCounters,
    pub(super) parsers: Parsers,
    pub(super) records: Records,
}

impl Space {
    pub(super) fn new(rules: usize, piece: usize, parses: bool) -> Space {
        Space {
            rules: Scratch::new(rules),
            found: Found {
                alerts: Vec::with_capacity(MOST),
                passed: Passed::No,
                objects: Vec::new(),
                lost: 0,
            },
            piece: Vec::with_capacity(piece),
            counted: ScratchCounters::default(),
            parsers: Parsers::new(parses),
            records: Records::default(),
        }
    }
}

/// How far a flow is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    No,
    /// By this packet: of it no other alerts are told than those of rules that pass.
    Now,
    /// By a packet before: nothing is told.
    Before,
}

/// The alerts of one inspection.
pub(super) struct Found {
    /// Generator and number of each rule, and whether it is one that passes.
    alerts: Vec<((u32, u32), bool)>,
    passed: Passed,
    /// The transactions that alerts are about, each with the number behind its last alert; those before it that
    /// no other one has are its own.
    objects: Vec<(usize, Transaction)>,
    lost: u64,
}

impl Found {
    /// Notes an alert, for when the context is free again.
    #[inline]
    pub(super) fn note(&mut self, alert: &Alert<'_>) {
        let passes = alert.rule.action == Action::Pass;
        if self.passed == Passed::Before || self.passed == Passed::Now && !passes {
            return;
        }
        if self.alerts.len() < MOST {
            self.alerts.push(((alert.rule.gid, alert.rule.sid), passes));
        } else {
            self.lost += 1;
        }
    }

    /// Begins a packet, or the end, of a flow.
    pub(super) fn begin(&mut self, is_passed: bool) {
        self.passed = match is_passed {
            true => Passed::Before,
            false => Passed::No,
        };
    }

    /// Takes the result of an inspection. Where it passes the flow, alerts of this packet are dropped.
    #[inline]
    pub(super) fn after(&mut self, inspection: Inspection) {
        if inspection.passed_flow && self.passed == Passed::No {
            self.passed = Passed::Now;
            self.alerts.retain(|(_, passes)| *passes);
            // Transactions go with the alerts that were about them.
            self.objects.clear();
            self.lost = 0;
        }
    }

    /// True of a flow that was passed before: rules are not tried.
    pub(super) fn is_muted(&self) -> bool {
        self.passed == Passed::Before
    }

    /// True where this packet passes the flow.
    pub(super) fn passes(&self) -> bool {
        self.passed == Passed::Now
    }

    pub(super) fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    /// True where an alert has no transaction yet.
    pub(super) fn has_unattached(&self) -> bool {
        self.attached() < self.alerts.len()
    }

    /// The alerts that have no transaction yet are about this one.
    pub(super) fn attach(&mut self, to: Transaction) {
        self.objects.push((self.alerts.len(), to));
    }

    fn attached(&self) -> usize {
        self.objects.last().map_or(0, |(end, _)| *end)
    }

    /// The transaction that an alert is about.
    fn object(&self, alert: usize) -> Option<&Transaction> {
        let mut objects = self.objects.iter();
        let object = objects.find(|(end, _)| alert < *end);
        object.map(|(_, transaction)| transaction)
    }
}

/// Fields of a rule that its events show.
#[derive(Clone, Debug)]
struct Shown {
    rev: u32,
    message: String,
    category: String,
    priority: u8,
    /// Matches are dropped.
    blocks: bool,
    threshold: Option<Threshold>,
    shared_bits: Vec<SharedBit>,
    /// Matches are written. Those of other rules only change bits of hosts.
    is_told: bool,
    suppressed: Vec<Suppression>,
    /// Keys of `metadata` and their values, in the order of their first values.
    metadata: Vec<(String, Vec<String>)>,
}

/// The rules by (gid, sid).
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue(BTreeMap<(u32, u32), Shown>);

impl Catalogue {
    /// Of these rules; `blocks` says which of them block.
    pub(super) fn new<'r>(
        rules: impl Iterator<Item = &'r Rule>,
        classifications: &Classifications,
        thresholds: &ThresholdLists,
        blocks: impl Fn(&Rule) -> bool,
    ) -> Catalogue {
        let shown = |rule: &Rule| {
            let threshold = thresholds.threshold(rule.gid, rule.sid, rule.threshold);
            let class = rule.classtype.as_deref();
            let known = class.and_then(|name| classifications.get(name));
            Shown {
                rev: rule.rev,
                message: rule.message.clone(),
                category: known
                    .map(|known| known.description.as_str())
                    .or(class)
                    .unwrap_or("")
                    .to_owned(),
                priority: rule
                    .priority
                    .or(known.map(|known| known.priority))
                    .unwrap_or(DEFAULT_PRIORITY),
                // Where others have matched is not known here.
                blocks: blocks(rule)
                    && !threshold.is_some_and(|t| t.awaits_others())
                    && !rule.tests_shared(),
                threshold,
                shared_bits: rule.shared_bits.clone(),
                is_told: rule.is_told(),
                suppressed: thresholds.suppressions(rule.gid, rule.sid),
                metadata: metadata(&rule.metadata),
            }
        };
        Catalogue(rules.map(|r| ((r.gid, r.sid), shown(r))).collect())
    }

    /// Rules that only report since they have a threshold, or wait for bits of hosts; `blocks` says which would drop.
    pub(super) fn told_only<'r>(
        &self,
        rules: impl Iterator<Item = &'r Rule>,
        blocks: impl Fn(&Rule) -> bool,
    ) -> usize {
        let is_told = |rule: &&Rule| {
            let shown = self.0.get(&(rule.gid, rule.sid));
            blocks(rule) && shown.is_some_and(|shown| !shown.blocks)
        };
        rules.filter(is_told).count()
    }
}

/// The key by which a threshold counts alerts.
struct Key {
    gid: u32,
    sid: u32,
    flow: Option<u64>,
    addresses: [Option<IpAddr>; 2],
}

impl Key {
    /// Of an alert in this flow, whose number is `id`; a packet without a flow is counted by its addresses.
    fn of(track: Track, (gid, sid): (u32, u32), flow: &FlowContext, id: Option<u64>) -> Key {
        let flow_id = id.filter(|_| track == Track::Flow);
        let track = match track {
            Track::Flow if id.is_none() => Track::Both,
            track => track,
        };
        Key {
            gid,
            sid,
            flow: flow_id,
            addresses: track.addresses(flow.source, flow.destination),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ids {}:{}", self.gid, self.sid)?;
        if let Some(id) = self.flow {
            write!(f, " flow {id}")?;
        }
        let mut addresses = self.addresses.iter().flatten();
        addresses.try_for_each(|address| write!(f, " {address}"))
    }
}

/// The bits of hosts as steps of a gate: tests first, since a match that is not told changes none.
fn gate_steps<'r>(
    bits: &'r [SharedBit],
    flow: &'r FlowContext,
) -> impl Iterator<Item = GateStep<BitKey<'r>>> {
    let step = |bit: &'r SharedBit| GateStep {
        word: match bit.kind {
            FlowbitKind::IsSet => GateWord::IsSet,
            FlowbitKind::IsNotSet => GateWord::IsNotSet,
            FlowbitKind::Set => GateWord::Set,
            FlowbitKind::Unset => GateWord::Unset,
            FlowbitKind::Toggle => GateWord::Toggle,
        },
        seconds: bit.seconds,
        key: BitKey(bit, flow),
    };
    let of = |writes: bool| bits.iter().filter(move |bit| bit.kind.writes() == writes);
    of(false).chain(of(true)).map(step)
}

/// Names a bit of the host, or of the pair of hosts, that a packet is of.
struct BitKey<'r>(&'r SharedBit, &'r FlowContext);

impl fmt::Display for BitKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BitKey(bit, flow) = self;
        let (first, second) = bit.owner.addresses(flow.source, flow.destination);
        write!(f, "ids {} {first}", bit.name)?;
        second.map_or(Ok(()), |second| write!(f, " {second}"))
    }
}

/// The threshold as a limit of events.
fn event_limit(threshold: &Threshold) -> EventLimit {
    EventLimit {
        kind: match threshold.kind {
            ThresholdKind::Limit => LimitKind::First,
            ThresholdKind::Threshold => LimitKind::Each,
            ThresholdKind::Both => LimitKind::Once,
            ThresholdKind::DetectionFilter => LimitKind::Behind,
        },
        count: threshold.count,
        seconds: threshold.seconds,
    }
}

/// `metadata` by key; a word without a value has an empty one.
fn metadata(entries: &[String]) -> Vec<(String, Vec<String>)> {
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for entry in entries {
        let (key, value) = entry.split_once(' ').unwrap_or((entry, ""));
        let value = value.trim().to_owned();
        match keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) => values.push(value),
            None => keys.push((key.to_owned(), vec![value])),
        }
    }
    keys
}

/// The flow, packet and settings that events are written from.
pub(super) struct About<'a> {
    pub(super) flow: &'a FlowContext,
    /// The flow's number.
    pub(super) id: Option<u64>,
    pub(super) recording: &'a Recording,
    /// The transaction under way in the flow, for alerts that are not about a message.
    pub(super) under_way: Option<Transaction>,
    pub(super) payload: &'a [u8],
    pub(super) frame: &'a [u8],
}

/// Writes the alerts and records of one inspection; returns whether an alert blocks.
pub(super) fn tell(
    catalogue: &Catalogue,
    about: &About<'_>,
    space: &mut Space,
    cx: &mut Context<'_>,
) -> bool {
    let blocked = tell_alerts(catalogue, about, &mut space.found, cx);
    tell_records(about, &mut space.records, cx);
    blocked
}

fn tell_alerts(
    catalogue: &Catalogue,
    about: &About<'_>,
    found: &mut Found,
    cx: &mut Context<'_>,
) -> bool {
    if found.is_empty() {
        return false;
    }
    let mut blocked = false;
    let lost = core::mem::take(&mut found.lost);
    cx.count(Count::AlertsLost, lost);
    cx.count(Count::Alerts, lost);
    for (number, (key, _)) in found.alerts.iter().enumerate() {
        let Some(rule) = catalogue.0.get(key) else {
            continue;
        };
        cx.count(Count::Alerts, u64::from(rule.is_told));
        let mut told = rule.is_told;
        blocked |= rule.blocks;
        let mut suppressed = rule.suppressed.iter();
        if suppressed.any(|one| one.covers(about.flow.source, about.flow.destination)) {
            cx.count(Count::Suppressed, u64::from(told));
            told = false;
        }
        if !told && rule.shared_bits.is_empty() {
            continue;
        }
        let object = found.object(number).or(about.under_way.as_ref());
        write_alert(*key, (rule, told), about, object, cx);
    }
    found.alerts.clear();
    found.objects.clear();
    blocked
}

fn write_alert(
    (gid, sid): (u32, u32),
    (rule, told): (&Shown, bool),
    about: &About<'_>,
    object: Option<&Transaction>,
    cx: &mut Context<'_>,
) {
    let (flow, recording) = (about.flow, about.recording);
    let mut event = cx.packet_event("alert");
    if let Some(threshold) = rule.threshold.as_ref().filter(|_| told) {
        let key = Key::of(threshold.track, (gid, sid), flow, about.id);
        event.limit(event_limit(threshold), key);
    }
    if !rule.shared_bits.is_empty() {
        event.gate(told, gate_steps(&rule.shared_bits, flow));
    }
    if !told {
        return;
    }
    ends(&mut event, flow, about.id);
    let direction = match flow.to_server {
        true => "to_server",
        false => "to_client",
    };
    event.text("direction", direction);
    event
        .object("alert")
        .text("action", if rule.blocks { "blocked" } else { "allowed" })
        .number("gid", u64::from(gid))
        .number("signature_id", u64::from(sid))
        .number("rev", u64::from(rule.rev))
        .text("signature", &rule.message)
        .text("category", &rule.category)
        .number("severity", u64::from(rule.priority));
    if recording.shows(AlertField::Metadata) && !rule.metadata.is_empty() {
        event.object("metadata");
        for (key, values) in &rule.metadata {
            event.array(key);
            for value in values {
                event.item(value.as_bytes());
            }
            event.end();
        }
        event.end();
    }
    event.end();
    let whole = event.optional(|event| write_transaction(event, recording, object))
        & event.optional(|event| write_bytes(event, about));
    drop(event);
    cx.count(Count::FieldsCut, u64::from(!whole));
}

fn write_transaction(event: &mut Event<'_>, recording: &Recording, object: Option<&Transaction>) {
    if recording.shows(AlertField::App)
        && let Some(object) = object
    {
        event
            .number("tx_id", u64::from(object.number()))
            .text("app_proto", object.protocol.name());
        write_object(event, object);
    }
}

fn write_bytes(event: &mut Event<'_>, about: &About<'_>) {
    let base64 = |bytes| Base64Display::new(bytes, &STANDARD);
    let recording = about.recording;
    if recording.shows(AlertField::Payload) {
        event.display("payload", base64(about.payload));
    }
    if recording.shows(AlertField::PayloadPrintable) {
        let is_shown = |b: u8| (b' '..0x7f).contains(&b) || matches!(b, b'\r' | b'\n' | b'\t');
        let shown = about
            .payload
            .iter()
            .map(|&b| if is_shown(b) { b } else { b'.' });
        event.bytes("payload_printable", &shown.collect::<Vec<u8>>());
    }
    if recording.shows(AlertField::Packet) {
        event.display("packet", base64(about.frame));
    }
}

/// The flow's number, and both ends as a packet of this direction has them.
fn ends(event: &mut Event<'_>, flow: &FlowContext, id: Option<u64>) {
    if let Some(id) = id {
        event.number("flow_id", id);
    }
    let source = (flow.source, flow.source_port);
    let destination = (flow.destination, flow.destination_port);
    event.ends(source, destination, flow.protocol);
}

fn tell_records(about: &About<'_>, records: &mut Records, cx: &mut Context<'_>) {
    if records.is_empty() {
        return;
    }
    cx.count(Count::RecordsLost, core::mem::take(&mut records.lost));
    for record in records.list.drain(..) {
        // Transactions are those of a client with a server; a file and an anomaly are of their sender.
        let (kind, to_server) = match &record {
            Record::Transaction(of) => (of.protocol.name(), true),
            Record::File { to_server, .. } => ("fileinfo", *to_server),
            Record::Anomaly { to_server, .. } => ("anomaly", *to_server),
            Record::Packet { to_server, .. } => ("anomaly", *to_server),
        };
        let oriented = match to_server == about.flow.to_server {
            true => *about.flow,
            false => turned(about.flow),
        };
        cx.count(Count::Records, 1);
        let mut event = cx.packet_event(kind);
        ends(&mut event, &oriented, about.id);
        records::write_record(&mut event, &record);
    }
}
