//! `links:` — where packets go from one function to the next.

use std::collections::VecDeque;

use weir_nf::host::{Kind, Target};

use crate::diagnostic::Report;
use crate::nearest::{listed, suggestion};
use crate::raw::RawEntry;
use crate::tree::shorten;

/// Label of the link that every function has.
const PASS: &str = "pass";

/// Where the links of each entry lead: `pass`, then its labels. Entries are
/// numbered as they are written; reports what leads nowhere, in circles, or to
/// nobody.
pub(crate) fn resolve(
    entries: &[RawEntry],
    kinds: &[Option<&Kind>],
    report: &mut Report<'_>,
) -> Vec<Vec<Target>> {
    let before = report.errors();
    let mut next: Vec<Vec<Target>> = Vec::new();
    for (number, (entry, kind)) in entries.iter().zip(kinds).enumerate() {
        let labels: &[&str] = kind.map_or(&[], |kind| kind.descriptor.labels);
        let straight = if number + 1 < entries.len() {
            Target::Node(number + 1)
        } else {
            Target::Out
        };
        let mut links = vec![straight; 1 + labels.len()];
        for link in &entry.links {
            if report.full() {
                break;
            }
            let place = match labels.iter().position(|label| *label == link.label) {
                _ if link.label == PASS => Some(0),
                Some(place) => Some(place + 1),
                None if kind.is_none() => None,
                None => {
                    let names: Vec<&str> =
                        [PASS].into_iter().chain(labels.iter().copied()).collect();
                    report.error_help(
                        link.label_span,
                        format!("`{}` has no label `{}`", entry.kind, shorten(&link.label)),
                        match suggestion(&link.label, "its labels", &names) {
                            Some(help) if help.starts_with("did") => {
                                format!("{help} its labels: {}", listed(&names))
                            }
                            help => help.unwrap_or_default(),
                        },
                    );
                    None
                }
            };
            let target = target(number, link, entries, report);
            match (place.and_then(|place| links.get_mut(place)), target) {
                (Some(place), Some(target)) => *place = target,
                // Of an unknown function: still a way that packets may go.
                (None, Some(target)) if kind.is_none() => links.push(target),
                _ => {}
            }
        }
        next.push(links);
    }
    loops(entries, &next, report);
    if report.errors() == before && kinds.iter().all(Option::is_some) {
        unreachable(entries, &next, report);
    }
    next
}

fn target(
    number: usize,
    link: &crate::raw::RawLink,
    entries: &[RawEntry],
    report: &mut Report<'_>,
) -> Option<Target> {
    match link.target.as_str() {
        "out" => return Some(Target::Out),
        "drop" => return Some(Target::Drop),
        _ => {}
    }
    match entries.iter().position(|e| e.instance == link.target) {
        Some(other) if other == number => {
            report.error_help(
                link.target_span,
                format!("a loop: `{0}` leads to itself", link.target),
                "a link leads to a later entry, `out` or `drop`",
            );
            None
        }
        Some(other) => Some(Target::Node(other)),
        None => {
            let names: Vec<&str> = entries
                .iter()
                .map(|entry| entry.instance.as_str())
                .chain(["out", "drop"])
                .collect();
            report.error_help(
                link.target_span,
                format!(
                    "there is no instance `{}` in this chain",
                    shorten(&link.target)
                ),
                suggestion(&link.target, "a link leads to", &names).unwrap_or_default(),
            );
            None
        }
    }
}

/// Reports every link that closes a circle: only links that lead backwards can.
fn loops(entries: &[RawEntry], next: &[Vec<Target>], report: &mut Report<'_>) {
    for (number, entry) in entries.iter().enumerate() {
        for link in &entry.links {
            let Some(back) = entries.iter().position(|e| e.instance == link.target) else {
                continue;
            };
            let leads = next
                .get(number)
                .is_some_and(|links| links.contains(&Target::Node(back)));
            if back >= number || !leads {
                continue;
            }
            let Some(way) = way(back, number, next) else {
                continue;
            };
            let names: Vec<String> = way
                .iter()
                .chain([&back])
                .filter_map(|number| entries.get(*number))
                .map(|entry| format!("`{}`", entry.instance))
                .collect();
            report.error_help(
                link.target_span,
                format!("a loop: {}", names.join(" → ")),
                "a link leads to a later entry, `out` or `drop`",
            );
        }
    }
}

/// A shortest way from one entry to another, both included.
fn way(from: usize, to: usize, next: &[Vec<Target>]) -> Option<Vec<usize>> {
    let mut before: Vec<Option<usize>> = vec![None; next.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut way = vec![to];
            let mut at = to;
            while at != from {
                at = before.get(at).copied().flatten()?;
                way.push(at);
            }
            way.reverse();
            return Some(way);
        }
        for target in next.get(at).into_iter().flatten() {
            if let Target::Node(other) = target
                && *other != from
                && let Some(place) = before.get_mut(*other)
                && place.is_none()
            {
                *place = Some(at);
                queue.push_back(*other);
            }
        }
    }
    None
}

fn unreachable(entries: &[RawEntry], next: &[Vec<Target>], report: &mut Report<'_>) {
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 && way(0, number, next).is_none() {
            report.error_help(
                entry.kind_span,
                format!(
                    "nothing leads to `{}`: no packet can reach it",
                    entry.instance
                ),
                "leave it out, or let a link before it lead there",
            );
        }
    }
}

/// The entries in an order in which every link leads forward, as written where
/// possible. Must be free of loops.
pub(crate) fn order(next: &[Vec<Target>]) -> Vec<usize> {
    let mut waiting = vec![0usize; next.len()];
    for target in next.iter().flatten() {
        if let Target::Node(other) = target
            && let Some(count) = waiting.get_mut(*other)
        {
            *count += 1;
        }
    }
    let mut order = Vec::new();
    let mut done = vec![false; next.len()];
    while let Some(at) = (0..next.len()).find(|&at| !done[at] && waiting[at] == 0) {
        done[at] = true;
        order.push(at);
        for target in &next[at] {
            if let Target::Node(other) = target
                && let Some(count) = waiting.get_mut(*other)
            {
                *count -= 1;
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_puts_every_link_forward_and_keeps_what_it_can() {
        use Target::{Node, Out};
        // 0 -> 2 or 3, 2 -> 1, 1 -> 3: written 0 1 2 3, runs 0 2 1 3.
        let next = [
            vec![Node(2), Node(3)],
            vec![Node(3)],
            vec![Node(1)],
            vec![Out],
        ];
        assert_eq!(order(&next), [0, 2, 1, 3]);
        assert_eq!(way(0, 3, &next), Some(vec![0, 3]));
        assert_eq!(way(3, 0, &next), None);
    }
}
