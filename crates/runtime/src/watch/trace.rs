//! One packet, alone in its burst, from its arrival to its leave.

use weir_nf::host::{FlowHead, MAX_LABELS, NO_FLOW, Target};
use weir_nf::{EventLog, Phase, Shown, ShownField, shown_id};
use weir_packet::dissect::{HeaderField, header_fields, one_line};
use weir_packet::{Frame, Headers, LinkType, PacketMemory, ParseOptions, parse_into};

use super::current::{Before, Current, Way};
use super::record::{
    DispositionTrace, FieldChange, FlowTrace, Made, PacketTrace, Step, StepVerdict,
};
use super::seen::{Taken, phase_name};
use super::watches::{Watches, Why};
use crate::classify::Classified;
use crate::execute::Dispositions;
use crate::runtime::Runtime;
use crate::stages::Kind;

/// Bytes of events that one traced packet may cause where the runtime keeps
/// none.
const EVENT_BYTES: usize = 64 << 10;

impl Runtime {
    /// Cuts a burst so that a packet that is to be traced is alone in it: how
    /// many of the frames to take now.
    pub(super) fn isolate(
        &mut self,
        watches: &mut Watches,
        memory: &PacketMemory,
        frames: &mut [Frame],
    ) -> usize {
        let slots = watches.slots();
        if slots == 0 {
            return frames.len();
        }
        let all = frames.iter().enumerate();
        let mut asked = all.map(|(i, frame)| (i, self.wanted(watches, memory, frame, slots)));
        let Some((i, wanted)) = asked.find(|(_, wanted)| *wanted != 0) else {
            return frames.len();
        };
        if i > 0 {
            return i;
        }
        let frame = &mut frames[0];
        let marked = memory.meta(frame).watched();
        let again = marked & slots != 0 && self.plan.kind() != Kind::Later;
        memory.meta_mut(frame).watch(marked | wanted);
        let current = self.begin_trace(watches, memory, frame, wanted, again);
        watches.current = Some(Box::new(current));
        1
    }

    /// The traces that want a packet: those that follow it already, and those
    /// that ask for it.
    fn wanted(&self, watches: &mut Watches, memory: &PacketMemory, frame: &Frame, slots: u8) -> u8 {
        let marked = memory.meta(frame).watched() & slots;
        // Only where packets come in is it asked.
        if self.plan.kind() == Kind::Later || marked != 0 {
            return marked;
        }
        let options = watches.options;
        self.see(memory, frame, &options, |seen| {
            let tracers = watches.tracers.iter_mut().enumerate();
            tracers.fold(0, |wanted, (slot, tracer)| {
                let wants = tracer.as_mut().is_some_and(|tracer| tracer.wants(seen));
                wanted | u8::from(wants) << slot
            })
        })
    }

    fn begin_trace(
        &mut self,
        watches: &Watches,
        memory: &PacketMemory,
        frame: &Frame,
        slots: u8,
        again: bool,
    ) -> Current {
        let (meta, bytes) = memory.read(frame);
        let read = look(bytes, meta.link, &watches.options);
        let phase = self.see(memory, frame, &watches.options, |seen| {
            seen.flow.map(|flow| flow.phase)
        });
        let full = watches.tracers.iter().enumerate().any(|(slot, tracer)| {
            slots >> slot & 1 != 0 && tracer.as_ref().is_some_and(|t| t.is_full())
        });
        let quiet = (!self.world.events.is_enabled())
            .then(|| core::mem::replace(&mut self.world.events, EventLog::new(EVENT_BYTES)));
        Current {
            slots,
            full,
            trace: PacketTrace {
                chain: self.functions.chain().to_owned(),
                first_function: self.functions.first(),
                time: meta.time,
                port: meta.port,
                side: meta.side,
                sequence: meta.sequence,
                again,
                under_switch: self.follow.is_some(),
                summary: read.summary,
                headers: read.fields,
                malformed: read.fault,
                flow: None,
                ended: Vec::new(),
                steps: Vec::new(),
                disposition: DispositionTrace::Held,
                leaves: None,
                cycles: 0,
            },
            opened: self.counts.so_far.flows.seen,
            ended: self.counts.so_far.flows.ended.clone(),
            phase,
            start: self.cost.now(),
            quiet,
        }
    }

    /// The packet has been given its flow.
    pub(super) fn trace_flow(&self, current: &mut Current) {
        for (why, now) in self.counts.so_far.flows.ended.counted() {
            let more = now - current.ended.get(why);
            if more > 0 {
                current.trace.ended.push((why.name(), more));
            }
        }
        let place = self.scratch.places[0];
        let Some(table) = &self.table else { return };
        if place.flow == NO_FLOW || place.flow as usize >= table.flows.blocks.count() {
            return;
        }
        let head = table.flows.blocks.head(place.flow);
        if head.bits & FlowHead::LIVE == 0 {
            return;
        }
        let is_new = self.counts.so_far.flows.seen > current.opened;
        current.trace.flow = Some(FlowTrace {
            key: head.key,
            id: shown_id(head.id),
            clock: place.clock,
            record: place.flow,
            is_new,
            to_server: place.direction == head.client_direction(),
            phase: (
                current.phase.filter(|_| !is_new),
                phase_name(Phase::from_u8(place.phase)),
            ),
        });
    }

