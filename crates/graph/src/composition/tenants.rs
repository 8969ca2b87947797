//! `tenants:` of a composition: what each may send, and its part where they want more than there is
//! (docs/tenants.md).

use serde::Serialize;

use crate::diagnostic::{Report, Span};
use crate::form::{Duration, Form as _, Integer, Name, Own, Placed};
use crate::keys::Keys;
use crate::tree::Node;

use super::flowlets::{bit_rate, bit_rate_schema};

/// Limits of a tenant. Drivers have defaults for those that are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComposedTenant {
    /// Its name, as chains have it.
    pub name: String,
    /// Its part is its weight, divided by the sum of the weights of those that want some.
    pub weight: Option<u32>,
    /// Packets per second.
    pub packets: Option<u64>,
    /// Bytes per second.
    pub rate: Option<u64>,
    /// Time for which it may send at once what it has not sent before, in ms.
    pub burst_ms: Option<u32>,
}

/// A tenant before its name is known to be there once.
#[derive(Default)]
pub(crate) struct DraftTenant {
    name: Option<(String, Span)>,
    its: ComposedTenant,
}

/// Keys of a tenant.
pub(crate) fn tenant_keys() -> Keys<DraftTenant> {
    Keys::<DraftTenant>::new("a tenant like `{name: acme, rate: 100Mbit, weight: 2}`", "")
        .key(
            "name",
            "Name of the tenant, as `tenant` of chains has it.",
            Placed(Name("the name of a tenant")),
            |draft, name| draft.name = Some(name),
        )
        .needed("give the tenant's name: `name: acme`")
        .key(
            "weight",
            "Its part of room and time where tenants want more than there is, beside the others'; 1 without it.",
            Integer(1..=1_000),
            |draft, weight| draft.its.weight = Some(weight as u32),
        )
        .key(
            "packets",
            "Packets per second that it may send; as many as it likes without it.",
            Integer(1..=1_000_000_000),
            |draft, packets| draft.its.packets = Some(packets),
        )
        .key(
            "rate",
            "What it may send, as `100Mbit`, `1000Gbit` at most; as much as it likes without it.",
            Own(rate, bit_rate_schema),
            |draft, rate| draft.its.rate = Some(rate),
        )
        .key(
            "burst",
            "Time for which it may send at once what it has not sent before, `1ms` to `10s`; `100ms` without it.",
            Own(burst, || Duration.schema()),
            |draft, ms| draft.its.burst_ms = Some(ms),
        )
}

fn rate(node: &Node, report: &mut Report<'_>) -> Option<u64> {
    let rate = bit_rate(node, report)?;
    if rate > MOST_RATE {
        report.error_help(
            node.span,
            "a rate is at most `1000Gbit`",
            "write a lower one",
        );
        return None;
    }
    Some(rate)
}

/// Bytes per second: 1000 Gbit/s.
const MOST_RATE: u64 = 125_000_000_000;

fn burst(node: &Node, report: &mut Report<'_>) -> Option<u32> {
    let ms = Duration.read(node, report)?;
    if !(1..=10_000).contains(&ms) {
        report.error_help(
            node.span,
            "a burst is `1ms` to `10s`",
            "write `burst: 100ms`, say",
        );
        return None;
    }
    Some(ms)
}

/// The tenants, each named once.
pub(super) fn tenants(
    drafts: Vec<(DraftTenant, Span)>,
    report: &mut Report<'_>,
) -> Vec<(ComposedTenant, Span)> {
    let mut tenants: Vec<(ComposedTenant, Span)> = Vec::new();
    for (draft, _) in drafts {
        // One without a name is told already.
        let Some((name, at)) = draft.name else {
            continue;
        };
        if tenants.iter().any(|(before, _)| before.name == name) {
            report.error(at, format!("the tenant `{name}` is there already"));
            continue;
        }
        tenants.push((ComposedTenant { name, ..draft.its }, at));
    }
    tenants
}
