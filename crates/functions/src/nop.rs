//! Functions that do nothing: a wire, and a measure of what the engine costs.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::prelude::*;

/// No settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {}

/// Passes every packet without looking at it.
#[derive(Debug)]
pub struct Nop;

impl NetworkFunction for Nop {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Passes every packet untouched. A chain of this alone is a bump in the wire; a \
                 chain of several shows what one more function costs. No flow is looked up.",
        cycles: 1,
        ..Descriptor::new("nop", "passes every packet untouched")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<Nop, SettingsError> {
        Ok(Nop)
    }

    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }

    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, _: &mut Context<'_>) {
        burst.pass_all();
    }
}

/// Passes every packet, after its flow was found.
#[derive(Debug)]
pub struct FlowNop;

impl NetworkFunction for FlowNop {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Passes every packet untouched, but asks for its flow: parsing, key, look-up and \
                 the call with the flow's block all happen. It measures the engine, and keeps \
                 flows (for their count and time-outs) in a chain that has no other use for them.",
        needs: Needs::Flow,
        cycles: 6,
        ..Descriptor::new("flow-nop", "passes every packet untouched, with its flow")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<FlowNop, SettingsError> {
        Ok(FlowNop)
    }

    #[inline(always)]
    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }
}