    /// A traced packet is about to be shown to function `number`.
    pub(super) fn before_step(
        &self,
        memory: &PacketMemory,
        frame: &Frame,
        number: usize,
        made: usize,
    ) -> Before {
        let (meta, bytes) = memory.read(frame);
        Before {
            bytes: bytes.to_vec(),
            link: meta.link,
            state: self.state_shown(number),
            counters: self
                .functions
                .nodes()
                .get(number)
                .map_or_else(Vec::new, |node| node.counters.clone()),
            events: self.world.events.lines().len(),
            made,
            aliases: self.world.aliases.asked.len(),
            start: self.cost.now(),
        }
    }

    /// Function `number` was called with it, or `same_as` stands for it.
    pub(super) fn after_step(
        &self,
        watches: &Watches,
        current: &mut Current,
        memory: &PacketMemory,
        frame: &Frame,
        number: usize,
        before: Before,
    ) {
        let cycles = self.cost.now().wrapping_sub(before.start);
        let node = &self.functions.nodes()[number];
        let kind = node.processor.descriptor();
        let (meta, bytes) = memory.read(frame);
        let state = self.state_shown(number);
        let counters = node.counters.iter().zip(&before.counters);
        let counters = kind.counters.iter().zip(counters);
        let lines = self.world.events.lines().get(before.events..);
        let made = self.world.emits.frames.get(before.made..);
        let aliases = self.world.aliases.asked.get(before.aliases..);
        current.trace.steps.push(Step {
            function: node.name.clone(),
            nf: kind.name,
            same_as: node
                .same_as
                .and_then(|earlier| self.functions.nodes().get(earlier))
                .map(|earlier| earlier.name.clone()),
            verdict: self.verdict(number),
            changed: changes(&before, bytes, meta.link, &watches.options),
            state: state_changes(&before.state, &state),
            full_state: if current.full { state } else { Vec::new() },
            counters: counters
                .filter(|(_, (now, before))| now > before)
                .map(|(entry, (now, before))| (entry.name(), now - before))
                .collect(),
            events: String::from_utf8_lossy(lines.unwrap_or_default())
                .lines()
                .map(str::to_owned)
                .collect(),
            made: made
                .unwrap_or_default()
                .iter()
                .map(|frame| {
                    let (meta, bytes) = memory.read(frame);
                    Made {
                        summary: look(bytes, meta.link, &watches.options).summary,
                        towards: meta.side.opposite(),
                    }
                })
                .collect(),
            aliases: aliases
                .unwrap_or_default()
                .iter()
                .map(|request| request.key)
                .collect(),
            cycles,
        });
    }

    /// The traced packet is about to leave.
    pub(super) fn trace_leave(
        &self,
        watches: &Watches,
        current: &mut Current,
        memory: &PacketMemory,
        frame: &Frame,
        found: &Classified,
        dispositions: &Dispositions,
    ) {
        let (meta, bytes) = memory.read(frame);
        current.trace.cycles = self.cost.now().wrapping_sub(current.start);
        let next = match self.plan.kind() {
            Kind::Alone => 0,
            _ => self.scratch.next.first().copied().unwrap_or(0),
        };
        let dropped = watches.dropped.first().map(|(_, why)| why.name());
        let last = current.trace.steps.last().map(|step| &step.verdict);
        current.trace.disposition = if dispositions.out & 1 != 0 {
            match next.checked_sub(1) {
                Some(function) => DispositionTrace::Later(function),
                None => DispositionTrace::Out(meta.side.opposite()),
            }
        } else if dispositions.turned & 1 != 0 {
            DispositionTrace::Turned
        } else if found.held & 1 != 0 {
            DispositionTrace::Held
        } else if let Some(reason) = dropped {
            DispositionTrace::Dropped(reason)
        } else if let Some(StepVerdict::Dropped(reason)) = last {
            DispositionTrace::Dropped(reason.clone())
        } else {
            DispositionTrace::Dropped("no_verdict".to_owned())
        };
        if dispositions.out & 1 != 0 {
            let leaves = look(bytes, meta.link, &watches.options).summary;
            current.trace.leaves = Some(leaves);
        }
    }

