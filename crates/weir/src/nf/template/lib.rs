//! `port-knock`: lets a flow send so many packets before it is answered, and
//! drops the rest.

use weir_nf::prelude::*;

/// What the chain file may say.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Packets that a client may send before the server has answered.
    pub limit: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { limit: 3 }
    }
}

/// What is remembered of a flow: plain old data, so that weir can copy it,
/// move it and bring it back.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Waiting {
    /// Packets sent without an answer.
    unanswered: u32,
    /// 1 once an answer was seen.
    answered: u32,
}

impl State for Waiting {
    const VERSION: u16 = 1;
}

/// The function: settings that all flows share, and nothing else.
#[derive(Debug)]
pub struct PortKnock {
    limit: u32,
}

// The comments are the meanings that `weir nf show` and `weir drops` tell.
weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its client sent more than the limit without an answer.
        Unanswered = "unanswered",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Flows> {
        /// Flows whose server has answered.
        Answered = "answered",
    }
}

impl NetworkFunction for PortKnock {
    type Settings = Settings;
    type State = Waiting;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Counts the packets of each flow until its server answers. \
                 Packets over the limit are dropped; an answer lifts it.",
        needs: Needs::Flow,
        drops: Reason::TABLE,
        counters: Count::TABLE,
        // `close` writes one. `--audit` names what a descriptor leaves out.
        events: true,
        ..Descriptor::new("port-knock", "limits packets that are not answered")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        if settings.limit == 0 {
            return Err(SettingsError::new("limit", "0 lets no flow begin").help("use 1 or more"));
        }
        Ok(PortKnock {
            limit: settings.limit,
        })
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        // Reading the state costs nothing; only a write makes it a changed one.
        if flow.state.answered == 1 {
            return Verdict::Pass;
        }
        if !flow.info.to_server() {
            flow.state.answered = 1;
            cx.count(Count::Answered, 1);
            return Verdict::Pass;
        }
        if flow.state.unanswered >= self.limit {
            return Verdict::Drop(Reason::Unanswered.into());
        }
        flow.state.unanswered += 1;
        Verdict::Pass
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        if flow.state.answered == 0 {
            cx.flow_event("port-knock", &flow.info)
                .object("port_knock")
                .number("unanswered", u64::from(flow.state.unanswered))
                .text("reason", why.name())
                .end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_runtime::harness::{Craft, Harness};

    fn ask() -> Vec<u8> {
        Craft::udp("10.0.0.1:4000", "192.0.2.1:53")
            .payload(b"?")
            .build()
    }

    fn answer() -> Vec<u8> {
        Craft::udp("192.0.2.1:53", "10.0.0.1:4000")
            .payload(b"!")
            .build()
    }

    #[test]
    fn packets_over_the_limit_are_dropped() {
        let mut harness = Harness::of::<PortKnock>(Settings { limit: 2 });
        let sent: usize = (0..5).map(|_| harness.send(&ask()).len()).sum();
        assert_eq!(sent, 2);
        assert_eq!(
            harness.report().drops,
            [("port-knock.unanswered".to_owned(), 3)]
        );
    }

    #[test]
    fn an_answer_lifts_the_limit() {
        let mut harness = Harness::of::<PortKnock>(Settings { limit: 2 });
        harness.send(&ask());
        harness.send(&answer());
        let sent: usize = (0..5).map(|_| harness.send(&ask()).len()).sum();
        assert_eq!(sent, 5);
        assert_eq!(harness.counter("port-knock", "answered"), 1);
    }

    #[test]
    fn a_flow_that_ends_unanswered_is_an_event() {
        let mut harness = Harness::of::<PortKnock>(Settings::default());
        harness.send(&ask());
        harness.finish();
        let events = harness.events();
        assert_eq!(events.len(), 1);
        assert!(events[0].contains("\"unanswered\":1"), "{}", events[0]);
    }

    #[test]
    fn a_limit_of_zero_is_refused() {
        let refused = Harness::builder().with::<PortKnock>(Settings { limit: 0 });
        assert_eq!(
            refused.unwrap_err().to_string(),
            "limit: 0 lets no flow begin (use 1 or more)"
        );
    }
}
