//! From a flow's stream to messages, and from those to the rules that look into them.

use weir_dissect::{Dissector, Limits, Message, Scratch as Means};
use weir_signatures::*;

/// One flow's parser, and the memory of its current messages.
#[derive(Default)]
pub struct Dissected {
    dissector: Dissector,
    states: [MessageState; 2],
}

/// The next bytes of a direction; `None` when it ends.
pub struct Next<'a> {
    pub context: FlowContext,
    pub bytes: Option<&'a [u8]>,
}

impl Dissected {
    pub fn give(
        &mut self,
        set: &RuleSet,
        next: &Next<'_>,
        bits: &mut FlowVars,
        scratch: &mut Scratch,
        on_alert: &mut impl FnMut(&Alert<'_>),
    ) {
        let states = &mut self.states;
        let mut take = |message: &Message<'_>| {
            let state = &mut states[usize::from(!message.to_server)];
            if message.phase == weir_dissect::Phase::Head {
                *state = MessageState::default();
            }
            let buffers: Vec<Bytes<'_>> = message
                .values()
                .filter_map(|value| {
                    Some(Bytes {
                        buffer: Buffer::sticky(value.field.name())?,
                        bytes: value.bytes,
                        offset: 0,
                        complete: value.complete,
                    })
                })
                .collect();
            let transaction = Transaction {
                numbers: &[],
                events: AppEvents::NONE,
                protocol: AppProtocol::named(message.protocol.name()).unwrap(),
                phase: match message.phase {
                    weir_dissect::Phase::Head => Phase::Head,
                    weir_dissect::Phase::Body => Phase::Body,
                },
                buffers: &buffers,
                payload: next.bytes.unwrap_or_default(),
            };
            let flow = &next.context;
            set.inspect_transaction(flow, &transaction, state, bits, scratch, on_alert);
        };
        let (limits, mut means) = (Limits::default(), Means::default());
        let to_server = next.context.to_server;
        match next.bytes {
            Some(bytes) => {
                let dissector = &mut self.dissector;
                dissector.stream(to_server, bytes, &limits, &mut means, &mut take);
            }
            None => self
                .dissector
                .end(to_server, &limits, &mut means, &mut take),
        }
    }
}