    /// It has left: those who asked for it get what was seen.
    pub(super) fn end_current(&mut self, watches: &mut Watches) {
        let Some(current) = watches.current.take() else {
            return;
        };
        let Current {
            slots,
            mut trace,
            quiet,
            ..
        } = *current;
        if let Some(quiet) = quiet {
            let meanwhile = core::mem::replace(&mut self.world.events, quiet);
            self.world.events.count_as(&meanwhile);
        }
        // A fragment that was to wait may have found no room.
        if let (DispositionTrace::Held, Some((_, why))) =
            (&trace.disposition, watches.dropped.first())
        {
            trace.disposition = DispositionTrace::Dropped(why.name());
        }
        // A stage in which nothing was to be done with it has nothing to say.
        let passed = self.plan.kind() == Kind::Later
            && trace.steps.is_empty()
            && !matches!(trace.disposition, DispositionTrace::Dropped(_));
        if !passed {
            watches.give(slots, &trace);
        }
    }

    /// State of function `number` for the flow, or the unit of its scope, of the
    /// burst's only packet; empty if there is none.
    fn state_shown(&self, number: usize) -> Vec<ShownField> {
        let fields = || -> Option<Vec<ShownField>> {
            let (table, node) = (self.table.as_ref()?, self.functions.nodes().get(number)?);
            let node = node
                .same_as
                .and_then(|n| self.functions.nodes().get(n))
                .unwrap_or(node);
            let place = self.scratch.places[0];
            if place.flow == NO_FLOW || place.flow as usize >= table.flows.blocks.count() {
                return None;
            }
            let (blocks, record) = match node.scope {
                None => (&table.flows.blocks, place.flow),
                Some(scope) => (
                    &table.scopes.get(scope)?.records.blocks,
                    self.scratch.units[scope][0].unit,
                ),
            };
            if record as usize >= blocks.count() || blocks.head(record).opened & node.slot.bit == 0
            {
                return None;
            }
            let (slot, layout) = (&node.slot, node.processor.state());
            let bytes = blocks.bytes(record);
            let part = |start: u32, len: u32| {
                let part = bytes.get(start as usize..(start + len) as usize);
                part.unwrap_or_default()
            };
            let mut shown = Shown::default();
            node.processor.show(
                part(slot.state, layout.bytes),
                part(slot.stats, layout.stats_bytes),
                &mut shown,
            );
            let handles = part(slot.buffers, slot.buffer_count * 8).chunks_exact(8);
            for (number, handle) in handles.enumerate() {
                let handle = handle.try_into().map_or(0, u64::from_ne_bytes);
                let held = self.world.buffers.bytes(handle).len();
                shown.number(&format!("buffer_{number}_bytes"), held as u64);
            }
            let mut fields = shown.into_fields();
            let flow = table.flows.blocks.bytes(place.flow);
            if table.flows.blocks.head(place.flow).opened & slot.flow_bit != 0 {
                let start = slot.flow_state as usize;
                let own = flow.get(start..start + layout.flow_bytes as usize);
                let mut shown = Shown::default();
                node.processor
                    .show_flow(own.unwrap_or_default(), &mut shown);
                fields.extend(shown.into_fields());
            }
            Some(fields)
        };
        fields().unwrap_or_default()
    }

    /// The way function `number` sends packet `i`, in the order in which the
    /// engine takes verdicts.
    pub(super) fn way_of(&self, number: usize, i: usize) -> Way {
        let node = &self.functions.nodes()[number];
        let outcome = &self.scratch.outcome;
        let bit = 1u64 << i;
        if outcome.dropped & bit != 0 {
            let reasons = node.processor.descriptor().drops;
            let reason = outcome.reasons.get(i).map(|r| usize::from(*r));
            let reason = reason.and_then(|reason| reasons.get(reason));
            let reason = reason.map_or("unnamed", |reason| reason.name());
            return Way::Dropped(format!("{}.{}", node.name, reason));
        }
        if outcome.turned & bit != 0 {
            return Way::Turned;
        }
        match (0..MAX_LABELS).find(|&label| outcome.labels[label] & bit != 0) {
            None => Way::Nothing,
            Some(label) => match node.next[label] {
                Target::Drop => Way::Dropped(format!("{}.{}", node.name, node.label(label))),
                target => Way::On(label, target),
            },
        }
    }

    fn verdict(&self, number: usize) -> StepVerdict {
        let node = &self.functions.nodes()[number];
        match self.way_of(number, 0) {
            Way::Dropped(reason) => StepVerdict::Dropped(reason),
            Way::Turned => StepVerdict::Turned,
            Way::Nothing => StepVerdict::Nothing,
            Way::On(label, target) => StepVerdict::On {
                label: node.label(label),
                to: match target {
                    Target::Node(next) => self.functions.nodes()[next].name.clone(),
                    Target::Later(_) => "a later stage".to_owned(),
                    _ => "out".to_owned(),
                },
            },
        }
    }
}

