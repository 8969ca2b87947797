//! From what an engine recorded to the messages of the control interface.

use weir_api::v1;
use weir_nf::ShownField;
use weir_runtime::watch::{
    DispositionTrace, FieldChange, FlowTrace, Made, PacketTrace, Step, StepVerdict,
};

/// The message; `port_names` are those of the ingress ports by number.
pub(super) fn packet(trace: PacketTrace, port_names: &[String]) -> v1::PacketTrace {
    let port_name = port_names.get(usize::from(trace.port));
    v1::PacketTrace {
        chain: trace.chain,
        first_function: trace.first_function.into(),
        time_ns: trace.time.0,
        port: trace.port.into(),
        port_name: port_name.cloned().unwrap_or_default(),
        side: trace.side.name().to_owned(),
        sequence: trace.sequence,
        again: trace.again,
        under_switch: trace.under_switch,
        summary: trace.summary,
        headers: trace
            .headers
            .into_iter()
            .map(|field| v1::NamedValue {
                name: field.name.to_owned(),
                value: field.value,
            })
            .collect(),
        malformed: trace.malformed.unwrap_or_default(),
        flow: trace.flow.map(flow),
        ended: counts(trace.ended),
        steps: trace.steps.into_iter().map(step).collect(),
        disposition: Some(v1::TraceDisposition {
            disposition: Some(match trace.disposition {
                DispositionTrace::Out(side) => {
                    v1::trace_disposition::Disposition::Out(side.name().to_owned())
                }
                DispositionTrace::Later(function) => {
                    v1::trace_disposition::Disposition::Later(function.into())
                }
                DispositionTrace::Dropped(reason) => {
                    v1::trace_disposition::Disposition::Dropped(reason)
                }
                DispositionTrace::Turned => v1::trace_disposition::Disposition::Turned(true),
                DispositionTrace::Held => v1::trace_disposition::Disposition::Held(true),
            }),
        }),
        leaves: trace.leaves.unwrap_or_default(),
        cycles: trace.cycles,
    }
}

fn flow(flow: FlowTrace) -> v1::TracedFlow {
    v1::TracedFlow {
        key: flow.key.to_string(),
        id: flow.id,
        clock: flow.clock,
        record: flow.record,
        is_new: flow.is_new,
        to_server: flow.to_server,
        phase_before: flow.phase.0.unwrap_or_default().to_owned(),
        phase: flow.phase.1.to_owned(),
    }
}

fn step(step: Step) -> v1::TraceStep {
    use v1::trace_step::Verdict;
    v1::TraceStep {
        function: step.function,
        kind: step.nf.to_owned(),
        same_as: step.same_as.unwrap_or_default(),
        verdict: Some(match step.verdict {
            StepVerdict::On { label, to } => Verdict::On(v1::TraceOn {
                label: label.to_owned(),
                to,
            }),
            StepVerdict::Dropped(reason) => Verdict::Dropped(reason),
            StepVerdict::Turned => Verdict::Turned(true),
            StepVerdict::Nothing => Verdict::Nothing(true),
        }),
        changed: changes(step.changed),
        state: changes(step.state),
        full_state: step.full_state.into_iter().map(shown).collect(),
        counters: counts(step.counters),
        events: step.events,
        made: step
            .made
            .into_iter()
            .map(|Made { summary, towards }| v1::MadePacket {
                summary,
                towards: towards.name().to_owned(),
            })
            .collect(),
        aliases: step.aliases.iter().map(ToString::to_string).collect(),
        cycles: step.cycles,
    }
}

fn shown(field: ShownField) -> v1::NamedValue {
    v1::NamedValue {
        name: field.name,
        value: field.value.to_string(),
    }
}

fn changes(changes: Vec<FieldChange>) -> Vec<v1::FieldChange> {
    let changes = changes.into_iter();
    changes
        .map(|change| v1::FieldChange {
            name: change.name,
            before: change.before,
            after: change.after,
        })
        .collect()
}

fn counts(counts: Vec<(&'static str, u64)>) -> Vec<v1::NamedCount> {
    let counts = counts.into_iter();
    counts
        .map(|(name, count)| v1::NamedCount {
            name: name.to_owned(),
            count,
        })
        .collect()
}

/// By how many more the packets are that have something to tell yet, after
/// this part of one: those that wait, are turned, or go on elsewhere.
pub fn unfinished(part: &v1::PacketTrace) -> i64 {
    use v1::trace_disposition::Disposition;
    let disposition = part
        .disposition
        .as_ref()
        .and_then(|disposition| disposition.disposition.as_ref());
    let goes_on = matches!(
        disposition,
        Some(Disposition::Turned(_) | Disposition::Held(_) | Disposition::Later(_))
    );
    i64::from(goes_on) - i64::from(part.again || part.first_function > 0)
}
