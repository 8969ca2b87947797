//! The rule by which one processor's verdicts stand for another's.
//!
//! The two are equal in kind and settings, so they would say the same of the
//! same packet. It is the same packet where every packet that gets to the later
//! one was shown to the earlier one, and nothing on any way in between writes
//! what they look at. Effects besides the verdict must not be
//! lost: so it makes, writes and takes nothing; and where it counts or keeps
//! state, both get exactly the same packets.

use super::graph::{Effects, Graph};
use super::ways::{Leak, Ways};

/// Reason for which a processor always runs itself.
pub(super) fn always_runs(effects: &Effects) -> Option<&'static str> {
    let Effects {
        emits,
        events,
        tally,
        shares,
        aliases,
        turns,
        ..
    } = *effects;
    if effects.writes != weir_nf::Parts::NONE {
        return Some("it changes packets");
    }
    [
        (emits, "it makes packets of its own"),
        (events, "it writes events"),
        (tally, "it keeps a tally"),
        (shares, "it takes what flows share"),
        (aliases, "it gives flows further names"),
        (turns, "it may turn packets back"),
    ]
    .into_iter()
    .find_map(|(does, why)| does.then_some(why))
}

/// Names of parts, for reasons.
pub(super) fn listed(parts: weir_nf::Parts) -> String {
    let names: Vec<&str> = parts.names().collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => part(last),
        Some((last, rest)) => format!("{} and {}", rest.join(", "), part(last)),
    }
}

fn part(name: &str) -> String {
    match name {
        "payload" => "payload".to_owned(),
        header => format!("{header} header"),
    }
}

/// Why the verdicts of `earlier` stand for those of `later`, or why they do
/// not. The two are equal.
pub(super) fn stands_for(
    graph: &Graph,
    ways: &Ways,
    earlier: usize,
    later: usize,
) -> Result<String, String> {
    let (first, second) = (&graph.nodes[earlier], &graph.nodes[later]);
    let name = |number: usize| graph.nodes[number].name.as_str();
    if let Some(why) = always_runs(&second.effects) {
        return Err(format!("equal to `{}`, but {why}", first.name));
    }
    if !ways.leads(earlier, later) {
        return Err(format!("equal to `{}`, but on another branch", first.name));
    }
    if !ways.dominates(earlier, later) {
        return Err(format!(
            "equal to `{}`, but packets get here that were not there",
            first.name
        ));
    }
    let looks = second.effects.looks_at();
    let writer = ways.between(earlier, later).find(|&number| {
        let effects = &graph.nodes[number].effects;
        effects.disturbs().meets(looks)
    });
    if let Some(writer) = writer {
        return Err(format!(
            "equal to `{}`, but `{}` writes {} in between",
            first.name,
            name(writer),
            listed(graph.nodes[writer].effects.writes)
        ));
    }
    let keeps = match second.effects {
        Effects { stateful: true, .. } => Some("it keeps state"),
        Effects { counts: true, .. } => Some("it counts"),
        _ => None,
    };
    if let Some(keeps) = keeps
        && let Some(leak) = ways.leak(graph, earlier, later)
    {
        let (who, does) = match leak {
            Leak::Drops(number) => (name(number), "may drop"),
            Leak::Turns(number) => (name(number), "may turn packets back"),
            Leak::Parts(number) => (name(number), "sends packets another way"),
        };
        return Err(format!(
            "equal to `{}`, but {keeps}, and `{who}` {does} before it",
            first.name
        ));
    }
    Ok(match keeps {
        None => format!(
            "every packet that gets here was shown to `{}`, and nothing in between changes \
             what it looks at",
            first.name
        ),
        Some(keeps) => format!(
            "exactly the packets that `{}` gets come here, unchanged ({keeps})",
            first.name
        ),
    })
}