impl Watches {
    /// Gives a trace to those who want it; one that has enough is taken off.
    pub(super) fn give(&mut self, slots: u8, trace: &PacketTrace) {
        for (slot, place) in self.tracers.iter_mut().enumerate() {
            if slots >> slot & 1 == 0 {
                continue;
            }
            if let Some(tracer) = place
                && tracer.put(trace.clone()) == Taken::Enough
            {
                *place = None;
            }
        }
    }

    /// A held fragment of the traces in `slots` was given up.
    pub(super) fn give_up(&mut self, chain: &str, memory: &PacketMemory, frame: &Frame, why: Why) {
        let (meta, bytes) = memory.read(frame);
        let slots = meta.watched() & self.slots();
        if slots == 0 {
            return;
        }
        let read = look(bytes, meta.link, &self.options);
        let trace = PacketTrace {
            chain: chain.to_owned(),
            first_function: 0,
            time: meta.time,
            port: meta.port,
            side: meta.side,
            sequence: meta.sequence,
            again: true,
            under_switch: false,
            summary: read.summary,
            headers: read.fields,
            malformed: None,
            flow: None,
            ended: Vec::new(),
            steps: Vec::new(),
            disposition: DispositionTrace::Dropped(why.name()),
            leaves: None,
            cycles: 0,
        };
        self.give(slots, &trace);
    }
}

/// A packet as it can be read.
struct Read {
    summary: String,
    fields: Vec<HeaderField>,
    headers: Option<Headers>,
    fault: Option<String>,
}

fn look(bytes: &[u8], link: LinkType, options: &ParseOptions) -> Read {
    let mut headers = Headers::default();
    match parse_into(bytes, link, options, &mut headers) {
        Ok(()) => Read {
            summary: one_line(bytes, &headers),
            fields: header_fields(bytes, &headers),
            fault: headers.damage().map(|fault| fault.reason().to_owned()),
            headers: Some(headers),
        },
        Err(fault) => Read {
            summary: format!("{} bytes that can't be read", bytes.len()),
            fields: Vec::new(),
            fault: Some(fault.reason().to_owned()),
            headers: None,
        },
    }
}

/// The changes of a packet: field by field, its payload, and the rest.
fn changes(
    before: &Before,
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
) -> Vec<FieldChange> {
    if before.bytes == bytes && before.link == link {
        return Vec::new();
    }
    let (old, new) = (
        look(&before.bytes, before.link, options),
        look(bytes, link, options),
    );
    let names = |fields: &[HeaderField]| -> Vec<(String, String)> {
        let fields = fields.iter();
        fields
            .map(|field| (field.name.to_owned(), field.value.clone()))
            .collect()
    };
    let mut found = compare(&names(&old.fields), &names(&new.fields));
    let payload = |read: &Read, bytes: &[u8]| -> Vec<u8> {
        let headers = read.headers.as_ref();
        headers.map_or_else(Vec::new, |h| h.payload_of(bytes).to_vec())
    };
    let (was, is) = (payload(&old, &before.bytes), payload(&new, bytes));
    if was != is {
        found.push(of_bytes("payload", &was, &is));
    }
    if found.is_empty() || before.bytes.len() != bytes.len() {
        found.push(of_bytes("packet", &before.bytes, bytes));
    }
    found
}

fn of_bytes(name: &str, was: &[u8], is: &[u8]) -> FieldChange {
    let differ = was.iter().zip(is).filter(|(a, b)| a != b).count();
    FieldChange {
        name: name.to_owned(),
        before: Some(format!("{} bytes", was.len())),
        after: Some(format!("{} bytes ({differ} differ)", is.len())),
    }
}

fn state_changes(before: &[ShownField], after: &[ShownField]) -> Vec<FieldChange> {
    let texts = |fields: &[ShownField]| -> Vec<(String, String)> {
        let fields = fields.iter();
        fields
            .map(|field| (field.name.clone(), field.value.to_string()))
            .collect()
    };
    compare(&texts(before), &texts(after))
}

/// Fields that are new, gone or different, in the order of the later list.
fn compare(before: &[(String, String)], after: &[(String, String)]) -> Vec<FieldChange> {
    let value = |fields: &[(String, String)], name: &str| {
        let found = fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let gone = before
        .iter()
        .filter(|(name, _)| value(after, name).is_none());
    let gone = gone.map(|(name, value)| FieldChange {
        name: name.clone(),
        before: Some(value.clone()),
        after: None,
    });
    let mut changes: Vec<FieldChange> = gone.collect();
    for (name, is) in after {
        let was = value(before, name);
        if was.as_ref() != Some(is) {
            changes.push(FieldChange {
                name: name.clone(),
                before: was,
                after: Some(is.clone()),
            });
        }
    }
    changes
}
