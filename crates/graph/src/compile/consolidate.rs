//! Equal work is done once.
//!
//! The later of two equal processors stays where it is, and its links with it;
//! but it is not called: its verdicts are the earlier one's, which the engine
//! remembers ([`super::Processor::same_as`]). So it does not matter what lies
//! between, as long as the rule of [`super::same`] holds.

use super::graph::Graph;
use super::plan::{Decision, Pass};
use super::same::stands_for;
use super::ways::Ways;

/// Finds for each processor an earlier one whose verdicts stand for its own:
/// of several the nearest, so that a cut between them is less likely.
pub(super) fn consolidate(graph: &mut Graph, decisions: &mut Vec<Decision>) {
    let ways = Ways::of(graph);
    for later in 1..graph.nodes.len() {
        let equal = (0..later).rev().filter(|&earlier| {
            graph.nodes[earlier].same_as.is_none()
                && graph.nodes[earlier].equals(&graph.nodes[later])
        });
        let mut left: Option<(usize, String)> = None;
        let mut found = None;
        for earlier in equal {
            match stands_for(graph, &ways, earlier, later) {
                Ok(why) => {
                    found = Some((earlier, why));
                    break;
                }
                Err(why) => left = left.or(Some((earlier, why))),
            }
        }
        let (earlier, why, done) = match (found, left) {
            (Some((earlier, why)), _) => (earlier, why, true),
            (None, Some((earlier, why))) => (earlier, why, false),
            (None, None) => continue,
        };
        if done {
            graph.nodes[later].same_as = Some(earlier);
        }
        let what = match done {
            true => "is not run again",
            false => "is run again",
        };
        let names = [later, earlier].map(|number| graph.nodes[number].name.clone());
        decisions.push(Decision {
            pass: Pass::Consolidate,
            done,
            why: format!("`{}` {what}: {why}", names[0]),
            about: names.to_vec(),
        });
    }
}
