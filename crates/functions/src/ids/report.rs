//! Alerts: what they say, and how they leave.

use core::fmt;
use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_nf::prelude::*;
use weir_nf::{EventLimit, LimitKind};
use weir_signatures::{
    Alert, Classifications, DEFAULT_PRIORITY, FlowContext, Rule, Scratch, ScratchCounters,
    Suppression, Threshold, ThresholdKind, ThresholdLists, Track, view,
};

use super::counts::Count;
use super::parser::Parsers;

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
}

impl Space {
    pub(super) fn new(rules: usize, piece: usize, parses: bool) -> Space {
        Space {
            rules: Scratch::new(rules),
            found: Found {
                alerts: Vec::with_capacity(MOST),
                lost: 0,
            },
            piece: Vec::with_capacity(piece),
            counted: ScratchCounters::default(),
            parsers: Parsers::new(parses),
        }
    }
}

/// The alerts of one inspection.
pub(super) struct Found {
    alerts: Vec<(u32, u32)>,
    lost: u64,
}

impl Found {
    /// Notes an alert, for when the context is free again.
    #[inline]
    pub(super) fn note(&mut self, alert: &Alert<'_>) {
        if self.alerts.len() < MOST {
            self.alerts.push((alert.rule.gid, alert.rule.sid));
        } else {
            self.lost += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.alerts.is_empty()
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
    suppressed: Vec<Suppression>,
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
                blocks: blocks(rule) && !threshold.is_some_and(|t| t.awaits_others()),
                threshold,
                suppressed: thresholds.suppressions(rule.gid, rule.sid),
            }
        };
        Catalogue(rules.map(|r| ((r.gid, r.sid), shown(r))).collect())
    }

    /// Rules that only report since they have a threshold; `blocks` says which would drop.
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

/// Records the alerts that were found and gives whether one of them blocks.
pub(super) fn tell(
    catalogue: &Catalogue,
    flow: &FlowContext,
    id: Option<u64>,
    found: &mut Found,
    cx: &mut Context<'_>,
) -> bool {
    if found.is_empty() {
        return false;
    }
    let mut blocked = false;
    let lost = core::mem::take(&mut found.lost);
    cx.count(Count::AlertsLost, lost);
    cx.count(Count::Alerts, found.alerts.len() as u64 + lost);
    for (gid, sid) in found.alerts.drain(..) {
        let Some(rule) = catalogue.0.get(&(gid, sid)) else {
            continue;
        };
        blocked |= rule.blocks;
        let mut suppressed = rule.suppressed.iter();
        if suppressed.any(|one| one.covers(flow.source, flow.destination)) {
            cx.count(Count::Suppressed, 1);
            continue;
        }
        let mut event = cx.packet_event("alert");
        if let Some(threshold) = &rule.threshold {
            let key = Key::of(threshold.track, (gid, sid), flow, id);
            event.limit(event_limit(threshold), key);
        }
        if let Some(id) = id {
            event.number("flow_id", id);
        }
        let ports = matches!(flow.protocol, view::TCP | view::UDP | view::SCTP);
        event.address("src_ip", flow.source);
        if ports {
            event.number("src_port", u64::from(flow.source_port));
        }
        event.address("dest_ip", flow.destination);
        if ports {
            event.number("dest_port", u64::from(flow.destination_port));
        }
        match flow.protocol {
            view::ICMP => event.text("proto", "ICMP"),
            view::TCP => event.text("proto", "TCP"),
            view::UDP => event.text("proto", "UDP"),
            view::ICMPV6 => event.text("proto", "IPv6-ICMP"),
            view::SCTP => event.text("proto", "SCTP"),
            other => event.display("proto", other),
        };
        let (direction, action) = (
            if flow.to_server {
                "to_server"
            } else {
                "to_client"
            },
            if rule.blocks { "blocked" } else { "allowed" },
        );
        event.text("direction", direction);
        event
            .object("alert")
            .text("action", action)
            .number("gid", u64::from(gid))
            .number("signature_id", u64::from(sid))
            .number("rev", u64::from(rule.rev))
            .text("signature", &rule.message)
            .text("category", &rule.category)
            .number("severity", u64::from(rule.priority))
            .end();
    }
    blocked
}
